//! Deletes the rows of members that have left.

pub(super) use crate::roster::tidy;
use crate::spanner::LockTable;
use crate::status::say;

/// Deletes the row of a member that has left.
///
/// If it can't be done, another member deletes the row later.
pub(super) async fn forget(table: &LockTable, key: &str) {
    if let Err(error) = table.remove(key).await {
        say(|| tracing::debug!(lock = key, %error, "the row of a member that left stays for now"));
    }
}
