//! `wait`: until somebody holds a lock, or nobody does.

use std::process::ExitCode;
use std::time::Duration;

use spindle::LockState;
use tokio::time::sleep;

use crate::arguments::{Awaited, Wait};
use crate::failure::Result;
use crate::output::Output;
use crate::place::Place;
use crate::readers::Readers;
use crate::start::is_to_be_said;

/// From one look to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits until the lock is as it is wanted, and shows it then. An error at the start ends the program; a later one that
/// may pass is waited through, and told once a minute at most.
pub async fn wait(place: &Place, out: &Output, asked: &Wait) -> Result<ExitCode> {
    let mut has_looked = false;
    let mut said = None;
    loop {
        match look(place, &asked.lock.name).await {
            Ok((state, readers)) if asked.what.is(&state, readers.is_held(&state)) => {
                let record = readers.record(&state);
                out.one(&record, || record.in_words())?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(_) => has_looked = true,
            Err(failure) if has_looked && failure.passes() => {
                if is_to_be_said(&mut said) {
                    failure.tell(out.form);
                }
            }
            Err(failure) => return Err(failure),
        }
        sleep(PAUSE).await;
    }
}

/// Reads a lock, and the readers for whom it waits: they come and go while its row stays as it is.
async fn look(place: &Place, name: &str) -> Result<(LockState, Readers)> {
    let state = place.locks.inspect(name).await?;
    let readers = Readers::of(&place.locks, &state).await?;
    Ok((state, readers))
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
