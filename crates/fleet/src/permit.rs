//! One of a semaphore's permits, held.

use std::ops::Deref;

use spindle::{Guard, ReleaseOutcome, Term};

use crate::pool::PermitSlot;

/// One of a semaphore's permits, held. It is renewed in the background until this is released or
/// dropped.
///
/// It is held like any lock, by a [`Guard`]: it can be lost, and dropping it releases it soon after.
/// It derefs to its [`Term`], which has the token, the fence and the cancellation. The token is later
/// than that of the previous holder of this number's permit.
///
/// A permit that was lost may be another process's by then. The callers of its own process wait until
/// it is dropped.
#[derive(Debug)]
#[must_use = "dropping a permit releases it"]
pub struct Permit {
    guard: Guard,
    slot: PermitSlot,
}

impl Permit {
    pub(crate) fn new(guard: Guard, slot: PermitSlot) -> Permit {
        Permit { guard, slot }
    }

    /// The number of the permit, from 0: at most one caller in the fleet has it.
    pub fn number(&self) -> usize {
        self.slot.number
    }

    /// Gives the permit back, within the release limit, and says what came of that.
    ///
    /// # Cancellation safety
    ///
    /// Once polled, the release goes on whether or not the future is dropped.
    pub async fn release(self) -> ReleaseOutcome {
        let Permit { guard, slot } = self;
        let release = guard.release().await;
        if release == ReleaseOutcome::Released {
            slot.give_back();
        }
        release
    }
}

impl Deref for Permit {
    type Target = Term;

    /// Returns the term under which the permit is held.
    fn deref(&self) -> &Term {
        &self.guard
    }
}
