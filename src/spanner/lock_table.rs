use std::sync::Arc;

use google_cloud_spanner::client::DatabaseClient;

use super::connection::Connection;
use super::table::Table;

/// A table of locks in a Spanner database: the root of everything here. Cheap to clone.
///
/// Making one sends nothing and can't fail. [`lock`](LockTable::lock) makes instances that
/// contend; the other methods need no instance.
#[derive(Clone, Debug)]
pub struct LockTable(Arc<Table>);

impl LockTable {
    /// The statement that creates the table, in GoogleSQL. Any name will do instead of
    /// `locktable`.
    ///
    /// It is one statement, without a semicolon, as Google's clients take it. Other
    /// implementations of the same table share the first four columns. The other two are optional:
    /// `lease_ms` is the holder's own lease, `info` what the holder says of itself. Without
    /// `lease_ms` all instances must use one and the same lease, or two may hold a lock at once.
    ///
    /// A role that uses the table needs all of its columns, since the information schema, which is
    /// asked for them, hides the others.
    pub const DDL: &str = include_str!("../../ddl/googlesql.sql");

    /// The same statement for a database of the PostgreSQL dialect.
    pub const DDL_POSTGRESQL: &str = include_str!("../../ddl/postgresql.sql");

    /// The statements that add the optional columns to an older table, in GoogleSQL.
    pub const DDL_UPGRADE: &str = include_str!("../../ddl/googlesql-upgrade.sql");

    /// The statements that add the optional columns to an older table, in a database of the
    /// PostgreSQL dialect.
    pub const DDL_UPGRADE_POSTGRESQL: &str = include_str!("../../ddl/postgresql-upgrade.sql");

    /// Returns a table reached by a client that the service has already.
    ///
    /// The locks share the client's channels and session with the service. If the session is
    /// lost, the client stays without: [`health`](crate::Spindle::health) and the errors say so.
    /// The client dies with the runtime that made it. Prefer [`connect`](LockTable::connect) where
    /// leadership matters.
    pub fn new(client: DatabaseClient, table: impl Into<String>) -> LockTable {
        LockTable(Arc::new(Table::new(Connection::given(client), table.into())))
    }

    /// Returns a table with a connection of its own. A busy service can't starve it, and it comes
    /// back by itself after Spanner has lost its session.
    ///
    /// `database` is the full name, `projects/p/instances/i/databases/d`; what is wrong with it is
    /// what [`build`](crate::LockBuilder::build) and every call answer. The connection is made on first
    /// use, with the credentials of the environment; where `SPANNER_EMULATOR_HOST` is set, that is
    /// where it goes. It counts against the limit of the call that waits for it.
    ///
    /// The table outlives runtimes: each runtime that uses it gets a connection of its own. So a
    /// table in a `static` works from one runtime after another. A connection over which nothing
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

    /// Waits until all instances of this table in this process have ended and have released what
    /// they held: for the end of a process.
    ///
    /// An instance ends once its last handle is gone. Drop guards, permits, members and instances
    /// before, or cancel their runs; this waits for those that still live. An attempt to take the
    /// lock that is still under way is resolved first: after an
    /// [`acquire_within`](crate::Spindle::acquire_within) whose time is over, or a dropped
    /// [`run_once`](crate::LockBuilder::run_once). If the process exits without this wait, such an
    /// attempt may leave the lock held for a lease.
    ///
    /// Each instance takes no longer than its [release limit](crate::LockBuilder::release_limit).
    ///
    /// ```no_run
    /// # async fn tool(table: spindle::LockTable) -> spindle::Result<()> {
    /// use std::time::Duration;
    ///
    /// let lock = table.lock("migration").build()?;
    /// if let Ok(guard) = lock.acquire_within(Duration::from_secs(2)).await {
    ///     // …
    ///     guard.release().await;
    /// }
    /// drop(lock);
    /// table.all_released().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn all_released(&self) {
        self.0.loops.closed().await;
    }

    /// Returns a table in the place of Spanner's.
    #[cfg(all(feature = "__simulation", unix))]
    pub(crate) fn on(stand_in: Arc<dyn super::StandIn>) -> LockTable {
        // Nothing is ever sent there.
        let nowhere = Connection::own("projects/p/instances/i/databases/d".to_string(), None);
        let table = Table::new(nowhere, "locktable".to_string());
        LockTable(Arc::new(Table { stand_in: Some(stand_in), ..table }))
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0
    }
}
