//! The end of a world: all let go, and everything is looked at for the last time.

use std::time::Duration;

use spindle::operate::PastTerm;
use spindle_protocol::Timestamp;
use tokio::time::sleep;

use super::World;
use crate::checks::{self, Invariant, SETTLING};
use crate::coverage::CoverageGoal;
use crate::past;
use crate::rows::TABLE;

impl World {
    /// Looks at everything for the last time, and has everybody release what is held.
    pub(crate) async fn finish(&self) {
        self.look_at_rows();
        self.closing().cancel();
        self.instances.iter().for_each(|instance| instance.stop(Duration::ZERO));
        sleep(SETTLING * 2 + self.plan.longest_lease()).await;
        self.look_at_rows();
        let told = self.told_past().await;
        self.checks().settle(Timestamp(i64::MAX));
        self.compare_past(&told);
        // A table that loses all rows loses these as well.
        if self.report().coverage.count(CoverageGoal::DataLost) > 0 {
            return;
        }
        if let Ok(rows) = self.database.rows(TABLE) {
            self.expect(Invariant::I6, checks::unharmed(&rows));
        }
        self.judge_told();
    }

    /// Counts the rows beside each lock's own (I8). Manual edits may have left any.
    fn look_at_rows(&self) {
        let Ok(rows) = self.database.rows(TABLE) else { return };
        if self.plan.has_manual_edits {
            return;
        }
        for planned in &self.plan.locks {
            let bounded = checks::bounded_rows(&planned.name, &rows, &self.checks().peers);
            self.expect(Invariant::I8, bounded);
        }
    }

    /// Returns the library's account of each lock's past; nothing where the commits are not seen.
    async fn told_past(&self) -> Vec<(&str, Vec<PastTerm>, Timestamp)> {
        let mut told = Vec::new();
        for plan in self.plan.locks.iter().filter(|_| !self.plan.through_client) {
            let (terms, read_at) = past::told(self, &plan.name).await;
            told.push((plan.name.as_str(), terms, read_at));
        }
        told
    }

    fn compare_past(&self, told: &[(&str, Vec<PastTerm>, Timestamp)]) {
        let window = i64::try_from(past::WINDOW.as_nanos()).unwrap_or(i64::MAX);
        for (name, terms, read_at) in told {
            let since = Timestamp(read_at.0.saturating_sub(window));
            let compared = self.checks().history.past.compare(name, terms, *read_at, since);
            match compared {
                Ok(causes) => causes.into_iter().for_each(|cause| self.saw(cause)),
                Err(what) => self.fail(Invariant::Past, what),
            }
        }
    }
}
