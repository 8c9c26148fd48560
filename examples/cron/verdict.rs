//! The promise, judged from outside: by the `reports` table, read without the library.

use std::collections::BTreeMap;

use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;

use crate::server::{Failure, connect};

/// The last line of the demonstration, or the promise that was broken.
pub async fn judge(endpoint: &str) -> Result<String, Failure> {
    let client = connect(endpoint).await?;
    let read =
        ReadRequest::builder("reports", vec!["slot", "start"]).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut reports = BTreeMap::<i64, Vec<i64>>::new();
    while let Some(row) = rows.next().await.transpose()? {
        reports.entry(row.get("slot")?).or_default().push(row.get("start")?);
    }
    if let Some((slot, starts)) = reports.iter().find(|(_, starts)| starts.len() != 1) {
        return Err(format!("slot {slot}: {} reports", starts.len()).into());
    }
    let again = reports.values().filter(|starts| **starts == [2]).count();
    if reports.len() < 4 || again < 2 {
        return Err(format!("{} slots, {again} run again; expected 4 and 2", reports.len()).into());
    }
    Ok(format!("cron: ok slots={} again={again} twice=0", reports.len()))
}
