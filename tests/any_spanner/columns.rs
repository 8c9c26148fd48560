//! A table that lacks columns, as another implementation makes it.

use std::time::Duration;

use spindle::{CancellationToken, Error};
use tokio::time::{sleep, timeout};

use crate::place::{Failure, Place};
use crate::report::{Report, Verdict};

/// Far longer than the longest pause between two polls.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Reads and writes tell a column that the table lacks, and an instance that waited begins once it is there.
pub async fn check(place: &Place, report: &mut Report) {
    let verdict = match lacks_columns(place).await {
        Ok(Some(told)) => Verdict::Held(told),
        Ok(None) => Verdict::NotApplicable("not tried: it takes a table of its own".into()),
        Err(error) => Verdict::Broken(error.to_string()),
    };
    report.add("a table of four columns is told, and led on once it has all", verdict);
}

async fn lacks_columns(place: &Place) -> Result<Option<String>, Failure> {
    let Some(table) = place.make_old_table().await? else { return Ok(None) };
    let lock = |id: &str| table.lock("job").id(id).build();
    let read = says("lease_ms", lock("asks")?.try_acquire().await.err())?;
    says("info", table.evict("job").to("waits").await.err())?;
    let (waits, cancel) = (lock("waits")?, CancellationToken::new());
    let running = waits.run(cancel.clone());
    sleep(Duration::from_secs(3)).await;
    let trouble = waits.health().trouble.map(|trouble| trouble.error);
    says("lease_ms", trouble)?;
    place.upgrade(&table).await?;
    let holds = async {
        while waits.has_lock().is_none() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIME_LIMIT, holds).await.map_err(|_| "it waits for ever")?;
    cancel.cancel();
    running.await?;
    place.remove_old_table().await?;
    Ok(Some(format!("says: {read}")))
}

/// Fails unless the error says this column, the first that is missing of those that it asks for, and its statement.
fn says(column: &str, error: Option<Error>) -> Result<String, Failure> {
    let error = error.ok_or("nothing is said")?;
    let told = error.to_string();
    let is_named = error.is_schema() && told.contains(&format!("ADD COLUMN {column}"));
    if is_named { Ok(told) } else { Err(format!("says something else: {told}").into()) }
}
