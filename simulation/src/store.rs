//! The lock table on the engine: the transactions of the shipped table, without its client.

use std::sync::Arc;
use std::time::Duration;

use spindle::simulation::Store;
use spindle_emulator::engine::{Cell, Code, Concurrency, KeyRange, Mutation, Value, WriteKind};
use spindle_protocol::{
    Act, Answer, Change, Holder, Reads, Timestamp, Write, is_takeover_key, takeover_keys,
};
use tokio::time::timeout;

use crate::checks::Purpose;
use crate::network::{Reply, Request, TABLE, call, key};
use crate::sightings::Sighting;
use crate::world::World;

/// The lock row as one instance reaches it.
pub(crate) struct Seat {
    pub(crate) world: Arc<World>,
    pub(crate) who: usize,
    pub(crate) lock: String,
    pub(crate) lease: Duration,
}

impl Store for Seat {
    async fn carry_out(&self, act: Act, limit: Duration) -> (Answer, bool) {
        self.world.before_act(self.who, &act);
        let holder = Holder { lease: self.lease, info: None };
        let (answer, answered) = match (act.change(&holder, None), &act) {
            (Some(change), _) => self.carry_out_change(change, Purpose::of(&act), limit).await,
            (None, Act::Sweep { before }) => self.sweep(*before, limit).await,
            (None, _) => self.observe(limit).await,
        };
        self.world.after_act(self.who, &act, &answer);
        (answer, answered)
    }
}

impl Seat {
    async fn observe(&self, limit: Duration) -> (Answer, bool) {
        match timeout(limit, self.call(false, Request::Observe(self.lock.clone()))).await {
            Ok(Ok(Reply::Observed(observation))) => (Answer::Observed(observation), true),
            _ => (Answer::NotApplied, false),
        }
    }

    async fn sweep(&self, before: Timestamp, limit: Duration) -> (Answer, bool) {
        let (from, to) = takeover_keys(&self.lock, before);
        let request = Request::WithoutHeartbeat { from, to };
        let Ok(Ok(Reply::Names(mut keys))) = timeout(limit, self.call(false, request)).await else {
            return (Answer::NotApplied, false);
        };
        // The range holds other locks' takeover rows as well, of `job_1` among those of `job` (I6).
        keys.retain(|key| is_takeover_key(&self.lock, key));
        if keys.is_empty() {
            return (Answer::Swept { all: true }, true);
        }
        let sweep = Change::Sweep { keys };
        match self.carry_out_change(sweep, Purpose::Sweep, limit).await {
            (Answer::Applied { .. }, answered) => {
                self.world.saw(Sighting::Swept);
                (Answer::Swept { all: true }, answered)
            }
            (Answer::Rejected(_), answered) => (Answer::Swept { all: true }, answered),
            failed => failed,
        }
    }

    /// Reads what the change has to be judged by, and commits what it writes.
    async fn carry_out_change(
        &self,
        change: Change,
        purpose: Purpose,
        limit: Duration,
    ) -> (Answer, bool) {
        let mut may_commit = false;
        let beats = matches!(purpose, Purpose::Heartbeat(_));
        let work = async {
            let Reads { keys, columns } = change.reads(&self.lock);
            let concurrency = Concurrency::Optimistic;
            let begin = Request::Begin { keys, columns, concurrency };
            let Reply::Begun { id, rows } = self.call(beats, begin).await? else {
                return Err(Code::Internal);
            };
            match change.judge(&self.lock, &rows) {
                Ok(writes) => {
                    may_commit = true;
                    let lock = self.lock.clone();
                    let mutations = writes.into_iter().map(mutation).collect();
                    let commit = Request::Commit { id, lock, purpose, mutations };
                    match self.call(beats, commit).await? {
                        Reply::Committed(at) => Ok(Answer::Applied { at }),
                        _ => Err(Code::Internal),
                    }
                }
                Err(rejection) => {
                    let (world, who) = (Arc::clone(&self.world), self.who);
                    world.sent(who);
                    tokio::spawn(async move { call(&world, who, Request::Rollback(id)).await });
                    Ok(Answer::Rejected(rejection))
                }
            }
        };
        match timeout(limit, work).await {
            Ok(Ok(answer)) => (answer, true),
            Ok(Err(Code::AlreadyExists)) => (Answer::Rejected(change.already_exists()), true),
            Ok(Err(code)) if may_commit && !is_definite(code) => (Answer::Unknown, false),
            Ok(Err(code)) => (Answer::NotApplied, code == Code::Aborted),
            Err(_) if may_commit => (Answer::Unknown, false),
            Err(_) => (Answer::NotApplied, false),
        }
    }

    async fn call(&self, beats: bool, request: Request) -> Result<Reply, Code> {
        if !beats {
            self.world.sent(self.who);
        }
        call(&self.world, self.who, request).await
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
            | Code::AlreadyExists
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unimplemented
    )
}
