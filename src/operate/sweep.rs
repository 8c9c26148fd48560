//! Deleting old takeover rows.

use std::collections::BTreeMap;

use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use spindle_protocol::{Answer, Change, StoredRow, Timestamp};

use super::pages::{PAGE_ROWS, Pages};
use crate::error::Result;
use crate::names::{check_lock_name, check_table_name, displaced_by};
use crate::store::{REQUEST_LIMIT, Table, despite_others};

/// Removes the takeover rows that no lock needs any more.
pub(crate) async fn sweep(table: &Table) -> Result<u64> {
    check_table_name(&table.name)?;
    let (mut pages, mut swept) = (Pages::all(), 0);
    while let Some((rows, read_at)) = pages.next(table).await? {
        for (lock, keys) in table.leftovers(rows, read_at).await? {
            swept += despite_others(|| table.delete_takeovers(&lock, keys.clone())).await?;
        }
    }
    Ok(swept)
}

/// A row that may be a takeover's, of a lock that may exist.
struct Takeover {
    key: String,
    lock: String,
    displaced: Timestamp,
    begun: Timestamp,
}

impl Table {
    /// Returns the keys of those rows that are takeovers' and no longer of use, by their locks.
    async fn leftovers(
        &self,
        rows: Vec<StoredRow>,
        read_at: Timestamp,
    ) -> Result<BTreeMap<String, Vec<String>>> {
        let takeovers: Vec<Takeover> = rows.into_iter().filter_map(takeover_row).collect();
        let mut leftovers = BTreeMap::<String, Vec<String>>::new();
        if takeovers.is_empty() {
            return Ok(leftovers);
        }
        // Read after the takeover rows: tokens only grow, so what is a leftover by an older token
        // is one by any later.
        let locks = takeovers
            .iter()
            .fold(KeySet::builder(), |keys, takeover| keys.add_key(key![takeover.lock.clone()]))
            .build();
        let (locks, _) = despite_others(|| self.read_page(locks.clone(), PAGE_ROWS)).await?;
        let locks: BTreeMap<String, StoredRow> =
            locks.into_iter().map(|row| (row.key.clone(), row)).collect();
        let is_leftover = |takeover: &Takeover| match locks.get(&takeover.lock) {
            // The takeover that began the present term is left to stand: a slow peer of another
            // implementation may still try to insert the same.
            Some(lock) => {
                takeover.displaced < lock.row().token && takeover.begun != lock.row().token
            }
            // A lock that comes back gets a token of its own, later than any there was.
            None => takeover.displaced < read_at,
        };
        for Takeover { lock, key, .. } in takeovers.into_iter().filter(is_leftover) {
            leftovers.entry(lock).or_default().push(key);
        }
        Ok(leftovers)
    }

    /// Deletes those that are still takeover rows, and says how many there were.
    async fn delete_takeovers(&self, lock: &str, keys: Vec<String>) -> Result<u64> {
        let change = Change::Sweep { keys };
        let (outcome, found) = self.carry_out(lock, change, REQUEST_LIMIT).await;
        match (outcome.answer, outcome.error) {
            (_, Some(error)) => Err(error),
            (Answer::Applied { .. }, None) => {
                Ok(found.iter().map(|row| u64::from(row.is_takeover())).sum())
            }
            (_, None) => Ok(0),
        }
    }
}

fn takeover_row(full: StoredRow) -> Option<Takeover> {
    if !full.is_takeover() {
        return None;
    }
    let (lock, displaced) = displaced_by(&full.key)?;
    check_lock_name(lock).ok()?;
    let lock = lock.to_string();
    Some(Takeover { lock, displaced, begun: full.row().token, key: full.key })
}
