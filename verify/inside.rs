//! The loop on a simulated machine and lock table: for the simulation in this repository.
//!
//! No part of the library's interface; it may change or go at any time.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use google_cloud_gax::error::rpc::{Code, Status};
pub use rustix::time::ClockId;
use spindle_protocol::line::Standing;
use spindle_protocol::{
    Act, Answer, Change, Column, StoredRow, Succession, Timestamp, Timing, Write, transaction,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::batch::{self, Channels, Columns, CommitOutcome, Snapshot, TakeOver, Verdict};
use crate::budget::Budget;
use crate::error::Error;
pub use crate::operate::{Past, Version};
use crate::operate::{PastTerm, Walk};
use crate::runloop::{BatchedRow, Command, Driver, LockRow, UnderWay};
use crate::settings::Settings;
pub use crate::system::Machine;
use crate::system::{Clock, Ticks, random};
use crate::table::LockTable;
use crate::term::{Published, Term};
use crate::token::FencingToken;

/// The clock that a machine stops while it is suspended, where it has one.
pub const STANDS_STILL: Option<ClockId> = if cfg!(any(target_os = "linux", target_os = "android")) {
    Some(ClockId::Monotonic)
} else {
    None
};

/// Returns a clock that reads a simulated machine's, as the system's clock is read.
pub fn clock(machine: Arc<dyn Machine>) -> Clock {
    Clock::simulated(machine)
}

/// A flow to a lock table in place of Spanner: one client with its connection. Each call is one
/// request, sent once.
pub trait Store: Send + Sync + Sized + 'static {
    /// A transaction that was begun.
    type Transaction: Send;

    /// Reads, at one timestamp, the rows of these keys and of these ranges, whose ends are not part
    /// of them. A loop asks for no ranges.
    fn read(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
    ) -> impl Future<Output = Result<(Vec<StoredRow>, Timestamp), Failure>> + Send;

    /// Begins a transaction by reading the rows by which these changes are judged; [`reads`] tells
    /// which.
    fn begin(
        &self,
        changes: &[(Arc<str>, Change)],
    ) -> impl Future<Output = Result<(Self::Transaction, Vec<StoredRow>), Failure>> + Send;

    /// Commits the writes of these changes.
    fn commit(
        &self,
        transaction: Self::Transaction,
        changes: Vec<Accepted>,
    ) -> impl Future<Output = Result<Timestamp, Failure>> + Send;

    /// Ends a transaction without any writes.
    fn roll_back(&self, transaction: Self::Transaction);

    /// Opens a fresh flow to the same place, beside this one.
    fn connect(&self) -> impl Future<Output = Result<Self, Failure>> + Send;
}

/// Returns the keys and columns by which these changes are judged.
pub fn reads(changes: &[(Arc<str>, Change)]) -> (Vec<String>, Vec<Column>) {
    transaction::reads(changes)
}

/// A change that was not refused, with its lock and what it writes.
pub type Accepted = (Arc<str>, Change, Vec<Write>);

/// Why a request came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A row that was to be inserted exists.
    Exists,
    /// It was not and will not be applied, and any of its rows may be the reason.
    Refused,
    /// It was not and will not be applied.
    NotApplied,
    /// Nobody knows.
    Unknown,
}

/// Returns a lock table for everything that needs no fenced write and no history.
pub fn table(flow: impl Store) -> LockTable {
    LockTable::on(|budget| Simulated::by(flow, budget))
}

/// Returns the same table so many times, each with a batcher and a flow of its own, as each runtime of a
/// process has it. All share a budget.
pub fn tables<S: Store>(mut open: impl FnMut() -> S, batchers: usize) -> Vec<LockTable> {
    let first = table(open());
    let another = |_| first.on_another_runtime(|budget| Simulated::by(open(), budget));
    let others = (1..batchers).map(another).collect::<Vec<_>>();
    std::iter::once(first).chain(others).collect()
}

/// Returns the rule of docs/proof.md that an instance on this thread was first to break since the
/// last call, if one did.
pub fn broken_rule() -> Option<&'static str> {
    crate::runloop::contract::take()
}

/// Has all of this library on this thread draw from a seed: jitter, nonces, names.
pub fn draw_from(seed: u64) {
    random::draw_from(seed);
}

struct Simulated<S> {
    in_use: Arc<Mutex<InUse<S>>>,
    budget: Arc<Budget>,
}

/// The flow on which requests go.
struct InUse<S> {
    flow: Arc<S>,
    heard_at: Option<Instant>,
}

