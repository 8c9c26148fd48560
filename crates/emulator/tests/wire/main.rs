//! The traffic on the wire, request by request. The cases are those that Google's emulator tests
//! itself by (`tests/conformance/cases`), and those of Cloud Spanner where the two differ.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod admin;
mod constraints;
mod control;
mod faults;
mod flows;
mod http;
mod life;
mod limits;
mod reads;
mod recorded;
mod relations;
mod sessions;
mod statements;
mod transactions;
mod types;
mod writes;

use std::time::Duration;

use googleapis_tonic_google_rpc::google::rpc;
use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Value};
use proto::commit_request::Transaction as Wanted;
use proto::mutation::{Operation, Write};
use proto::spanner_client::SpannerClient;
use proto::transaction_options::read_only::TimestampBound;
use proto::transaction_options::{Mode, ReadOnly, ReadWrite};
use proto::transaction_selector::Selector;
use spindle_emulator::Emulator;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const DDL: &str = "
    CREATE TABLE users (
      id INT64 NOT NULL,
      name STRING(10),
      age INT64,
      updated TIMESTAMP OPTIONS (allow_commit_timestamp = true),
    ) PRIMARY KEY (id);
    CREATE TABLE events (day DATE NOT NULL, number INT64, note STRING(MAX) NOT NULL)
      PRIMARY KEY (day, number DESC);
    CREATE TABLE singleton (value STRING(MAX)) PRIMARY KEY ();
    CREATE TABLE things (
      price NUMERIC NOT NULL,
      info JSON,
      tags ARRAY<STRING(5)>,
      sizes ARRAY<FLOAT64>,
      note STRING(MAX) DEFAULT ('none'),
      made TIMESTAMP DEFAULT (PENDING_COMMIT_TIMESTAMP()) OPTIONS (allow_commit_timestamp = true),
    ) PRIMARY KEY (price)";

async fn connected(endpoint: String) -> Channel {
    Channel::from_shared(endpoint).unwrap().connect().await.unwrap()
}

fn change(world: &World, ddl: &str) -> Result<(), spindle_emulator::engine::Error> {
    let changes = spindle_emulator::sql::parse_ddl(ddl).unwrap();
    world.emulator.database(DATABASE).unwrap().change_schema(&changes).map(drop)
}

/// A server, and a session on it.
struct World {
    emulator: Emulator,
    client: SpannerClient<Channel>,
    session: String,
}

impl World {
    async fn start() -> World {
        World::with_session(false).await
    }

    async fn with_session(multiplexed: bool) -> World {
        World::on(Emulator::start().await.unwrap(), multiplexed).await
    }

    async fn on(emulator: Emulator, multiplexed: bool) -> World {
        emulator.create_database(DATABASE, DDL).await.unwrap();
        let mut client = SpannerClient::new(connected(emulator.endpoint()).await);
        let template = proto::Session { multiplexed, ..Default::default() };
        let request =
            proto::CreateSessionRequest { database: DATABASE.into(), session: Some(template) };
        let session = client.create_session(request).await.unwrap().into_inner().name;
        World { emulator, client, session }
    }

    /// Goes on in a session of its own, and returns the one before.
    async fn change_session(&mut self) -> String {
        self.enter(DATABASE).await
    }

    /// Goes on in a new session of this database, and returns the one before.
    async fn enter(&mut self, database: &str) -> String {
        let request =
            proto::CreateSessionRequest { database: database.into(), ..Default::default() };
        let session = self.client.create_session(request).await.unwrap().into_inner().name;
        std::mem::replace(&mut self.session, session)
    }

    async fn begin(&mut self, mode: Mode) -> Result<proto::Transaction, Status> {
        let request = proto::BeginTransactionRequest {
            session: self.session.clone(),
            options: Some(proto::TransactionOptions { mode: Some(mode), ..Default::default() }),
            ..Default::default()
        };
        Ok(self.client.begin_transaction(request).await?.into_inner())
    }

    async fn begin_read_write(&mut self) -> Vec<u8> {
        self.begin(Mode::ReadWrite(ReadWrite::default())).await.unwrap().id
    }

    async fn commit(
        &mut self,
        id: &[u8],
        mutations: impl Into<Vec<proto::Mutation>>,
    ) -> Result<proto::CommitResponse, Status> {
        self.commit_as(Wanted::TransactionId(id.to_vec()), mutations).await
    }

    async fn commit_once(
        &mut self,
        mutations: impl Into<Vec<proto::Mutation>>,
    ) -> Result<proto::CommitResponse, Status> {
        self.commit_as(Wanted::SingleUseTransaction(read_write()), mutations).await
    }

    async fn commit_as(
        &mut self,
        transaction: Wanted,
        mutations: impl Into<Vec<proto::Mutation>>,
    ) -> Result<proto::CommitResponse, Status> {
        let request = self.commit_request(transaction, mutations);
        Ok(self.client.commit(request).await?.into_inner())
    }

    fn commit_request(
        &self,
        transaction: Wanted,
        mutations: impl Into<Vec<proto::Mutation>>,
    ) -> proto::CommitRequest {
        let (session, transaction) = (self.session.clone(), Some(transaction));
        let mutations = mutations.into();
        proto::CommitRequest { session, transaction, mutations, ..Default::default() }
    }

