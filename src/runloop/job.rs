//! A job's two rows as one caller has them, and what its observations mean for the slot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spindle_protocol::job::{Ending, Record, Recorded, Runner, Step};
use spindle_protocol::line::Standing;
use spindle_protocol::{Act, Change, Holder, Observation, Row, Timestamp};
use tokio::sync::watch;

use super::role::RowRole;

/// A job's two rows as one caller has them.
#[derive(Debug)]
pub(crate) struct JobRows {
    runner: Mutex<Runner>,
    seen: watch::Sender<Option<SlotSeen>>,
}

/// The slot as an observation shows it.
#[derive(Clone, Debug)]
pub(crate) struct SlotSeen {
    pub(crate) slot: Timestamp,
    pub(crate) step: Step,
    /// The lock's row.
    pub(crate) lock: Option<Row>,
    /// The record, and the job's row that has it.
    pub(crate) record: Option<(Record, Row)>,
}

impl JobRows {
    pub(crate) fn new(runner: Runner) -> JobRows {
        JobRows { runner: Mutex::new(runner), seen: watch::Sender::new(None) }
    }

    /// Returns the key of the job's row.
    pub(crate) fn key(&self) -> String {
        self.runner().key().to_string()
    }

    /// Returns the slot, and which start of it the last attempt was.
    pub(crate) fn begun(&self) -> (Timestamp, u32) {
        let runner = self.runner();
        (runner.slot().unwrap_or_default(), runner.start())
    }

    /// Begins anew by another instance.
    pub(crate) fn anew(&self) {
        self.runner().anew();
        self.seen.send_replace(None);
    }

    /// Says how the run ended, for the release that follows.
    pub(crate) fn ends(&self, ending: Ending) {
        self.runner().ends(ending);
    }

    /// Waits for an observation that `decides`.
    pub(crate) async fn decided(&self, decides: impl Fn(&SlotSeen) -> bool) -> SlotSeen {
        let mut seen = self.seen.subscribe();
        let found = seen.wait_for(|seen| seen.as_ref().is_some_and(&decides)).await;
        match found.ok().and_then(|seen| seen.clone()) {
            Some(seen) => seen,
            // The sender lives as long as this does.
            None => std::future::pending().await,
        }
    }

    fn runner(&self) -> MutexGuard<'_, Runner> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowRole for JobRows {
    fn standing(&self) -> Standing {
        Standing::Aside
    }

    fn other_rows(&self) -> Vec<Arc<str>> {
        vec![self.runner().key().into()]
    }

    fn observed(&self, own: Observation, others: &[Observation]) -> Observation {
        let [job] = others else { return own };
        let mut runner = self.runner();
        let lock = own.row.clone();
        let shown = runner.observed(own, job.clone());
        let record = runner.seen().cloned().and_then(|row| match Recorded::by(Some(&row)) {
            Recorded::Slot(record) => Some((record, row)),
            Recorded::Nothing | Recorded::Unreadable => None,
        });
        let slot = runner.slot().unwrap_or_default();
        self.seen.send_replace(Some(SlotSeen { slot, step: runner.step(), lock, record }));
        shown
    }

    fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        self.runner().change(act, holder)
    }
}
