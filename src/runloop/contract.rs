//! The rule of the protocol's contract that a loop of this thread broke, for the simulation.

use std::cell::Cell;

thread_local! {
    static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Keeps the first rule that was broken.
pub(super) fn note(rule: Option<&'static str>) {
    BROKEN.set(BROKEN.get().or(rule));
}

/// Returns the rule that an instance on this thread was first to break since the last call, if one
/// did.
pub(crate) fn take() -> Option<&'static str> {
    BROKEN.take()
}