impl<S: Store> Simulated<S> {
    fn by(flow: S, budget: &Arc<Budget>) -> Arc<dyn batch::Store> {
        let in_use = InUse { flow: Arc::new(flow), heard_at: None };
        Arc::new(Simulated { in_use: Arc::new(Mutex::new(in_use)), budget: Arc::clone(budget) })
    }

    fn flow(&self) -> Arc<S> {
        Arc::clone(&in_use(&self.in_use).flow)
    }

    /// Notes how a request on a flow ended.
    fn ended(&self, flow: &Arc<S>, error: Option<&Error>) {
        let mut in_use = in_use(&self.in_use);
        if error.is_none_or(Error::is_answer) && Arc::ptr_eq(&in_use.flow, flow) {
            in_use.heard_at = Some(Instant::now());
        }
    }

    async fn carry_out(&self, changes: Vec<(Arc<str>, Change)>, limit: Duration) -> Verdict {
        let (mut may_commit, mut refused) = (false, vec![None; changes.len()]);
        let (flow, mut rows) = (self.flow(), Vec::new());
        let work = async {
            let (transaction, found) = flow.begin(&changes).await?;
            let mut accepted = Vec::new();
            let verdicts = transaction::judge(&changes, &found).into_iter();
            rows = found;
            for ((verdict, refused), (lock, change)) in verdicts.zip(&mut refused).zip(&changes) {
                match verdict {
                    Ok(writes) => accepted.push((Arc::clone(lock), change.clone(), writes)),
                    Err(rejection) => *refused = Some(rejection),
                }
            }
            if accepted.is_empty() {
                flow.roll_back(transaction);
                return Ok(None);
            }
            may_commit = true;
            flow.commit(transaction, accepted).await.map(Some)
        };
        let (commit, error) = match timeout(limit, work).await {
            // Nobody waits for it any more.
            Ok(Ok(None)) => (CommitOutcome::NotApplied, None),
            Ok(Ok(Some(at))) => (CommitOutcome::Applied { at }, None),
            Ok(Err(failure @ Failure::Exists)) => {
                (CommitOutcome::Exists, Some(failed(failure, limit)))
            }
            Ok(Err(failure @ Failure::Refused)) => {
                (CommitOutcome::Invalid, Some(failed(failure, limit)))
            }
            Ok(Err(Failure::Unknown)) | Err(_) if may_commit => {
                (CommitOutcome::Unknown, Some(Error::unknown(DOING.to_string())))
            }
            Ok(Err(Failure::Unknown | Failure::NotApplied)) | Err(_) => {
                (CommitOutcome::NotApplied, Some(failed(Failure::NotApplied, limit)))
            }
        };
        self.ended(&flow, error.as_ref());
        Verdict { refused, found: rows, commit, error }
    }
}

fn in_use<S>(in_use: &Mutex<InUse<S>>) -> MutexGuard<'_, InUse<S>> {
    in_use.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Store> batch::Store for Simulated<S> {
    /// Virtual time needs no I/O.
    fn check_runtime(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn rows(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
        columns: Columns,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Snapshot, Error>> {
        async move {
            let flow = self.flow();
            let read = within(limit, flow.read(keys, ranges)).await;
            self.ended(&flow, read.as_ref().err());
            read.map(|(mut rows, read_at)| {
                if columns == Columns::ButInfo {
                    rows.iter_mut().for_each(|row| row.info = None);
                }
                Snapshot { rows, read_at }
            })
        }
        .boxed()
    }

    fn transact(
        &self,
        changes: Vec<(Arc<str>, Change)>,
        limit: Duration,
    ) -> BoxFuture<'_, Verdict> {
        self.carry_out(changes, limit).boxed()
    }

    fn channels(&self) -> Channels {
        Channels::One
    }

    fn heard_at(&self) -> Option<Instant> {
        in_use(&self.in_use).heard_at
    }

    fn open_flow(&self, limit: Duration) -> BoxFuture<'static, Result<TakeOver, Error>> {
        let (in_use, flow) = (Arc::clone(&self.in_use), self.flow());
        let budget = Arc::clone(&self.budget);
        async move {
            // As beside a client that is silent, it is never given back (I8).
            budget.connects.paid(1).await;
            let flow = Arc::new(within(limit, flow.connect()).await?);
            let replace = move |_| *self::in_use(&in_use) = InUse { flow, heard_at: None };
            Ok(Box::new(replace) as TakeOver)
        }
        .boxed()
    }
}

impl<S> fmt::Debug for Simulated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").finish_non_exhaustive()
    }
}

const DOING: &str = "simulated request";

