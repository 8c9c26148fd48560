//! The changes of one lock's state, by polls.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::LEASE_MAX;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::inspect::inspect;
use super::state::{Holding, LockState};
use crate::error::{Error, Result};
use crate::settings::LEASE_DEFAULT;
use crate::store::{REQUEST_LIMIT, Table};
use crate::system::runtime;
use crate::token::FencingToken;

const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// A poll ends by its own limit, unless nobody drives its runtime: so much later it is taken for that.
const GRACE: Duration = Duration::from_secs(1);

/// The polls of one that works only while it is awaited.
#[derive(Debug)]
struct Polls {
    interval: Duration,
    next: Option<Instant>,
}

impl Polls {
    fn new() -> Polls {
        Polls { interval: INTERVAL_DEFAULT, next: None }
    }

    /// Waits until it is time to poll; refuses an interval that is too short or too long.
    async fn turn(&self, subject: &str) -> Result<()> {
        let interval = self.interval;
        if !(INTERVAL_MIN..=LEASE_MAX).contains(&interval) {
            return Err(Error::config(format!(
                "{subject}: interval {interval:?} between polls; expected {INTERVAL_MIN:?} to \
                 {LEASE_MAX:?}"
            )));
        }
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        Ok(())
    }
}

/// Reports who leads, each time that it is somebody else or nobody. Made by
/// [`LockTable::observe`](crate::LockTable::observe).
///
/// It begins polls only while [`next`](Observer::next) is awaited; one that is not waited for goes on
/// to its end, within 5 s, unless the observer is dropped. It polls once per interval, and at the moment
/// when the lease that it saw runs out: one strong read each.
///
/// ```no_run
/// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
/// let mut observer = table.observe("billing");
/// loop {
///     let lock = observer.next().await?;
///     println!("{}: {:?} under {:?}", lock.name, lock.holding, lock.token);
/// }
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an observer reads nothing until `next` is called"]
pub struct Observer {
    table: Arc<Table>,
    lock: String,
    polls: Polls,
    /// The poll that is not over; with when it ended.
    under_way: JoinSet<(Instant, Result<LockState>)>,
    /// The term that was reported last, or that there was none.
    reported: Option<Option<FencingToken>>,
}

impl Observer {
    pub(crate) fn new(table: Arc<Table>, lock: String) -> Observer {
        Observer { table, lock, polls: Polls::new(), under_way: JoinSet::new(), reported: None }
    }

    /// Sets the time from one poll to the next; 1 s by default, from 1 ms to a day.
    ///
    /// A change is reported at most this much late. Terms that begin and end between two polls
    /// are not seen.
    pub fn interval(mut self, interval: Duration) -> Observer {
        self.polls.interval = interval;
        self
    }

    /// Returns the lock's state, the first time at once, then when another term holds it, or none
    /// does.
    ///
    /// A handover between two polls is reported as the new term, without the vacancy between.
    /// Why a lock is vacant may change without a report.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a name that no lock can have, for an interval that is
    /// too short or too long, and outside of a tokio runtime. Otherwise the reason why Spanner could not be asked within 5 s. An
    /// observer can go on after an error: the next call polls again an interval later.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the change is reported by the next call.
    pub async fn next(&mut self) -> Result<LockState> {
        loop {
            let (ended, polled) = self.poll().await?;
            let pause = polled.as_ref().map_or(self.polls.interval, |state| self.pause(state));
            self.polls.next = Some(ended + pause);
            let state = polled?;
            let term = state.token.filter(|_| state.is_held());
            if self.reported != Some(term) {
                self.reported = Some(term);
                return Ok(state);
            }
        }
    }

    /// Waits for the poll under way, and begins one where there is none. It is a task of its own: beside events that come
    /// faster than its answer, nobody waits for it to its end.
    async fn poll(&mut self) -> Result<(Instant, Result<LockState>)> {
        loop {
            if self.under_way.is_empty() {
                let subject = format!("lock `{}`", self.lock);
                let runtime = runtime(&subject)?;
                self.polls.turn(&subject).await?;
                let (table, lock) = (Arc::clone(&self.table), self.lock.clone());
                let poll = async move {
                    let polled = inspect(&table, &lock).await;
                    (Instant::now(), polled)
                };
                self.under_way.spawn_on(poll, &runtime);
            }
            match timeout(REQUEST_LIMIT + GRACE, self.under_way.join_next()).await {
                Ok(Some(Ok((ended, polled)))) if ended.elapsed() <= REQUEST_LIMIT => {
                    return Ok((ended, polled));
                }
                // Too old to be news.
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(ended))) if ended.is_panic() => resume_unwind(ended.into_panic()),
                // Its runtime is gone, or nobody drives it.
                _ => {
                    self.under_way = JoinSet::new();
                    self.polls.next = Some(Instant::now() + self.polls.interval);
                }
            }
        }
    }

    /// Waits until the interval is over, or the lease is, whichever comes first.
    fn pause(&self, state: &LockState) -> Duration {
        match (&state.holding, state.heartbeat_age) {
            (Holding::Held { .. }, Some(age)) => {
                let lease = state.lease.unwrap_or(LEASE_DEFAULT);
                self.polls.interval.min(lease.saturating_sub(age)).max(INTERVAL_MIN)
            }
            _ => self.polls.interval,
        }
    }
}
