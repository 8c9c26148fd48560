//! Members that share shards, and the book of who was at work on which shard when.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::{CancellationToken, LockTable};
use spindle_fleet::Member;
use spindle_fleet::Shard;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::parts::Failure;
use crate::{LEASE, TIME_LIMIT};

/// The name of the group, and of its shards.
pub const GROUP: &str = "fleets";
pub const SHARDS: &str = "pieces";

/// A member at work. Its tasks stop as soon as they are told to.
pub struct Sharer {
    cancel: CancellationToken,
    sharing: JoinHandle<spindle::Result<()>>,
    running: spindle::RunHandle,
}

impl Sharer {
    pub fn start(
        table: &LockTable,
        id: &str,
        shards: usize,
        book: &Book,
    ) -> Result<Sharer, Failure> {
        let member = Member::new(table, GROUP).id(id).lease(LEASE).build()?;
        let cancel = CancellationToken::new();
        let running = member.run(cancel.clone());
        let (shards, stop) = (member.shards(SHARDS, shards), cancel.clone());
        let (book, id) = (book.clone(), id.to_string());
        let sharing = tokio::spawn(async move {
            let task = move |shard: Shard| {
                let (book, id) = (book.clone(), id.clone());
                async move {
                    let _at_work = book.enter(shard.number(), &id);
                    shard.cancelled().await;
                }
            };
            shards.run(stop, task).await
        });
        Ok(Sharer { cancel, sharing, running })
    }

    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Waits until it has left, once it was told to stop.
    pub async fn left(self) -> Result<(), Failure> {
        self.sharing.await??;
        Ok(self.running.await?)
    }
}

/// The beginnings and ends of tasks in this process.
#[derive(Clone, Default)]
pub struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    at_work: BTreeMap<usize, String>,
    begun: Vec<Begun>,
    /// When the last task of a shard ended.
    ended: BTreeMap<usize, Instant>,
}

/// A task that began in some member.
#[derive(Clone)]
pub struct Begun {
    pub at: Instant,
    /// For how long the shard had been at work nowhere, if it ever was.
    pub gap: Option<Duration>,
}

/// A task at work, until this is dropped.
struct AtWork(Book, usize);

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, shard: usize, id: &str) -> AtWork {
        let mut pages = self.pages();
        let at = Instant::now();
        pages.at_work.insert(shard, id.to_string());
        let gap = pages.ended.remove(&shard).map(|ended| at - ended);
        pages.begun.push(Begun { at, gap });
        AtWork(self.clone(), shard)
    }

    pub fn at_work(&self) -> usize {
        self.pages().at_work.len()
    }

    /// All tasks that began since this was asked last.
    pub fn begun(&self) -> Vec<Begun> {
        std::mem::take(&mut self.pages().begun)
    }

    /// How many tasks have begun since the book was asked for them last.
    pub fn begun_so_far(&self) -> usize {
        self.pages().begun.len()
    }

    fn is_even(&self, members: usize, shards: usize) -> bool {
        let pages = self.pages();
        let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
        pages.at_work.values().for_each(|id| *shares.entry(id).or_default() += 1);
        let (least, most) = (shards / members, shards.div_ceil(members));
        pages.at_work.len() == shards
            && shares.len() == members
            && shares.values().all(|share| (least..=most).contains(share))
    }

    /// Waits until each of the members has its share.
    pub async fn until_even(&self, members: usize, shards: usize) -> Result<(), Failure> {
        self.until(|book| book.is_even(members, shards)).await
    }

    pub async fn until(&self, is_so: impl Fn(&Book) -> bool) -> Result<(), Failure> {
        let start = Instant::now();
        while !is_so(self) {
            if start.elapsed() > TIME_LIMIT {
                return Err(format!("{} at work after {TIME_LIMIT:?}", self.at_work()).into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut pages = self.0.pages();
        pages.at_work.remove(&self.1);
        pages.ended.insert(self.1, Instant::now());
    }
}
