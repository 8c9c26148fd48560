//! The lock table as the processes of a fleet reach it: on the engine, over a network that isn't to
//! be trusted, in virtual time. Without a client and a socket a world repeats by its seed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt as _;
use spindle::simulation::{Accepted, Failure, Store, reads};
use spindle_emulator::Effect;
use spindle_emulator::engine::{
    Code, Concurrency, Database, KeyRange, Mutation, Read, ReadWriteOptions, TimestampBound,
    TransactionId, Value,
};
use spindle_protocol::{Change, StoredRow, Timestamp};

use super::load::{Asking, Kind, Loads};
use super::plan::FleetPlan;
use crate::coverage::CoverageGoal;
use crate::format::Format;
use crate::machine::lock;
use crate::network_faults::{Delivery, Outage, abort, carry, delays};
use crate::rows::{TABLE, decode, key, timestamp};
use crate::timeline::Timeline;

const COLUMNS: [&str; 6] = ["name", "heartbeat", "token", "writer", "lease_ms", "info"];

/// How requests go at present.
#[derive(Clone, Debug)]
pub(crate) struct NetworkFaults {
    pub(crate) outage: Option<Outage>,
    pub(crate) loss: f64,
    /// For each connection.
    pub(crate) lines: Vec<Line>,
}

/// How requests on one connection go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    pub(crate) cut: Option<Effect>,
    /// Its reads come back so late.
    pub(crate) stale: Option<Duration>,
    /// It commits nothing about a shard.
    pub(crate) is_unable: bool,
}

/// The engine, the way to it, and what has happened so far.
#[derive(Debug)]
pub(crate) struct Network {
    plan: FleetPlan,
    pub(super) database: Database,
    pub(super) timeline: Timeline,
    pub(super) network_faults: Mutex<NetworkFaults>,
    /// How many requests each connection has sent.
    sent: Mutex<Vec<u64>>,
    /// The requests of all that uses the table of each connection.
    pub(super) loads: Loads,
    pages: Mutex<Pages>,
}

/// The rows that were read last of each group. In a big fleet many ask for the same between two
/// commits, and nearly all of a world's time would go into finding them again.
#[derive(Debug, Default)]
struct Pages {
    /// How many commits have begun, and how many of these have ended.
    begun: u64,
    ended: u64,
    /// With the number of commits before.
    rows: BTreeMap<Asked, (u64, Arc<Vec<StoredRow>>)>,
}

/// Keys and ranges of keys.
type Asked = (Vec<String>, Vec<(String, String)>);

impl Pages {
    /// Returns how many commits there were, if none is under way.
    fn commits(&self) -> Option<u64> {
        (self.begun == self.ended).then_some(self.begun)
    }

    fn known(&self, asked: &Asked) -> Option<Arc<Vec<StoredRow>>> {
        let (before, rows) = self.rows.get(asked)?;
        (self.commits() == Some(*before)).then(|| Arc::clone(rows))
    }
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rpc {
    Read,
    Begin,
    Commit,
    Rollback,
}

impl Network {
    pub(super) fn new(plan: &FleetPlan, database: Database, lines: usize, prints: bool) -> Network {
        Network {
            plan: plan.clone(),
            database,
            timeline: Timeline::new(plan.seed, prints),
            network_faults: Mutex::new(NetworkFaults {
                outage: None,
                loss: plan.loss / 20.0,
                lines: vec![Line::default(); lines],
            }),
            sent: Mutex::new(vec![0; lines]),
            loads: Loads::new(lines),
            pages: Mutex::default(),
        }
    }

    /// Returns how many requests this connection has sent.
    pub(super) fn sent(&self, line: usize) -> u64 {
        lock(&self.sent)[line]
    }

