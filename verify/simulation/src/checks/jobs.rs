//! The promise of a job: each slot is started so many times at most, slots only go up, and none is started
//! again once its end is recorded.

/// The starts of the job that all callers share.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The last slot that was started, and how many times it was.
    last: Option<(i64, u32)>,
    /// The last slot whose end was recorded, as its caller was told.
    done: Option<i64>,
}

impl Runs {
    pub(super) fn began(&mut self, slot: i64, start: u32, attempts: u32) -> Result<(), String> {
        let (last, starts) = self.last.unwrap_or((slot, 0));
        let starts = if last == slot { starts + 1 } else { 1 };
        self.last = Some((slot.max(last), starts));
        if slot < last {
            return Err(format!("the slot {slot} was started after {last}"));
        }
        if self.done == Some(slot) {
            return Err(format!(
                "the slot {slot} was started again although it was recorded as done"
            ));
        }
        // One that was won and never begun counts as well.
        if starts > attempts || start > attempts || start < starts {
            let of = format!("start {start} of {attempts}");
            return Err(format!("the slot {slot} was started {starts} times: {of}"));
        }
        Ok(())
    }

    pub(super) fn done(&mut self, slot: i64) {
        self.done = self.done.max(Some(slot));
    }
}
