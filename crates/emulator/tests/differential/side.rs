//! A Spanner, and what each call asks of it.
//!
//! A call is a line. `@n` behind its verb names a transaction.
//!
//! ```text
//! ddl STATEMENT ;; STATEMENT          schema
//! sql STATEMENT [TAB {"p": "5"}]      once STATEMENT: as a single-use statement, whatever it is
//! dml STATEMENT                       in a transaction of its own, which commits
//! pdml STATEMENT                      partitioned
//! begin@n rw | ro | at N              at N: reads at the time of the case's Nth commit
//! batch@n STATEMENT ;; STATEMENT      commit[@n] MUTATION ;; MUTATION      rollback@n
//! read[@n] TABLE[/INDEX] a,b KEYS [limit=N]
//! session gone | empty | own
//! ```
//!
//! A mutation is `insert T a,b [["1","x"]]` and likewise `update`, `upsert`, `replace`; `delete T KEYS`. Keys
//! are `all`, a JSON list of keys, or `{"from": [..], "to": [..], "ends": "[)"}`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use database::database_admin_client::DatabaseAdminClient;
use googleapis_tonic_google_longrunning::google::longrunning::{Operation, operation};
use googleapis_tonic_google_spanner_admin_database_v1::google::spanner::admin::database::v1 as database;
use googleapis_tonic_google_spanner_admin_instance_v1::google::spanner::admin::instance::v1 as instance;
use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use instance::instance_admin_client::InstanceAdminClient;
use prost_types::Timestamp;
use proto::commit_request::Transaction as Wanted;
use proto::result_set_stats::RowCount;
use proto::spanner_client::SpannerClient;
use proto::transaction_options::read_only::TimestampBound;
use proto::transaction_options::{Mode, PartitionedDml, ReadOnly, ReadWrite};
use proto::transaction_selector::Selector;
use serde_json::Value as Json;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::answer::Answer;
use super::tables;
use super::wire::{describe, key_set, mutation, type_of, value};

const INSTANCE: &str = "projects/p/instances/instance";
/// So often a transaction that the server aborts is tried.
const ATTEMPTS: usize = 10;
/// No call takes longer, or it is a disagreement.
const LONGEST: Duration = Duration::from_secs(20);

/// A server, a database on it, and what a case has open there.
pub struct Side {
    admin: DatabaseAdminClient<Channel>,
    spanner: SpannerClient<Channel>,
    database: String,
    /// The session that calls name, and the one that is there.
    session: String,
    own_session: String,
    /// Each with its session: Google's emulator takes those of one session only in their order.
    transactions: BTreeMap<String, (String, Vec<u8>)>,
    commits: Vec<Timestamp>,
    seqno: i64,
}

impl Side {
    /// The server at this address, with an instance.
    pub async fn connect(endpoint: String) -> Result<Side, String> {
        let endpoint = Channel::from_shared(endpoint).map_err(|error| error.to_string())?;
        let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
        let request = instance::CreateInstanceRequest {
            parent: "projects/p".into(),
            instance_id: "instance".into(),
            instance: Some(instance::Instance {
                config: "projects/p/instanceConfigs/emulator-config".into(),
                display_name: "instance".into(),
                node_count: 1,
                ..Default::default()
            }),
        };
        let made = InstanceAdminClient::new(channel.clone()).create_instance(request).await;
        made.map_err(|status| format!("create an instance: {status}"))?;
        Ok(Side {
            admin: DatabaseAdminClient::new(channel.clone()),
            spanner: SpannerClient::new(channel).max_decoding_message_size(64 << 20),
            database: String::new(),
            session: String::new(),
            own_session: String::new(),
            transactions: BTreeMap::new(),
            commits: Vec::new(),
            seqno: 0,
        })
    }

    /// Goes on in a new, empty database of this name.
    pub async fn enter_new(&mut self, name: &str) -> Result<(), Status> {
        let request = database::CreateDatabaseRequest {
            parent: INSTANCE.into(),
            create_statement: format!("CREATE DATABASE {name}"),
            ..Default::default()
        };
        self.admin.create_database(request).await?;
        self.enter(name).await
    }

