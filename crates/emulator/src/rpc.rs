//! The calls that clients make, and how many of each there were.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde::de::value::{self, StrDeserializer};

/// A method of the Spanner service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[expect(missing_docs, reason = "each is the method of the same name")]
pub enum Rpc {
    CreateSession,
    BatchCreateSessions,
    GetSession,
    ListSessions,
    DeleteSession,
    ExecuteSql,
    ExecuteStreamingSql,
    ExecuteBatchDml,
    Read,
    StreamingRead,
    BeginTransaction,
    Commit,
    Rollback,
}

impl Rpc {
    /// Returns true for the methods that run statements.
    pub(crate) fn is_statement(self) -> bool {
        matches!(self, Rpc::ExecuteSql | Rpc::ExecuteStreamingSql | Rpc::ExecuteBatchDml)
    }

    /// Returns true for the methods that answer by a stream.
    pub(crate) fn is_streamed(self) -> bool {
        matches!(self, Rpc::ExecuteStreamingSql | Rpc::StreamingRead)
    }

    /// Returns the method of this name, as the service writes it: `Commit`.
    pub fn from_name(name: &str) -> Option<Rpc> {
        Rpc::deserialize(StrDeserializer::<value::Error>::new(name)).ok()
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How many requests have arrived since the start, or since the last reset.
///
/// A request counts when it arrives, whatever becomes of it. A clone counts on with the original.
#[derive(Clone, Debug, Default)]
pub struct RequestCounts(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    by_rpc: BTreeMap<Rpc, u64>,
    by_session: HashMap<String, BTreeMap<Rpc, u64>>,
}

impl RequestCounts {
    /// Returns how many of this method.
    pub fn get(&self, rpc: Rpc) -> u64 {
        self.counts().by_rpc.get(&rpc).copied().unwrap_or(0)
    }

    /// Returns how many of this method named this session. Methods that make, list or remove
    /// sessions count for none.
    pub fn of_session(&self, session: &str, rpc: Rpc) -> u64 {
        let counts = self.counts();
        counts.by_session.get(session).and_then(|counts| counts.get(&rpc)).copied().unwrap_or(0)
    }

    /// Returns the sessions that any request has named, without those that were deleted. Those that ran
    /// out are forgotten with time.
    pub fn sessions(&self) -> Vec<String> {
        let mut sessions: Vec<String> = self.counts().by_session.keys().cloned().collect();
        sessions.sort();
        sessions
    }

    /// Returns how many in all.
    pub fn total(&self) -> u64 {
        self.counts().by_rpc.values().sum()
    }

    /// Returns how many of each method that was called at all.
    pub fn each(&self) -> BTreeMap<Rpc, u64> {
        self.counts().by_rpc.clone()
    }

    /// Starts again from nothing.
    pub fn reset(&self) {
        *self.counts() = Counts::default();
    }

    pub(crate) fn count(&self, rpc: Rpc, session: Option<&str>) {
        let mut counts = self.counts();
        *counts.by_rpc.entry(rpc).or_default() += 1;
        if let Some(session) = session {
            if !counts.by_session.contains_key(session) {
                counts.by_session.insert(session.to_owned(), BTreeMap::new());
            }
            if let Some(counts) = counts.by_session.get_mut(session) {
                *counts.entry(rpc).or_default() += 1;
            }
        }
    }

    pub(crate) fn forget_session(&self, session: &str) {
        self.counts().by_session.remove(session);
    }

    /// Forgets the counts of all other sessions.
    pub(crate) fn keep_sessions(&self, is_kept: impl Fn(&str) -> bool) {
        self.counts().by_session.retain(|session, _| is_kept(session));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
