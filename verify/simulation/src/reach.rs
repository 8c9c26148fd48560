//! The requests of one process: those of the shipped batcher, and of fenced writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spindle::simulation::{Accepted, Failure, Store};
use spindle::{Term, simulation};
use spindle_emulator::engine::{
    Cell, Code, Concurrency, KeyRange, Mutation, Read, ReadWriteOptions, TransactionId, Value,
    WriteKind,
};
use spindle_judge::Outcome;
use spindle_protocol::{Change, Column, StoredRow, TermId, Timestamp, Writer};
use tokio::time::sleep;

use crate::checks::{Effect, Purpose};
use crate::coverage::CoverageGoal;
use crate::flow::Flow;
use crate::load::{Asking, Kind};
use crate::machine::lock;
use crate::network::{Asked, COLUMNS, Network, Rpc};
use crate::network_faults::{abort, carry};
use crate::rows::{LEDGER, TABLE, decode, key, mutation, timestamp};

/// The lock table as one process reaches it, by one of its flows.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    network: Arc<Network>,
    line: usize,
    flow: Arc<Flow>,
    /// Its number among those that took the place of each other, and that of the one in use.
    number: u64,
    in_use: Arc<AtomicU64>,
}

/// A transaction that was begun.
#[derive(Debug)]
pub(crate) struct Begun {
    id: TransactionId,
    found: Vec<StoredRow>,
    asking: Option<Asking>,
}

impl Store for Reach {
    type Transaction = Begun;

    async fn read(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
    ) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        if keys.len() > 1 {
            self.network.saw(CoverageGoal::ReadTogether);
        }
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let kind = if ranges.is_empty() { Kind::Poll } else { Kind::GroupPoll };
        let rows = keys.iter().chain(ranges.iter().map(|(from, _)| from)).cloned().collect();
        let asking = self.network.loads.read(self.line, kind, rows);
        let found = self.page((keys, ranges), kind == Kind::GroupPoll).await?;
        asking.answered();
        Ok(found)
    }

    async fn begin(
        &self,
        changes: &[(Arc<str>, Change)],
    ) -> Result<(Self::Transaction, Vec<StoredRow>), Failure> {
        let asking = self.network.loads.transaction(self.line, changes);
        let begun = self.begins(changes, Concurrency::Optimistic).await.map_err(failure)?;
        let rows = begun.found.clone();
        Ok((Begun { asking, ..begun }, rows))
    }

    async fn commit(&self, mut begun: Begun, changes: Vec<Accepted>) -> Result<Timestamp, Failure> {
        if changes.len() > 1 {
            self.network.saw(CoverageGoal::WrittenTogether);
        }
        begun.asking.iter_mut().for_each(Asking::sends);
        let effect = |accepted: &Accepted| Effect {
            by: Some(self.line),
            lock: accepted.0.to_string(),
            purpose: Purpose::of(&accepted.1),
            mutations: accepted.2.iter().map(mutation).collect(),
        };
        let effects = changes.iter().map(effect).collect();
        let at = self.commits(begun.id, effects).await.map_err(failure)?;
        begun.asking.into_iter().for_each(Asking::answered);
        Ok(at)
    }

    fn roll_back(&self, Begun { id, mut asking, .. }: Begun) {
        asking.iter_mut().for_each(Asking::sends);
        // All of its changes were answered, with a refusal.
        asking.into_iter().for_each(Asking::answered);
        let (reach, database) = (self.clone(), self.network.database.clone());
        let serving = async move { database.rollback(id).map_err(|error| error.code()) };
        tokio::spawn(async move { reach.call(Rpc::Rollback, None, &[], serving).await });
    }

    async fn connect(&self) -> Result<Reach, Failure> {
        if !self.network.reconnects() {
            return std::future::pending().await;
        }
        let number = self.in_use.load(Ordering::Relaxed) + 1;
        let in_use = Arc::clone(&self.in_use);
        let fresh = Reach { number, in_use, ..Reach::new(&self.network, self.line) };
        // It has its session then.
        fresh.send(Rpc::Connect, None, &[], async { Ok(()) }).await.map_err(failure)?;
        Ok(fresh)
    }
}

impl Reach {
    /// Opens a flow of this process.
    pub(crate) fn new(network: &Arc<Network>, line: usize) -> Reach {
        let flow = network.flows.open(line);
        Reach { network: Arc::clone(network), line, flow, number: 0, in_use: Arc::default() }
    }

