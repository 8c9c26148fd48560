//! Requests to the engine, over a network that isn't to be trusted.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::SmallRng;
use spindle_emulator::engine::{
    Code, Concurrency, Database, Error, Key, KeyPart, KeyRange, Mutation, Read, ReadWriteOptions,
    TimestampBound, TransactionId, Value,
};
use spindle_protocol::{StoredRow, Timestamp, Writer};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::checks::{Committed, Purpose};
use crate::format::Found;
use crate::process::Cut;
use crate::sightings::Sighting;
use crate::world::World;

pub(crate) const TABLE: &str = "locktable";
pub(crate) const LEDGER: &str = "ledger";

/// One remote call.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A strong read of rows by their keys.
    Read(Vec<Arc<str>>),
    /// The first read of a read-write transaction, which begins it.
    Begin { keys: Vec<String>, columns: Vec<&'static str>, concurrency: Concurrency },
    /// The end of one.
    Commit { id: TransactionId, parts: Vec<Part> },
    /// The other end of one.
    Rollback(TransactionId),
    /// The rows from one key to another, where the heartbeat is NULL.
    WithoutHeartbeat(Vec<(String, String)>),
}

/// One transaction's effect on one lock.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) by: usize,
    pub(crate) lock: String,
    pub(crate) purpose: Purpose,
    pub(crate) mutations: Vec<Mutation>,
}

/// The server's answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Found { rows: Vec<Found>, read_at: Timestamp },
    Begun { id: TransactionId, rows: Vec<Found> },
    Committed(Timestamp),
    RolledBack,
}

/// The state of the network and the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) loss: f64,
    pub(crate) outage: Option<Outage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outage {
    /// Connections are refused at once.
    Refused,
    /// Nothing comes back.
    Silent,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Deliver {
        out: Duration,
        back: Duration,
    },
    LoseRequest,
    LoseReply {
        out: Duration,
    },
    Refuse,
    /// Answered as if the row, the table or the session were gone, which is not so.
    DenyExistence,
    /// Applied, and answered with an error that leaves the outcome open.
    FailAfterApplying,
    /// Answered with such an error, and applied long after.
    ApplyLate {
        after: Duration,
    },
    Abort,
}

impl Fate {
    /// Draws how one fares badly; what takes long takes up to one and a half times as long as
    /// `longest`.
    pub(crate) fn bad(
        random: &mut SmallRng,
        longest: Duration,
        (out, back): (Duration, Duration),
    ) -> Fate {
        let long = longest.mul_f64(random.random_range(0.0..1.5));
        match random.random_range(0..10) {
            0 => Fate::Deliver { out: long, back },
            1 => Fate::Deliver { out, back: long },
            2 => Fate::LoseRequest,
            3 => Fate::LoseReply { out },
            4 => Fate::Refuse,
            5 | 6 => Fate::FailAfterApplying,
            7 => Fate::ApplyLate { after: long * 2 },
            8 => Fate::DenyExistence,
            _ => Fate::Abort,
        }
    }
}

/// Draws how long a request is under way to the server and back.
pub(crate) fn delays(random: &mut SmallRng, longest: Duration) -> (Duration, Duration) {
    let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    let mut delay = || {
        let quick = random.random_bool(0.5);
        Duration::from_millis(if quick { 0 } else { random.random_range(0..=longest) })
    };
    (delay(), delay())
}

/// Sends a request; the answer may never come.
pub(crate) async fn call(world: &Arc<World>, who: usize, request: Request) -> Result<Reply, Code> {
    let fate = fate(world, who);
    let commit = match &request {
        Request::Commit { id, .. } => Some(*id),
        _ => None,
    };
    let serving = {
        let world = Arc::clone(world);
        async move { serve(&world, request).await }
    };
    let landed = {
        let world = Arc::clone(world);
        move || {
            if commit.is_some() {
                world.saw(Sighting::AppliedLate);
            }
        }
    };
    let database = world.database.clone();
    carry(fate, serving, move || abort(&database, commit), landed).await
}

/// Aborts the transaction that is to be committed, and says what its sender is told.
pub(crate) fn abort(database: &Database, commit: Option<TransactionId>) -> Code {
    let Some(id) = commit else { return Code::Unavailable };
    database.fail(id, Error::aborted("Transaction aborted by the simulation."));
    Code::Aborted
}

/// Has a request fare as its fate says. Once it is sent it is on its way whether or not its sender
/// lives to hear the answer, which may never come. `landed` is told of one that is applied late.
pub(crate) async fn carry<T: Send + 'static>(
    fate: Fate,
    serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    aborted: impl FnOnce() -> Code + Send + 'static,
    landed: impl FnOnce() + Send + 'static,
) -> Result<T, Code> {
    let (sender, answer) = oneshot::channel();
    tokio::spawn(async move {
        if let Some(answer) = travel(fate, serving, aborted, landed).await {
            // Nobody listens any more if the sender gave up.
            let _ = sender.send(answer);
        }
    });
    match answer.await {
        Ok(answer) => answer,
        Err(_) => std::future::pending().await,
    }
}

