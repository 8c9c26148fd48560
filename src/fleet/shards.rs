//! Sharing shards out among the members of a group.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::Succession;
use spindle_protocol::fleet::{Share, Step, View};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::member::Member;
use super::poll::{Other, Place, Polled, declaration};
use super::shard::{Finished, Shard, TaskHandle, Worker};
use super::shards_view::{ShardEvents, ShardsView};
use crate::error::{Error, Result};
use crate::lock::{RunHandle, Spindle, joined};
use crate::names::{check_part, shards_prefix, shares_prefix};
use crate::runloop::Meter;
use crate::settings::{LEASE_MAX, LockBuilder};
use crate::store::membership::{remove_released, tidy};
use crate::system::chance;
use crate::term::say;

/// Each member reads all of their rows at every poll.
const SHARDS_MAX: usize = 10_000;
/// Between two polls, at the least.
const POLL_PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// So many awaited shards are polled between two polls of all, at the most.
const AWAITED_MAX: usize = 1_000;

impl Member {
    /// Names shards that the members of the group share out among themselves: `count` pieces of
    /// work, each of which one member at a time works.
    ///
    /// Nothing happens before [`run`](Shards::run). All members have to name the same count: another
    /// count is another name. From 1 to 10,000.
    ///
    /// Of members that name different counts the later one's `run` fails, and the other logs it. In a
    /// table without the column `info` a member can't say its count. There, who names the lesser
    /// count notices once the other has a shard beyond it; who names the greater does not.
    pub fn shards(&self, name: impl Into<String>, count: usize) -> Shards {
        let (restart, view) = (None, Arc::default());
        Shards { member: self.clone(), name: name.into(), count, restart, view }
    }
}

/// Pieces of work that the members of a group share, made by [`Member::shards`].
#[derive(Clone, Debug)]
#[must_use = "nothing is shared until `run` is called"]
pub struct Shards {
    member: Member,
    name: String,
    count: usize,
    restart: Option<Duration>,
    view: Arc<ShardsView>,
}

impl Shards {
    /// Keeps this member's shards for it when it leaves: it is back within `limit`, under the same
    /// id.
    ///
    /// When [`run`](Shards::run) is cancelled, each shard is released for this member alone, and stays
    /// **vacant** until it is back. If it isn't back by then, the shards go to others. So a rolling
    /// restart starts each task once, instead of some two to three times. By default the shards go to
    /// other members at once, and no work waits. That is the better choice unless a restart is short
    /// and a start of a task is dear.
    ///
    /// Only the process that comes back has to know its id, such as that of a pod in a `StatefulSet`.
    /// A process that is killed keeps nothing: others have its shards once its lease is over. In a
    /// table without the column `lease_ms` the shards wait for a lease of the others, whatever the
    /// limit.
    ///
    /// ```
    /// # use spindle::LockTable;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let table = LockTable::connect("projects/p/instances/i/databases/d", "locktable");
    /// let member = table.member("orders").id("orders-0").build()?;
    /// let shards = member.shards("partitions", 60).restart_within(Duration::from_secs(30));
    /// # drop(shards);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`run`](Shards::run) refuses a limit of zero or of more than a day, and a member whose id is
    /// the random default: no other process could come back as it.
    pub fn restart_within(mut self, limit: Duration) -> Shards {
        self.restart = Some(limit);
        self
    }

