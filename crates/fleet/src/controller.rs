//! One member's work on its share of the shards: it polls, decides, and acts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};
use spindle_protocol::fleet::{Count, CountNamed, CountStep, Share, Step};
use spindle_protocol::{Row, Succession, Timestamp};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use spindle::rows::jittered;
use spindle::task::say;
use spindle::testing::Clock;
use spindle::{Error, LockBuilder, Result, RunHandle, Spindle, TermChange};

use crate::count_row::{Beginning, CountRow, Written};
use crate::failures::Failures;
use crate::member::Member;
use crate::metrics::Meter;
use crate::names::{shards_prefix, shares_prefix};
use crate::poll::{Polled, ShardRows};
use crate::shard::{Finished, Outcome, Shard, TaskHandle, Worker};
use crate::shards_view::{ShardEvent, ShardsView};
use crate::share_row::ShareRow;
use crate::tasks::{EndedTask, Tasks};
use crate::tidy::{fraction, remove_released, tidy};

/// Between two polls, at the least.
const POLL_PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// A member's settings of its share.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    pub(crate) member: Member,
    pub(crate) name: String,
    pub(crate) count: usize,
    pub(crate) restart: Option<Duration>,
    pub(crate) weight: u32,
    pub(crate) view: Arc<ShardsView>,
}

/// The thing to do after a poll of all, by the row of the count.
enum ByCount {
    /// Decide about the shards.
    Share,
    /// Take no shard, and poll again after so long.
    Pause(Duration),
}

/// One member that decides about its share.
pub(crate) struct Controller {
    member: Member,
    lock: LockBuilder,
    rows: ShardRows,
    /// So many shards the member's code names.
    named: usize,
    clock: Clock,
    poll: Duration,
    restart: Option<Duration>,
    share: Share,
    /// The member's own row, which says that it shares these shards.
    own: Spindle,
    /// Ends it.
    leave: CancellationToken,
    cancel: CancellationToken,
    dropped: CancellationToken,
    meter: Meter,
    /// For those in this process who ask.
    view: Arc<ShardsView>,
    tasks: Tasks,
    /// Why a task could not be stopped.
    stuck: Option<Error>,
    /// Those that Spanner did not answer about when this member last tried to take them.
    unanswered: BTreeSet<usize>,
    /// Of its polls.
    failures: Failures,
    tidied: Instant,
}

impl Controller {
    /// The settings of the shards are checked.
    pub(crate) fn new(
        sharing: &Sharing,
        cancel: CancellationToken,
        dropped: CancellationToken,
    ) -> Result<Controller> {
        let Sharing { member, name, count, restart, weight, view } = sharing;
        // The member's own row alone has its text. In each shard's row, every poll would read it.
        let (table, lock) = (member.table(), member.settings_of_rows().clone());
        let shares = shares_prefix(member.group(), name);
        let own = lock.row(format!("{shares}{}", member.id()));
        let share_row = Arc::new(ShareRow { count: *count, weight: *weight });
        let (timing, own) = (own.timing()?, own.build_as(share_row)?);
        let shards = shards_prefix(member.group(), name);
        let rows = ShardRows {
            all: table.rows().prefix(&*shares).prefix(&*shards).with_info(),
            shards,
            count_row: Arc::new(CountRow::new(table, member.group(), name)),
            count: *count,
            count_token: Timestamp::EPOCH,
            lease: timing.lease,
        };
        // The longest key is that of the last shard.
        lock.row(rows.shard_key(*count)).build()?;
        Ok(Controller {
            share: Share::new(member.id(), timing.lease, timing.poll_interval),
            member: member.clone(),
            clock: lock.chosen_clock().clone(),
            poll: timing.poll_interval,
            restart: *restart,
            rows,
            named: *count,
            leave: CancellationToken::new(),
            cancel,
            dropped,
            meter: Meter::new(member.group(), name),
            view: Arc::clone(view),
            failures: Failures::default(),
            lock,
            own,
            tasks: Tasks::default(),
            stuck: None,
            unanswered: BTreeSet::new(),
            tidied: Instant::now(),
        })
    }

    /// Returns the key of the member's own row.
    pub(crate) fn name(&self) -> &str {
        self.own.name()
    }

