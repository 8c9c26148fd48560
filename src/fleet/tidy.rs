//! Deletes the rows of members that have left.

use crate::operate::remove;
pub(super) use crate::store::membership::tidy;
use crate::store::{REQUEST_LIMIT, Table};
use crate::term::say;

/// Deletes the row of a member that has left.
///
/// If it can't be done, another member deletes the row later.
pub(super) async fn forget(table: &Table, key: &str) {
    let (budget, removing) = (table.budget(), async { remove(table, key).await });
    let doing = || format!("lock `{key}`: delete its row");
    if let Err(error) = budget.tidying(doing, REQUEST_LIMIT, removing).await {
        say(|| tracing::debug!(lock = key, %error, "the row of a member that left stays for now"));
    }
}
