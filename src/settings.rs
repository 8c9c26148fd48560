use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::line::Standing;
use spindle_protocol::{LEASE_MAX, Timing};

use crate::error::{Error, Result};
use crate::names::{
    INFO_BYTES_MAX, check_environment_id, check_id, check_lock_name, check_not_reserved,
    check_table_name, default_id, environment_id, subject,
};
use crate::store::Table;
use crate::system::Clock;

const LEASE_MIN: Duration = Duration::from_millis(100);
/// Also the lease by which a row is judged that tells none, without an instance.
pub(crate) const LEASE_DEFAULT: Duration = Duration::from_secs(10);

/// The most of the default stop limit.
const STOP_LIMIT_MAX: Duration = Duration::from_secs(5);
/// Refuses a duration of zero and one that is too long; the text names the rule.
pub(crate) fn check_limit(what: &str, limit: Duration, most: Duration) -> Result<(), String> {
    if limit.is_zero() || limit > most {
        return Err(format!("{what} {limit:?}; more than zero and at most {most:?}"));
    }
    Ok(())
}

/// A lock's settings before they are checked.
///
/// Made by [`LockTable::lock`](crate::LockTable::lock). Every setting but the name has a default;
/// [`build`](LockBuilder::build) refuses what can't work and says which rule it breaks.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LockBuilder {
    pub(crate) table: Arc<Table>,
    name: String,
    /// True if it is for a row of the library's own.
    is_reserved: bool,
    is_repeat: bool,
    id: Option<String>,
    /// True if the environment names the id.
    is_environments_id: bool,
    info: Option<String>,
    lease: Duration,
    heartbeat_interval: Option<Duration>,
    renew_deadline: Option<Duration>,
    clock_drift_margin: Option<Duration>,
    poll_interval: Option<Duration>,
    release_limit: Option<Duration>,
    stop_limit: Option<Duration>,
    rank: Option<u32>,
    preempts: bool,
    /// The nonce under which its pool stands in line for it.
    pool: Option<u64>,
    clock: Clock,
}

/// The settings that a table gives to all that is made from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) id: Option<String>,
    pub(crate) lease: Option<Duration>,
    pub(crate) clock: Option<Clock>,
}

/// A lock's settings, checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    pub(crate) id: Arc<str>,
    pub(crate) info: Option<String>,
    pub(crate) timing: Timing,
    pub(crate) stop_limit: Duration,
    /// True if the library itself asks again for what another instance failed at.
    pub(crate) is_repeat: bool,
    /// How it stands in line.
    pub(crate) standing: Standing,
    pub(crate) clock: Clock,
}

impl LockBuilder {
    pub(crate) fn new(table: Arc<Table>, name: String) -> LockBuilder {
        let id = environment_id();
        LockBuilder {
            table,
            name,
            is_reserved: false,
            is_repeat: false,
            is_environments_id: id.is_some(),
            id,
            info: None,
            lease: LEASE_DEFAULT,
            heartbeat_interval: None,
            renew_deadline: None,
            clock_drift_margin: None,
            poll_interval: None,
            release_limit: None,
            stop_limit: None,
            rank: None,
            preempts: false,
            pool: None,
            clock: Clock::system(),
        }
    }

    /// Sets what the table has for all that is made from it.
    pub(crate) fn with_defaults(mut self, defaults: &Defaults) -> LockBuilder {
        let Defaults { id, lease, clock } = defaults.clone();
        self.lease = lease.unwrap_or(self.lease);
        self.clock = clock.unwrap_or(self.clock);
        match id {
            Some(id) => self.id(id),
            None => self,
        }
    }

    /// Sets how this instance is called in the table and in logs; for people, so keep it readable.
    ///
    /// It proves nothing: two instances may share one, and each still holds or doesn't hold by
    /// itself. By default it is the [table's](crate::LockTable::id), or that of the environment variable
    /// `SPINDLE_ID`, or `host-pid-random`.
    pub fn id(mut self, id: impl Into<String>) -> LockBuilder {
        self.id = Some(id.into());
        self.is_environments_id = false;
        self
    }

