//! The error for a call that cannot happen.

use crate::engine::Code;
use crate::sql::error::SqlError;

/// Returns the error for a call with values that the signatures don't let through.
pub fn misbound(name: &str) -> SqlError {
    SqlError::unplaced(Code::Internal, format!("{name} was bound to values of other types"))
}
