//! Names of resources.

use crate::engine::{Error, Result};

/// Refuses a name that doesn't consist of these collections, each with an id behind it.
pub(crate) fn shaped(name: &str, collections: &[&str], what: &str, form: &str) -> Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_of =
        |(part, collection): (&[&str], &&str)| part[0] == *collection && !part[1].is_empty();
    match parts.len() == 2 * collections.len() && parts.chunks(2).zip(collections).all(is_of) {
        true => Ok(()),
        false => {
            Err(Error::invalid_argument(format!("{what} name `{name}` is not of the form {form}")))
        }
    }
}

/// Refuses a name that no database can have.
pub(super) fn check_database_name(name: &str) -> Result<()> {
    let collections = ["projects", "instances", "databases"];
    shaped(name, &collections, "database", "projects/P/instances/I/databases/D")
}
