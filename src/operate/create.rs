//! Making the lock table, for those whose deployment has no other place for DDL.

use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::options::RequestOptionsBuilder as _;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_lro::Poller as _;
use google_cloud_spanner::client::{DatabaseAdmin, Spanner};
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, Result, with_causes};
use crate::names::check_table_name;
use crate::spanner::{LockTable, PAUSE, REQUEST_LIMIT, is_postgresql, is_there};

/// The emulator's address for gRPC, and for REST.
const EMULATOR: &str = "SPANNER_EMULATOR_HOST";
const EMULATOR_REST: &str = "SPANNER_EMULATOR_REST_HOST";

impl LockTable {
    /// Returns a client for administration, which goes over REST.
    ///
    /// Where `SPANNER_EMULATOR_HOST` and `SPANNER_EMULATOR_REST_HOST` are set, it goes to the
    /// second, which is `HOST:PORT`. Otherwise it goes where Google's client goes by itself: to the
    /// endpoint of `spanner`, with port 9020 instead of an emulator's 9010. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for an address or credentials that can't work.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn admin(spanner: &Spanner) -> Result<DatabaseAdmin> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut builder = spanner.database_admin_builder();
        if let (Some(_), Some(rest)) = (variable(EMULATOR), variable(EMULATOR_REST)) {
            builder = builder.with_endpoint(if rest.contains("://") {
                rest
            } else {
                format!("http://{rest}")
            });
        }
        builder.build().await.map_err(|error| {
            Error::config(format!("spanner: administration: {}", with_causes(&error)))
        })
    }

    /// Makes the table in `database` unless there is a table of that name; true if there was none.
    ///
    /// `database` is `projects/P/instances/I/databases/D`, the one that this table is reached in.
    /// The statement is [`LockTable::DDL`], or [`LockTable::DDL_POSTGRESQL`] where the database is
    /// of that dialect, which its information schema tells. A table that is there already is left
    /// as it is, whatever its columns: [`check`](LockTable::check) says what is wrong with it.
    /// Spanner takes seconds to a minute for a new table.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a table name that is no identifier, before anything is
    /// sent; [`is_denied`](Error::is_denied) without the permission to change the schema; otherwise
    /// what Spanner said. Where nothing answers, the error comes after 5 s.
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
    /// let database = "projects/p/instances/i/databases/d";
    /// let client = spanner.database_client(database).build().await?;
    ///
    /// let table = LockTable::new(client, "locktable");
    /// table.create(&LockTable::admin(&spanner).await?, database).await?;
    /// table.check().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, admin: &DatabaseAdmin, database: &str) -> Result<bool> {
        let name = &*self.table().name;
        check_table_name(name)?;
        let leased = self.table().connection.client(REQUEST_LIMIT).await?;
        let ddl =
            if is_postgresql(&leased).await? { LockTable::DDL_POSTGRESQL } else { LockTable::DDL };
        let was_there = is_there(&leased, name).await?;
        let doing = format!("table `{name}`: create it in {database}");
        change_schema(admin, database, vec![statement(ddl, name)], doing).await?;
        Ok(!was_there)
    }

    /// Adds the optional columns that the table lacks, `lease_ms` and `info`, and names them.
    ///
    /// Instances that run learn of them within a minute. Until then all must use one lease: see
    /// [`LockTable::DDL_UPGRADE`].
    ///
    /// # Errors
    ///
    /// As [`create`](LockTable::create). [`is_schema`](Error::is_schema) for a table that is not
    /// there, or is wrong otherwise.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open which columns are added: Spanner goes on by itself.
    pub async fn upgrade(
        &self,
        admin: &DatabaseAdmin,
        database: &str,
    ) -> Result<Vec<&'static str>> {
        let table = self.table();
        table.ask_columns(REQUEST_LIMIT).await?;
        let missing = table.missing_columns();
        if missing.is_empty() {
            return Ok(missing);
        }
        let leased = table.connection.client(REQUEST_LIMIT).await?;
        let ddl = if is_postgresql(&leased).await? {
            LockTable::DDL_UPGRADE_POSTGRESQL
        } else {
            LockTable::DDL_UPGRADE
        };
        let mut added = Vec::new();
        for column in missing {
            let statement = addition(ddl, column, &table.name).into_iter().collect();
            let doing = format!("table `{}`: add the column `{column}` in {database}", table.name);
            let changed = change_schema(admin, database, statement, doing).await;
            // Another may have added it meanwhile.
            table.ask_columns(REQUEST_LIMIT).await?;
            match changed {
                Ok(()) => added.push(column),
                Err(error) if table.missing_columns().contains(&column) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(added)
    }
}

