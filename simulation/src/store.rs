//! The lock table on the engine: the transactions of the shipped table, without its client.

use std::sync::Arc;
use std::time::Duration;

use spindle::simulation::Store;
use spindle_emulator::engine::{Cell, Code, Concurrency, KeyRange, Mutation, WriteKind};
use spindle_protocol::{Act, Answer, Rejection, Row, Seen, Timestamp, Writer, takeover_key};
use tokio::time::timeout;

use crate::checks::Purpose;
use crate::network::{Reply, Request, TABLE, call, key};
use crate::sightings::Sighting;
use crate::world::World;

const BEAT_COLUMNS: &[&str] = &["heartbeat", "token", "writer"];
const TERM_COLUMNS: &[&str] = &["token", "writer"];

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
        let (answer, answered) = match act.clone() {
            Act::Observe => self.observe(limit).await,
            Act::Insert { writer } => self.insert(&writer, limit).await,
            Act::Takeover { seen, writer, over_leftover } => {
                self.takeover(seen, &writer, over_leftover, limit).await
            }
            Act::Heartbeat { token, writer } => {
                let beat = self.write(vec![("heartbeat", Cell::CommitTimestamp)]);
                let purpose = Purpose::Heartbeat { token, writer: writer.clone() };
                self.in_term(token, &writer, purpose, beat, limit).await
            }
            Act::Release { token, writer, successor } => {
                let release = self.write(released(successor.as_ref()));
                let purpose = Purpose::Release { token, writer: writer.clone() };
                self.in_term(token, &writer, purpose, release, limit).await
            }
            Act::Sweep { before } => match timeout(limit, self.sweep(before, limit)).await {
                Ok(swept) => swept,
                Err(_) => (Answer::Unknown, false),
            },
        };
        self.world.after_act(self.who, &act, &answer);
        (answer, answered)
    }
}

impl Seat {
    async fn observe(&self, limit: Duration) -> (Answer, bool) {
        match timeout(limit, self.call(Request::Observe(self.lock.clone()))).await {
            Ok(Ok(Reply::Observed(observation))) => (Answer::Observed(observation), true),
            _ => (Answer::NotApplied, false),
        }
    }

    async fn insert(&self, writer: &Writer, limit: Duration) -> (Answer, bool) {
        let begin = self.begin_term(WriteKind::Insert, writer);
        let outcome = self
            .transact(&self.lock, BEAT_COLUMNS, Purpose::Insert, limit, |row, _| match row {
                None => Ok(vec![begin]),
                Some(row) => Err(changed(&row)),
            })
            .await;
        already_exists_means(outcome, Rejection::Changed(None))
    }

    async fn takeover(
        &self,
        seen: Row,
        writer: &Writer,
        over_leftover: bool,
        limit: Duration,
    ) -> (Answer, bool) {
        let kind = if over_leftover { WriteKind::InsertOrUpdate } else { WriteKind::Insert };
        let cells = [
            ("name", Cell::from(takeover_key(&self.lock, seen.token))),
            ("token", Cell::CommitTimestamp),
            ("writer", writer.as_str().into()),
        ];
        let arbiter = Mutation::write(kind, TABLE, cells);
        let begin = self.begin_term(WriteKind::Update, writer);
        let purpose = Purpose::Takeover { seen: seen.clone(), over_leftover };
        let outcome = self
            .transact(&self.lock, BEAT_COLUMNS, purpose, limit, |row, _| match row {
                Some(row) if row.is_same_beat(&seen) => Ok(vec![arbiter, begin]),
                Some(row) => Err(changed(&row)),
                None => Err(Rejection::Changed(None)),
            })
            .await;
        already_exists_means(outcome, Rejection::TakeoverRowExists)
    }

    async fn in_term(
        &self,
        token: Timestamp,
        writer: &Writer,
        purpose: Purpose,
        write: Mutation,
        limit: Duration,
    ) -> (Answer, bool) {
        self.transact(&self.lock, TERM_COLUMNS, purpose, limit, |row, _| match row {
            Some(row) if row.token == token && row.writer == *writer => Ok(vec![write]),
            Some(row) => Err(changed(&row)),
            None => Err(Rejection::Changed(None)),
        })
        .await
    }

