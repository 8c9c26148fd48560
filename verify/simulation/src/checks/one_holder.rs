//! I1: at any instant at most one instance's `has_lock()` gives a token.

use std::sync::Arc;

use spindle::Term;

use crate::instance::Instance;

/// Asked whenever an instance has taken a step and holds: two terms can only begin to overlap when
/// one of them begins or is extended. The others are asked by their own clocks, also while paused.
pub(super) fn check(holder: &Instance, everyone: &[Arc<Instance>]) -> Result<(), String> {
    let Some(token) = holder.has_lock() else { return Ok(()) };
    let rival = everyone.iter().find_map(|other| {
        let rival = other.lock == holder.lock && other.who != holder.who;
        other.has_lock().filter(|_| rival).map(|token| (other, token))
    });
    match rival {
        None => Ok(()),
        Some((rival, rivals_token)) => Err(format!(
            "lock `{}`: #{} holds under {token}, and so does #{} under {rivals_token}",
            holder.lock_name, holder.who, rival.who
        )),
    }
}

/// The same, of an instance and of work under a term that was got by `acquire` or `lead`.
pub(super) fn check_against_work(instance: &Instance, work: Option<&Term>) -> Result<(), String> {
    match (instance.has_lock(), work) {
        (Some(token), Some(work)) => Err(format!(
            "lock `{}`: #{} holds under {token}, and work under {} goes on",
            instance.lock_name,
            instance.who,
            work.token()
        )),
        _ => Ok(()),
    }
}