    /// Sets the text that this instance shows while it holds, for example its address. Others read
    /// it with [`LockTable::inspect`](crate::LockTable::inspect). At most 4 KiB.
    pub fn info(mut self, info: impl Into<String>) -> LockBuilder {
        self.info = Some(info.into());
        self
    }

    /// Sets how long a holder that says nothing keeps the lock; by default the
    /// [table's](crate::LockTable::lease), or 10 s.
    ///
    /// After a crash the lock stays taken for this long. Advised: at least 2 s, or 20 times the
    /// slowest usual commit, whichever is longer. From 100 ms, which is a floor for tests, to a
    /// day. Instances of one lock may differ: a contender waits for the longer of the holder's
    /// lease and its own.
    pub fn lease(mut self, lease: Duration) -> LockBuilder {
        self.lease = lease;
        self
    }

    /// Sets the time from one heartbeat to the next; by default a third of the lease, at most half of
    /// it.
    ///
    /// The answer to a heartbeat counts until the [renew deadline](LockBuilder::renew_deadline) of
    /// its term, and no other one leaves before. One that failed is repeated promptly. So with each
    /// interval a term outlives, in parts of its lease:
    ///
    /// | interval | requests a lease | heartbeats that take | an outage that refuses them | one that holds them back |
    /// | --- | --- | --- | --- | --- |
    /// | a third | 6 | 0.39 | 0.42 | 0.46 |
    /// | half | 4 | 0.29 | 0.25 | 0.29 |
    pub fn heartbeat_interval(mut self, interval: Duration) -> LockBuilder {
        self.heartbeat_interval = Some(interval);
        self
    }

    /// Sets how long a term lives without a successful heartbeat until it is cancelled; by default
    /// 0.8 of the lease. The rest of the lease is then the time that work has to stop.
    ///
    /// More than the heartbeat interval, and less than the lease less the margin. What it is longer than
    /// the interval by is the time in which a heartbeat must succeed. If that is shorter than the
    /// slowest usual commit, terms are lost while all is well.
    pub fn renew_deadline(mut self, deadline: Duration) -> LockBuilder {
        self.renew_deadline = Some(deadline);
        self
    }

    /// Sets the clock drift margin: the time that a holder takes off its lease, for clocks that run
    /// at different rates. It is 1 % of the lease by default, and less than half of it.
    pub fn clock_drift_margin(mut self, margin: Duration) -> LockBuilder {
        self.clock_drift_margin = Some(margin);
        self
    }

    /// Sets the time from one poll of a contender to the next; by default 1 s or a fifth of the
    /// lease, whichever is shorter.
    ///
    /// Each poll is one read. It decides how soon a *release* is noticed: within half of the
    /// interval in the mean. At a lease of 5 s, 1 s costs a contender 5 to 7 requests a lease, and
    /// 5 s about one. An expired lease is taken at once, whatever the interval.
    pub fn poll_interval(mut self, interval: Duration) -> LockBuilder {
        self.poll_interval = Some(interval);
        self
    }

    /// Sets how long ending may take, release included. By default a release is tried for as long as
    /// the term protects the row: a lease. A lock that could not be released by then expires like after a crash.
    pub fn release_limit(mut self, limit: Duration) -> LockBuilder {
        self.release_limit = Some(limit);
        self
    }

    /// Sets how long a task of [`lead`](crate::Spindle::lead), or of a [job](LockBuilder::job), may take to stop once it was told to,
    /// while the lock is kept for it. Then it is aborted. By default 5 s, or the lease or the
    /// release limit where one of these is shorter; at most a day.
    pub fn stop_limit(mut self, limit: Duration) -> LockBuilder {
        self.stop_limit = Some(limit);
        self
    }

