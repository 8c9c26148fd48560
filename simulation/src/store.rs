//! The lock table on the engine: the requests of the shipped carrier, without its client.

use std::sync::Arc;

use spindle::simulation::{Accepted, Failure, Store, Watch};
use spindle_emulator::engine::{
    Cell, Code, Concurrency, KeyRange, Mutation, TransactionId, Value, WriteKind,
};
use spindle_protocol::{Act, Answer, Change, Column, StoredRow, Timestamp, Write};

use crate::checks::Purpose;
use crate::network::{Part, Reply, Request, TABLE, call, key};
use crate::sightings::Sighting;
use crate::world::World;

/// The lock table as one process reaches it.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) world: Arc<World>,
    /// The first of the seats in this process.
    pub(crate) who: usize,
}

impl Store for Reach {
    type Transaction = TransactionId;

    async fn read(&self, keys: Vec<Arc<str>>) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        if keys.len() > 1 {
            self.world.saw(Sighting::ReadTogether);
        }
        self.world.sent(self.who);
        match self.call(Request::Read(keys)).await? {
            Reply::Found { rows, read_at } => Ok((rows, read_at)),
            _ => Err(Failure::NotApplied),
        }
    }

    async fn begin(
        &self,
        keys: Vec<String>,
        columns: Vec<Column>,
        beats: bool,
    ) -> Result<(TransactionId, Vec<StoredRow>), Failure> {
        if !beats {
            self.world.sent(self.who);
        }
        let concurrency = Concurrency::Optimistic;
        match self.call(Request::Begin { keys, columns, concurrency }).await? {
            Reply::Begun { id, rows } => Ok((id, rows)),
            _ => Err(Failure::NotApplied),
        }
    }

    async fn commit(
        &self,
        id: TransactionId,
        changes: Vec<Accepted>,
    ) -> Result<Timestamp, Failure> {
        if changes.len() > 1 {
            self.world.saw(Sighting::WrittenTogether);
        }
        if !changes.iter().all(|(_, change, _)| matches!(change, Change::Heartbeat { .. })) {
            self.world.sent(self.who);
        }
        let sweeps = changes.iter().any(|(_, change, _)| matches!(change, Change::Sweep { .. }));
        let part = |(lock, change, writes): Accepted| Part {
            by: self.world.seat_of(self.who, &lock),
            lock: lock.to_string(),
            purpose: Purpose::of(&change),
            mutations: writes.into_iter().map(mutation).collect(),
        };
        let parts = changes.into_iter().map(part).collect();
        match self.call(Request::Commit { id, parts }).await? {
            Reply::Committed(at) => {
                if sweeps {
                    self.world.saw(Sighting::Swept);
                }
                Ok(at)
            }
            _ => Err(Failure::Unknown),
        }
    }

    fn roll_back(&self, id: TransactionId) {
        let (world, who) = (Arc::clone(&self.world), self.who);
        world.sent(who);
        tokio::spawn(async move { call(&world, who, Request::Rollback(id)).await });
    }

    async fn leftovers(&self, ranges: Vec<(String, String)>) -> Result<Vec<StoredRow>, Failure> {
        self.world.sent(self.who);
        match self.call(Request::WithoutHeartbeat(ranges)).await? {
            Reply::Found { mut rows, .. } => {
                rows.sort_by(|one, other| one.key.cmp(&other.key));
                Ok(rows)
            }
            _ => Err(Failure::NotApplied),
        }
    }
}

impl Reach {
    async fn call(&self, request: Request) -> Result<Reply, Failure> {
        call(&self.world, self.who, request).await.map_err(|code| match code {
            Code::AlreadyExists => Failure::Exists,
            Code::PermissionDenied | Code::Unimplemented => Failure::NotApplied,
            code if is_definite(code) => Failure::Refused,
            _ => Failure::Unknown,
        })
    }
}

/// Who looks at the acts of one seat.
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

/// A write as the engine takes it.
pub(crate) fn mutation(write: Write) -> Mutation {
    let kind = match write.kind {
        spindle_protocol::WriteKind::Insert => WriteKind::Insert,
        spindle_protocol::WriteKind::Update => WriteKind::Update,
        spindle_protocol::WriteKind::InsertOrUpdate => WriteKind::InsertOrUpdate,
        spindle_protocol::WriteKind::Delete => {
            let keys = vec![KeyRange::prefix(key(&write.key))];
            return Mutation::Delete { table: TABLE.to_string(), keys };
        }
    };
    let cells = write.cells.into_iter().map(|(column, cell)| {
        let cell = match cell {
            spindle_protocol::Cell::CommitTimestamp => Cell::CommitTimestamp,
            spindle_protocol::Cell::Epoch => spindle_emulator::engine::Timestamp::EPOCH.into(),
            spindle_protocol::Cell::Null => Cell::Value(Value::Null),
            spindle_protocol::Cell::Text(text) => text.as_str().into(),
            spindle_protocol::Cell::Milliseconds(milliseconds) => milliseconds.into(),
        };
        (column.name(), cell)
    });
    let name = [("name", Cell::from(write.key.as_str()))];
    Mutation::write(kind, TABLE, name.into_iter().chain(cells))
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
