//! Names of resources.

use crate::engine::{Error, Result};

/// Returns true if the name consists of these collections, each with an id behind it.
pub(crate) fn is_shaped(name: &str, collections: &[&str]) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    parts.len() == 2 * collections.len()
        && parts
            .chunks(2)
            .zip(collections)
            .all(|(part, collection)| part[0] == *collection && !part[1].is_empty())
}

/// Refuses a name that no database can have.
pub(super) fn check_database_name(name: &str) -> Result<()> {
    match is_shaped(name, &["projects", "instances", "databases"]) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "database name `{name}` is not of the form projects/P/instances/I/databases/D"
        ))),
    }
}
