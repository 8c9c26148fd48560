//! Telling apart what can be wrong with a lock table, by probing rather than by reading messages.

use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::statement::Statement;
use google_cloud_spanner::types::TypeCode;
use spindle_protocol::Answer;
use tokio::time::timeout;

use crate::connection::Leased;
use crate::error::{self, Error, Kind, Result};
use crate::locks::REQUEST_LIMIT;
use crate::row;
use crate::table::{COMMIT_TIMESTAMP, Table};
use crate::transact::transact;

/// One probe's share of time. Probes run only when something is wrong already, or on request.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// A name that no lock can have, since it looks like a takeover row.
const PROBE_NAME: &str = "spindle-check_0000000000000000000";

/// A column that the library needs, or can make use of.
struct Column {
    name: &'static str,
    code: TypeCode,
    ddl: &'static str,
    required: bool,
}

const COLUMNS: [Column; 6] = [
    Column { name: "name", code: TypeCode::String, ddl: "STRING(MAX) NOT NULL", required: true },
    Column {
        name: "heartbeat",
        code: TypeCode::Timestamp,
        ddl: "TIMESTAMP OPTIONS (allow_commit_timestamp=true)",
        required: true,
    },
    Column {
        name: "token",
        code: TypeCode::Timestamp,
        ddl: "TIMESTAMP OPTIONS (allow_commit_timestamp=true)",
        required: true,
    },
    Column { name: "writer", code: TypeCode::String, ddl: "STRING(MAX)", required: true },
    Column { name: "lease_ms", code: TypeCode::Int64, ddl: "INT64", required: false },
    Column { name: "info", code: TypeCode::String, ddl: "STRING(MAX)", required: false },
];

impl Table {
    /// Finds out why a request failed; `Ok` where everything that was looked at is in order.
    pub(crate) async fn diagnose(&self, leased: &Leased) -> Result<()> {
        self.probe_session(leased).await?;
        self.probe_columns(leased).await
    }

    /// Says exactly what is wrong with the table that is there, including what writing needs.
    pub(crate) async fn check(&self) -> Result<()> {
        let leased = self.connection.client(REQUEST_LIMIT).await?;
        if let Err(error) = self.diagnose(&leased).await {
            if !error.is_session_lost() {
                return Err(error);
            }
            // A connection of our own is made anew.
            let leased = self.connection.client(REQUEST_LIMIT).await?;
            self.diagnose(&leased).await?;
            return self.probe_write(&leased).await;
        }
        self.probe_write(&leased).await
    }