    async fn rollback(&mut self, id: &[u8]) -> Result<(), Status> {
        let (session, transaction_id) = (self.session.clone(), id.to_vec());
        let request = proto::RollbackRequest { session, transaction_id };
        self.client.rollback(request).await.map(|_| ())
    }

    /// Reads all of `users`: id, name and age.
    async fn users(&mut self, selector: Option<Selector>) -> Result<proto::ResultSet, Status> {
        self.read("users", &["id", "name", "age"], all(), selector).await
    }

    async fn read(
        &mut self,
        table: &str,
        columns: &[&str],
        keys: proto::KeySet,
        selector: Option<Selector>,
    ) -> Result<proto::ResultSet, Status> {
        let request = proto::ReadRequest {
            transaction: selected(selector),
            key_set: Some(keys),
            ..self.read_request(table, columns)
        };
        Ok(self.client.read(request).await?.into_inner())
    }

    /// Asks for all rows of a table.
    fn read_request(&self, table: &str, columns: &[&str]) -> proto::ReadRequest {
        proto::ReadRequest {
            session: self.session.clone(),
            table: table.into(),
            columns: columns.iter().map(|column| (*column).into()).collect(),
            key_set: Some(all()),
            ..Default::default()
        }
    }

    /// The ids in `users`.
    async fn ids(&mut self) -> Vec<String> {
        let rows = self.users(None).await.unwrap().rows;
        rows.iter().map(|row| shown(&row.values[0])).collect()
    }
}

fn read_write() -> proto::TransactionOptions {
    let mode = Some(Mode::ReadWrite(ReadWrite::default()));
    proto::TransactionOptions { mode, ..Default::default() }
}

fn read_only(read_only: ReadOnly) -> proto::TransactionOptions {
    proto::TransactionOptions { mode: Some(Mode::ReadOnly(read_only)), ..Default::default() }
}

/// A read at one moment, which its reply tells.
fn at(bound: TimestampBound) -> Selector {
    let read = ReadOnly { return_read_timestamp: true, timestamp_bound: Some(bound) };
    Selector::SingleUse(read_only(read))
}

fn ago(seconds: i64) -> TimestampBound {
    TimestampBound::ExactStaleness(prost_types::Duration { seconds, nanos: 0 })
}

/// The transaction of a request.
fn selected(selector: impl Into<Option<Selector>>) -> Option<proto::TransactionSelector> {
    selector.into().map(|selector| proto::TransactionSelector { selector: Some(selector) })
}

/// Expects that no other transaction holds a request up.
async fn at_once<T: std::fmt::Debug>(request: impl Future<Output = Result<T, Status>>) -> T {
    timeout(Duration::from_secs(5), request).await.expect("it waits").unwrap()
}

/// Expects that a request waits for another transaction, and gives it up.
async fn waits(request: impl Future) {
    let waiting = timeout(Duration::from_millis(300), request).await;
    assert!(waiting.is_err(), "it does not wait");
}

fn all() -> proto::KeySet {
    proto::KeySet { all: true, ..Default::default() }
}

fn text(text: impl Into<String>) -> Value {
    Value { kind: Some(Kind::StringValue(text.into())) }
}

fn null() -> Value {
    Value { kind: Some(Kind::NullValue(0)) }
}

fn list(values: impl Into<Vec<Value>>) -> ListValue {
    ListValue { values: values.into() }
}

/// A value as a person would write it down.
fn shown(value: &Value) -> String {
    match value.kind.as_ref().unwrap() {
        Kind::NullValue(_) => "NULL".into(),
        Kind::StringValue(text) => text.clone(),
        Kind::NumberValue(number) => number.to_string(),
        Kind::ListValue(list) => {
            format!("[{}]", list.values.iter().map(shown).collect::<Vec<_>>().join(","))
        }
        other => format!("{other:?}"),
    }
}

/// The rows of a result, each as its values with a space in between.
fn rows(result: &proto::ResultSet) -> Vec<String> {
    let row = |row: &ListValue| row.values.iter().map(shown).collect::<Vec<_>>().join(" ");
    result.rows.iter().map(row).collect()
}

fn write<const N: usize>(table: &str, columns: [&str; N], values: impl Into<Vec<Value>>) -> Write {
    Write {
        table: table.into(),
        columns: columns.map(Into::into).into(),
        values: vec![list(values)],
    }
}

fn mutation(operation: Operation) -> proto::Mutation {
    proto::Mutation { operation: Some(operation) }
}

/// Inserts a user with this id and nothing else.
fn insert(id: i64) -> proto::Mutation {
    mutation(Operation::Insert(write("users", ["id"], [text(id.to_string())])))
}

fn update(id: i64, name: &str) -> proto::Mutation {
    let values = [text(id.to_string()), text(name)];
    mutation(Operation::Update(write("users", ["id", "name"], values)))
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}

/// The type and content of each detail of a status.
fn details(status: &Status) -> Vec<(String, Vec<u8>)> {
    let status = rpc::Status::decode(status.details()).unwrap();
    status.details.into_iter().map(|detail| (detail.type_url, detail.value)).collect()
}