/// Carries statements out, once the administration is known to answer: the client repeats what
/// gets no answer for a minute.
async fn change_schema(
    admin: &DatabaseAdmin,
    database: &str,
    statements: Vec<String>,
    doing: String,
) -> Result<()> {
    let asked = admin.get_database().set_name(database);
    let asked = asked.with_retry_policy(NeverRetry).with_attempt_timeout(REQUEST_LIMIT).send();
    match timeout(REQUEST_LIMIT, asked).await {
        Ok(answer) => drop(answer.map_err(|error| Error::from_read(reach(&doing), error))?),
        Err(_) => return Err(Error::timed_out(reach(&doing), REQUEST_LIMIT)),
    }
    let deadline = Instant::now() + REQUEST_LIMIT;
    loop {
        let change = admin.update_database_ddl().set_database(database);
        let changed = change.set_statements(statements.clone()).poller().until_done().await;
        let Err(error) = changed else { return Ok(()) };
        let error = Error::from_read(&*doing, error);
        // It is not row out beside another change or, on an emulator, a transaction.
        let is_beside_another =
            matches!(error.code(), Some(Code::Aborted | Code::FailedPrecondition));
        if !is_beside_another || Instant::now() >= deadline {
            return Err(error);
        }
        sleep(PAUSE).await;
    }
}

/// Says where an emulator's administration is looked for, which is the usual mistake.
fn reach(doing: &str) -> String {
    let hint = match std::env::var_os(EMULATOR) {
        Some(_) => format!(
            " ({EMULATOR_REST} says where an emulator has it; without that, it is looked for at \
             port 9020 beside 9010, and otherwise at the same port)"
        ),
        None => String::new(),
    };
    format!("{doing}: reach its administration over REST{hint}")
}

/// Returns the statement for a table of another name that may be there already.
fn statement(ddl: &str, table: &str) -> String {
    ddl.replacen("CREATE TABLE locktable", &format!("CREATE TABLE IF NOT EXISTS {table}"), 1)
}

/// Returns the statement of an upgrade that adds a column.
fn addition(ddl: &str, column: &str, table: &str) -> Option<String> {
    let added = format!("ALTER TABLE locktable ADD COLUMN {column} ");
    let line = ddl.lines().find(|line| line.starts_with(&added))?;
    Some(line.trim_end_matches(';').replacen("locktable", table, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_names_the_table_and_nothing_else_changes() {
        for ddl in [LockTable::DDL, LockTable::DDL_POSTGRESQL] {
            let statement = statement(ddl, "my_schema.jobs");
            assert!(statement.starts_with("CREATE TABLE IF NOT EXISTS my_schema.jobs (\n  name "));
            assert!(
                statement.trim_end().ends_with(')') && !statement.contains("--"),
                "{statement}"
            );
        }
    }

    #[test]
    fn each_column_of_an_upgrade_has_a_statement_of_its_own() {
        for ddl in [LockTable::DDL_UPGRADE, LockTable::DDL_UPGRADE_POSTGRESQL] {
            for column in ["lease_ms", "info"] {
                let statement = addition(ddl, column, "my_schema.jobs").unwrap();
                let start = format!("ALTER TABLE my_schema.jobs ADD COLUMN {column} ");
                assert!(statement.starts_with(&start) && !statement.contains(';'), "{statement}");
            }
        }
    }
}