    /// Goes on in this database, in a session of its own.
    pub async fn enter(&mut self, name: &str) -> Result<(), Status> {
        self.database = format!("{INSTANCE}/databases/{name}");
        let request =
            proto::CreateSessionRequest { database: self.database.clone(), ..Default::default() };
        self.own_session = self.spanner.create_session(request).await?.into_inner().name;
        self.session = self.own_session.clone();
        self.commits.clear();
        Ok(())
    }

    /// Ends what is open, and drops the database if it is no longer wanted.
    pub async fn leave(&mut self, drops: bool) -> Result<(), Status> {
        self.session = self.own_session.clone();
        for name in self.transactions.keys().cloned().collect::<Vec<_>>() {
            // A transaction that has ended refuses it.
            drop(self.roll_back(&name).await);
            let session = self.session_of(&name);
            self.spanner.delete_session(proto::DeleteSessionRequest { name: session }).await?;
        }
        self.transactions.clear();
        let request = proto::DeleteSessionRequest { name: self.session.clone() };
        self.spanner.delete_session(request).await?;
        if drops {
            let request = database::DropDatabaseRequest { database: self.database.clone() };
            self.admin.drop_database(request).await?;
        }
        Ok(())
    }

    /// The answer to a call.
    pub async fn answer(&mut self, call: &str) -> Answer {
        let result = tokio::time::timeout(LONGEST, self.call(call)).await;
        let result = result.unwrap_or_else(|_| Err(Status::internal("no answer in 20 s")));
        result.unwrap_or_else(|status| {
            Answer::of(status.code(), &status.message().replace(&self.database, "DATABASE"))
        })
    }

    async fn call(&mut self, call: &str) -> Result<Answer, Status> {
        let (verb, text) = call.split_once(' ').unwrap_or((call, ""));
        let (verb, name) = verb.split_once('@').unwrap_or((verb, ""));
        let is_query = !["INSERT", "UPDATE", "DELETE"]
            .iter()
            .any(|verb| text.get(..verb.len()).is_some_and(|own| own.eq_ignore_ascii_case(verb)));
        match verb {
            "ddl" => self.ddl(text).await,
            "schema" => self.schema().await,
            "sql" if name.is_empty() && !is_query => self.alone(text, false).await,
            "sql" | "once" => self.sql(text, name).await,
            "dml" => self.alone(text, true).await,
            "pdml" => {
                self.begin("partitioned", Mode::PartitionedDml(PartitionedDml {})).await?;
                self.sql(text, "partitioned").await
            }
            "begin" => self.begin(name, self.mode(text)?).await,
            "batch" => self.batch(text, name).await,
            "read" => self.read(text, name).await,
            "commit" => self.commit(text, name).await,
            "rollback" => {
                self.roll_back(name).await?;
                Ok(Answer::of(Code::Ok, ""))
            }
            "session" => {
                self.session = match text {
                    "gone" => format!("{}/sessions/gone", self.database),
                    "empty" => String::new(),
                    _ => self.own_session.clone(),
                };
                Ok(Answer::of(Code::Ok, ""))
            }
            _ => Err(Status::internal(format!("no such call: {call}"))),
        }
    }

    async fn ddl(&mut self, text: &str) -> Result<Answer, Status> {
        let request = database::UpdateDatabaseDdlRequest {
            database: self.database.clone(),
            statements: text.split(" ;; ").map(str::to_owned).collect(),
            ..Default::default()
        };
        let Operation { done, result, .. } =
            self.admin.update_database_ddl(request).await?.into_inner();
        match result {
            Some(operation::Result::Error(error)) => {
                // The emulator quotes the statement as well.
                let reason = error.message.split(" (statement ").next().unwrap_or_default();
                Ok(Answer::of(Code::from_i32(error.code), reason))
            }
            _ if !done => Err(Status::internal("the operation is not done")),
            _ => Ok(Answer::of(Code::Ok, "")),
        }
    }

