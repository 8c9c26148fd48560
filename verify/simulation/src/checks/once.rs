//! The promise of `run_once`: from the begin of one run to that of the next at least so long.

use std::time::Duration;

/// How much the rounding of timestamps and of milliseconds may take away.
const SLACK: Duration = Duration::from_millis(2);

/// When the last run began, by its token.
#[derive(Debug, Default)]
pub(super) struct Runs(Option<u64>);

impl Runs {
    pub(super) fn began(&mut self, token: u64, at_least: Duration) -> Result<(), String> {
        let last = self.0.replace(token);
        let apart = last.map(|last| Duration::from_nanos(token.saturating_sub(last)));
        match apart {
            Some(apart) if apart + SLACK < at_least => Err(format!(
                "a run began {apart:?} after the last; at least {at_least:?} was asked"
            )),
            _ => Ok(()),
        }
    }
}
