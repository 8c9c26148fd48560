//! A lock table, and what all who use it in this process share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use spindle_protocol::{Answer, Change, StoredRow, Timestamp};
use tokio::sync::watch;

use super::connection::Connection;
use super::spanner::Spanner;
use crate::batch::{Batchers, Columns, Store, Verdict};
use crate::budget::Budget;
use crate::error::{Outcome, Result};
use crate::names::{check_lock_name, check_table_name};
use crate::term::{Instances, Warnings};
use crate::witness::{Place, Registration, Witness};

/// A lock table in a database.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: Arc<str>,
    /// The rows of locks.
    pub(crate) store: Arc<dyn Store>,
    /// For what only Spanner can be asked: old versions, pages of the table, its schema.
    pub(crate) spanner: Arc<Spanner>,
    pub(crate) batchers: Batchers,
    /// The values that crates on this one share among all who use the table, by their types.
    pub(crate) shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Each loop of an instance has a receiver, for as long as it runs.
    pub(crate) loops: watch::Sender<()>,
    /// The instances of which `health` tells.
    pub(crate) instances: Instances,
    /// The log's warnings of them.
    pub(crate) warnings: Arc<Warnings>,
    /// The agent that is to release what this process holds, should it die.
    pub(crate) agent: OnceLock<Place>,
}

impl Table {
    pub(crate) fn new(connection: Connection, name: String) -> Table {
        let name: Arc<str> = name.into();
        let batchers = Batchers::new(Arc::clone(connection.budget()));
        let spanner = Arc::new(Spanner { connection, name: Arc::clone(&name) });
        let store = Arc::clone(&spanner) as Arc<dyn Store>;
        let (shared, loops) = (Mutex::default(), watch::Sender::new(()));
        Table {
            name,
            store,
            spanner,
            batchers,
            shared,
            loops,
            instances: Instances::default(),
            warnings: Arc::default(),
            agent: OnceLock::new(),
        }
    }

    /// Returns what all who use this table share of this type.
    pub(crate) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let of_type = shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default());
        Arc::clone(of_type).downcast().unwrap_or_default()
    }

    /// Has the agent that listens at `socket` release what this process holds, should it die. The first one counts.
    pub(crate) fn release_on_exit(&self, socket: PathBuf) {
        let database = self.spanner.connection.database().map(str::to_string);
        // A second call changes nothing.
        let _ = self.agent.set(Place { socket, database, table: Arc::clone(&self.name) });
    }

    /// Returns the registration of an instance of this process with the agent, if there is to be one.
    pub(crate) fn registration(&self, lock: &Arc<str>) -> Option<Registration> {
        let witness = Witness::of(self.agent.get()?);
        Some(Registration::new(witness, Arc::clone(lock)))
    }

    /// Returns what all that is sent by the library itself is charged to (I8).
    pub(crate) fn budget(&self) -> &Budget {
        self.spanner.connection.budget()
    }

    /// Refuses a name that no lock can have, and a table's that is no identifier.
    pub(crate) fn check_lock(&self, lock: &str) -> Result<()> {
        check_table_name(&self.name)?;
        check_lock_name(lock)
    }

    /// Returns one strong read of a lock row, and Spanner's timestamp of it.
    pub(crate) async fn read(
        &self,
        lock: &str,
        limit: Duration,
    ) -> Result<(Option<StoredRow>, Timestamp)> {
        let found = self.store.rows(vec![lock.into()], Vec::new(), Columns::All, limit).await?;
        Ok((found.rows.into_iter().next(), found.read_at))
    }

    /// Carries out one change, in a transaction of its own; with the rows that it was judged by.
    pub(crate) async fn carry_out(
        &self,
        lock: &str,
        change: Change,
        limit: Duration,
    ) -> (Outcome, Vec<StoredRow>) {
        let changes = vec![(Arc::from(lock), change)];
        let Verdict { refused, found, commit, error } = self.store.transact(changes, limit).await;
        let outcome = match refused.into_iter().flatten().next() {
            Some(rejection) => Outcome::of(Answer::Rejected(rejection)),
            None => commit.of(error),
        };
        (outcome, found)
    }
}
