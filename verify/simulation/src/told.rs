//! The answers to callers about their writes, compared with what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::mutation::Mutation;
use spindle::Term;
use spindle_emulator::engine::Value;
use spindle_judge::Outcome;
use tokio::time::timeout;

/// The serial numbers of writes, with what was said of each.
pub(crate) type Ledger = BTreeMap<i64, Outcome>;

/// Checks that the table agrees with what was told.
pub(crate) fn compare(told: &Ledger, rows: &[BTreeMap<String, Value>]) -> Result<(), String> {
    let serial = |row: &BTreeMap<String, Value>| match row.get("serial") {
        Some(Value::Int64(serial)) => Some(*serial),
        _ => None,
    };
    let written: BTreeSet<i64> = rows.iter().filter_map(serial).collect();
    let check = |(serial, told): (&i64, &Outcome)| {
        told.check(format!("write {serial}"), written.contains(serial))
    };
    told.iter().try_for_each(check)
}

/// Writes to the ledger under a term's fence, by the real client. Returns what the writer is told, and when a write
/// was committed, in nanoseconds.
pub(crate) async fn write(
    client: &DatabaseClient,
    term: &Term,
    serial: i64,
    limit: Duration,
) -> (Outcome, Option<u64>) {
    let row = Mutation::new_insert_or_update_builder("ledger").set("serial").to(serial);
    let row = row.set("lock_name").to(term.lock()).build();
    let fence = term.fence();
    let written = fence.transaction(client).time_limit(limit).run(move |transaction| {
        let row = row.clone();
        async move { transaction.buffer([row]) }
    });
    match timeout(limit * 2, written).await {
        Ok(Ok(written)) => {
            let at = written.commit_response.commit_timestamp;
            let nanos = |seconds, nanos| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
            let at = at.map(|at| u64::try_from(nanos(at.seconds(), at.nanos())).unwrap_or(0));
            (Outcome::Committed, at)
        }
        Ok(Err(error)) if error.is_fenced() => (Outcome::Fenced, None),
        Ok(Err(error)) if error.is_retryable() => (Outcome::NotSent, None),
        _ => (Outcome::Unknown, None),
    }
}