    /// Sends one request, which may commit these effects, and notes what that says of its flow.
    async fn call<T: Send + 'static>(
        &self,
        rpc: Rpc,
        commit: Option<TransactionId>,
        effects: &[Effect],
        serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    ) -> Result<T, Code> {
        if self.in_use.fetch_max(self.number, Ordering::Relaxed) < self.number {
            self.network.saw(CoverageGoal::FlowSwitched);
        }
        let reply = self.send(rpc, commit, effects, serving).await;
        if self.in_use.load(Ordering::Relaxed) > self.number {
            self.network.saw(CoverageGoal::AnsweredAfterSwitch);
        }
        reply
    }

    /// Sends one request, which may commit these effects.
    async fn send<T: Send + 'static>(
        &self,
        rpc: Rpc,
        commit: Option<TransactionId>,
        effects: &[Effect],
        serving: impl Future<Output = Result<T, Code>> + Send + 'static,
    ) -> Result<T, Code> {
        let delivery = self.network.delivery(self.line, rpc, effects);
        let [served, aborting, landing] = [(); 3].map(|()| Arc::clone(&self.network));
        let serving = async move {
            served.capacity.serve(rpc).await;
            let reply = serving.await;
            if let Err(Code::Aborted) = reply {
                served.saw(CoverageGoal::Aborted);
            }
            reply
        };
        let aborted = move || abort(&aborting.database, commit);
        let landed = move || {
            if commit.is_some() {
                landing.saw(CoverageGoal::AppliedLate);
            }
        };
        carry((Arc::clone(&self.flow), delivery), serving, aborted, landed).await
    }

    async fn page(
        &self,
        asked: Asked,
        is_kept: bool,
    ) -> Result<(Vec<StoredRow>, Timestamp), Failure> {
        let network = Arc::clone(&self.network);
        let serving = async move {
            let at = network.read_timestamp();
            let (before, known) = {
                let pages = lock(&network.pages);
                (pages.commits(), pages.known(&asked).filter(|_| is_kept))
            };
            if let Some(known) = known {
                return Ok((known.to_vec(), timestamp(at)));
            }
            let keys = asked.0.iter().map(|name| KeyRange::prefix(key(name)));
            let ranges =
                asked.1.iter().map(|(from, to)| KeyRange { start: key(from), end: key(to) });
            let read = Read { keys: keys.chain(ranges).collect(), ..Read::all(TABLE, COLUMNS) };
            let rows = network.database.read_at(at, read).await.map_err(|error| error.code())?;
            let rows: Vec<StoredRow> =
                named(&rows).map(|(name, row)| decode(name, &COLUMNS, row)).collect();
            if is_kept {
                lock(&network.pages).keep(asked, before, &rows);
            }
            Ok((rows, timestamp(at)))
        };
        self.call(Rpc::Read, None, &[], serving).await.map_err(failure)
    }

    /// Begins a transaction by reading the rows by which these changes are judged.
    async fn begins(
        &self,
        changes: &[(Arc<str>, Change)],
        concurrency: Concurrency,
    ) -> Result<Begun, Code> {
        let database = self.network.database.clone();
        let (keys, columns) = simulation::reads(changes);
        let columns = columns.into_iter().map(Column::name);
        let columns: Vec<_> = std::iter::once("name").chain(columns).collect();
        let serving = async move {
            let id = database.begin(&ReadWriteOptions { concurrency, previous: None });
            let prefixes = keys.iter().map(|name| KeyRange::prefix(key(name)));
            let all = Read::all(TABLE, columns.iter().copied());
            let read = Read { keys: prefixes.collect(), ..all };
            let rows = database.read(id, read).await.map_err(|error| error.code())?;
            Ok((id, named(&rows).map(|(name, row)| decode(name, &columns, row)).collect()))
        };
        let (id, found) = self.call(Rpc::Begin, None, &[], serving).await?;
        Ok(Begun { id, found, asking: None })
    }

    async fn commits(&self, id: TransactionId, effects: Vec<Effect>) -> Result<Timestamp, Code> {
        let network = Arc::clone(&self.network);
        let committing = effects.clone();
        let serving =
            async move { network.commit(id, committing).await.map_err(|error| error.code()) };
        self.call(Rpc::Commit, Some(id), &effects, serving).await
    }

    /// Writes under a term by no rule but its fence, whether or not the term is over here, and
    /// thinks for so long before the commit. Returns what the writer is told, and when the write was
    /// committed.
    pub(crate) async fn write(
        &self,
        term: &Term,
        serial: i64,
        think: Duration,
    ) -> (Outcome, Option<Timestamp>) {
        let writer = Writer::from(simulation::writer(term));
        let token = Timestamp(term.token().as_nanoseconds().cast_signed());
        let id = TermId { token, writer };
        let fence = Change::Fence { term: id.clone() };
        let lock = term.lock();
        // As the shipped fence reads. A transaction that stays open must hold up no heartbeat.
        let changes = [(lock.into(), fence.clone())];
        let begun = self.begins(&changes, Concurrency::Pessimistic).await;
        let Ok(begun) = begun else { return (Outcome::NotSent, None) };
        if fence.judge(lock, &begun.found).is_err() {
            self.network.saw(CoverageGoal::FencedOff);
            // An open transaction would hold the next owner up.
            self.roll_back(begun);
            return (Outcome::Fenced, None);
        }
        sleep(think).await;
        let cells = [("serial", Cell::from(serial)), ("lock_name", lock.into())];
        let effect = Effect {
            by: Some(self.line),
            lock: lock.to_string(),
            purpose: Purpose::Fenced(id),
            mutations: vec![Mutation::write(WriteKind::InsertOrUpdate, LEDGER, cells)],
        };
        match self.commits(begun.id, vec![effect]).await {
            Ok(at) => {
                self.network.saw(CoverageGoal::FencedWrite);
                (Outcome::Committed, Some(at))
            }
            Err(Code::Aborted) => (Outcome::NotSent, None),
            Err(_) => (Outcome::Unknown, None),
        }
    }
}

/// The rows as they were read, each with its name, which is its first cell.
fn named(rows: &[Vec<Value>]) -> impl Iterator<Item = (&String, &Vec<Value>)> {
    rows.iter().filter_map(|row| match row.first() {
        Some(Value::String(name)) => Some((name, row)),
        _ => None,
    })
}

fn failure(code: Code) -> Failure {
    match code {
        Code::AlreadyExists => Failure::Exists,
        Code::PermissionDenied | Code::Unimplemented => Failure::NotApplied,
        Code::Aborted
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::OutOfRange => Failure::Refused,
        _ => Failure::Unknown,
    }
}