    async fn schema(&mut self) -> Result<Answer, Status> {
        let request = database::GetDatabaseDdlRequest { database: self.database.clone() };
        let found = self.admin.get_database_ddl(request).await?.into_inner();
        let rows = found.statements.into_iter().map(Json::from).collect();
        Ok(Answer { rows, ..Answer::of(Code::Ok, "") })
    }

    fn mode(&self, text: &str) -> Result<Mode, Status> {
        let bound = match text.split_once(' ').unwrap_or((text, "")) {
            ("rw", _) => return Ok(Mode::ReadWrite(ReadWrite::default())),
            ("ro", _) => TimestampBound::Strong(true),
            ("at", number) => {
                let place: Option<usize> = number.parse().ok();
                let at = place.and_then(|place| self.commits.get(place).copied());
                at.map_or(TimestampBound::Strong(true), TimestampBound::ReadTimestamp)
            }
            _ => return Err(Status::internal(format!("no such transaction: {text}"))),
        };
        Ok(Mode::ReadOnly(ReadOnly { return_read_timestamp: false, timestamp_bound: Some(bound) }))
    }

    /// The transaction of this name; one that nobody has begun has a number that no server gives.
    fn id(&self, name: &str) -> Vec<u8> {
        let known = self.transactions.get(name).map(|(_, id)| id.clone());
        known.unwrap_or_else(|| b"987654321".to_vec())
    }

    /// The session of this transaction, unless the case wants a wrong one.
    fn session_of(&self, name: &str) -> String {
        match self.transactions.get(name) {
            Some((session, _)) if self.session == self.own_session => session.clone(),
            _ => self.session.clone(),
        }
    }

    fn selector(&self, name: &str) -> Option<proto::TransactionSelector> {
        let selector = (!name.is_empty()).then(|| Selector::Id(self.id(name)))?;
        Some(proto::TransactionSelector { selector: Some(selector) })
    }

    async fn begin(&mut self, name: &str, mode: Mode) -> Result<Answer, Status> {
        if self.session == self.own_session && !self.transactions.contains_key(name) {
            let database = self.database.clone();
            let request = proto::CreateSessionRequest { database, ..Default::default() };
            let session = self.spanner.create_session(request).await?.into_inner().name;
            self.transactions.insert(name.to_owned(), (session, Vec::new()));
        }
        let session = self.session_of(name);
        let request = proto::BeginTransactionRequest {
            session: session.clone(),
            options: Some(proto::TransactionOptions { mode: Some(mode), ..Default::default() }),
            ..Default::default()
        };
        let begun = self.spanner.begin_transaction(request).await?.into_inner();
        self.transactions.insert(name.to_owned(), (session, begun.id));
        Ok(Answer::of(Code::Ok, ""))
    }

    async fn sql(&mut self, text: &str, name: &str) -> Result<Answer, Status> {
        self.seqno += 1;
        let mut request = proto::ExecuteSqlRequest {
            session: self.session_of(name),
            transaction: self.selector(name),
            sql: text.into(),
            seqno: self.seqno,
            ..Default::default()
        };
        let mut fields = BTreeMap::new();
        if let Some((sql, given)) = text.split_once('\t') {
            sql.clone_into(&mut request.sql);
            let given: Json = serde_json::from_str(given)
                .map_err(|error| Status::internal(format!("{given}: {error}")))?;
            let given = given.as_object().into_iter().flatten();
            fields.extend(given.map(|(name, content)| (name.clone(), value(content))));
        } else {
            for (name, kind, content) in tables::parameters(text) {
                fields.insert(name.to_owned(), value(&content));
                request.param_types.insert(name.to_owned(), type_of(kind));
            }
        }
        request.params = Some(prost_types::Struct { fields });
        let result = self.spanner.execute_sql(request).await?.into_inner();
        Ok(describe(&result, &self.commits))
    }

