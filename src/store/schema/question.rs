//! The question to the information schema. It reads, and it is sent once.

use std::time::Duration;

use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::statement::Statement;
use tokio::time::timeout;

use super::columns::Found;
use crate::error::{Error, Result};
use crate::store::connection::TimedClient;
use crate::store::requests::{self, Request};

/// Returns the columns of `table`, as far as the caller's role may see them; none if it isn't
/// there.
pub(super) async fn ask(timed: &TimedClient, table: &str) -> Result<Vec<Found>> {
    let doing = || format!("table `{table}`: ask the information schema for its columns");
    match timeout(timed.limit, columns(&timed.client, table, timed.limit)).await {
        Ok(answer) => answer.map_err(|source| Error::from_read(doing(), source)),
        Err(_) => Err(Error::timed_out(doing(), timed.limit)),
    }
}

/// Returns true if the database is of the PostgreSQL dialect. The administration's own answer
/// leaves the dialect out on some emulators.
#[cfg(feature = "admin")]
pub(crate) async fn is_postgresql(timed: &TimedClient) -> Result<bool> {
    const DIALECT: &str = "SELECT option_name, option_value FROM \
                           information_schema.database_options WHERE option_name = \
                           'database_dialect'";
    let doing = || "database: ask the information schema for its dialect";
    match timeout(timed.limit, pairs(&timed.client, DIALECT.into(), timed.limit)).await {
        Ok(Ok(found)) => Ok(found.iter().any(|(_, dialect)| dialect == "POSTGRESQL")),
        Ok(Err(source)) => Err(Error::from_read(doing(), source)),
        Err(_) => Err(Error::timed_out(doing(), timed.limit)),
    }
}

async fn columns(
    client: &DatabaseClient,
    table: &str,
    limit: Duration,
) -> google_cloud_spanner::Result<Vec<Found>> {
    let filter = filter(table);
    let columns =
        format!("SELECT column_name, spanner_type FROM information_schema.columns WHERE {filter}");
    let columns = pairs(client, columns, limit).await?;
    let mut found: Vec<Found> = columns
        .into_iter()
        .map(|(name, spanner_type)| Found { name, spanner_type, is_stamped: true })
        .collect();
    // In the other dialect the type says it.
    if found.iter().any(|column| column.is_timestamp() && !column.is_postgresql()) {
        let options = format!(
            "SELECT column_name, option_value FROM information_schema.column_options WHERE \
             {filter} AND option_name = 'allow_commit_timestamp'"
        );
        let options = pairs(client, options, limit).await?;
        for column in &mut found {
            let is_set = |(name, value): &(String, String)| {
                *name == column.name && value.eq_ignore_ascii_case("true")
            };
            column.is_stamped = options.iter().any(is_set);
        }
    }
    Ok(found)
}

/// Returns one text for both dialects: they differ in parameters and in the name of the default
/// schema.
fn filter(table: &str) -> String {
    // An identifier, checked before anything is sent: it needs no escape.
    let table = table.to_ascii_lowercase();
    match table.split_once('.') {
        Some((schema, table)) => {
            format!("LOWER(table_schema) = '{schema}' AND LOWER(table_name) = '{table}'")
        }
        None => format!("table_schema IN ('', 'public') AND LOWER(table_name) = '{table}'"),
    }
}

async fn pairs(
    client: &DatabaseClient,
    sql: String,
    limit: Duration,
) -> google_cloud_spanner::Result<Vec<(String, String)>> {
    let statement =
        Statement::builder(sql).with_retry_policy(NeverRetry).with_attempt_timeout(limit).build();
    requests::count(Request::Query);
    let mut rows = client.single_use().build().execute_query(statement).await?;
    let mut pairs = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        pairs.push((row.get(0)?, row.get(1)?));
    }
    Ok(pairs)
}