    /// Contends by rank: of the contenders that wait, the one of the highest rank has the lock next.
    ///
    /// A ranked contender stands [in line](crate::Spindle::acquire) before those of lower ranks, however
    /// long they wait; of equal ranks, the one that has waited longer goes first. A release leaves the lock
    /// to who stands first. After a crash a ranked contender takes its place, and the lock at its next
    /// poll, unless a higher rank has come meanwhile. So where the lease ran out, the highest rank that
    /// lives leads one poll later than without ranks. Only those that waited when the holder was last heard
    /// count there: a higher rank that came since waits for its third poll, as it may be what has just died.
    /// A place whose process is gone costs two polls, once.
    ///
    /// A holder that lives keeps the lock, unless it was told to [`preempt`](LockBuilder::preempt). A
    /// release for a [named successor](crate::Resign::to) goes before ranks. Contenders without a
    /// rank have rank 0, and take a vacant lock at once.
    ///
    /// # Promises
    ///
    /// Ranks decide about time alone: whatever the places say, the lock is exclusive. They promise no
    /// exact order where many contenders of different ranks meet at one crash.
    ///
    /// # Rules
    ///
    /// Where one poll decides nobody waits, so [`try_acquire`](crate::Spindle::try_acquire) refuses a ranked
    /// lock, and a [job](LockBuilder::job) has no ranks.
    ///
    /// ```
    /// use spindle::{CancellationToken, Database, Ddl, LockTable};
    /// # use spindle_emulator::Emulator;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
    /// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
    /// let lock = table.lock("billing").id("big-node").by_rank(3).preempt().build()?;
    /// let cancel = CancellationToken::new();
    /// let running = lock.run(cancel.clone());
    /// while lock.has_lock().is_none() {
    ///     tokio::task::yield_now().await;
    /// }
    /// cancel.cancel();
    /// running.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_rank(mut self, rank: u32) -> LockBuilder {
        self.rank = Some(rank);
        self
    }

    /// Ends its own term for a waiting contender of strictly higher rank; needs
    /// [`by_rank`](LockBuilder::by_rank).
    ///
    /// It does so once its term is ten leases old, at the next heartbeat, and not before: a highest rank
    /// that dies again and again would take turns with it. The hand-over is that of
    /// [`resign`](crate::Spindle::resign), to the process that stands first: a task of
    /// [`lead`](crate::Spindle::lead) is cancelled, and a guard loses its term at once.
    pub fn preempt(mut self) -> LockBuilder {
        self.preempts = true;
        self
    }

    /// Sets the clock by which validity is judged; for tests on virtual time, with
    /// [`Clock::runtime`]. By default the [table's](crate::LockTable::clock).
    pub fn clock(mut self, clock: Clock) -> LockBuilder {
        self.clock = clock;
        self
    }

    /// Sets how the pool of this nonce stands in line for the lock.
    ///
    /// This and what follows is for crates that build on locks ([`rows`](crate::rows)).
    pub fn in_pool(mut self, nonce: u64) -> LockBuilder {
        self.pool = Some(nonce);
        self
    }

    /// Says that another instance has failed at what this one tries. Its requests wait until they are paid
    /// for (I8).
    pub fn repeats(mut self, is_repeat: bool) -> LockBuilder {
        self.is_repeat = is_repeat;
        self
    }

    /// Returns the same settings for the row of this key, which may begin with `spindle:`. Ranks are for
    /// the user's own lock, and left out.
    pub fn row(&self, key: impl Into<String>) -> LockBuilder {
        let (name, is_reserved, rank, preempts) = (key.into(), true, None, false);
        LockBuilder { name, is_reserved, rank, preempts, ..self.clone() }
    }

    /// Returns the id, if somebody chose one: the caller, the table or the environment. So it can be the
    /// same after a restart.
    pub fn chosen_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Fixes the id, and returns it: all that is built of clones has the same.
    pub fn fix_id(&mut self) -> String {
        self.id.get_or_insert_with(default_id).clone()
    }

    /// Returns the durations, checked, with their defaults.
    ///
    /// # Errors
    ///
    /// As [`build`](LockBuilder::build).
    pub fn timing(&self) -> Result<Timing> {
        Ok(self.settings()?.timing)
    }

    /// Returns the clock by which validity is judged.
    pub fn chosen_clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the settings of a job.
    pub(crate) fn job_settings(&self) -> Result<Settings> {
        if self.rank.is_some() || self.preempts {
            return Err(Error::config(format!(
                "job `{}`: whoever calls first runs it, so that it has no ranks; build it without \
                 `by_rank` and `preempt`",
                self.name
            )));
        }
        self.settings()
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        check_table_name(&self.table.name)?;
        self.table.spanner.connection.check()?;
        check_lock_name(&self.name)?;
        if !self.is_reserved {
            check_not_reserved(&self.name)?;
        }
        let id = self.id.clone().unwrap_or_else(default_id);
        let refusal = |rule: String| Error::config(format!("{}: {rule}", subject(&self.name)));
        let refuse = |rule: String| Err(refusal(rule));
        let check = if self.is_environments_id { check_environment_id } else { check_id };
        check(&id).map_err(refusal)?;
        let info_bytes = self.info.as_ref().map_or(0, String::len);
        if info_bytes > INFO_BYTES_MAX {
            return refuse(format!("info of {info_bytes} bytes; at most {INFO_BYTES_MAX}"));
        }
        let timing = self.checked_timing().map_err(refusal)?;
        let stop_limit = self.stop_limit.unwrap_or(timing.release_limit.min(STOP_LIMIT_MAX));
        check_limit("stop limit", stop_limit, LEASE_MAX).map_err(refusal)?;
        let standing = self.standing().map_err(refusal)?;
        Ok(Settings {
            standing,
            name: self.name.as_str().into(),
            id: id.into(),
            info: self.info.clone(),
            timing,
            stop_limit,
            is_repeat: self.is_repeat,
            clock: self.clock.clone(),
        })
    }

    fn standing(&self) -> Result<Standing, String> {
        if let Some(pool) = self.pool {
            return Ok(Standing::Pooled { pool });
        }
        match (self.rank, self.preempts) {
            (Some(rank), preempts) => Ok(Standing::Ranked { rank, preempts }),
            (None, false) => Ok(Standing::Plain),
            (None, true) => Err("`preempt` without `by_rank`".to_string()),
        }
    }

    /// Returns the durations with their defaults, or the rule that they break.
    fn checked_timing(&self) -> Result<Timing, String> {
        let lease = self.lease;
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return Err(format!("lease {lease:?}; expected {LEASE_MIN:?} to {LEASE_MAX:?}"));
        }
        let defaults = Timing::from_lease(lease);
        let timing = Timing {
            lease,
            heartbeat_interval: self.heartbeat_interval.unwrap_or(defaults.heartbeat_interval),
            renew_deadline: self.renew_deadline.unwrap_or(defaults.renew_deadline),
            clock_drift_margin: self.clock_drift_margin.unwrap_or(defaults.clock_drift_margin),
            poll_interval: self.poll_interval.unwrap_or(defaults.poll_interval),
            release_limit: self.release_limit.unwrap_or(defaults.release_limit),
        };
        let Timing {
            heartbeat_interval: interval, renew_deadline, clock_drift_margin: margin, ..
        } = timing;
        if interval.is_zero() || interval > lease / 2 {
            return Err(format!(
                "heartbeat interval {interval:?}; more than zero and at most half of the lease \
                 {lease:?}"
            ));
        }
        if margin >= lease / 2 {
            return Err(format!(
                "clock drift margin {margin:?}; less than half of the lease {lease:?}"
            ));
        }
        if renew_deadline <= interval || renew_deadline >= lease - margin {
            return Err(format!(
                "renew deadline {renew_deadline:?}; more than the heartbeat interval \
                 {interval:?} and less than the lease less the clock drift margin {:?}",
                lease - margin
            ));
        }
        if timing.poll_interval < Duration::from_millis(1) || timing.poll_interval > LEASE_MAX {
            return Err(format!(
                "poll interval {:?}; expected 1ms to {LEASE_MAX:?}",
                timing.poll_interval
            ));
        }
        check_limit("release limit", timing.release_limit, LEASE_MAX)?;
        Ok(timing)
    }
}
