//! The results of a task of `lead`, and the options for its failures.

use std::time::Duration;

use spindle_protocol::LEASE_MAX;

use crate::error::{Error, Result, TaskError};
use crate::settings::check_limit;

/// The first and the longest pause after a failure of the task, by default.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// The values that a task of [`lead`](crate::Spindle::lead) or of a [job](crate::LockBuilder::job) may
/// return: nothing, or a `Result` whose error is, or can be made, a `Box<dyn std::error::Error + Send + Sync>`.
#[diagnostic::on_unimplemented(
    message = "a task returns `()` or a `Result`, not `{Self}`",
    label = "return `Ok(…)` of it",
    note = "a task that never returns, of the type `!`, doesn't stop when it is told to: loop \
            `while !term.is_cancelled()`"
)]
pub trait TaskResult: Send + 'static {
    /// The value of a task that succeeded.
    type Value: Send + 'static;

    /// Returns the value, or the error.
    ///
    /// # Errors
    ///
    /// That of the task.
    fn into_result(self) -> Result<Self::Value, TaskError>;
}

impl TaskResult for () {
    type Value = ();

    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<T, E> TaskResult for Result<T, E>
where
    T: Send + 'static,
    E: Into<TaskError> + Send + 'static,
{
    type Value = T;

    fn into_result(self) -> Result<T, TaskError> {
        self.map_err(Into::into)
    }
}

/// The choices of a [`Lead`](super::Lead) about a task that fails or hangs.
#[derive(Clone, Debug)]
pub(super) struct LeadOptions {
    pub(super) ends_on_error: bool,
    pub(super) pause_first: Duration,
    pub(super) pause_longest: Duration,
    pub(super) watchdog: Option<Duration>,
}

impl Default for LeadOptions {
    fn default() -> LeadOptions {
        LeadOptions {
            ends_on_error: false,
            pause_first: PAUSE_FIRST,
            pause_longest: PAUSE_LONGEST,
            watchdog: None,
        }
    }
}

impl LeadOptions {
    pub(super) fn check(&self, lock: &str) -> Result<()> {
        let LeadOptions { pause_first: first, pause_longest: longest, watchdog, .. } = self;
        if first.is_zero() || first > longest || *longest > LEASE_MAX {
            return Err(Error::config(format!(
                "lock `{lock}`: pauses of {first:?} to {longest:?}; more than zero, rising, and at \
                 most {LEASE_MAX:?}"
            )));
        }
        if let Some(limit) = watchdog {
            check_limit("watchdog after", *limit, LEASE_MAX)
                .map_err(|rule| Error::config(format!("lock `{lock}`: {rule}")))?;
        }
        Ok(())
    }
}