    /// Returns the shards that this member has now, by their numbers. Local.
    ///
    /// A clone that is kept beside [`run`](Shards::run) tells what that does:
    ///
    /// ```
    /// use spindle::fleet::{Shard, ShardEvent};
    /// use spindle::{CancellationToken, LockTable};
    /// # use spindle_emulator::Emulator;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::DDL).await?;
    /// let table = LockTable::connect_to(emulator.endpoint(), database, "locktable");
    /// let shards = table.member("orders").id("node-1").build()?.shards("partitions", 4);
    /// let (mut events, cancel) = (shards.events(), CancellationToken::new());
    /// let sharing = tokio::spawn({
    ///     let (shards, cancel) = (shards.clone(), cancel.clone());
    ///     let task = |shard: Shard| async move { shard.cancelled().await };
    ///     async move { shards.run(cancel, task).await }
    /// });
    /// while events.next().await != Some(ShardEvent::Settled) {}
    /// assert_eq!(shards.mine(), [0, 1, 2, 3]);
    /// assert_eq!(shards.owners()[2].as_deref(), Some("node-1"));
    /// cancel.cancel();
    /// sharing.await??;
    /// assert!(shards.mine().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn mine(&self) -> Vec<usize> {
        self.view.mine()
    }

    /// Returns the owner of each shard, by the shards' numbers, as the last poll showed it. Local, so
    /// up to a poll old; empty while [`run`](Shards::run) doesn't run, and before its first poll.
    ///
    /// A member that died owns its shards until its lease is over.
    pub fn owners(&self) -> Vec<Option<String>> {
        self.view.owners()
    }

    /// Returns true if the last poll showed that each shard has an owner, and that none is to move.
    pub fn is_settled(&self) -> bool {
        self.view.is_settled()
    }

    /// Returns the events from now on: shards gained, being given up, given up and lost, and that all
    /// are settled. They cost no request.
    pub fn events(&self) -> ShardEvents {
        self.view.events()
    }

    /// Works this member's share of the shards until `cancel` is cancelled.
    ///
    /// For each shard that this member gets, `task` is called, and the future that it returns is run
    /// as a task of its own. Each shard is an ordinary lock: the task has it under a term, and may
    /// work until [`cancelled`](crate::Term::cancelled).
    ///
    /// # Promises
    ///
    /// - At most one task of a shard is at work, by the rules of every lock. It is told to stop before
    ///   its term expires, and aborted if it doesn't. Code that blocks its thread can't be aborted.
    /// - Shares differ by at most one shard once nothing changes, and a join moves only what the joiner
    ///   gets. [`plan`](crate::fleet::plan) says who gets what.
    /// - A member that joins gets its shards by name: the task is told to stop, ends, and then the
    ///   shard is released for its new owner alone. Nobody else takes it for two polls.
    /// - The shards of a member that crashed run elsewhere once its lease is over.
    ///
    /// # How it goes
    ///
    /// Each member reads the rows of all members and shards at every poll, in one request, and makes
    /// the same plan of them. A new member counts after three times the default
    /// [`poll_interval`](crate::LockBuilder::poll_interval) of its lease, and after one if nobody else
    /// is at work; one that has left counts no more at once. A member hands over at most a tenth of
    /// its shards at a time, at least one. A hand-over of which nobody knows what came of it leaves
    /// the shard alone until the lease is over, at most.
    ///
    /// Members that leave, one by one or all at once, leave no shard alone for longer than two polls,
    /// and four if another one has just died. So a rolling deploy costs polls, not leases.
    ///
    /// One that dies within its first three polls counts after them, until its lease is over. So
    /// shards may be promised to it meanwhile; the others take them back after some polls.
    ///
    /// Each member that died within a lease of the moment from which it counted makes those that join
    /// after it count later: two leases after they join, then four times as late each, up to ten
    /// leases. This holds for a minute at least and ten leases, and nobody waits so where no other
    /// member is at work. At most two members that joined one after the other may be on trial, which
    /// is their first lease since they count. So a member in a crash loop moves few shards.
    ///
    /// A task that **returns** or **panics** gives its shard up. This member then leaves the shard to
    /// others, for a pause that doubles from 1 s to 10 min. A shard that its planned owner leaves alone for
    /// two polls goes to another member.
    ///
    /// All the tasks of a process share its heartbeats and polls with every other lock of the same
    /// [`LockTable`](crate::LockTable). The member's row in the group is another thing: run
    /// [`Member::run`], too, if it is to be seen by [`Member::members`].
    ///
    /// ```
    /// use spindle::{CancellationToken, LockTable, fleet::Shard};
    /// # use spindle_emulator::Emulator;
    /// # use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::DDL).await?;
    /// let table = LockTable::connect_to(emulator.endpoint(), database, "locktable");
    /// let member = table.member("orders").id("node-1").lease(Duration::from_secs(1)).build()?;
    /// let (started, mut at_work) = tokio::sync::mpsc::unbounded_channel();
    /// let cancel = CancellationToken::new();
    /// let (shards, stop) = (member.shards("partitions", 4), cancel.clone());
    /// let sharing = tokio::spawn(async move {
    ///     let task = move |shard: Shard| {
    ///         let started = started.clone();
    ///         async move {
    ///             // … work, and write under shard.fence() …
    ///             started.send(shard.number()).ok();
    ///             shard.cancelled().await;
    ///         }
    ///     };
    ///     shards.run(stop, task).await
    /// });
    /// for _ in 0..4 {
    ///     println!("at work on shard {:?}", at_work.recv().await);
    /// }
    /// cancel.cancel();
    /// sharing.await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for settings that can't work, and if a member that came before
    /// shares another number of these shards.
    ///
    /// [`is_unstoppable`](Error::is_unstoppable) if a task
    /// could not be stopped when `run` ended. Outages are no errors: each shard is kept for as long
    /// as its own lease can be renewed.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the tasks, without the time to stop that `cancel` gives. The shards
    /// are released once they have ended.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn run<F, Fut>(&self, cancel: CancellationToken, task: F) -> Result<()>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let dropped = CancellationToken::new();
        let _drop = dropped.clone().drop_guard();
        let controller = self.controller(cancel, dropped)?;
        let name = controller.own.name().to_string();
        joined(tokio::spawn(controller.supervise(Arc::new(task))).await, &name)
    }

    fn controller(
        &self,
        cancel: CancellationToken,
        dropped: CancellationToken,
    ) -> Result<Controller> {
        let Shards { member, name, count, restart, .. } = self;
        check_part("shards", name)?;
        if restart.is_some_and(|limit| limit.is_zero() || limit > LEASE_MAX) {
            return Err(member.refuse(format!(
                "restart within {:?}; more than zero and at most {LEASE_MAX:?}",
                restart.unwrap_or_default()
            )));
        }
        if restart.is_some() && !member.is_named() {
            return Err(member.refuse(
                "`restart_within` of a member without `id`: nobody comes back by a random one",
            ));
        }
        if !(1..=SHARDS_MAX).contains(count) {
            return Err(member.refuse(format!(
                "{count} shards of the name `{name}`; expected 1 to {SHARDS_MAX}"
            )));
        }
        let template = member.settings_of_rows();
        let shares = shares_prefix(member.group(), name);
        let declaration = Some(declaration(*count, 0));
        let own = template.for_row(format!("{shares}{}", member.id()), declaration).build()?;
        let settings = own.settings()?;
        let timing = &settings.timing;
        let place = Place {
            table: Arc::clone(member.table()),
            shares,
            shards: shards_prefix(member.group(), name),
            count: *count,
            lease: timing.lease,
            repeats: Arc::default(),
        };
        // The longest key is that of the last shard.
        template.for_row(place.shard_key(*count), None).build()?;
        Ok(Controller {
            share: Share::new(member.id(), timing.lease, timing.poll_interval),
            member: member.clone(),
            lock: template.clone(),
            poll: timing.poll_interval,
            restart: *restart,
            place,
            leave: CancellationToken::new(),
            cancel,
            dropped,
            meter: Meter::new(&Arc::from(own.name())),
            view: Arc::clone(&self.view),
            left: BTreeMap::new(),
            own,
            hands: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            workers: Workers::default(),
            last: None,
            is_more: false,
            awaited: Vec::new(),
            all_due: Instant::now(),
            failures: 0,
            others: Vec::new(),
            tidied: Instant::now(),
        })
    }
}

