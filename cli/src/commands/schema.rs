//! `ddl` and `init`.

use std::process::ExitCode;

use google_cloud_lro::Poller as _;
use serde::Serialize;
use spindle::LockTable;
use spindle::google_cloud_spanner::statement::Statement;

use crate::arguments::Ddl;
use crate::failure::{Code, Failure, Result};
use crate::output::Output;
use crate::place::Place;

pub fn ddl(out: &Output, ddl: &Ddl, table: &str) -> Result<ExitCode> {
    let statements = match (ddl.postgresql, ddl.upgrade) {
        (false, false) => LockTable::DDL,
        (false, true) => LockTable::DDL_UPGRADE,
        (true, false) => LockTable::DDL_POSTGRESQL,
        (true, true) => LockTable::DDL_UPGRADE_POSTGRESQL,
    };
    out.text(&statements.replace(" locktable", &format!(" {table}")))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Made<'a> {
    table: &'a str,
    created: bool,
    columns_added: Vec<&'a str>,
}

/// Makes the table, or adds the optional columns that it lacks.
pub async fn init(place: &Place, out: &Output, endpoint: Option<&str>) -> Result<ExitCode> {
    let table = place.table.as_str();
    let admin = place.admin(endpoint).await?;
    let before = columns(place).await?;
    LockTable::create(&admin, &place.database, table).await?;
    let there = if before.is_empty() { columns(place).await? } else { before.clone() };
    let lacks = |name: &&str| !there.iter().any(|column| column == name);
    let columns_added: Vec<&str> = ["lease_ms", "info"].into_iter().filter(lacks).collect();
    if !columns_added.is_empty() {
        let statements = columns_added.iter().map(|column| {
            let kind = if *column == "lease_ms" { "INT64" } else { "STRING(MAX)" };
            format!("ALTER TABLE {table} ADD COLUMN {column} {kind}")
        });
        let change = admin.update_database_ddl().set_database(&place.database);
        let changing = change.set_statements(statements).poller().until_done();
        changing.await.map_err(|error| {
            let text = format!("table `{table}`: add columns: {error}");
            Failure::new(Code::Missing, text).cure("run what `spindle ddl --upgrade` prints")
        })?;
    }
    place.locks.check().await?;
    let made = Made { table, created: before.is_empty(), columns_added };
    out.one(&made, || made.in_words())?;
    Ok(ExitCode::SUCCESS)
}

impl Made<'_> {
    fn in_words(&self) -> String {
        let table = self.table;
        match (self.created, self.columns_added.as_slice()) {
            (true, _) => format!("table `{table}`: made, and fit for locks\n"),
            (false, []) => format!("table `{table}`: was there already, and is fit for locks\n"),
            (false, columns) => format!(
                "table `{table}`: added {}\nInstances that run already take a minute to learn of \
                 it; until then they must all use one lease.\n",
                columns.join(" and ")
            ),
        }
    }
}

/// The columns that the table has; none if there is no table.
async fn columns(place: &Place) -> Result<Vec<String>> {
    let (schema, table) = place.table.rsplit_once('.').unwrap_or(("", &place.table));
    let statement = Statement::builder(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = @schema AND table_name = @table",
    )
    .add_param("schema", schema)
    .add_param("table", table)
    .build();
    let asking = async {
        let mut rows = place.client.single_use().build().execute_query(statement).await?;
        let mut columns = Vec::new();
        while let Some(row) = rows.next().await.transpose()? {
            columns.push(row.get::<String>("column_name")?);
        }
        Ok::<_, spindle::google_cloud_spanner::Error>(columns)
    };
    asking.await.map_err(|error| {
        Failure::new(Code::Missing, format!("table `{table}`: ask for its columns: {error}"))
    })
}