    /// `SELECT 1` touches no table: what is not found then is the session, or the database.
    async fn probe_session(&self, leased: &Leased) -> Result<()> {
        let doing = "database: ask it anything";
        let statement = Statement::builder("SELECT 1")
            .with_retry_policy(NeverRetry)
            .with_attempt_timeout(PROBE_LIMIT)
            .build();
        let asking = async {
            let mut rows = leased.client.single_use().build().execute_query(statement).await?;
            while rows.next().await.transpose()?.is_some() {}
            Ok(())
        };
        match timeout(PROBE_LIMIT, asking).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) if error::code(&source) == Some(Code::NotFound) => {
                Err(self.connection.session_lost(leased))
            }
            Ok(Err(source)) => Err(Error::from_read(doing, source)),
            Err(_) => Err(Error::timed_out(doing, PROBE_LIMIT)),
        }
    }

    async fn probe_columns(&self, leased: &Leased) -> Result<()> {
        match self.probe_column(leased, &COLUMNS[0]).await? {
            Probe::Fine => {}
            Probe::Missing => {
                // Either could be missing: a read names the table and the column at once.
                return Err(self.wrong(
                    "is not there, or has no column `name`; create it as in ddl/googlesql.sql",
                ));
            }
            Probe::Wrong(what) => return Err(self.wrong(what)),
        }
        let mut optional = [false; 2];
        for (index, column) in COLUMNS.iter().enumerate().skip(1) {
            match self.probe_column(leased, column).await? {
                Probe::Fine if column.required => {}
                Probe::Fine => optional[index - 4] = true,
                Probe::Missing if column.required => {
                    let Column { name, ddl, .. } = column;
                    return Err(self.wrong(format!("has no column `{name} {ddl}`")));
                }
                Probe::Missing => {}
                Probe::Wrong(what) => return Err(self.wrong(what)),
            }
        }
        let [lease, info] = optional;
        if self.optional.set(lease, info) && !(lease && info) {
            tracing::warn!(
                table = self.name,
                lease_ms = lease,
                info,
                "the lock table lacks optional columns: without `lease_ms` each instance judges \
                 by its own lease, without `info` there is none; ddl/ has the ALTERs that add them"
            );
        }
        Ok(())
    }

    async fn probe_column(&self, leased: &Leased, column: &Column) -> Result<Probe> {
        let doing = format!("table `{}`: read column `{}`", self.name, column.name);
        let keys = KeySet::builder().add_key(key![PROBE_NAME]).build();
        let request = row::request(&self.name, [column.name], keys, None, PROBE_LIMIT);
        let reading = async {
            let mut rows = leased.client.single_use().build().execute_read(request).await?;
            while rows.next().await.transpose()?.is_some() {}
            Ok(rows.metadata().column_types().first().map(|found| found.code()))
        };
        match timeout(PROBE_LIMIT, reading).await {
            Ok(Ok(Some(found))) if found != column.code => Ok(Probe::Wrong(format!(
                "has `{}` as {found:?}; expected `{} {}`",
                column.name, column.name, column.ddl
            ))),
            Ok(Ok(_)) => Ok(Probe::Fine),
            Ok(Err(source)) => match error::code(&source) {
                Some(Code::NotFound) => Ok(Probe::Missing),
                Some(Code::InvalidArgument | Code::FailedPrecondition) => {
                    Ok(Probe::Wrong(format!(
                        "can't be read by a key of one string; expected `PRIMARY KEY (name)`: {source}"
                    )))
                }
                _ => Err(Error::from_read(doing, source)),
            },
            Err(_) => Err(Error::timed_out(doing, PROBE_LIMIT)),
        }
    }

    /// Updates a row that can't exist: it never changes anything, but tells what writing needs.
    async fn probe_write(&self, leased: &Leased) -> Result<()> {
        let keys = KeySet::builder().add_key(key![PROBE_NAME]).build();
        let request = row::request(&self.name, ["name"], keys, None, PROBE_LIMIT);
        let mut write = Mutation::new_update_builder(&self.name)
            .set("name")
            .to(PROBE_NAME)
            .set("heartbeat")
            .to(COMMIT_TIMESTAMP)
            .set("token")
            .to(COMMIT_TIMESTAMP)
            .set("writer")
            .to("");
        if self.optional.has_lease() {
            write = write.set("lease_ms").to(None::<i64>);
        }
        let write = write.build();
        let doing = format!("table `{}`: write", self.name);
        let decide = move |_| Ok(vec![write.clone()]);
        let outcome = transact(&leased.client, doing, request, PROBE_LIMIT, decide).await;
        match (outcome.answer, outcome.error) {
            (Answer::Applied { .. }, _) | (_, None) => Ok(()),
            (_, Some(error)) => match error.code() {
                Some(Code::NotFound) => Ok(()),
                Some(Code::FailedPrecondition) => Err(self.wrong(format!(
                    "does not take commit timestamps in `heartbeat` and `token`; set \
                     `OPTIONS (allow_commit_timestamp=true)` on both: {error}"
                ))),
                _ => Err(error),
            },
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::new(Kind::Schema(format!("table `{}` {what}", self.name)))
    }
}

enum Probe {
    Fine,
    Missing,
    Wrong(String),
}
