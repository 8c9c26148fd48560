use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use google_cloud_spanner::client::DatabaseClient;

use crate::check::Checked;
use crate::config::LockBuilder;
use crate::connection::Connection;
use crate::error::Result;
use crate::names::check_table_name;
use crate::table::Table;
use crate::token::FencingToken;
use crate::verbs::{LockState, Standing, read_state};

/// How long a verb may take before it gives up on Spanner.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// A table of locks in a Spanner database: the root of everything here. Cheap to clone.
///
/// Making one sends nothing and can't fail. [`lock`](LockTable::lock) makes instances that
/// contend; the other methods need no instance.
#[derive(Clone, Debug)]
pub struct LockTable(Arc<Table>);

impl LockTable {
    /// The statement that creates the table, in GoogleSQL. Any name will do instead of
    /// `locktable`.
    pub const DDL: &str = include_str!("../ddl/googlesql.sql");

    /// The statement that creates the table in a database of the PostgreSQL dialect.
    ///
    /// Not run by this project's tests.
    pub const DDL_POSTGRESQL: &str = include_str!("../ddl/postgresql.sql");

    /// The statements that add the optional columns to an older table, in GoogleSQL.
    pub const DDL_UPGRADE: &str = include_str!("../ddl/googlesql-upgrade.sql");

    /// A table reached by a client that the service has already.
    ///
    /// The locks share the client's channels and session with the service. If the session is
    /// lost, the client stays without: [`health`](crate::Spindle::health) and the errors say so.
    /// The client dies with the runtime that made it. Prefer [`connect`](LockTable::connect) where
    /// leadership matters.
    pub fn new(client: DatabaseClient, table: impl Into<String>) -> LockTable {
        LockTable(Arc::new(Table::new(Connection::given(client), table.into())))
    }

    /// A table reached by a connection of its own, which a busy service can't starve and which
    /// comes back by itself after Spanner has lost its session.
    ///
    /// `database` is the full name, `projects/p/instances/i/databases/d`; what is wrong with it is
    /// what [`build`](LockBuilder::build) and every call answer. The connection is made on first
    /// use, with the credentials of the environment; where `SPANNER_EMULATOR_HOST` is set, that is
    /// where it goes. It counts against the limit of the call that waits for it.
    ///
    /// The table outlives runtimes: each runtime that uses it gets a connection of its own, so that
    /// a table in a `static` works from one runtime after another. A connection over which nothing
    /// was heard for 30 s, or whose credentials failed for good, is made anew.
    pub fn connect(database: impl Into<String>, table: impl Into<String>) -> LockTable {
        let connection = Connection::own(database.into(), None);
        LockTable(Arc::new(Table::new(connection, table.into())))
    }

    /// As [`connect`](LockTable::connect), to an endpoint such as `http://127.0.0.1:9010`.
    pub fn connect_to(
        endpoint: impl Into<String>,
        database: impl Into<String>,
        table: impl Into<String>,
    ) -> LockTable {
        let connection = Connection::own(database.into(), Some(endpoint.into()));
        LockTable(Arc::new(Table::new(connection, table.into())))
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0
    }

    /// Begins to describe an instance that contends for the lock `name`.
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(Arc::clone(&self.0), name.into())
    }

    /// Who holds the lock `name` now; nothing if it is vacant: never held, released, or expired
    /// by Spanner's clock.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a name that no lock can have; otherwise why
    /// Spanner could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn leader(&self, name: &str) -> Result<Option<Leader>> {
        LockTable::leader_in(&self.0, name).await
    }

    pub(crate) async fn leader_in(table: &Table, name: &str) -> Result<Option<Leader>> {
        let LockState { standing, token, info, lease, heartbeat_age, .. } =
            read_state(table, name).await?;
        let (Standing::Held { id }, Some(token), Some(heartbeat_age)) =
            (standing, token, heartbeat_age)
        else {
            return Ok(None);
        };
        Ok(Some(Leader { id, token, info, lease, heartbeat_age }))
    }

    /// Checks once that the table can be reached, is as it should be, and can be written:
    /// for services that want to fail at start rather than to go on trying.
    ///
    /// Writes nothing that stays. It asks the information schema, reads and writes as a holder
    /// does, and reads the whole table, 100 rows at a time. A missing optional column is no error:
    /// what it returns names it, and the locks whose holder has not written its lease.
    ///
    /// # Errors
    ///
    /// What exactly is wrong: [`is_schema`](crate::Error::is_schema) for the table or a column,
    /// with the statement that mends it; [`is_config`](crate::Error::is_config) for a malformed
    /// name or endpoint, a database that is not there, or a server without read timestamps, on
    /// which no lock can be taken; [`is_denied`](crate::Error::is_denied) for permissions or
    /// credentials; [`is_session_lost`](crate::Error::is_session_lost); or an outage, said after
    /// 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<Checked> {
        check_table_name(&self.0.name)?;
        self.0.check().await
    }
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The id of the instance.
    pub id: String,
    /// The fencing token of its term.
    pub token: FencingToken,
    /// What it says of itself.
    pub info: Option<String>,
    /// Its lease, where the table has the column.
    pub lease: Option<Duration>,
    /// How old its last heartbeat was, by Spanner's clock.
    pub heartbeat_age: Duration,
}

impl Leader {
    /// Since when it holds, by Spanner's clock.
    pub fn since(&self) -> DateTime<Utc> {
        self.token.to_datetime()
    }
}
