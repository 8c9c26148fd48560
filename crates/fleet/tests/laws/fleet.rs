//! Members that share shards, and the book of who works which.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use spindle::testing::Clock;
use spindle::{CancellationToken, Error, FencingToken, LockTable, TaskResult};
use spindle_fleet::{Builder, Semaphore, Shard, ShardEvent, ShardEvents, Shards};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, World, until};

pub const FOUR: [&str; 4] = ["a", "b", "c", "d"];
pub const POLL: Duration = Duration::from_secs(1);
/// The time that answers, attempts and jitter take beside the polls.
pub const REST: Duration = Duration::from_millis(400);

pub struct Fleet {
    pub world: World,
    pub work: Work,
    pub lease: Duration,
    /// How many shards its members name.
    pub count: usize,
}

impl World {
    pub fn semaphore(&self, id: &str, permits: usize) -> Builder<Semaphore> {
        let semaphore = Semaphore::new(&self.table(), "uploads", permits);
        semaphore.id(id).lease(LEASE).clock(Clock::runtime())
    }
}

impl Fleet {
    pub async fn start(count: usize) -> Fleet {
        Fleet { world: World::start().await, work: Work::default(), lease: LEASE, count }
    }

    /// A fleet that has come to rest.
    pub async fn at_rest(ids: &[&str], count: usize, lease: Duration) -> (Fleet, Vec<Worker>) {
        let fleet = Fleet { lease, ..Fleet::start(count).await };
        let workers = ids.iter().map(|id| fleet.join(id)).collect();
        fleet.settles(ids.len()).await;
        sleep(lease).await;
        fleet.work.forget_gaps();
        (fleet, workers)
    }

    pub fn table(&self) -> LockTable {
        self.world.table()
    }

    pub fn shards(&self, id: &str) -> Shards {
        let member = self.world.member(id).lease(self.lease).build().unwrap();
        member.shards("partitions", self.count)
    }

    pub fn join(&self, id: &str) -> Worker {
        self.join_with(id, self.shards(id))
    }

    /// A member that shares these shards.
    pub fn join_with(&self, id: &str, shards: Shards) -> Worker {
        self.join_slowly(id, shards, |_| Duration::ZERO)
    }

    /// As `join_with`, by tasks that take so long to stop.
    pub fn join_slowly(
        &self,
        id: &str,
        shards: Shards,
        slow: impl Fn(usize) -> Duration + Send + Sync + 'static,
    ) -> Worker {
        let (work, id) = (self.work.clone(), id.to_string());
        Worker::run(shards, move |shard| {
            let (at_work, slow) = (work.enter(&id, &shard), slow(shard.number()));
            async move {
                let _at_work = at_work;
                shard.cancelled().await;
                sleep(slow).await;
            }
        })
    }

    /// Waits until so many members share all shards evenly.
    pub async fn settles(&self, members: usize) {
        self.settles_at(members, self.count).await;
    }

    /// Waits until so many members share just these shards evenly.
    pub async fn settles_at(&self, members: usize, count: usize) {
        let even = || {
            let shares = self.work.shares();
            let (least, most) = (shares.values().min()?, shares.values().max()?);
            let all = self.work.owners().into_keys().eq(0..count);
            (all && most - least <= 1 && shares.len() == members).then_some(())
        };
        until("all shards are shared evenly", even).await;
    }

    pub async fn all_at_work(&self) {
        let all = || (self.work.owners().len() == self.count).then_some(());
        until("all shards are at work", all).await;
    }

    /// Waits until one member works them all.
    pub async fn all_are_of(&self, id: &str) {
        let all = || (self.work.shards_of(id).len() == self.count).then_some(());
        until("it works them all", all).await;
    }

    /// Waits for a while, in which nothing is to move.
    pub async fn rests(&self) {
        let starts = self.work.starts();
        sleep(LEASE * 5).await;
        assert_eq!(self.work.starts(), starts, "a shard moved");
        self.work.check();
    }
}

/// A member that shares shards.
pub struct Worker {
    pub shards: Shards,
    /// From the beginning.
    pub events: ShardEvents,
    pub cancel: CancellationToken,
    pub sharing: JoinHandle<Result<(), Error>>,
}

