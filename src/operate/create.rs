//! Making the lock table, for those whose deployment has no other place for DDL.

use google_cloud_lro::Poller as _;
use google_cloud_spanner::client::DatabaseAdmin;
use google_cloud_spanner_admin_database_v1::model::DatabaseDialect;

use crate::error::{Error, Result};
use crate::names::check_table_name;
use crate::spanner::LockTable;

impl LockTable {
    /// Makes the lock table in `database` unless there is a table of that name.
    ///
    /// `database` is `projects/P/instances/I/databases/D`; the statement is [`LockTable::DDL`], or
    /// [`LockTable::DDL_POSTGRESQL`] where the database is of that dialect. A table that is there
    /// already is left as it is, whatever its columns: [`check`](LockTable::check) says what is
    /// wrong with it. Spanner takes seconds to a minute for a new table.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a table name that is no identifier, before anything is
    /// sent; [`is_denied`](Error::is_denied) without the permission to change the schema; otherwise
    /// what Spanner said.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the table is made: Spanner goes on by itself.
    /// Calling again is harmless.
    ///
    /// ```no_run
    /// use spindle::LockTable;
    /// use spindle::google_cloud_spanner::client::Spanner;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let spanner = Spanner::builder().build().await?;
    /// let admin = spanner.database_admin_builder().build().await?;
    /// let database = "projects/p/instances/i/databases/d";
    /// LockTable::create(&admin, database, "locktable").await?;
    ///
    /// let client = spanner.database_client(database).build().await?;
    /// LockTable::new(client, "locktable").check().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(admin: &DatabaseAdmin, database: &str, table: &str) -> Result<()> {
        check_table_name(table)?;
        let doing = || format!("table `{table}`: create it in {database}");
        let failed = |error| Error::from_read(doing(), error);
        let found = admin.get_database().set_name(database).send().await.map_err(failed)?;
        let ddl = match found.database_dialect {
            DatabaseDialect::Postgresql => LockTable::DDL_POSTGRESQL,
            _ => LockTable::DDL,
        };
        let changing = admin
            .update_database_ddl()
            .set_database(database)
            .set_statements([statement(ddl, table)])
            .poller()
            .until_done();
        changing.await.map(drop).map_err(failed)
    }
}

/// Returns the one statement of the DDL, for a table of another name that may be there already.
fn statement(ddl: &str, table: &str) -> String {
    let lines = ddl.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let made = format!("CREATE TABLE IF NOT EXISTS {table}");
    text.trim_end_matches([';', '\n']).replacen("CREATE TABLE locktable", &made, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_names_the_table_and_nothing_else_changes() {
        for ddl in [LockTable::DDL, LockTable::DDL_POSTGRESQL] {
            let statement = statement(ddl, "my_schema.jobs");
            assert!(statement.starts_with("CREATE TABLE IF NOT EXISTS my_schema.jobs (\n  name "));
            assert!(statement.ends_with(')') && !statement.contains("--"), "{statement}");
        }
    }
}
