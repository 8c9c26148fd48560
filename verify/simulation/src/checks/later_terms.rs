//! I4: no deposed, paused, slow or duplicated request changes the row of a later term.

use std::time::Duration;

use spindle_protocol::Row;

use super::Purpose;
use crate::instance::Instance;
use crate::machine::TrueTime;

/// How far timers and readings at one instant of virtual time may be off.
const SLACK: Duration = Duration::from_millis(10);

/// A commit was applied when this was the row.
pub(super) fn check(purpose: &Purpose, row: Option<&Row>) -> Result<(), String> {
    let is_allowed = match purpose {
        Purpose::Insert => row.is_none(),
        Purpose::Takeover { seen, .. } => row.is_some_and(|row| row.is_same_heartbeat(seen)),
        Purpose::Heartbeat(term) | Purpose::Release { term, .. } => {
            row.is_some_and(|row| row.token == term.token && row.writer == term.writer)
        }
        _ => true,
    };
    if is_allowed { Ok(()) } else { Err(format!("{purpose:?} was applied to {row:?}")) }
}

/// A holder's term is not extended by a heartbeat sent after a later term began: the row must have
/// refused it.
pub(super) fn renewed_in_time(
    instance: &Instance,
    latest: u64,
    now: Duration,
) -> Result<(), String> {
    let Some(term) = instance.term().filter(|term| term.token().as_nanoseconds() < latest) else {
        return Ok(());
    };
    let rate = instance.clocks.rate();
    let valid_until = now + term.remaining().div_f64(rate);
    let renewed = valid_until.saturating_sub(instance.plan.timing.validity().div_f64(rate));
    let next_began = TrueTime::elapsed_at(latest.cast_signed());
    if renewed <= next_began + SLACK {
        return Ok(());
    }
    Err(format!(
        "lock `{}`: #{} was granted its term {} anew at {renewed:?}, after {latest} began at {next_began:?}",
        instance.lock_name,
        instance.who,
        term.token()
    ))
}
