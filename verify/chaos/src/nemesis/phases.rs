//! The phases in which nothing else is amiss: an election by ranks, manual edits of the rows, the recovery.

use std::cmp::Reverse;
use std::time::Duration;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use tokio::time::{Instant, sleep, sleep_until};

use super::Nemesis;
use crate::history::{Event, Failure, Fault};
use crate::setup::Rank;
use crate::tables::Edit;

impl Nemesis<'_> {
    /// Has the contender of the highest rank come anew, and then the leader crash. Waits each time
    /// for the one that leads by its rank then.
    pub(super) async fn reelect(&mut self) -> Result<(), Failure> {
        let Some(highest) = self.highest() else { return Ok(()) };
        self.say(Fault::Kill, Some(&highest))?;
        self.fleet.kill(&highest).await?;
        // So long it counts as a member, and as the one that held last.
        sleep(self.target.lease() * 2).await;
        self.fleet.start(&highest).await?;
        self.over(Fault::Kill, Some(&highest))?;
        self.wait_for_leader(&highest).await;

        let leader = self.fleet.holder().unwrap_or(highest);
        self.say(Fault::Kill, Some(&leader))?;
        self.fleet.kill(&leader).await?;
        if let Some(highest) = self.highest() {
            self.wait_for_leader(&highest).await;
        }
        self.fleet.start(&leader).await?;
        self.over(Fault::Kill, Some(&leader))
    }

    /// Returns the first of the running by rank; nothing if they have none.
    fn highest(&self) -> Option<String> {
        let running = self.fleet.running().into_iter();
        let ranked = running.filter_map(|id| Some((self.target.rank(&id)?.rank, id)));
        ranked.min_by_key(|(rank, id)| (Reverse(*rank), id.clone())).map(|(_, id)| id)
    }

    /// Waits until this one leads, or somebody who gives way to nobody, or for as long as it may take.
    async fn wait_for_leader(&self, id: &str) {
        let begin = Instant::now();
        while begin.elapsed() < self.target.rank_limit() + self.target.lease() {
            let holder = self.fleet.holder();
            let rank = holder.as_ref().and_then(|holder| self.target.rank(holder));
            let gives_way = !matches!(rank, Some(Rank { preempts: false, .. }));
            let has_settled = begin.elapsed() > self.target.lease() * 2;
            if holder.is_some_and(|holder| holder == id || !gives_way && has_settled) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        sleep(self.target.lease() / 2).await;
    }

    /// Edits or deletes lock rows, each kind in turn. Of many locks it leaves every second one
    /// alone: what is done to one row must not be felt under another.
    pub(super) async fn edit(&mut self, length: Duration) -> Result<(), Failure> {
        let end = Instant::now() + length;
        let mut kinds: Vec<Edit> = Vec::new();
        sleep(self.between(500, 1_500)).await;
        while Instant::now() < end {
            let Some(edit) = kinds.pop() else {
                kinds = Edit::ALL.to_vec();
                kinds.shuffle(&mut self.random);
                continue;
            };
            let fault = if edit == Edit::Delete { Fault::Delete } else { Fault::Edit };
            for _ in 0..self.target.count().div_ceil(20) {
                let lock = self.random.random_range(0..self.target.count().div_ceil(2)) * 2;
                self.journal.write_of(lock, Event::Fault { fault, on: None })?;
                self.outside.edit(edit, &self.target.key(lock)).await?;
            }
            sleep(self.between(500, 3_500)).await;
        }
        Ok(())
    }

    /// Leaves the fleet alone until somebody writes again under each lock, and for `length` at
    /// least.
    pub(super) async fn recovery(&mut self, length: Duration) -> Result<(), Failure> {
        let begin = Instant::now();
        // The last term's decisions don't count: the last edit may not have been felt yet.
        sleep(self.target.lease()).await;
        let before = self.outside.increments().await?;
        loop {
            let now = self.outside.increments().await?;
            if (0..self.target.count()).all(|lock| now.get(&lock) > before.get(&lock)) {
                break;
            }
            if begin.elapsed() > self.target.progress_limit() {
                // The checks say so.
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        sleep_until(begin + length).await;
        Ok(())
    }
}
