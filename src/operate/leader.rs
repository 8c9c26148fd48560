//! The holder of an instance's lock, asked of Spanner or remembered.

use spindle_protocol::{Observation, Row, Timestamp};

use super::inspect::inspect;
use super::state::LockState;
use crate::error::Result;
use crate::lock::Spindle;
use crate::term::Term;

impl Spindle {
    /// Asks Spanner who holds the lock, whichever instance it is, or why nobody does.
    /// [`LockTable::inspect`](crate::LockTable::inspect) asks without an instance.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for settings that can't work; otherwise why Spanner
    /// could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn inspect(&self) -> Result<LockState> {
        self.settings()?;
        inspect(self.table(), self.name()).await
    }

    /// Tells who holds the lock as far as this instance knows, without a request: itself, or the
    /// holder that its last poll saw. It gives nothing if that poll saw nobody, or if the lease
    /// that it saw has run out since.
    ///
    /// It may be wrong by a poll interval and a request, longer while Spanner can't be reached.
    /// Polls don't read [`info`](LockState::info), so another's is only in
    /// [`inspect`](Spindle::inspect). The time [`read_at`](LockState::read_at) is now, by Spanner's
    /// clock, as the last poll lets it be known.
    pub fn known_leader(&self) -> Option<LockState> {
        match self.term() {
            Some(term) => self.own_state(&term),
            None => self.polled_state(),
        }
    }

    fn own_state(&self, term: &Term) -> Option<LockState> {
        let settings = self.settings().ok()?;
        let (lease, token) = (settings.timing.lease, term.token().to_timestamp());
        let polled_until = self.published().polled().map(|(polled, age)| polled.read_at + age);
        let now = polled_until.unwrap_or(token).max(token);
        let age = settings.timing.validity().saturating_sub(term.remaining());
        let age_nanoseconds = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        let heartbeat = Timestamp(now.0.saturating_sub(age_nanoseconds)).max(token);
        let row = Row { heartbeat, token, writer: term.writer().clone(), lease: Some(lease) };
        let found = Some((row, settings.info.clone()));
        let state = LockState::of(&settings.name, found, now, lease);
        Some(LockState { heartbeat_age: Some(age), ..state })
    }

    /// Returns the state that the last poll saw, unless the lease that it saw has run out since.
    fn polled_state(&self) -> Option<LockState> {
        let lease = self.settings().ok()?.timing.lease;
        let (Observation { row, read_at, .. }, age) = self.published().polled()?;
        // Where the row tells no lease, the holder's counts as long as one's own.
        let state = LockState::of(self.name(), Some((row?, None)), read_at + age, lease);
        state.is_held().then_some(state)
    }
}
