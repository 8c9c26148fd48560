//! `ddl` and `init`.

use std::process::ExitCode;

use serde::Serialize;
use spindle::LockTable;

use crate::arguments::Ddl;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::{Place, emulator};

pub fn ddl(out: &Output, ddl: &Ddl, table: &str) -> Result<ExitCode> {
    let statements = match (ddl.postgresql, ddl.upgrade) {
        (false, false) => LockTable::ddl(spindle::Ddl::GoogleSql),
        (false, true) => LockTable::ddl(spindle::Ddl::GoogleSqlUpgrade),
        (true, false) => LockTable::ddl(spindle::Ddl::PostgreSql),
        (true, true) => LockTable::ddl(spindle::Ddl::PostgreSqlUpgrade),
    };
    let statements = statements.replace(" locktable", &format!(" {table}"));
    out.text(&format!("{}\n", statements.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Made<'a> {
    table: &'a str,
    created: bool,
    columns_added: Vec<&'static str>,
}

/// Makes the table, or adds the columns that it lacks.
pub async fn init(place: &Place, out: &Output, endpoint: Option<&str>) -> Result<ExitCode> {
    let admin = place.admin(endpoint).await?;
    let created = place.locks.create(&admin, &place.database).await.map_err(misplaced)?;
    let columns_added = place.locks.upgrade(&admin, &place.database).await?;
    place.locks.check().await?;
    let made = Made { table: &place.table, created, columns_added };
    out.one(&made, || made.in_words())?;
    Ok(ExitCode::SUCCESS)
}

/// Says where an emulator's administration is, if nothing answered.
fn misplaced(error: spindle::Error) -> Failure {
    let is_silent = error.is_retryable();
    let failure = Failure::from(error);
    if !is_silent || emulator().is_none() {
        return failure;
    }
    failure.cure(
        "set SPANNER_EMULATOR_REST_HOST to the HOST:PORT at which the emulator answers REST \
         (`gateway_main --http_port`), or pass --admin-endpoint HOST:PORT",
    )
}

impl Made<'_> {
    fn in_words(&self) -> String {
        let table = self.table;
        match (self.created, self.columns_added.as_slice()) {
            (true, _) => format!("table `{table}`: made, and fit for locks\n"),
            (false, []) => format!("table `{table}`: was there already, and is fit for locks\n"),
            (false, columns) => {
                format!("table `{table}`: added {}, and is fit for locks\n", columns.join(", "))
            }
        }
    }
}
