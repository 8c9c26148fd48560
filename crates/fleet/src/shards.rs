//! Sharing shards out among the members of a group.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::LEASE_MAX;
use spindle_protocol::fleet::SHARDS_MAX;
use tokio_util::sync::CancellationToken;

use spindle::Result;
use spindle::TaskResult;
use spindle::rows::runtime;
use spindle::task::joined;

use crate::controller::{Controller, Sharing};
use crate::member::Member;
use crate::names::check_part;
use crate::shard::Shard;
use crate::shards_view::ShardEvents;

const WEIGHT_MAX: u32 = 1_000;

impl Member {
    /// Names shards that the members of the group share out among themselves: `count` pieces of
    /// work, each of which one member at a time works.
    ///
    /// Nothing happens before [`run`](Shards::run). From 1 to 10,000 shards.
    ///
    /// The first member of a new group writes its count into a row of its own. All others go by
    /// that row, whoever lives and whatever outage there was. The `run` of a member that names another
    /// count fails, unless that one was the count before the last move. To move a fleet to another
    /// count, call [`ShardCount::resize`](crate::ShardCount::resize).
    pub fn shards(&self, name: impl Into<String>, count: usize) -> Shards {
        Shards(Sharing {
            member: self.clone(),
            name: name.into(),
            count,
            restart: None,
            weight: 1,
            view: Arc::default(),
        })
    }
}

