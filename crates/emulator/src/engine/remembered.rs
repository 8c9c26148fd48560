//! The rows that a transaction's statements have written, for as long as the transaction is known.

use super::database::Database;
use super::mutation::Writes;
use super::schema::Schema;
use super::transaction::TransactionId;
use super::value::Key;

/// The rows of a transaction that is over: its tables, by name in lower case, with the keys.
#[derive(Debug, Default)]
pub(super) struct WrittenRows(Vec<(String, Vec<Key>)>);

impl WrittenRows {
    pub fn of(writes: Writes, schema: &Schema) -> WrittenRows {
        let tables = writes.into_iter().filter(|(name, _)| schema.table(name).is_some());
        WrittenRows(tables.map(|(name, rows)| (name, rows.into_keys().collect())).collect())
    }
}

impl Database {
    /// Returns true if statements of a read-write transaction have written a row of which `is_meant` is
    /// true, given its table's name in lower case. A commit answers the same before and after it.
    pub(crate) fn has_written(
        &self,
        id: TransactionId,
        is_meant: impl Fn(&str, &Key) -> bool,
    ) -> bool {
        let state = self.state();
        if let Some(transaction) = state.open.get(&id) {
            let rows = transaction.writes.rows.iter();
            // An index has entries, which nobody names.
            let mut tables = rows.filter(|(name, _)| state.schema.table(name).is_some());
            return tables.any(|(name, rows)| rows.keys().any(|key| is_meant(name, key)));
        }
        let Some(ended) = state.ended(id) else { return false };
        ended.written.0.iter().any(|(name, keys)| keys.iter().any(|key| is_meant(name, key)))
    }
}
