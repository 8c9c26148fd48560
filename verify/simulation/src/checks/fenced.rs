//! I3: a fenced write of a term commits before the next term begins, or it does not commit.

use spindle_protocol::{Row, TermId};

/// A fenced write was committed when this was the row.
pub(super) fn check(row: Option<&Row>, term: &TermId) -> Result<(), String> {
    match row {
        Some(row) if row.token == term.token && row.writer == term.writer => Ok(()),
        _ => Err(format!("a write under {term:?} committed when the row was {row:?}")),
    }
}
