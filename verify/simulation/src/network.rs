//! Requests to the engine, over a network that isn't to be trusted.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle_emulator::engine::{
    Code, Concurrency, Error, KeyRange, Mutation, Read, ReadWriteOptions, TimestampBound,
    TransactionId, Value,
};
use spindle_protocol::Timestamp;
use tokio::time::sleep;

use crate::checks::{Committed, Purpose};
use crate::coverage::CoverageGoal;
use crate::format::Found;
use crate::network_faults::{Delivery, Outage, abort, carry, delays};
use crate::process::Cut;
use crate::rows::{TABLE, key, timestamp};
use crate::world::World;

/// One remote call.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A strong read of rows by their keys.
    Read(Vec<Arc<str>>),
    /// The first read of a read-write transaction, which begins it.
    Begin { keys: Vec<String>, columns: Vec<&'static str>, concurrency: Concurrency },
    /// The end of one.
    Commit { id: TransactionId, parts: Vec<LockEffect> },
    /// The other end of one.
    Rollback(TransactionId),
    /// The rows from one key to another, where the heartbeat is NULL.
    WithoutHeartbeat(Vec<(String, String)>),
}

/// One transaction's effect on one lock.
#[derive(Clone, Debug)]
pub(crate) struct LockEffect {
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

/// Sends a request; the answer may never come.
pub(crate) async fn call(world: &Arc<World>, who: usize, request: Request) -> Result<Reply, Code> {
    let delivery = delivery(world, who);
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
                world.saw(CoverageGoal::AppliedLate);
            }
        }
    };
    let database = world.database.clone();
    carry(delivery, serving, move || abort(&database, commit), landed).await
}

fn delivery(world: &World, who: usize) -> Delivery {
    let network_faults = world.network_faults();
    let cut = world.process(who).cut();
    let longest = world.plan.longest_lease();
    let delivery = world.random(|random| {
        let (out, back) = delays(random, world.plan.delay_max);
        match (network_faults.outage, cut) {
            (Some(Outage::Refused), _) => return Delivery::Refuse,
            (Some(Outage::Silent), _) | (_, Cut::Requests) => return Delivery::LoseRequest,
            (None, Cut::Replies) => return Delivery::LoseReply { out },
            (None, Cut::No) => {}
        }
        if network_faults.loss == 0.0 || !random.random_bool(network_faults.loss) {
            return Delivery::Deliver { out, back };
        }
        Delivery::bad(random, longest, (out, back))
    });
    if !matches!(delivery, Delivery::Deliver { .. }) {
        world.fault(who, &delivery);
    }
    delivery
}

/// Does the server's part of a request.
async fn serve(world: &World, request: Request) -> Result<Reply, Code> {
    let reply = try_serve(world, request).await.map_err(|error| error.code());
    if let Err(Code::Aborted) = reply {
        world.saw(CoverageGoal::Aborted);
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
            for LockEffect { by, lock, purpose, mutations } in parts {
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

/// Keeps the server's faults as the world has them.
pub(crate) async fn follow_faults(world: Arc<World>) {
    let Some(server) = &world.server else { return };
    let mut last = None;
    loop {
        let network_faults = world.network_faults();
        let cuts: Vec<Cut> = world.processes().iter().map(|process| process.cut()).collect();
        let now = (network_faults.outage, network_faults.loss.to_bits(), cuts.clone());
        if last.as_ref() != Some(&now) {
            server.inject(network_faults.outage, &cuts);
            if network_faults.loss > 0.0 {
                let seed = world.random(|random| random.random());
                server.inject_loss(world.plan.longest_lease(), network_faults.loss, seed);
            }
            last = Some(now);
        }
        sleep(Duration::from_millis(20)).await;
    }
}
