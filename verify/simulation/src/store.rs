//! The lock table on the engine: the requests of the shipped batcher, without its client.

use std::collections::HashMap;
use std::sync::Arc;

use spindle::simulation::{Accepted, Failure, Store, Watch};
use spindle_emulator::engine::{Code, Concurrency, TransactionId};
use spindle_protocol::{Act, Answer, Change, StoredRow, Timestamp};

use crate::checks::{Purpose, Sent};
use crate::coverage::CoverageGoal;
use crate::format::{Format, Reads};
use crate::network::{LockEffect, Reply, Request, call};
use crate::world::World;

/// The lock table as one process reaches it.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) world: Arc<World>,
    /// The first of the slots in this process.
    pub(crate) who: usize,
}

/// A transaction that was begun.
#[derive(Debug)]
pub(crate) struct Begun {
    id: TransactionId,
    /// The rows that were found, by their keys in the table.
    found: HashMap<String, StoredRow>,
    sent: Option<Sent>,
}

impl Store for Reach {
    type Transaction = Begun;

    async fn read(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
    ) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        assert!(ranges.is_empty(), "a loop asks for no ranges: {ranges:?}");
        if keys.len() > 1 {
            self.world.saw(CoverageGoal::ReadTogether);
        }
        let sent = self.world.sent(self.who);
        match self.call(Request::Read(keys)).await? {
            Reply::Found { rows, read_at } => {
                self.world.came_to_something(self.who, sent);
                Ok((rows.iter().map(|row| self.format().row(&row.key, row)).collect(), read_at))
            }
            _ => Err(Failure::NotApplied),
        }
    }

    async fn begin(
        &self,
        changes: &[(Arc<str>, Change)],
    ) -> Result<(Self::Transaction, Vec<StoredRow>), Failure> {
        let is_heartbeat = |(_, change): &(_, Change)| matches!(change, Change::Heartbeat { .. });
        let counts = !changes.iter().all(is_heartbeat);
        let sent = counts.then(|| self.world.sent(self.who)).flatten();
        let Reads { keys, columns } = self.format().reads(changes);
        let concurrency = Concurrency::Optimistic;
        let in_table = keys.iter().map(|(in_table, _)| in_table.clone()).collect();
        let asked: HashMap<String, String> = keys.into_iter().collect();
        let begin = Request::Begin { keys: in_table, columns, concurrency };
        let Reply::Begun { id, rows } = self.call(begin).await? else {
            return Err(Failure::NotApplied);
        };
        let found: HashMap<String, StoredRow> = rows
            .iter()
            .filter_map(|row| Some((row.key.clone(), self.format().row(asked.get(&row.key)?, row))))
            .collect();
        let rows = found.values().cloned().collect();
        Ok((Begun { id, found, sent }, rows))
    }

    async fn commit(
        &self,
        Begun { id, found, sent: begun }: Begun,
        changes: Vec<Accepted>,
    ) -> Result<Timestamp, Failure> {
        if changes.len() > 1 {
            self.world.saw(CoverageGoal::WrittenTogether);
        }
        let is_heartbeat = |(_, change, _): &Accepted| matches!(change, Change::Heartbeat { .. });
        let counts = !changes.iter().all(is_heartbeat);
        let sent = counts.then(|| self.world.sent(self.who)).flatten();
        let sweeps = changes.iter().any(|(_, change, _)| matches!(change, Change::Sweep { .. }));
        let format = self.format();
        let part = |accepted: &Accepted| LockEffect {
            by: self.world.slot_of(self.who, &accepted.0),
            lock: accepted.0.to_string(),
            purpose: Purpose::of(&accepted.1, format),
            mutations: format.writes(accepted, &found),
        };
        let parts = changes.iter().map(part).collect();
        match self.call(Request::Commit { id, parts }).await? {
            Reply::Committed(at) => {
                self.world.came_to_something(self.who, begun.into_iter().chain(sent));
                if sweeps {
                    self.world.saw(CoverageGoal::Swept);
                }
                Ok(at)
            }
            _ => Err(Failure::Unknown),
        }
    }

    fn roll_back(&self, Begun { id, sent: begun, .. }: Begun) {
        let (world, who) = (Arc::clone(&self.world), self.who);
        // All of its acts were answered, with a refusal.
        let sent = world.sent(who);
        world.came_to_something(who, begun.into_iter().chain(sent));
        tokio::spawn(async move { call(&world, who, Request::Rollback(id)).await });
    }

    async fn leftovers(&self, locks: &[(Arc<str>, Timestamp)]) -> Result<Vec<StoredRow>, Failure> {
        let sent = self.world.sent(self.who);
        let format = self.format();
        let ranges = locks.iter().map(|(lock, before)| format.leftovers(lock, *before)).collect();
        match self.call(Request::WithoutHeartbeat(ranges)).await? {
            Reply::Found { mut rows, .. } => {
                self.world.came_to_something(self.who, sent);
                rows.sort_by(|one, other| one.key.cmp(&other.key));
                Ok(rows.iter().map(|row| format.row(&row.key, row)).collect())
            }
            _ => Err(Failure::NotApplied),
        }
    }
}

impl Reach {
    fn format(&self) -> Format {
        self.world.process(self.who).format
    }

    async fn call(&self, request: Request) -> Result<Reply, Failure> {
        call(&self.world, self.who, request).await.map_err(|code| match code {
            Code::AlreadyExists => Failure::Exists,
            Code::PermissionDenied | Code::Unimplemented => Failure::NotApplied,
            code if is_definite(code) => Failure::Refused,
            _ => Failure::Unknown,
        })
    }
}

/// The observer of one slot's acts.
#[derive(Debug)]
pub(crate) struct Eyes {
    pub(crate) world: Arc<World>,
    pub(crate) who: usize,
}

impl Watch for Eyes {
    fn before(&self, act: &Act) {
        self.world.before_act(self.who, act);
    }

    fn after(&self, act: &Act, answer: &Answer) {
        self.world.after_act(self.who, act, answer);
    }
}

fn is_definite(code: Code) -> bool {
    matches!(
        code,
        Code::Aborted
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::OutOfRange
    )
}
