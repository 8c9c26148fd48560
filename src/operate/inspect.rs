//! The state of one lock.

use super::state::LockState;
use crate::error::Result;
use crate::store::{REQUEST_LIMIT, Table};

/// Returns the state of one lock.
pub(crate) async fn inspect(table: &Table, name: &str) -> Result<LockState> {
    table.check_lock(name)?;
    let (found, read_at) = table.read(name, REQUEST_LIMIT).await?;
    Ok(LockState::new(name, found, read_at))
}
