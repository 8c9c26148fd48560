//! The promises, judged from outside: by the `runs` table, read without the library.

use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;

use crate::node::{AT_LEAST, AT_MOST};
use crate::server::{Failure, connect};

struct Run {
    tick: String,
    /// When its term began, by Spanner's clock in nanoseconds: its fencing token.
    token: i128,
    has_ended: bool,
}

/// The last line of the demonstration, or the promise that was broken.
pub async fn judge(endpoint: &str) -> Result<String, Failure> {
    let mut runs = runs(endpoint).await?;
    // Cut off by the end of the demonstration.
    runs.pop_if(|run| !run.has_ended);
    if runs.len() < 4 {
        return Err(format!("expected 4 runs or more, saw {}", runs.len()).into());
    }
    for pair in runs.windows(2) {
        let [one, next] = pair else { continue };
        if one.tick == next.tick {
            return Err(format!("two runs at the tick {}", one.tick).into());
        }
        let apart = u128::try_from(next.token - one.token)?;
        let (kept, what) =
            if one.has_ended { (AT_LEAST, "at least") } else { (AT_MOST, "interrupted: at most") };
        if apart < kept.as_nanos() {
            return Err(format!("runs {} ms apart; kept {what} {kept:?}", apart / 1_000_000).into());
        }
    }
    let interrupted = runs.iter().filter(|run| !run.has_ended).count();
    if interrupted != 1 {
        return Err(format!("expected 1 interrupted run, saw {interrupted}").into());
    }
    Ok(format!("cron: ok runs={} twice=0 interrupted={interrupted}", runs.len()))
}

/// The runs by their terms.
async fn runs(endpoint: &str) -> Result<Vec<Run>, Failure> {
    let client = connect(endpoint).await?;
    let columns = vec!["id", "tick", "started", "ended"];
    let read = ReadRequest::builder("runs", columns).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        let id: String = row.get("id")?;
        let (_, token) = id.split_once('-').ok_or("a run without a token")?;
        let has_ended = row.get::<Option<Timestamp>>("ended")?.is_some();
        runs.push(Run { tick: row.get("tick")?, token: token.parse()?, has_ended });
    }
    runs.sort_by_key(|run| run.token);
    Ok(runs)
}
