//! Everything a server knows, apart from who is connected.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::names::check_database_name;
use super::proto;
use super::replays::Replays;
use super::sessions::Sessions;
use crate::engine::{
    Clock, Code, Database, Dialect, Error, Result, SchemaChange, TransactionId, TransactionNumbers,
    VERSION_RETENTION,
};
use crate::faults::{Fault, FaultHandle, Faults};
use crate::rpc::RequestCounts;
use crate::sql::{Statements, is_of_information_schema, parse_ddl_in, parse_ddl_leniently};

/// Everything a server knows, apart from who is connected.
#[derive(Debug)]
pub(crate) struct Core {
    clock: Arc<dyn Clock>,
    numbers: TransactionNumbers,
    databases: Mutex<BTreeMap<String, Database>>,
    sessions: Mutex<Sessions>,
    replays: Mutex<Replays>,
    token_sequence: AtomicI32,
    pub(super) statements: Statements,
    /// True if DDL that asks for what isn't here is kept.
    pub lenient_ddl: bool,
    /// How far back the versions of each database can be read.
    pub retention: Duration,
    pub faults: Faults,
    /// Held by the request whose turn it is, of those that a fault has wait for each other.
    pub(super) queue: tokio::sync::Mutex<()>,
    pub counts: RequestCounts,
    /// The tasks of the server, connections included.
    pub tasks: TaskTracker,
    /// Ends all of them.
    pub stopped: CancellationToken,
}

impl Core {
    /// Returns a server without databases.
    pub fn new(clock: Arc<dyn Clock>) -> Core {
        let counts = RequestCounts::default();
        Core {
            clock,
            numbers: TransactionNumbers::default(),
            databases: Mutex::default(),
            sessions: Mutex::new(Sessions::new(counts.clone())),
            replays: Mutex::default(),
            token_sequence: AtomicI32::new(1),
            statements: Statements::default(),
            lenient_ddl: false,
            retention: VERSION_RETENTION,
            faults: Faults::default(),
            queue: tokio::sync::Mutex::default(),
            counts,
            tasks: TaskTracker::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// Returns the clock of every database.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Reads DDL of a dialect.
    pub fn parse_ddl(&self, dialect: Dialect, text: &str) -> crate::sql::Result<Vec<SchemaChange>> {
        match dialect {
            Dialect::GoogleSql if self.lenient_ddl => parse_ddl_leniently(text),
            _ => parse_ddl_in(dialect, text),
        }
    }

    /// Makes a database with these tables, which isn't one of the server's yet.
    pub fn new_database(&self, dialect: Dialect, schema: &[SchemaChange]) -> Result<Database> {
        let database = Database::new(Arc::clone(&self.clock), self.numbers.clone());
        let database = database.with_dialect(dialect).with_retention(self.retention);
        database.change_schema(schema)?;
        Ok(database)
    }

    /// Adds a database.
    pub fn add_database(&self, name: &str, database: Database) -> Result<Database> {
        check_database_name(name)?;
        let mut databases = self.databases();
        if databases.contains_key(name) {
            return Err(Error::new(
                Code::AlreadyExists,
                format!("Database already exists: {name}"),
            ));
        }
        databases.insert(name.to_owned(), database.clone());
        Ok(database)
    }

    /// Removes a database and its sessions, and ends its transactions. It returns true if the database
    /// was there.
    pub fn drop_database(&self, name: &str) -> bool {
        // Held, so that nobody makes a session of the database meanwhile.
        let mut sessions = self.sessions();
        let dropped = self.databases().remove(name);
        sessions.forget_database(name);
        drop(sessions);
        // Requests that wait for its locks would wait for transactions that nobody can end.
        dropped.inspect(Database::abort_all).is_some()
    }

    /// Returns the database of this name.
    pub fn database(&self, name: &str) -> Result<Database> {
        let database = self.databases().get(name).cloned();
        database.ok_or_else(|| match check_database_name(name) {
            Err(error) => error,
            Ok(()) => {
                let kind = "type.googleapis.com/google.spanner.admin.database.v1.Database";
                Error::resource_not_found(kind, "Database", name)
            }
        })
    }

    /// Returns every database.
    pub fn all_databases(&self) -> Vec<(String, Database)> {
        self.databases().iter().map(|(name, database)| (name.clone(), database.clone())).collect()
    }

    /// Makes requests go wrong from now on.
    ///
    /// # Errors
    /// No request can ever meet the fault: there is no such table, no such probability or number of times, no tag,
    /// or no request has all that it is aimed at.
    pub fn inject(&self, fault: Fault) -> Result<FaultHandle> {
        let refused = |reason| Err(Error::invalid_argument(reason));
        if let Some(table) = &fault.table
            && !self.is_table(table)
        {
            let mut tables: Vec<String> = Vec::new();
            for (_, database) in self.all_databases() {
                tables.extend(database.schema().tables().map(|table| table.name.clone()));
            }
            tables.sort();
            tables.dedup();
            return refused(format!(
                "A fault on the table `{table}`: no database has it. There are: {}.",
                if tables.is_empty() { "none".to_owned() } else { tables.join(", ") }
            ));
        }
        if let Some(gap) = fault.gap() {
            return refused(format!("No request can meet this fault: {gap}."));
        }
        if fault.tag.as_deref() == Some("") {
            return refused(
                "A fault on an empty tag: requests without a tag have none.".to_owned(),
            );
        }
        match fault.probability {
            Some((probability, _)) if !(0.0..=1.0).contains(&probability) => {
                refused(format!("A fault's probability is between 0 and 1, found: {probability}."))
            }
            _ => Ok(self.faults.inject(fault)),
        }
    }

    /// Returns true if a request can name this table to one of the databases.
    fn is_table(&self, name: &str) -> bool {
        let has = |database: &Database| {
            let schema = database.schema();
            schema.table(name).is_some() || is_of_information_schema(name, &schema)
        };
        self.all_databases().iter().any(|(_, database)| has(database))
    }

    /// Forgets every session, as a restart can.
    pub fn forget_sessions(&self) {
        self.sessions().clear();
    }

    /// Returns the database that a session works on. The session is thereby in use.
    pub(super) fn database_of(&self, session: &str) -> Result<Database> {
        let now = self.clock.now();
        let found = self.sessions().find(session, now).map(|found| found.database.clone());
        found.map_err(|error| self.database_is_gone(session).unwrap_or(error))
    }

    /// Returns the error of a session whose database isn't there, if that is why it isn't found.
    fn database_is_gone(&self, session: &str) -> Option<Error> {
        let (database, _) = session.rsplit_once("/sessions/")?;
        self.database(database).err().filter(|error| error.code() == Code::NotFound)
    }

    /// Returns the token that a read-write transaction on a multiplexed session has to bring when
    /// it commits. The client keeps the one with the highest number.
    pub(super) fn precommit_token(
        &self,
        session: &str,
        id: TransactionId,
    ) -> Result<Option<proto::MultiplexedSessionPrecommitToken>> {
        let now = self.clock.now();
        if !self.sessions().find(session, now)?.multiplexed {
            return Ok(None);
        }
        Ok(Some(proto::MultiplexedSessionPrecommitToken {
            precommit_token: precommit_token(id),
            seq_num: self.token_sequence.fetch_add(1, Ordering::Relaxed),
        }))
    }

    fn databases(&self) -> MutexGuard<'_, BTreeMap<String, Database>> {
        self.databases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replays(&self) -> MutexGuard<'_, Replays> {
        self.replays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the token of a transaction.
pub(super) fn precommit_token(id: TransactionId) -> Vec<u8> {
    format!("precommit-{id}").into_bytes()
}
