//! Every function and operator that is called by name: its signatures and its code, in one table.

mod absent;
pub mod array;
pub mod fold;
mod function;
mod like;
pub mod number;
mod table;
pub mod text;
pub mod timestamp;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::error::SqlError;
use crate::engine::Code as Status;
use table::TABLE;

pub use absent::is_absent;
pub use function::{Code, Function, Shape, Signature};

/// A function with its signatures read.
pub struct Known {
    /// As the table has it.
    pub function: &'static Function,
    /// Its forms, in order of preference.
    pub signatures: Vec<Signature>,
}

static KNOWN: LazyLock<HashMap<&'static str, Known>> = LazyLock::new(|| {
    let known = |function: &'static Function| {
        let forms = function.forms.split(';');
        let signatures = forms.filter_map(Signature::parse).collect();
        (function.name, Known { function, signatures })
    };
    TABLE.iter().map(known).collect()
});

/// Returns the function or operator of this name, which is in upper case.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.get(name)
}

/// Returns every function and operator, in the order of the table.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    TABLE.iter()
}

/// Returns the error for a call with values that the signatures don't let through.
fn misbound(name: &str) -> SqlError {
    SqlError::unplaced(Status::Internal, format!("{name} was bound to values of other types"))
}

#[cfg(test)]
#[path = "../../../tests/private/sql/functions.rs"]
mod tests;