async fn within<T>(
    limit: Duration,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Error> {
    let answer = timeout(limit, asking).await.unwrap_or(Err(Failure::NotApplied));
    answer.map_err(|failure| failed(failure, limit))
}

/// Returns the error as the client would have it.
fn failed(failure: Failure, limit: Duration) -> Error {
    let code = match failure {
        Failure::Exists => Code::AlreadyExists,
        Failure::Refused => Code::Aborted,
        Failure::NotApplied | Failure::Unknown => return Error::timed_out(DOING, limit),
    };
    let status = Status::default().set_code(code).set_message("said by the simulation");
    Error::from_read(DOING, google_cloud_spanner::Error::service(status))
}

/// Sees the acts of one instance.
pub trait Watch: Send + Sync + 'static {
    /// Notes that it has decided to act.
    fn before(&self, act: &Act);

    /// Notes that it is told how the act ended.
    fn after(&self, act: &Act, answer: &Answer);
}

struct Watched<W> {
    row: BatchedRow,
    watch: Arc<W>,
}

impl<W: Watch> LockRow for Watched<W> {
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay {
        self.watch.before(&act);
        let (watch, sent) = (Arc::clone(&self.watch), self.row.carry_out(act.clone(), limit));
        Box::pin(async move {
            let outcome = sent.await;
            watch.after(&act, &outcome.answer);
            outcome
        })
    }

    fn ticks(&self) -> Ticks {
        self.row.ticks()
    }
}

/// One instance of one lock, without a client.
#[derive(Debug)]
pub struct Member {
    published: Arc<Published>,
    commands: mpsc::UnboundedSender<Command>,
}

/// The future that drives an instance, until it is cancelled.
pub type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The identity of an instance.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name of the lock.
    pub lock: String,
    /// The name that it gives itself.
    pub id: String,
    /// By which it lives.
    pub timing: Timing,
    /// Its clock, which comes from [`clock`].
    pub clock: Clock,
    /// The same seed draws the same numbers.
    pub seed: u64,
}

impl Member {
    /// Returns an instance on this table; `spawn` is given the table's batcher, if it has none yet.
    pub fn new(
        table: &LockTable,
        identity: Identity,
        watch: impl Watch,
        spawn: impl FnOnce(Loop),
        cancel: CancellationToken,
    ) -> (Member, Loop) {
        let Identity { lock, id, timing, clock, seed } = identity;
        let (commands, inbox) = mpsc::unbounded();
        let (table, lock): (_, Arc<str>) = (table.table(), lock.into());
        let handle = table.batchers.handle_on(&table.store, Arc::clone(&lock), seed, spawn);
        let published = Published::new(clock.clone(), Arc::clone(&lock), "locktable".into());
        let published = Arc::new(published);
        let stop_limit = timing.release_limit;
        let settings = Settings {
            name: lock,
            id: id.into(),
            info: None,
            timing,
            stop_limit,
            is_repeat: false,
            standing: Standing::Plain,
            clock,
        };
        let settings = Arc::new(settings);
        let row = BatchedRow::of(handle, &settings);
        let row = Watched { row, watch: Arc::new(watch) };
        let driver =
            Driver::new(row, settings, Arc::clone(&published), Arc::default(), inbox, seed);
        (Member { published, commands }, Box::pin(Box::new(driver).run(cancel)))
    }

    /// As [`Spindle::has_lock`](crate::Spindle::has_lock).
    pub fn has_lock(&self) -> Option<FencingToken> {
        self.published.has_lock()
    }

    /// Returns the term last published, until its end is; whether or not it is still valid.
    pub fn term(&self) -> Option<Term> {
        self.published.term()
    }

    /// Asks the loop to give up its term; false if it can't be asked now.
    pub fn resign(&self, next: Succession) -> bool {
        let (done, _) = oneshot::channel();
        self.commands.unbounded_send(Command::Resign { next, done }).is_ok()
    }
}

/// Returns what [`LockTable::history`](crate::LockTable::history) tells of such versions, and when the row was read.
pub async fn history(
    past: &impl Past,
    window: Duration,
) -> crate::Result<(Vec<PastTerm>, Timestamp)> {
    let (latest, read_at) = past.now().await?;
    let mut walk = Walk::new(window).begun_by(latest, read_at);
    let mut terms = Vec::new();
    while let Some(term) = walk.next(past).await? {
        terms.push(term);
    }
    let (reads, count) = (walk.reads(), terms.len() as u64);
    assert!(reads <= 4 * (count + 1), "{reads} reads for {count} terms");
    Ok((terms, read_at))
}

/// Returns the `writer` of a term, which a fenced write compares.
pub fn writer(term: &Term) -> &str {
    term.writer().as_str()
}