async fn travel<T: Send + 'static>(
    fate: Fate,
    serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    aborted: impl FnOnce() -> Code,
    landed: impl FnOnce() + Send + 'static,
) -> Option<Result<T, Code>> {
    match fate {
        Fate::Deliver { out, back } => {
            pass(out).await;
            let reply = serving.await;
            pass(back).await;
            Some(reply)
        }
        Fate::LoseRequest => None,
        Fate::LoseReply { out } => {
            pass(out).await;
            let _ = serving.await;
            None
        }
        Fate::Refuse => Some(Err(Code::Unavailable)),
        Fate::DenyExistence => Some(Err(Code::NotFound)),
        Fate::FailAfterApplying => {
            let _ = serving.await;
            Some(Err(Code::Unavailable))
        }
        Fate::ApplyLate { after } => {
            tokio::spawn(async move {
                sleep(after).await;
                if serving.await.is_ok() {
                    landed();
                }
            });
            Some(Err(Code::Unavailable))
        }
        Fate::Abort => Some(Err(aborted())),
    }
}

async fn pass(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

fn fate(world: &World, who: usize) -> Fate {
    let weather = world.weather();
    let cut = world.process(who).cut();
    let longest = world.plan.longest_lease();
    let fate = world.random(|random| {
        let (out, back) = delays(random, world.plan.delay_max);
        match (weather.outage, cut) {
            (Some(Outage::Refused), _) => return Fate::Refuse,
            (Some(Outage::Silent), _) | (_, Cut::Requests) => return Fate::LoseRequest,
            (None, Cut::Replies) => return Fate::LoseReply { out },
            (None, Cut::No) => {}
        }
        if weather.loss == 0.0 || !random.random_bool(weather.loss) {
            return Fate::Deliver { out, back };
        }
        Fate::bad(random, longest, (out, back))
    });
    if !matches!(fate, Fate::Deliver { .. }) {
        world.fault(who, &fate);
    }
    fate
}

/// Does the server's part of a request.
async fn serve(world: &World, request: Request) -> Result<Reply, Code> {
    let reply = try_serve(world, request).await.map_err(|error| error.code());
    if let Err(Code::Aborted) = reply {
        world.saw(Sighting::Aborted);
    }
    reply
}

const ROW: &[&str] = &["heartbeat", "token", "writer", "lease_ms"];

async fn try_serve(world: &World, request: Request) -> Result<Reply, Error> {
    let database = &world.database;
    match request {
        Request::Read(names) => {
            let read_at = database.read_timestamp(TimestampBound::Strong)?;
            let mut rows = Vec::new();
            for name in names {
                let read = Read::row(TABLE, ROW.to_vec(), key(&name));
                let found = database.read_at(read_at, read).await?;
                rows.extend(row_of(&name, ROW, found));
            }
            Ok(Reply::Found { rows, read_at: timestamp(read_at) })
        }
        Request::Begin { keys, columns, concurrency } => {
            let id = database.begin(&ReadWriteOptions { concurrency, previous: None });
            let mut found = Vec::new();
            for name in keys {
                let read = Read::row(TABLE, columns.clone(), key(&name));
                let rows = database.read(id, read).await?;
                found.extend(row_of(&name, &columns, rows));
            }
            Ok(Reply::Begun { id, rows: found })
        }
        Request::Commit { id, parts } => {
            let mutations = parts.iter().flat_map(|part| part.mutations.iter().cloned());
            let committed = database.commit(id, &mutations.collect::<Vec<_>>()).await?;
            let at = timestamp(committed.timestamp);
            for Part { by, lock, purpose, mutations } in parts {
                world.committed(by, Committed { at, by, lock, purpose, mutations });
            }
            Ok(Reply::Committed(at))
        }
        Request::Rollback(id) => database.rollback(id).map(|()| Reply::RolledBack),
        Request::WithoutHeartbeat(ranges) => {
            let ranges = ranges.iter();
            let keys = ranges.map(|(from, to)| KeyRange { start: key(from), end: key(to) });
            let columns = ["name", "heartbeat"];
            let read = Read { keys: keys.collect(), ..Read::all(TABLE, columns) };
            let read_at = database.read_timestamp(TimestampBound::Strong)?;
            let found = database.read_at(read_at, read).await?;
            let rows = found.into_iter().filter_map(|row| match row.as_slice() {
                [Value::String(name), Value::Null] => row_of(name, &[], vec![Vec::new()]),
                _ => None,
            });
            Ok(Reply::Found { rows: rows.collect(), read_at: timestamp(read_at) })
        }
    }
}

fn row_of(key: &str, columns: &[&'static str], rows: Vec<Vec<Value>>) -> Option<Found> {
    let cells = rows.into_iter().next()?;
    Some(Found { key: key.to_string(), columns: columns.to_vec(), cells })
}

/// The key of a row of the lock table.
pub(crate) fn key(name: &str) -> Key {
    Key(vec![KeyPart::Ascending(name.into())])
}

/// A timestamp as the protocol has it.
pub(crate) fn timestamp(timestamp: spindle_emulator::engine::Timestamp) -> Timestamp {
    Timestamp(i64::try_from(timestamp.nanos()).unwrap_or(i64::MAX))
}

/// A row as it was read.
pub(crate) fn decode(name: &str, columns: &[&str], cells: &[Value]) -> StoredRow {
    let mut row = StoredRow::new(name);
    for (column, cell) in columns.iter().zip(cells) {
        match (*column, cell) {
            ("heartbeat", Value::Timestamp(time)) => row.heartbeat = Some(timestamp(*time)),
            ("token", Value::Timestamp(time)) => row.token = Some(timestamp(*time)),
            ("writer", Value::String(writer)) => row.writer = Writer::from(writer.as_str()),
            ("lease_ms", Value::Int64(lease_ms)) => row.lease_ms = Some(*lease_ms),
            ("info", Value::String(info)) => row.info = Some(info.clone()),
            _ => {}
        }
    }
    row
}