/// Pieces of work that the members of a group share, made by [`Member::shards`].
#[derive(Clone, Debug)]
#[must_use = "nothing is shared until `run` is called"]
pub struct Shards(Sharing);

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
    /// A process that is killed keeps nothing: others have its shards once its lease is over.
    ///
    /// ```
    /// # use spindle::{Database, LockTable};
    /// # use spindle_fleet::Member;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    /// let member = Member::new(&table, "orders").id("orders-0").build()?;
    /// let shards = member.shards("partitions", 60).restart_within(Duration::from_secs(30));
    /// # drop(shards);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`run`](Shards::run) refuses a limit of zero or of more than a day. It refuses a member whose id
    /// is the random default, too: no other process could come back as it.
    pub fn restart_within(mut self, limit: Duration) -> Shards {
        self.0.restart = Some(limit);
        self
    }

    /// Gives this member a share so many times as large as one of weight 1 gets; by default 1, from 1
    /// to 1,000.
    ///
    /// It is another number for each member, such as that of its processors. Nothing measures the load.
    /// To change it, let the member leave and come back with another one.
    ///
    /// A member says its weight in its row.
    ///
    /// ```
    /// # use spindle::{Database, LockTable};
    /// # use spindle_fleet::Member;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    /// // Of three members, this one works half of the shards.
    /// let member = Member::new(&table, "orders").id("large").build()?;
    /// let shards = member.shards("partitions", 60).weight(2);
    /// # drop(shards);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`run`](Shards::run) refuses another weight.
    pub fn weight(mut self, weight: u32) -> Shards {
        self.0.weight = weight;
        self
    }

    /// Returns the shards that this member has now, by their numbers. Local.
    ///
    /// A clone that is kept beside [`run`](Shards::run) tells what that does:
    ///
    /// ```
    /// use spindle_fleet::{Shard, ShardEvent};
    /// use spindle_fleet::Member;
    /// use spindle::{CancellationToken, Database, Ddl, LockTable};
    /// # use spindle_emulator::Emulator;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
    /// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
    /// let shards = Member::new(&table, "orders").id("node-1").build()?.shards("partitions", 4);
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
        self.0.view.mine()
    }

    /// Returns the owner of each shard, by the shards' numbers, as the last poll showed it. Local, so
    /// up to a poll old; empty while [`run`](Shards::run) doesn't run, and before its first poll.
    ///
    /// A member that died owns its shards until its lease is over.
    pub fn owners(&self) -> Vec<Option<String>> {
        self.0.view.owners()
    }

    /// Returns true if the last poll showed that each shard has an owner, and that none is to move.
    pub fn is_settled(&self) -> bool {
        self.0.view.is_settled()
    }

    /// Returns the events from now on: shards gained, being given up, given up and lost, and that all
    /// are settled. They cost no request.
    pub fn events(&self) -> ShardEvents {
        self.0.view.events()
    }

    /// Works this member's share of the shards until `cancel` is cancelled.
    ///
    /// For each shard that this member gets, `task` is called, and the future that it returns is run
    /// as a task of its own. Each shard is an ordinary lock: the task has it under a term, and may
    /// work until [`cancelled`](spindle::Term::cancelled).
    ///
    /// # Promises
    ///
    /// - At most one task of a shard is at work, by the rules of every lock. It is told to stop before
    ///   its term expires, and aborted if it doesn't. Code that blocks its thread can't be aborted.
    /// - Shares of equal [`weight`](Shards::weight) differ by at most one shard once nothing changes, and
    ///   a join moves only what the joiner gets. [`plan`](crate::plan) says who gets what.
    /// - A member that joins gets its shards by name. The task is told to stop and ends; then the
    ///   shard is released for its new owner alone. Nobody else takes it for two polls.
    /// - The shards of a member that crashed run elsewhere once its lease is over.
    ///
    /// # How it goes
    ///
    /// Each member reads the rows of all members and shards at every poll, in one request, and makes
    /// the same plan of them. A leave counts at once. A join counts after three times the default
    /// [`poll_interval`](spindle::LockBuilder::poll_interval) of its lease. Where no live member counts, all
    /// do, once the first of them has been there for one. A member hands over at once what it has too
    /// many, and the next owner's next poll takes it. A hand-over of unknown outcome leaves the shard
    /// alone until the lease is over, at most.
    ///
    /// A shard whose owner leaves is at work elsewhere within two polls, of the interval that the members
    /// poll at. Each next owner that leaves or dies before it has taken the shard adds two polls. So a
    /// rolling deploy costs polls, not leases, if more than two polls pass between its steps.
    ///
    /// A member whose lease ran out, since it crashed, makes joins count later for ten leases: two
    /// leases after they join. So a member in a crash loop moves few shards. Its shards, and those that
    /// were being handed to it, are vacant until its lease is over.
    ///
    /// A task that **returns**, before `cancel` is cancelled, or **panics** gives its shard up. This
    /// member then leaves the shard to others, for a pause that doubles from 1 s to 10 min. A shard
    /// that its planned owner leaves alone for two polls goes to another member. The same holds for a task
    /// that returns an **error**, which is logged. But an error, or a cause of it, that says that the
    /// shard's term is over ([`is_fenced`](spindle::is_fenced)) is a loss and no failure: there is no
    /// pause. So a task may use `?` on each fenced write.
    ///
    /// All the tasks of a process share its heartbeats and polls with every other lock of the same
    /// [`LockTable`](spindle::LockTable). The member's row in the group is another thing: run
    /// [`Member::run`], too, if it is to be seen by [`Member::members`]. For probes ask
    /// [`LockTable::health`](spindle::LockTable::health), which tells of all the locks behind them.
    ///
    /// ```
    /// use spindle::{CancellationToken, Database, Ddl, LockTable};
    /// use spindle_fleet::Member;
    /// use spindle_fleet::Shard;
    /// # use spindle_emulator::Emulator;
    /// # use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
    /// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
    /// let member = Member::new(&table, "orders").id("node-1").lease(Duration::from_secs(1)).build()?;
    /// let (started, mut at_work) = tokio::sync::mpsc::unbounded_channel();
    /// let cancel = CancellationToken::new();
    /// let task = move |shard: Shard| {
    ///     let started = started.clone();
    ///     async move {
    ///         // … work, and write under shard.fence() …
    ///         started.send(shard.number()).ok();
    ///         shard.cancelled().await;
    ///     }
    /// };
    /// let sharing = tokio::spawn(member.shards("partitions", 4).run(cancel.clone(), task));
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
    /// [`is_config`](spindle::Error::is_config) for settings that can't work.
    /// [`is_other_count`](crate::is_other_count) if the group shares another count of these
    /// shards when `run` begins; a `run` that goes on follows each move.
    ///
    /// [`is_unstoppable`](spindle::Error::is_unstoppable) if a task
    /// could not be stopped when `run` ended. Outages are no errors: each shard is kept for as long
    /// as its own lease can be renewed. `run` waits for a table that is missing, too, and logs that each
    /// minute.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the tasks, without the time to stop that `cancel` gives. The shards
    /// are released once they have ended.
    pub fn run<R, F, Fut>(
        &self,
        cancel: CancellationToken,
        task: F,
    ) -> impl Future<Output = Result<()>> + Send + use<R, F, Fut>
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let this = self.clone();
        async move {
            this.check()?;
            let runtime = runtime(&format!("group `{}`", this.0.member.group()))?;
            let dropped = CancellationToken::new();
            let _drop = dropped.clone().drop_guard();
            let controller = Controller::new(&this.0, cancel, dropped)?;
            let name = controller.name().to_string();
            let task = move |shard| {
                let task = task(shard);
                async move { task.await.into_result().map(drop) }
            };
            joined(runtime.spawn(controller.run(Arc::new(task))).await, &name)
        }
    }

    /// Refuses settings that can't work.
    fn check(&self) -> Result<()> {
        let Sharing { member, name, count, restart, weight, .. } = &self.0;
        check_part("shards", name)?;
        if let Some(limit) = restart.filter(|limit| limit.is_zero() || *limit > LEASE_MAX) {
            let rule = format!("more than zero and at most {LEASE_MAX:?}");
            return Err(member.refuse(format!("restart within {limit:?}; {rule}")));
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
        if !(1..=WEIGHT_MAX).contains(weight) {
            return Err(member.refuse(format!(
                "weight {weight} for the shards `{name}`; expected 1 to {WEIGHT_MAX}"
            )));
        }
        Ok(())
    }
}