    /// Draws how a request goes.
    fn delivery(&self, line: usize, rpc: Rpc, of_shards: bool) -> Delivery {
        let (outage, loss, of_line) = {
            let network_faults = lock(&self.network_faults);
            (network_faults.outage, network_faults.loss, network_faults.lines[line])
        };
        lock(&self.sent)[line] += 1;
        let longest = self.plan.lease;
        let delivery = self.timeline.random(|random| {
            let (out, back) = delays(random, self.plan.delay_max);
            match (outage, of_line.cut) {
                (Some(Outage::Refused), _) => return Delivery::Refuse,
                (Some(Outage::Silent), _) | (_, Some(Effect::Stall)) => {
                    return Delivery::LoseRequest;
                }
                (None, Some(_)) => return Delivery::LoseReply { out },
                (None, None) => {}
            }
            match (rpc, of_line.stale) {
                (Rpc::Read | Rpc::Begin, Some(by)) => return Delivery::Deliver { out, back: by },
                (Rpc::Commit, _) if of_line.is_unable && of_shards => return Delivery::LoseRequest,
                _ => {}
            }
            if loss == 0.0 || !random.random_bool(loss) {
                return Delivery::Deliver { out, back };
            }
            Delivery::bad(random, longest, (out, back))
        });
        self.timeline.count(line, &(rpc, delivery));
        delivery
    }
}

/// The lock table as one connection reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(super) network: Arc<Network>,
    pub(super) line: usize,
}

/// A transaction that was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(TransactionId);

impl Reach {
    /// Sends one request.
    async fn call<T: Send + 'static>(
        &self,
        (rpc, of_shards): (Rpc, bool),
        commit: Option<TransactionId>,
        serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    ) -> Result<T, Code> {
        let delivery = self.network.delivery(self.line, rpc, of_shards);
        let (aborting, landing) = (Arc::clone(&self.network), Arc::clone(&self.network));
        let aborted = move || abort(&aborting.database, commit);
        let landed = move || {
            if commit.is_some() {
                landing.timeline.saw(CoverageGoal::AppliedLate);
            }
        };
        carry(delivery, serving, aborted, landed).await
    }

    async fn page(&self, asked: Asked) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        let network = Arc::clone(&self.network);
        let serving = async move {
            let database = &network.database;
            let at = database.read_timestamp(TimestampBound::Strong).map_err(|it| it.code())?;
            let (before, known) = {
                let pages = lock(&network.pages);
                (pages.commits(), pages.known(&asked))
            };
            if let Some(known) = known {
                return Ok((known.to_vec(), timestamp(at)));
            }
            let keys = asked.0.iter().map(|name| KeyRange::prefix(key(name)));
            let ranges =
                asked.1.iter().map(|(from, to)| KeyRange { start: key(from), end: key(to) });
            let read = Read { keys: keys.chain(ranges).collect(), ..Read::all(TABLE, COLUMNS) };
            let rows = database.read_at(at, read).await.map_err(|error| error.code())?;
            let rows = stored(&COLUMNS, &rows);
            let mut pages = lock(&network.pages);
            if let Some(before) = before
                && pages.commits() == Some(before)
            {
                pages.rows.retain(|_, (of, _)| *of == before);
                pages.rows.insert(asked, (before, Arc::new(rows.clone())));
            }
            Ok((rows, timestamp(at)))
        };
        self.call((Rpc::Read, false), None, serving).await.map_err(failure)
    }

    async fn polls(&self, asked: Asked) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        let rows = asked.0.iter().chain(asked.1.iter().map(|(from, _)| from)).cloned().collect();
        let kind = if asked.1.is_empty() { Kind::Poll } else { Kind::GroupPoll };
        let asking = self.network.loads.read(self.line, kind, rows);
        let found = self.page(asked).await?;
        asking.answered();
        Ok(found)
    }

    /// Begins a transaction by reading the rows of these keys.
    pub(super) async fn begins(
        &self,
        keys: &[String],
        columns: &[&'static str],
        concurrency: Concurrency,
    ) -> Result<(Begun, Vec<StoredRow>), Code> {
        let database = self.network.database.clone();
        let keys = keys.iter().map(|name| KeyRange::prefix(key(name))).collect();
        let columns = columns.to_vec();
        let serving = async move {
            let id = database.begin(&ReadWriteOptions { concurrency, previous: None });
            let read = Read { keys, ..Read::all(TABLE, columns.iter().copied()) };
            let rows = database.read(id, read).await.map_err(|error| error.code())?;
            Ok((Begun(id), stored(&columns, &rows)))
        };
        self.call((Rpc::Begin, false), None, serving).await
    }

    pub(super) async fn commits(
        &self,
        Begun(id): Begun,
        mutations: Vec<Mutation>,
        of_shards: bool,
    ) -> Result<Timestamp, Code> {
        let (network, line) = (Arc::clone(&self.network), self.line);
        let serving = async move {
            lock(&network.pages).begun += 1;
            let committed = network.database.commit(id, &mutations).await;
            lock(&network.pages).ended += 1;
            let at = timestamp(committed.map_err(|error| error.code())?.timestamp);
            network.timeline.count(line, &at.0);
            Ok(at)
        };
        self.call((Rpc::Commit, of_shards), Some(id), serving).await
    }
}

