//! The names that the resources can have, in Cloud Spanner's rules.

use crate::engine::{Error, Result};
use crate::service::shaped;

/// `projects/P`
pub(super) fn project(name: &str) -> Result<()> {
    shaped(name, &["projects"], "project", "projects/P")
}

/// `projects/P/instances/I`
pub(super) fn instance(name: &str) -> Result<()> {
    shaped(name, &["projects", "instances"], "instance", "projects/P/instances/I")
}

/// The id of an instance to be made.
pub(super) fn instance_id(id: &str) -> Result<()> {
    identifier(id, "instance", 2..=64, "-")
}

/// The id of a database to be made.
pub(super) fn database_id(id: &str) -> Result<()> {
    identifier(id, "database", 2..=30, "-_")
}

/// Returns true if a client can give this id to an operation.
pub(super) fn is_operation_id(id: &str) -> bool {
    let inner = |next: char| is_plain(next) || next == '_';
    id.starts_with(|first: char| first.is_ascii_lowercase()) && id.chars().all(inner)
}

fn identifier(
    id: &str,
    what: &str,
    length: std::ops::RangeInclusive<usize>,
    signs: &str,
) -> Result<()> {
    let starts = id.starts_with(|first: char| first.is_ascii_lowercase());
    let ends = id.ends_with(is_plain);
    let inner = |next: char| is_plain(next) || signs.contains(next);
    if starts && ends && length.contains(&id.len()) && id.chars().all(inner) {
        return Ok(());
    }
    let (least, most) = (length.start(), length.end());
    Err(Error::invalid_argument(format!(
        "Invalid {what} id `{id}`: {least} to {most} characters of lower-case letters, digits and \
         any of `{signs}`, the first a letter and the last a letter or a digit"
    )))
}

fn is_plain(next: char) -> bool {
    next.is_ascii_lowercase() || next.is_ascii_digit()
}