    /// Runs a statement that writes, in a transaction of its own.
    async fn alone(&mut self, text: &str, commits: bool) -> Result<Answer, Status> {
        for attempt in 1.. {
            self.begin("alone", Mode::ReadWrite(ReadWrite::default())).await?;
            let answer = self.sql(text, "alone").await;
            let ended = match commits && answer.is_ok() {
                true => self.commit("", "alone").await.map(drop),
                false => self.roll_back("alone").await,
            };
            match answer.and_then(|answer| ended.map(|()| answer)) {
                Err(status) if status.code() == Code::Aborted && attempt < ATTEMPTS => {}
                other => return other,
            }
        }
        Err(Status::aborted("each attempt was aborted"))
    }

    async fn roll_back(&mut self, name: &str) -> Result<(), Status> {
        let (session, transaction_id) = (self.session_of(name), self.id(name));
        let request = proto::RollbackRequest { session, transaction_id };
        self.spanner.rollback(request).await.map(drop)
    }

    async fn batch(&mut self, text: &str, name: &str) -> Result<Answer, Status> {
        self.seqno += 1;
        let statements = text.split(" ;; ").filter(|text| !text.is_empty());
        let request = proto::ExecuteBatchDmlRequest {
            session: self.session_of(name),
            transaction: self.selector(name),
            statements: statements
                .map(|sql| proto::execute_batch_dml_request::Statement {
                    sql: sql.into(),
                    ..Default::default()
                })
                .collect(),
            seqno: self.seqno,
            ..Default::default()
        };
        let found = self.spanner.execute_batch_dml(request).await?.into_inner();
        let counts = found.result_sets.iter().map(|set| match set.stats.as_ref()?.row_count {
            Some(RowCount::RowCountExact(count)) => Some(count),
            _ => None,
        });
        let rows = counts.map(Json::from).collect();
        let status = found.status.unwrap_or_default();
        Ok(Answer { rows, ..Answer::of(Code::from_i32(status.code), &status.message) })
    }

    async fn read(&mut self, text: &str, name: &str) -> Result<Answer, Status> {
        let (text, limit) = text.split_once(" limit=").unwrap_or((text, "0"));
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (table, columns, keys) = (word(), word(), word());
        let (table, index) = table.split_once('/').unwrap_or((table, ""));
        let request = proto::ReadRequest {
            session: self.session_of(name),
            transaction: self.selector(name),
            table: table.into(),
            index: index.into(),
            columns: columns.split(',').map(str::to_owned).collect(),
            key_set: Some(key_set(keys)?),
            limit: limit.parse().unwrap_or(-1),
            ..Default::default()
        };
        let result = self.spanner.read(request).await?.into_inner();
        Ok(describe(&result, &self.commits))
    }

    async fn commit(&mut self, text: &str, name: &str) -> Result<Answer, Status> {
        let mutations = text.split(" ;; ").filter(|text| !text.is_empty());
        let mutations = mutations.map(mutation).collect::<Result<Vec<_>, _>>()?;
        let mode = Some(Mode::ReadWrite(ReadWrite::default()));
        let wanted = match name {
            "" => Wanted::SingleUseTransaction(proto::TransactionOptions {
                mode,
                ..Default::default()
            }),
            name => Wanted::TransactionId(self.id(name)),
        };
        for attempt in 1.. {
            let request = proto::CommitRequest {
                session: self.session_of(name),
                mutations: mutations.clone(),
                transaction: Some(wanted.clone()),
                ..Default::default()
            };
            match self.spanner.commit(request).await {
                Ok(committed) => {
                    self.commits.extend(committed.into_inner().commit_timestamp);
                    break;
                }
                Err(status) if status.code() == Code::Aborted && attempt < ATTEMPTS => {}
                Err(status) => return Err(status),
            }
        }
        Ok(Answer::of(Code::Ok, ""))
    }
}

/// A moment that a commit gave is called by the commit: each server has its own clock.
pub fn named(text: &str, commits: &[Timestamp]) -> Option<String> {
    let moment = Timestamp::from_str(text).ok()?;
    let place = commits.iter().position(|commit| *commit == moment)?;
    Some(format!("<commit {place}>"))
}