/// Where one member decides about its share.
struct Controller {
    member: Member,
    lock: LockBuilder,
    place: Place,
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
    /// The texts that the last owners of some shards left for the next.
    left: BTreeMap<usize, Arc<str>>,
    hands: BTreeMap<usize, TaskHandle>,
    /// Those that Spanner did not answer about when this member last tried to take them.
    unanswered: BTreeSet<usize>,
    workers: Workers,
    last: Option<View>,
    /// True if there are more shards to hand over than the last decision did.
    is_more: bool,
    /// The shards that others are handing to this member.
    awaited: Vec<usize>,
    /// By when all shards are polled, not these alone.
    all_due: Instant,
    /// Polls that failed in a row.
    failures: u32,
    /// The members that share another number, as the last poll of all showed them.
    others: Vec<Other>,
    tidied: Instant,
}

#[derive(Default)]
struct Workers {
    tasks: JoinSet<Finished>,
    numbers: HashMap<Id, usize>,
    stuck: Option<Error>,
}

impl Controller {
    async fn supervise<F, Fut>(mut self, task: Arc<F>) -> Result<()>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        if !self.knows_its_past().await? {
            return Ok(());
        }
        let running = self.own.run(self.leave.clone());
        let worked = self.work(&task).await;
        let left = self.end(running).await;
        worked.and(left)
    }

    /// Finds out how many of its lives ended early, and says so in its row; false if it is cancelled
    /// before. One whose id is random has no past.
    async fn knows_its_past(&mut self) -> Result<bool> {
        while self.member.is_named() {
            let polled = tokio::select! {
                biased;
                () = self.dropped.cancelled() => return Ok(false),
                () = self.cancel.cancelled() => return Ok(false),
                polled = self.place.poll() => polled,
            };
            let pause = match polled {
                Ok(polled) => {
                    let early = self.place.early_lives(self.member.id(), &polled);
                    let info = Some(declaration(self.place.count, early));
                    let key = self.place.share_key(self.member.id());
                    self.own = self.lock.for_row(key, info).build()?;
                    break;
                }
                Err(error) => self.pause_after(&error),
            };
            tokio::select! {
                biased;
                () = self.dropped.cancelled() => return Ok(false),
                () = self.cancel.cancelled() => return Ok(false),
                () = sleep(pause) => {}
            }
        }
        Ok(true)
    }

    /// Polls and acts until it is cancelled, or can't go on.
    async fn work<F, Fut>(&mut self, task: &Arc<F>) -> Result<()>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut next_poll = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = self.dropped.cancelled() => return Ok(()),
                () = self.cancel.cancelled() => return Ok(()),
                Some(joined) = self.workers.tasks.join_next_with_id() => {
                    let has_left = self.finished(joined) && self.is_more;
                    if has_left && !self.hands.values().any(TaskHandle::is_leaving) {
                        // The next tenth.
                        next_poll = next_poll.min(Instant::now() + POLL_PAUSE_MIN);
                    }
                    continue;
                }
                () = sleep_until(next_poll) => {}
            }
            let is_all = self.awaited.is_empty() || self.all_due <= Instant::now();
            let polled = tokio::select! {
                biased;
                () = self.dropped.cancelled() => return Ok(()),
                () = self.cancel.cancelled() => return Ok(()),
                polled = self.poll_due(is_all) => polled,
            };
            next_poll = match polled {
                Ok(polled) => {
                    let pause = self.act(polled, is_all, task).await?;
                    if is_all {
                        self.all_due = Instant::now() + self.poll;
                    }
                    (Instant::now() + pause).min(self.all_due + POLL_PAUSE_MIN)
                }
                Err(error) => Instant::now() + self.pause_after(&error),
            };
        }
    }

    async fn poll_due(&self, is_all: bool) -> Result<Polled> {
        match &self.last {
            Some(last) if !is_all => self.place.poll_some(last, &self.awaited).await,
            _ => self.place.poll().await,
        }
    }

    async fn act<F, Fut>(&mut self, polled: Polled, is_all: bool, task: &Arc<F>) -> Result<Duration>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        if self.failures > 0 {
            let (lock, failures) = (self.own.name(), self.failures);
            say(|| tracing::info!(lock, failures, "the shards can be read again"));
            self.failures = 0;
        }
        if is_all {
            self.check_count(&polled)?;
            self.view.polled(self.member.id(), &polled.view, &self.meter);
            self.left.clear();
        }
        self.awaited.iter().for_each(|shard| drop(self.left.remove(shard)));
        self.left.extend(polled.left.iter().map(|(shard, text)| (*shard, Arc::clone(text))));
        let parts = self.hands.iter().map(|(shard, hand)| (*shard, hand.part())).collect();
        let is_member = self.own.has_lock().is_some();
        let now = self.own.settings()?.clock.now();
        let step = self.share.decide(now, &polled.view, &parts, is_member);
        let Step { take, hand_over, is_more, poll_again, mut awaited } = step;
        awaited.truncate(AWAITED_MAX);
        (self.is_more, self.awaited) = (is_more, awaited);
        for shard in take {
            self.take(shard, Arc::clone(task));
        }
        for (shard, to) in hand_over {
            if let Some(hand) = self.hands.get(&shard) {
                hand.leave(Succession::Successor { id: to, grace: self.share.promise() });
            }
        }
        self.tidy(&polled).await;
        self.last = Some(polled.view);
        // A little later than the change that it waits for, and not at the same time as the others.
        let spread = (self.poll / 4).min(POLL_PAUSE_MIN);
        let jitter = spread.mul_f64(chance::random::<f64>());
        Ok(poll_again.max(POLL_PAUSE_MIN / 4) + jitter)
    }

    /// Refuses to go on beside members that came before and share another number.
    fn check_count(&mut self, polled: &Polled) -> Result<()> {
        let own = self.own.has_lock().map(|token| token.to_timestamp());
        let is_before = |since| own.is_none_or(|own| since < own);
        let (ours, shards) = (self.place.count, &*self.place.shards);
        let Some(other) = polled.others.iter().find(|other| is_before(other.since)) else {
            self.warn_of(&polled.others);
            return Ok(());
        };
        let Other { id, count, says, .. } = other;
        let least = if *says { "" } else { "at least " };
        Err(self.member.refuse(format!(
            "{ours} shards under `{shards}`, of which `{id}` shares {least}{count}; another count is \
             another name"
        )))
    }

    /// Logs those that came later and share another number: each once in a term of its membership.
    fn warn_of(&mut self, others: &[Other]) {
        let (lock, ours) = (self.own.name(), self.place.count);
        let is_known = |other: &&Other| {
            self.others.iter().any(|known| (&known.id, known.since) == (&other.id, other.since))
        };
        for Other { id, count, .. } in others.iter().filter(|other| !is_known(other)) {
            say(|| {
                tracing::warn!(
                    lock,
                    ours,
                    member = id,
                    theirs = count,
                    "another count of the same shards"
                )
            });
        }
        self.others = others.to_vec();
    }

    fn take<F, Fut>(&mut self, shard: usize, task: Arc<F>)
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let hand = TaskHandle::new(shard, &self.view);
        let lock = self.lock.for_row(self.place.shard_key(shard), self.lock.said_info());
        let worker = Worker {
            number: shard,
            count: self.place.count,
            handed_over: self.left.get(&shard).cloned(),
            lock: lock.repeats(self.unanswered.remove(&shard)),
            hand: hand.clone(),
            over: self.leave.clone(),
            dropped: self.dropped.clone(),
        };
        let id = self.workers.tasks.spawn(worker.work(task)).id();
        self.workers.numbers.insert(id, shard);
        self.hands.insert(shard, hand);
    }

    /// Takes note of a worker's end; true if it was told to leave.
    fn finished(&mut self, joined: Result<(Id, Finished), JoinError>) -> bool {
        let (id, finished) = match joined {
            Ok((id, finished)) => (id, finished),
            // Nothing in a worker panics but a log, which is caught.
            Err(error) => (error.id(), Finished::Failed(Duration::ZERO)),
        };
        let Some(shard) = self.workers.numbers.remove(&id) else { return false };
        let hand = self.hands.remove(&shard);
        match finished {
            Finished::Gone => {}
            Finished::Unanswered => {
                self.unanswered.insert(shard);
                if let Ok(settings) = self.own.settings() {
                    self.share.unanswered(settings.clock.now(), shard);
                }
            }
            Finished::Failed(ran) => {
                if let Ok(settings) = self.own.settings() {
                    self.share.failed(settings.clock.now(), shard, ran);
                }
            }
            Finished::Unstoppable(error) => self.workers.stuck = Some(error),
        }
        hand.is_some_and(|hand| hand.is_leaving())
    }

    fn pause_after(&mut self, error: &Error) -> Duration {
        let lock = self.own.name();
        if self.failures == 0 {
            say(|| tracing::warn!(lock, %error, "the shards can't be read; keeps what it has"));
        }
        let pause = (self.poll * 2_u32.saturating_pow(self.failures.min(10))).min(PAUSE_LONGEST);
        self.failures = self.failures.saturating_add(1);
        pause.max(self.poll).mul_f64(1.0 - chance::random::<f64>() / 4.0)
    }

    /// Deletes the rows of those that are long gone; one member does it for all.
    async fn tidy(&mut self, polled: &Polled) {
        let first = polled.view.members.iter().map(|member| &*member.id).min();
        let was_read = !polled.shares.rows.is_empty();
        if was_read && first == Some(self.member.id()) && self.tidied.elapsed() >= TIDY_INTERVAL {
            self.tidied = Instant::now();
            tidy(&self.place.table, &polled.shares, self.place.lease).await;
        }
    }

    /// Leaves. Its shards are promised to nobody else: whoever they went to may be leaving, too.
    async fn end(&mut self, running: RunHandle) -> Result<()> {
        let is_told = self.cancel.is_cancelled() && !self.dropped.is_cancelled();
        let restart = self.restart.filter(|_| is_told);
        let to_itself = |grace| Succession::Successor { id: self.member.id().to_string(), grace };
        let next = restart.map_or(Succession::Anyone, to_itself);
        if restart.is_some() {
            self.own.resign_for(next.clone()).await;
        }
        // The others count this member no more, and expect its shards.
        self.leave.cancel();
        self.hands.values().for_each(|hand| hand.leave(next.clone()));
        let left = running.await;
        if restart.is_none() {
            let key = self.place.share_key(self.member.id());
            remove_released(self.member.table(), &key).await;
        }
        while let Some(joined) = self.workers.tasks.join_next_with_id().await {
            self.finished(joined);
        }
        self.view.ended();
        self.workers.stuck.take().map_or(left, Err)
    }
}
