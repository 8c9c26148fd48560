//! Names of databases.

use crate::engine::{Error, Result};

/// Refuses a name that no database can have.
pub(super) fn check_database_name(name: &str) -> Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        ["projects", project, "instances", instance, "databases", database]
            if ![project, instance, database].iter().any(|part| part.is_empty()) =>
        {
            Ok(())
        }
        _ => Err(Error::invalid_argument(format!(
            "database name `{name}` is not of the form projects/P/instances/I/databases/D"
        ))),
    }
}