    /// Shares until it is cancelled, or can't go on.
    pub(crate) async fn run<F, Fut>(mut self, task: Arc<F>) -> Result<()>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        if !self.knows_the_count().await? {
            return Ok(());
        }
        let running = self.own.run(self.leave.clone());
        let worked = self.work(&task).await;
        let ended = self.end(running).await;
        worked.and(ended)
    }

    /// Waits until the group's row lets it begin; false if it is cancelled before.
    async fn knows_the_count(&mut self) -> Result<bool> {
        loop {
            let begin = self.rows.count_row.begin(self.named);
            let Some(begin) = self.unless_ended(begin).await else { return Ok(false) };
            let pause = match begin {
                Ok(Beginning::Admitted(count)) => {
                    self.rows.count = count;
                    return Ok(true);
                }
                Ok(Beginning::Refused(error)) => return Err(error),
                Ok(Beginning::LookAgain) => POLL_PAUSE_MIN,
                Ok(Beginning::Wait) => self.poll,
                Err(error) => self.pause_after(&error),
            };
            if self.unless_ended(sleep(pause)).await.is_none() {
                return Ok(false);
            }
        }
    }

    /// Does this; nothing comes of it if the member is to end meanwhile.
    async fn unless_ended<T>(&self, this: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.dropped.cancelled() => None,
            () = self.cancel.cancelled() => None,
            done = this => Some(done),
        }
    }

    /// Polls and acts until it is cancelled, or can't go on.
    async fn work<F, Fut>(&mut self, task: &Arc<F>) -> Result<()>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let mut next_poll = Instant::now();
        let mut terms = self.own.watch();
        // It may take seconds, in which shards come and go.
        let mut tidying = OptionFuture::from(None);
        loop {
            tokio::select! {
                biased;
                () = self.dropped.cancelled() => return Ok(()),
                () = self.cancel.cancelled() => return Ok(()),
                Some(ended) = self.tasks.next_end() => {
                    self.finished(ended);
                    continue;
                }
                Some(()) = &mut tidying => {
                    tidying = None.into();
                    continue;
                }
                Some(change) = terms.next() => {
                    // After an outage the next poll may be far.
                    if let TermChange::Lost(_) = change {
                        continue;
                    }
                }
                () = sleep_until(next_poll) => {}
            }
            let Some(polled) = self.unless_ended(self.rows.poll()).await else { return Ok(()) };
            let pause = match polled {
                Ok(polled) => {
                    let pause = self.act(&polled, task).await?;
                    if let Some(begun) = self.tidy(polled) {
                        tidying = Some(begun).into();
                    }
                    pause
                }
                Err(error) => self.pause_after(&error),
            };
            next_poll = Instant::now() + pause;
        }
    }

    /// Acts by a poll. Returns the pause before the next one.
    async fn act<F, Fut>(&mut self, polled: &Polled, task: &Arc<F>) -> Result<Duration>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let (lock, failures) = (self.own.name(), self.failures.end());
        if failures > 0 {
            say(|| tracing::info!(lock, failures, "the shards can be read again"));
        }
        self.view.polled(&polled.view);
        if let ByCount::Pause(pause) = self.follow_count(polled).await {
            self.view.settles(false, &self.meter);
            return Ok(pause);
        }
        let parts = self.tasks.parts();
        let is_member = self.own.has_lock().is_some();
        let now = self.clock.now();
        let step = self.share.decide(now, &polled.view, &parts, is_member);
        let Step { take, hand_over, is_settled, poll_again } = step;
        self.view.settles(is_settled, &self.meter);
        for shard in take {
            self.take(shard, Arc::clone(task));
        }
        for (shard, to) in hand_over {
            let next = Succession::Successor { id: to, grace: self.share.promise() };
            self.tasks.leave(shard, next);
        }
        // A little later than the change that it waits for, and not at the same time as the others.
        let spread = (self.poll / 4).min(POLL_PAUSE_MIN);
        let jitter = spread.mul_f64(fraction());
        Ok(poll_again.max(POLL_PAUSE_MIN / 4) + jitter)
    }

    async fn follow_count(&mut self, polled: &Polled) -> ByCount {
        let named = CountNamed::by(polled.count.as_ref());
        let next = match named.step(self.rows.count, polled.is_drained) {
            CountStep::Share(count) => {
                self.goes_by(count, polled.count.as_ref());
                return ByCount::Share;
            }
            CountStep::Drain => {
                self.tasks.leave_from(0, &Succession::Anyone);
                None
            }
            CountStep::Keep(next) => {
                if next.is_none() {
                    self.warn_unreadable(polled.count.as_ref());
                }
                next
            }
            CountStep::Finish(next) => Some(next),
        };
        ByCount::Pause(match next {
            Some(next) => self.write_count(polled, next).await,
            None => self.poll,
        })
    }

    /// Shards that fall vacant are left alone until somebody mends the row.
    fn warn_unreadable(&self, row: Option<&Row>) {
        let (lock, error) = (self.own.name().to_string(), self.rows.count_row.unreadable(row));
        let line = move |locks| tracing::warn!(locks, lock, %error, "the count can't be read");
        self.rows.all.warn("the count can't be read", self.own.name(), self.clock.now(), line);
    }

    /// Writes the row of the count. Returns the pause before the next poll.
    async fn write_count(&self, polled: &Polled, next: Count) -> Duration {
        // No matter how often it is written, or by whom: on the condition that the row is as it was.
        let write = self.rows.count_row.write(polled.count.clone(), next, Duration::ZERO);
        let Some(written) = self.unless_ended(write).await else { return self.poll };
        match written {
            Ok(Written::Yes | Written::No) => POLL_PAUSE_MIN,
            Ok(Written::Unpaid) => self.poll,
            Err(error) => {
                let lock = self.own.name();
                say(|| tracing::debug!(lock, %error, "the count could not be written"));
                if error.is_interrupted() { POLL_PAUSE_MIN } else { self.poll }
            }
        }
    }

    /// Shares as this count says from now on.
    fn goes_by(&mut self, count: Count, row: Option<&Row>) {
        let to = count.shards;
        let from = std::mem::replace(&mut self.rows.count, to);
        if from != to {
            let lock = self.own.name();
            say(|| tracing::info!(lock, from, to, "another count of shards from now on"));
            self.view.tell(ShardEvent::Resized { count: to });
        }
        if let Some(row) = row.filter(|row| row.token != self.rows.count_token) {
            self.rows.count_token = row.token;
            self.share.forget();
        }
        self.tasks.leave_from(to, &Succession::Anyone);
    }

    fn take<F, Fut>(&mut self, shard: usize, task: Arc<F>)
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let lock = self.lock.row(self.rows.shard_key(shard));
        let worker = Worker {
            number: shard,
            taken_by: self.rows.count_token,
            count_row: Arc::clone(&self.rows.count_row),
            lock: lock.repeats(self.unanswered.remove(&shard)),
            handle: TaskHandle::new(shard, &self.view),
            cancel: self.cancel.clone(),
            over: self.leave.clone(),
            dropped: self.dropped.clone(),
        };
        self.tasks.start(worker, task);
    }

    /// Takes note of a task's end.
    fn finished(&mut self, ended: EndedTask) {
        let shard = ended.shard;
        match ended.finished {
            Finished::Gone => {}
            Finished::Unanswered => {
                self.unanswered.insert(shard);
                self.share.unanswered(self.clock.now(), shard);
            }
            Finished::Failed(ran) => self.share.failed(self.clock.now(), shard, ran),
            Finished::Unstoppable(error) => self.stuck = Some(error),
        }
    }

    fn pause_after(&self, error: &Error) -> Duration {
        let failures = self.failures.failed(error).clamp(1, 11) as u32;
        let (lock, error) = (self.own.name().to_string(), error.clone());
        let line = move |locks| tracing::warn!(locks, lock, %error, "the shards can't be read");
        let now = self.clock.now();
        self.rows.all.warn("the shards can't be read", self.own.name(), now, line);
        let pause = (self.poll * 2_u32.pow(failures - 1)).min(PAUSE_LONGEST);
        jittered(pause.max(self.poll))
    }

    /// Begins to delete the rows of those that are long gone; one member does it for all.
    fn tidy(&mut self, polled: Polled) -> Option<BoxFuture<'static, ()>> {
        let Polled { view, left, .. } = polled;
        let first = view.members.iter().map(|member| &*member.id).min();
        let is_due = self.tidied.elapsed() >= TIDY_INTERVAL && first == Some(self.member.id());
        (is_due && !left.rows.is_empty()).then(|| {
            self.tidied = Instant::now();
            let (rows, lease) = (self.rows.all.clone(), self.rows.lease);
            async move { tidy(&rows, &left, lease).await }.boxed()
        })
    }

    /// Leaves. Its shards are promised to nobody else: whoever they went to may be leaving, too.
    async fn end(&mut self, running: RunHandle) -> Result<()> {
        let is_told = self.cancel.is_cancelled() && !self.dropped.is_cancelled();
        let restart = self.restart.filter(|_| is_told);
        if let Some(grace) = restart {
            let id = self.member.id();
            // Nobody else may take them: they don't wait for the answer, which may be long in coming.
            self.tasks.leave_all(&Succession::Successor { id: id.to_string(), grace });
            // An id that a row has is none that could be refused.
            let _ = self.own.resign().to(id).grace(grace).await;
        }
        // The others count this member no more, and expect its shards.
        self.leave.cancel();
        if restart.is_none() {
            self.tasks.leave_all(&Succession::Anyone);
        }
        let ended = running.await;
        if restart.is_none() {
            remove_released(self.member.table().rows(), self.own.name()).await;
        }
        while let Some(ended) = self.tasks.next_end().await {
            self.finished(ended);
        }
        self.stuck.take().map_or(ended, Err)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.view.ended();
    }
}