impl Store for Reach {
    type Transaction = (Begun, Option<Asking>);

    async fn read(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
    ) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        let keys = keys.iter().map(ToString::to_string).collect();
        self.polls((keys, ranges)).await
    }

    async fn begin(
        &self,
        changes: &[(Arc<str>, Change)],
    ) -> Result<(Self::Transaction, Vec<StoredRow>), Failure> {
        let asking = self.network.loads.transaction(self.line, changes);
        let (keys, columns) = reads(changes);
        let columns = columns.into_iter().map(spindle_protocol::Column::name);
        let columns: Vec<_> = std::iter::once("name").chain(columns).collect();
        let begun = self.begins(&keys, &columns, Concurrency::Optimistic).await;
        let (begun, rows) = begun.map_err(failure)?;
        Ok(((begun, asking), rows))
    }

    async fn commit(
        &self,
        (begun, mut asking): Self::Transaction,
        changes: Vec<Accepted>,
    ) -> Result<Timestamp, Failure> {
        asking.iter_mut().for_each(Asking::sends);
        let of_shards = changes.iter().any(|(lock, ..)| self.network.plan.is_piece(lock));
        // As this version writes, which looks at nothing that was found.
        let found = HashMap::new();
        let writes = changes.iter().flat_map(|change| Format::Present.writes(change, &found));
        let committed = self.commits(begun, writes.collect(), of_shards).await;
        let at = committed.map_err(failure)?;
        asking.into_iter().for_each(Asking::answered);
        Ok(at)
    }

    fn roll_back(&self, (Begun(id), asking): Self::Transaction) {
        // All of its changes were answered, with a refusal.
        asking.into_iter().for_each(Asking::answered);
        let (reach, database) = (self.clone(), self.network.database.clone());
        let serving = async move { database.rollback(id).map_err(|error| error.code()) };
        tokio::spawn(async move { reach.call((Rpc::Rollback, false), None, serving).await });
    }

    async fn leftovers(&self, locks: &[(Arc<str>, Timestamp)]) -> Result<Vec<StoredRow>, Failure> {
        let ranges = locks.iter().map(|(lock, at)| Format::Present.leftovers(lock, *at));
        let rows = locks.iter().map(|(lock, _)| lock.to_string()).collect();
        let asking = self.network.loads.read(self.line, Kind::Sweep, rows);
        let (found, _) = self.page((Vec::new(), ranges.collect())).await?;
        asking.answered();
        Ok(found)
    }
}

/// The rows as they were read; the first of the columns is the name.
fn stored(columns: &[&'static str], rows: &[Vec<Value>]) -> Vec<StoredRow> {
    let named = rows.iter().filter_map(|row| match row.first() {
        Some(Value::String(name)) => Some(decode(name, columns, row)),
        _ => None,
    });
    named.collect()
}

fn failure(code: Code) -> Failure {
    match code {
        Code::AlreadyExists => Failure::Exists,
        Code::Aborted | Code::NotFound | Code::FailedPrecondition => Failure::Refused,
        _ => Failure::Unknown,
    }
}
