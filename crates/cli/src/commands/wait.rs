//! `wait`: until somebody holds a lock, or nobody does.

use std::process::ExitCode;

use spindle::LockState;

use super::inspect::readers;
use crate::arguments::{Awaited, Wait};
use crate::failure::Result;
use crate::output::Output;
use crate::place::Place;

/// Waits until the lock is as it is wanted, and shows it then.
pub async fn wait(place: &Place, out: &Output, asked: &Wait) -> Result<ExitCode> {
    let mut changes = place.locks.observe(&asked.lock.name);
    loop {
        let state = changes.next().await?;
        let readers = readers(place, &state).await?;
        if asked.what.is(&state, readers.is_held(&state)) {
            let record = readers.record(&state);
            out.one(&record, || record.in_words())?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

impl Awaited {
    fn is(&self, state: &LockState, is_held: bool) -> bool {
        match self {
            Awaited::Held => is_held,
            Awaited::Free => !is_held,
            Awaited::Holder(id) => is_held && state.holder() == Some(id),
        }
    }
}
