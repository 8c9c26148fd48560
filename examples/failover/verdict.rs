//! The rules, judged from outside: by the tables and the logs, read without the library.

use std::collections::BTreeMap;
use std::time::Duration;

use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;

use crate::fleet::{Entry, Failure};
use crate::orders::connect;
use crate::worker::LEASE;

#[derive(Clone, Copy, Debug, Default)]
pub struct StaleWrites {
    pub sent: usize,
    pub refused: usize,
}

pub struct Evidence {
    pub log: Vec<Entry>,
    /// When the killed leader last said that it lived, by Spanner's clock in nanoseconds.
    pub last_heartbeat: i128,
    /// Late writes that were sent, and those of them that Spanner refused.
    pub stale_writes: StaleWrites,
    pub graceful_handover: Duration,
}

/// The heartbeat in the lock row, in nanoseconds.
pub async fn heartbeat(endpoint: &str) -> Result<i128, Failure> {
    let client = connect(endpoint).await?;
    let keys = KeySet::builder().add_key(key!["orders"]).build();
    let read = ReadRequest::builder("locktable", vec!["heartbeat"]).with_keys(keys).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let row = rows.next().await.ok_or("the lock has no row")??;
    Ok(nanoseconds(row.get("heartbeat")?))
}

/// The last line of the demonstration, or the rule that was broken.
pub async fn judge(endpoint: &str, evidence: Evidence) -> Result<String, Failure> {
    let terms: Vec<i128> = evidence
        .log
        .iter()
        .filter_map(|entry| entry.line.strip_prefix("began "))
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    if !terms.is_sorted_by(|earlier, later| earlier < later) {
        return Err(format!("tokens of the terms do not increase: {terms:?}").into());
    }
    let orders = orders(endpoint).await?;
    if !orders.values().map(|order| order.token).is_sorted() {
        return Err("an order was written after one of a later term".into());
    }
    let unknown = orders.values().find(|order| !terms.contains(&order.token));
    if let Some(order) = unknown {
        return Err(format!("an order of no term: token {}", order.token).into());
    }
    for term in &terms {
        if !orders.values().any(|order| order.token == *term) {
            return Err(format!("nothing was written in the term of token {term}").into());
        }
    }
    let late_writes = orders.values().filter(|order| order.kind == "late").count();
    let StaleWrites { sent, refused } = evidence.stale_writes;
    if late_writes > 0 || refused < sent {
        return Err(format!("{refused} of {sent} late writes were refused").into());
    }
    let &[_, second, ..] = terms.as_slice() else {
        return Err(format!("expected 4 terms, saw {}", terms.len()).into());
    };
    let takeover = (second - evidence.last_heartbeat) as f64 / LEASE.as_nanos() as f64;
    if takeover < 1.0 {
        return Err(format!("the killed leader's lease was cut short: {takeover:.2}x").into());
    }
    if terms.len() != 4 {
        return Err(format!("expected 4 terms, saw {}", terms.len()).into());
    }
    Ok(format!(
        "failover: ok terms={} tokens=increasing stale_writes_refused={refused}/{sent} \
         crash_takeover={takeover:.2}x_lease graceful_handover={}ms",
        terms.len(),
        evidence.graceful_handover.as_millis(),
    ))
}

struct Order {
    token: i128,
    kind: String,
}

/// The orders by the commit timestamp that Spanner gave them.
async fn orders(endpoint: &str) -> Result<BTreeMap<(i128, String), Order>, Failure> {
    let client = connect(endpoint).await?;
    let read = ReadRequest::builder("orders", vec!["id", "token", "kind", "written"])
        .with_keys(KeySet::all())
        .build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut orders = BTreeMap::new();
    while let Some(row) = rows.next().await.transpose()? {
        let token = row.get::<String>("token")?.parse()?;
        let written = nanoseconds(row.get("written")?);
        orders.insert((written, row.get("id")?), Order { token, kind: row.get("kind")? });
    }
    Ok(orders)
}

fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
