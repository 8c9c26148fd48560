//! The phases in which nothing else is amiss: manual edits of the rows, the recovery.

use std::time::Duration;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use tokio::time::{Instant, sleep, sleep_until};

use super::Nemesis;
use crate::history::{Event, Failure, Fault};
use crate::tables::Edit;

impl Nemesis<'_> {
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
