//! Making the lock table, for those whose deployment has no other place for DDL.

use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::options::RequestOptionsBuilder as _;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_lro::Poller as _;
use google_cloud_spanner::client::{DatabaseAdmin, Spanner};
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, Kind, Result, with_causes};
use crate::names::check_table_name;
use crate::store::{Ddl, PAUSE, REQUEST_LIMIT, Table, schema};

/// The emulator's address for gRPC, and for REST.
const EMULATOR: &str = "SPANNER_EMULATOR_HOST";
const EMULATOR_REST: &str = "SPANNER_EMULATOR_REST_HOST";

/// Returns the value of an environment variable. An empty one is none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns a client for administration.
pub(crate) async fn admin(spanner: &Spanner) -> Result<DatabaseAdmin> {
    let mut builder = spanner.database_admin_builder();
    if let (Some(_), Some(rest)) = (variable(EMULATOR), variable(EMULATOR_REST)) {
        builder = builder.with_endpoint(if rest.contains("://") {
            rest
        } else {
            format!("http://{rest}")
        });
    }
    builder
        .build()
        .await
        .map_err(|error| Error::config(format!("spanner: administration: {}", with_causes(&error))))
}

/// Makes the table unless there is one of its name.
pub(crate) async fn create(table: &Table, admin: &DatabaseAdmin, database: &str) -> Result<bool> {
    let name = &*table.name;
    check_table_name(name)?;
    let timed = table.spanner.connection.client(REQUEST_LIMIT).await?;
    let is_postgresql = schema::is_postgresql_database(&timed).await?;
    let ddl = if is_postgresql { Ddl::PostgreSql } else { Ddl::GoogleSql };
    let was_there = !schema::ask(&table.spanner.connection, name).await?.is_empty();
    let doing = format!("table `{name}`: create it in {database}");
    change_schema(admin, database, vec![statement(ddl.text(), name)], doing).await?;
    Ok(!was_there)
}

/// Adds the columns that the table lacks.
pub(crate) async fn upgrade(
    table: &Table,
    admin: &DatabaseAdmin,
    database: &str,
) -> Result<Vec<&'static str>> {
    let name = &*table.name;
    check_table_name(name)?;
    let connection = &table.spanner.connection;
    let mut found = schema::ask(connection, name).await?;
    let mut added = Vec::new();
    for (column, addition) in schema::lacking(name, &found) {
        let doing = format!("table `{name}`: add the column `{column}` in {database}");
        let changed = change_schema(admin, database, vec![addition], doing).await;
        found = schema::ask(connection, name).await?;
        match changed {
            Ok(()) => added.push(column),
            // Another may have added it meanwhile.
            Err(_) if schema::lacking(name, &found).iter().all(|(it, _)| *it != column) => {}
            Err(error) => return Err(error),
        }
    }
    schema::check_columns(name, &found).map_err(|wrong| Error::new(Kind::Schema(wrong)))?;
    Ok(added)
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
        if !is_beside_another(&error) || Instant::now() >= deadline {
            return Err(Error::from_read(&*doing, error));
        }
        sleep(PAUSE).await;
    }
}

/// Returns true if a schema change may have met another one or, on an emulator, a transaction.
/// Google's emulator answers in a form of which the client reads the HTTP status alone.
fn is_beside_another(error: &google_cloud_gax::error::Error) -> bool {
    match error.status() {
        Some(status) => matches!(status.code, Code::Aborted | Code::FailedPrecondition),
        None => matches!(error.http_status_code(), Some(400 | 409)),
    }
}

/// Says where an emulator's administration is looked for, which is the usual mistake.
fn reach(doing: &str) -> String {
    let hint = match variable(EMULATOR) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_names_the_table_and_nothing_else_changes() {
        for ddl in [Ddl::GoogleSql, Ddl::PostgreSql] {
            let statement = statement(ddl.text(), "my_schema.jobs");
            assert!(statement.starts_with("CREATE TABLE IF NOT EXISTS my_schema.jobs (\n  name "));
            assert!(
                statement.trim_end().ends_with(')') && !statement.contains("--"),
                "{statement}"
            );
        }
    }

    #[test]
    fn a_change_beside_a_transaction_is_repeated_whatever_form_the_answer_has() {
        use google_cloud_gax::error::Error;
        use google_cloud_gax::error::rpc::Status;
        let told = |code| Error::service(Status::default().set_code(code));
        let bare = |status| Error::http(status, http::HeaderMap::new(), "{\"code\":9}".into());
        assert!(
            is_beside_another(&told(Code::FailedPrecondition)) && is_beside_another(&bare(400))
        );
        assert!(!is_beside_another(&told(Code::InvalidArgument)) && !is_beside_another(&bare(403)));
    }
}