impl Worker {
    pub fn run<R, F, Fut>(shards: Shards, task: F) -> Worker
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        Worker::run_until(CancellationToken::new(), shards, task)
    }

    pub fn run_until<R, F, Fut>(cancel: CancellationToken, shards: Shards, task: F) -> Worker
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let events = shards.events();
        let (running, stop) = (shards.clone(), cancel.clone());
        let sharing = tokio::spawn(async move { running.run(stop, task).await });
        Worker { shards, events, cancel, sharing }
    }

    /// Waits for the end of its `run`.
    pub async fn ends(self) -> Result<(), Error> {
        timeout(EVENTUALLY, self.sharing).await.expect("it ends").unwrap()
    }

    pub async fn leave(self) {
        self.cancel.cancel();
        self.ends().await.unwrap();
    }

    /// The events up to the next one that says that all is settled.
    pub async fn until_settled(&mut self) -> Vec<ShardEvent> {
        let mut events = Vec::new();
        let waiting = async {
            while let Some(event) = self.events.next().await {
                if event == ShardEvent::Settled {
                    return;
                }
                events.push(event);
            }
        };
        timeout(EVENTUALLY, waiting).await.expect("it settles");
        events
    }
}

/// Keeps the book of who works which shard, and of what must not be.
#[derive(Clone, Default)]
pub struct Work(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    at_work: BTreeMap<usize, (String, FencingToken)>,
    /// Of how many shards the one is that began last.
    count: usize,
    /// How many tasks of each count of shards are at work.
    counts: BTreeMap<usize, usize>,
    /// How many began while one of another count was at work.
    mixed: usize,
    tokens: BTreeMap<usize, FencingToken>,
    starts: usize,
    wrong: Vec<String>,
    /// When the last task of a shard ended.
    left: BTreeMap<usize, Instant>,
    gaps: Vec<Duration>,
}

/// A task at work; it is over when this is dropped.
pub struct AtWork {
    work: Work,
    shard: usize,
    count: usize,
}

impl Work {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap()
    }

    pub fn enter(&self, id: &str, shard: &Shard) -> AtWork {
        let mut book = self.book();
        let (number, count, token) = (shard.number(), shard.count(), shard.token());
        if let Some((other, _)) = book.at_work.insert(number, (id.to_string(), token)) {
            book.wrong.push(format!("shard {number}: {id} beside {other}"));
        }
        if book.tokens.insert(number, token).is_some_and(|before| before >= token) {
            book.wrong.push(format!("shard {number}: a token that is no later"));
        }
        book.starts += 1;
        book.count = count;
        *book.counts.entry(count).or_default() += 1;
        let at_work = book.counts.values().filter(|at_work| **at_work > 0).count();
        book.mixed += usize::from(at_work > 1);
        if let Some(gap) = book.left.get(&number).map(Instant::elapsed) {
            book.gaps.push(gap);
        }
        AtWork { work: self.clone(), shard: number, count }
    }

    pub fn owners(&self) -> BTreeMap<usize, String> {
        self.book().at_work.iter().map(|(shard, (id, _))| (*shard, id.clone())).collect()
    }

    pub fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for id in self.owners().into_values() {
            *shares.entry(id).or_default() += 1;
        }
        shares
    }

    pub fn shards_of(&self, id: &str) -> Vec<usize> {
        let owners = self.owners().into_iter();
        owners.filter(|(_, owner)| owner == id).map(|(shard, _)| shard).collect()
    }

    pub fn starts(&self) -> usize {
        self.book().starts
    }

    /// How many tasks began while one of another count of shards was at work.
    pub fn mixed(&self) -> usize {
        self.book().mixed
    }

    pub fn forget_gaps(&self) {
        self.book().gaps.clear();
    }

    /// The longest time for which a shard was left alone, until now.
    pub fn longest_gap(&self) -> Duration {
        let book = self.book();
        let is_idle = |shard: &usize| *shard < book.count && !book.at_work.contains_key(shard);
        let open = book.left.iter().filter(|(shard, _)| is_idle(shard)).map(|(_, at)| at.elapsed());
        open.chain(book.gaps.iter().copied()).max().unwrap_or_default()
    }

    pub fn check(&self) {
        assert_eq!(self.book().wrong, Vec::<String>::new());
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut book = self.work.book();
        book.at_work.remove(&self.shard);
        book.counts.entry(self.count).and_modify(|at_work| *at_work -= 1);
        book.left.insert(self.shard, Instant::now());
    }
}