    async fn sweep(&self, before: Timestamp, limit: Duration) -> (Answer, bool) {
        let from = takeover_key(&self.lock, Timestamp(1_000_000_000_000_000_000));
        let to = takeover_key(&self.lock, before);
        let Ok(Reply::Names(names)) = self.call(Request::WithoutHeartbeat { from, to }).await
        else {
            return (Answer::NotApplied, false);
        };
        // The range holds other locks' takeover rows as well, of `job_1` among those of `job` (I6).
        for name in names.into_iter().filter(|name| is_takeover_row(&self.lock, name)) {
            let keys = vec![KeyRange::prefix(key(&name))];
            let delete = Mutation::Delete { table: TABLE.to_string(), keys };
            let (answer, answered) = self
                .transact(&name, &["heartbeat"], Purpose::Sweep, limit, |found, without| {
                    if found.is_some() && without {
                        Ok(vec![delete])
                    } else {
                        Err(Rejection::Changed(None))
                    }
                })
                .await;
            match answer {
                Answer::Applied { .. } => self.world.saw(Sighting::Swept),
                Answer::Rejected(_) => {}
                _ => return (Answer::NotApplied, answered),
            }
        }
        (Answer::Applied { at: before }, true)
    }

    /// Reads one row, lets `decide` turn it into writes or a refusal, and commits the writes.
    async fn transact(
        &self,
        name: &str,
        columns: &'static [&'static str],
        purpose: Purpose,
        limit: Duration,
        decide: impl FnOnce(Option<Row>, bool) -> Result<Vec<Mutation>, Rejection>,
    ) -> (Answer, bool) {
        let mut may_commit = false;
        let work = async {
            let concurrency = Concurrency::Optimistic;
            let begin = Request::Begin { name: name.to_string(), columns, concurrency };
            let Reply::Begun { id, row, without_heartbeat } = self.call(begin).await? else {
                return Err(Code::Internal);
            };
            match decide(row, without_heartbeat) {
                Ok(mutations) => {
                    may_commit = true;
                    let lock = self.lock.clone();
                    let commit = Request::Commit { id, lock, purpose, mutations };
                    match self.call(commit).await? {
                        Reply::Committed(at) => Ok(Answer::Applied { at }),
                        _ => Err(Code::Internal),
                    }
                }
                Err(rejection) => {
                    let (world, who) = (Arc::clone(&self.world), self.who);
                    tokio::spawn(async move { call(&world, who, Request::Rollback(id)).await });
                    Ok(Answer::Rejected(rejection))
                }
            }
        };
        match timeout(limit, work).await {
            Ok(Ok(answer)) => (answer, true),
            Ok(Err(Code::AlreadyExists)) => (Answer::Rejected(Rejection::TakeoverRowExists), true),
            Ok(Err(code)) if may_commit && !is_definite(code) => (Answer::Unknown, false),
            Ok(Err(code)) => (Answer::NotApplied, code == Code::Aborted),
            Err(_) if may_commit => (Answer::Unknown, false),
            Err(_) => (Answer::NotApplied, false),
        }
    }

    async fn call(&self, request: Request) -> Result<Reply, Code> {
        call(&self.world, self.who, request).await
    }

    fn begin_term(&self, kind: WriteKind, writer: &Writer) -> Mutation {
        let lease_ms = i64::try_from(self.lease.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        let cells = [
            ("name", Cell::from(self.lock.as_str())),
            ("heartbeat", Cell::CommitTimestamp),
            ("token", Cell::CommitTimestamp),
            ("writer", writer.as_str().into()),
            ("lease_ms", lease_ms.into()),
        ];
        Mutation::write(kind, TABLE, cells)
    }

    fn write(&self, cells: Vec<(&str, Cell)>) -> Mutation {
        let name = [("name", Cell::from(self.lock.as_str()))];
        Mutation::write(WriteKind::Update, TABLE, name.into_iter().chain(cells))
    }
}

fn released(successor: Option<&(String, Duration)>) -> Vec<(&'static str, Cell)> {
    let next = successor.map_or_else(Writer::nobody, |(id, _)| Writer::successor(id));
    let grace = successor.and_then(|(_, grace)| i64::try_from(grace.as_millis()).ok());
    vec![
        ("heartbeat", spindle_emulator::engine::Timestamp::EPOCH.into()),
        ("token", Cell::CommitTimestamp),
        ("writer", next.as_str().into()),
        ("lease_ms", grace.into()),
    ]
}

fn is_takeover_row(lock: &str, key: &str) -> bool {
    key.strip_prefix(lock)
        .and_then(|rest| rest.strip_prefix('_'))
        .is_some_and(|digits| digits.len() == 19 && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn already_exists_means(outcome: (Answer, bool), rejection: Rejection) -> (Answer, bool) {
    match outcome {
        (Answer::Rejected(Rejection::TakeoverRowExists), _) => (Answer::Rejected(rejection), true),
        outcome => outcome,
    }
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

fn changed(row: &Row) -> Rejection {
    Rejection::Changed(Some(Seen { token: row.token, writer: row.writer.clone() }))
}
