//! The loop on a simulated machine and lock table: for the simulation in this repository.
//!
//! No part of the library's interface; it may change or go at any time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use rustix::time::ClockId;
use spindle_protocol::{Act, Answer, Holder, Succession, Timestamp, Timing};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::driver::{Command, Driver, LockRow, SpannerRow, Told};
use crate::error::Error;
use crate::history::{HistoryEnd, Past, PastTerm, Version, Walk};
use crate::status::Published;
use crate::table::Outcome;
use crate::{Clock, FencingToken, LockTable, Term};

/// The clock that a machine stops while it is suspended, where it has one.
pub const STANDS_STILL: Option<ClockId> = if cfg!(any(target_os = "linux", target_os = "android")) {
    Some(ClockId::Monotonic)
} else {
    None
};

/// A machine with clocks of its own.
pub trait Machine: fmt::Debug + Send + Sync {
    /// Reads one of its clocks: time since an arbitrary origin.
    fn read(&self, clock: ClockId) -> Duration;
}

/// A clock that reads a simulated machine's, as the system's clock is read.
pub fn clock(machine: Arc<dyn Machine>) -> Clock {
    Clock::simulated(machine)
}

/// What carries out the protocol's acts in place of Spanner.
pub trait Store: Send + Sync + 'static {
    /// Carries out one act, sent once, in not much more than `limit`; and whether an answer came.
    fn carry_out(&self, act: Act, limit: Duration) -> impl Future<Output = (Answer, bool)> + Send;
}

struct StoredRow<S>(S);

impl<S: Store> LockRow for StoredRow<S> {
    async fn carry_out(&self, act: Act, limit: Duration) -> Outcome {
        let (answer, answered) = self.0.carry_out(act, limit).await;
        let error = (!answered).then(|| Error::timed_out("simulated request", limit));
        Outcome { answer, error }
    }
}

/// One participant of one lock, without a client.
#[derive(Debug)]
pub struct Member {
    published: Arc<Published>,
    commands: mpsc::Sender<Command>,
}

/// What drives a participant, until it is cancelled.
pub type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who a participant is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name of the lock.
    pub lock: String,
    /// What it calls itself.
    pub id: String,
    /// By which it lives.
    pub timing: Timing,
    /// Its clock, which comes from [`clock`].
    pub clock: Clock,
    /// The same seed draws the same numbers.
    pub seed: u64,
}

impl Member {
    /// A participant on a simulated table.
    pub fn on(store: impl Store, identity: Identity, cancel: CancellationToken) -> (Member, Loop) {
        Member::with_row(StoredRow(store), identity, cancel)
    }

    /// A participant on a table behind the real client.
    pub fn through(
        table: &LockTable,
        identity: Identity,
        cancel: CancellationToken,
    ) -> (Member, Loop) {
        let lock = identity.lock.as_str().into();
        let holder = Holder { lease: identity.timing.lease, info: None };
        let row = SpannerRow {
            table: Arc::clone(table.table()),
            lock,
            holder,
            parting_info: Arc::default(),
            told: Told::default(),
            saw_lease: AtomicBool::default(),
        };
        Member::with_row(row, identity, cancel)
    }

    fn with_row(
        row: impl LockRow,
        identity: Identity,
        cancel: CancellationToken,
    ) -> (Member, Loop) {
        let Identity { lock, id, timing, clock, seed } = identity;
        let (commands, inbox) = mpsc::channel(16);
        let lock: Arc<str> = lock.into();
        let published = Published::new(clock.clone(), Arc::clone(&lock), "locktable".into());
        let published = Arc::new(published);
        let stop_limit = timing.release_limit;
        let settings = Settings {
            name: lock,
            id: id.into(),
            info: None,
            timing,
            stop_limit,
            own_thread: false,
            clock,
        };
        let driver = Driver::new(row, settings, Arc::clone(&published), inbox, seed);
        (Member { published, commands }, Box::pin(driver.run(cancel)))
    }

    /// As [`Spindle::has_lock`](crate::Spindle::has_lock).
    pub fn has_lock(&self) -> Option<FencingToken> {
        self.published.has_lock()
    }

    /// The term last published, until its end is; whether or not it is still valid.
    pub fn term(&self) -> Option<Term> {
        self.published.term()
    }

    /// Asks the loop to give up its term; false if it can't be asked now.
    pub fn resign(&self, next: Succession) -> bool {
        let (done, _) = oneshot::channel();
        self.commands.try_send(Command::Resign { next, done }).is_ok()
    }
}

/// The versions of one lock's row.
pub trait Versions: Sync {
    /// The row now, and the timestamp of that.
    fn now(&self) -> impl Future<Output = (Option<spindle_protocol::StoredRow>, Timestamp)> + Send;

    /// The row as it was then; none if that is forgotten.
    fn at(
        &self,
        at: Timestamp,
    ) -> impl Future<Output = Option<Option<spindle_protocol::StoredRow>>> + Send;
}

struct PastRow<'a, V>(&'a V, std::sync::OnceLock<Timestamp>);

impl<V: Versions> Past for PastRow<'_, V> {
    async fn now(&self) -> crate::Result<(Option<spindle_protocol::StoredRow>, Timestamp)> {
        let (row, read_at) = self.0.now().await;
        // It is asked once.
        let _ = self.1.set(read_at);
        Ok((row, read_at))
    }

    async fn at(&self, at: Timestamp) -> crate::Result<Version> {
        Ok(match self.0.at(at).await {
            Some(Some(row)) => Version::Row(row),
            Some(None) => Version::None,
            None => Version::End(HistoryEnd::Forgotten),
        })
    }

    fn has_marks(&self) -> bool {
        true
    }
}

/// What [`LockTable::history`] tells of such versions, and when the row was read.
pub async fn history(versions: &impl Versions, window: Duration) -> (Vec<PastTerm>, Timestamp) {
    let past = PastRow(versions, std::sync::OnceLock::new());
    let mut walk = Walk::new(window);
    let mut terms = Vec::new();
    // Reading the versions can't fail here.
    while let Ok(Some(term)) = walk.next(&past).await {
        terms.push(term);
    }
    let read_at = past.1.get().copied().unwrap_or(Timestamp::EPOCH);
    assert!(
        walk.reads() <= 1 + 4 * (terms.len() as u64 + 1),
        "{} reads for {} terms",
        walk.reads(),
        terms.len()
    );
    (terms, read_at)
}

/// The `writer` of a term, which a fenced write compares.
pub fn writer(term: &Term) -> &str {
    term.writer().as_str()
}
