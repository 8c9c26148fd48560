//! The end of a world: all let go, and everything is looked at for the last time.

use std::time::Duration;

use spindle::operate::PastTerm;
use spindle_protocol::Timestamp;
use tokio::time::sleep;

use super::{SETTLING, World};
use crate::checks::{self, Invariant};
use crate::chronicle;
use crate::machine::lock;
use crate::rows::TABLE;

impl World {
    /// Looks at everything for the last time, and has everybody release what is held.
    pub(crate) async fn finish(&self) {
        self.look_at_rows();
        self.closing().cancel();
        self.processes.iter().for_each(|process| process.stop(Duration::ZERO));
        sleep(SETTLING * 2 + self.plan.longest_lease()).await;
        self.look_at_rows();
        let told = self.told_past().await;
        let now = self.now();
        self.check(|checks| checks.settle(Timestamp(i64::MAX), now));
        self.compare_past(&told);
        // A table that loses all rows loses these as well.
        if self.plan.has_manual_edits {
            return;
        }
        if let Ok(rows) = self.database.rows(TABLE)
            && let Err(what) = checks::unharmed(&rows)
        {
            self.fail(Invariant::I6, what);
        }
        if let Err(what) = self.compare_told(&self.database) {
            self.fail(Invariant::I3, what);
        }
    }

    /// Counts the rows beside each lock's own (I8). Manual edits may have left any.
    fn look_at_rows(&self) {
        let Ok(rows) = self.database.rows(TABLE) else { return };
        if self.plan.has_manual_edits {
            return;
        }
        for planned in &self.plan.locks {
            let bounded = checks::bounded_rows(&planned.name, &rows, &lock(&self.peers));
            if let Err(what) = bounded {
                self.fail(Invariant::I8, what);
            }
        }
    }

    /// Returns the library's account of each lock's past; nothing where the commits are not seen.
    async fn told_past(&self) -> Vec<(String, Vec<PastTerm>, Timestamp)> {
        let mut told = Vec::new();
        for plan in self.plan.locks.iter().filter(|_| !self.plan.through_client) {
            let (terms, read_at) = chronicle::of(self, &plan.name).await;
            told.push((plan.name.clone(), terms, read_at));
        }
        told
    }

    fn compare_past(&self, told: &[(String, Vec<PastTerm>, Timestamp)]) {
        let checks = lock(&self.checks);
        let mut history = lock(&self.history);
        let window = i64::try_from(chronicle::WINDOW.as_nanos()).unwrap_or(i64::MAX);
        for (name, terms, read_at) in told {
            let since = Timestamp(read_at.0.saturating_sub(window));
            match (checks.history.past.compare(name, terms, *read_at, since), &mut *history) {
                (Ok(causes), Ok(counts)) => {
                    causes.into_iter().for_each(|cause| *counts.entry(cause).or_default() += 1);
                }
                (Err(what), Ok(_)) => *history = Err(what),
                (_, Err(_)) => {}
            }
        }
    }
}
