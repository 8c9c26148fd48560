//! `doctor`: what is wrong, or will be, each with its cure.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use google_cloud_gax::retry_policy::NeverRetry;
use serde::Serialize;
use spindle::Holding;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle_protocol::{Writer, is_takeover_key, takeover_key};
use tokio::time::Instant;

use crate::failure::{Code, Failure, Result, SCHEMA, refused};
use crate::output::{Output, Paint, printable};
use crate::place::Place;
use crate::record::{in_words, is_late};

/// How often each request is timed.
const ROUNDS: usize = 5;

/// A row that no lock can have, so that deleting it changes nothing.
const NO_ROW: &str = "spindle-doctor_0000000000000000000";

/// A wall clock that is further off makes logs hard to compare.
const DRIFT_MAX: Duration = Duration::from_secs(1);

/// Heartbeats of more than a third of the lease end terms; they should do with a seventh of that.
const LEASE_PER_HEARTBEAT: u32 = 20;

#[derive(Serialize)]
struct Finding {
    subject: &'static str,
    /// `ok`, `note` or `bad`.
    verdict: &'static str,
    found: String,
    cure: Option<String>,
}

impl Finding {
    /// A line, and the cure on one of its own: no terminal is wide enough for both.
    fn in_words(&self, out: &Output) -> String {
        let paint = match self.verdict {
            "ok" => Paint::Good,
            "bad" => Paint::Bad,
            _ => Paint::Plain,
        };
        let verdict = out.paint(&format!("{:<6}", self.verdict), paint);
        let found = printable(&self.found);
        let mut text = format!("{verdict}{:<15}{found}\n", self.subject);
        if let Some(cure) = &self.cure {
            text.push_str(&format!("      cure: {cure}\n"));
        }
        text
    }
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, subject: &'static str, found: impl Into<String>) {
        self.0.push(Finding { subject, verdict: "ok", found: found.into(), cure: None });
    }

    fn note(&mut self, subject: &'static str, found: impl Into<String>, cure: impl Into<String>) {
        let (found, cure) = (found.into(), Some(cure.into()));
        self.0.push(Finding { subject, verdict: "note", found, cure });
    }

    fn bad(&mut self, subject: &'static str, found: impl Into<String>, cure: impl Into<String>) {
        let (found, cure) = (found.into(), Some(cure.into()));
        self.0.push(Finding { subject, verdict: "bad", found, cure });
    }
}

pub async fn doctor(place: &Place, out: &Output) -> Result<ExitCode> {
    let mut findings = Findings::default();
    findings.ok("database", format!("{} answers", place.database));
    if table(place, &mut findings).await? {
        let lease_min = latency(place, &mut findings).await?;
        drift(place, &mut findings).await?;
        locks(place, &mut findings, lease_min).await?;
        rows(place, &mut findings).await?;
    }
    let in_words = || findings.0.iter().map(|finding| finding.in_words(out)).collect::<String>();
    out.many(&findings.0, || out.text(&in_words()))?;
    let is_bad = findings.0.iter().any(|finding| finding.verdict == "bad");
    Ok(if is_bad { Code::No.exit() } else { ExitCode::SUCCESS })
}

/// Returns true if the other checks of the table make sense.
async fn table(place: &Place, findings: &mut Findings) -> Result<bool> {
    let without_lease = match place.locks.check().await {
        Ok(without_lease) => without_lease,
        Err(error) if error.is_schema() || error.is_config() => {
            findings.bad("table", error.to_string(), SCHEMA);
            return Ok(false);
        }
        Err(error) if error.is_denied() => {
            let cure = "grant roles/spanner.databaseUser on the database to these credentials";
            findings.bad("permissions", error.to_string(), cure);
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    findings.ok("table", format!("`{}` has all columns, and can be read and written", place.table));
    if !without_lease.is_empty() {
        let found = format!("no lease is written by the holders of {}", some(&without_lease));
        let cure = "use the lease of those in every instance, until they are stopped";
        findings.note("leases", found, cure);
    }
    Ok(true)
}

/// Returns the shortest lease for heartbeats that take so long. None below 2 s is advised.
fn lease_min(heartbeat: Duration) -> Duration {
    (heartbeat * LEASE_PER_HEARTBEAT).max(Duration::from_secs(2))
}

/// Times reads and commits; gives the shortest lease that they allow.
async fn latency(place: &Place, findings: &mut Findings) -> Result<Duration> {
    let (mut reads, mut commits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        read_timestamp(place).await?;
        reads.push(began.elapsed());
        let began = Instant::now();
        commit(place).await?;
        commits.push(began.elapsed());
    }
    let ((read, read_max), (commit, commit_max)) = (spread(&mut reads), spread(&mut commits));
    let lease_min = lease_min(read_max + commit_max);
    findings.ok(
        "latency",
        format!(
            "a read takes {read:.1?} (at most {read_max:.1?}), a commit {commit:.1?} (at most \
             {commit_max:.1?}): a lease of {} or more suits it",
            in_words(lease_min)
        ),
    );
    Ok(lease_min)
}

fn spread(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    (median, times.last().copied().unwrap_or_default())
}

async fn read_timestamp(place: &Place) -> Result<DateTime<Utc>> {
    let reading = async {
        let transaction = place.client.read_only_transaction().build().await?;
        let keys = KeySet::builder().add_key(key![NO_ROW]).build();
        let request = ReadRequest::builder(&place.table, ["name"]).with_keys(keys);
        let mut rows =
            transaction.execute_read(request.with_retry_policy(NeverRetry).build()).await?;
        while rows.next().await.transpose()?.is_some() {}
        Ok::<_, spindle::google_cloud_spanner::Error>(transaction.read_timestamp())
    };
    let read_at = reading.await.map_err(|error| failed(place, "read a row", &error))?;
    let read_at = read_at.and_then(|at| {
        DateTime::from_timestamp(at.seconds(), u32::try_from(at.nanos()).unwrap_or(0))
    });
    read_at.ok_or_else(|| {
        Failure::new(Code::No, "spanner gave no read timestamp")
            .cure("locks need a server that gives them: Spanner itself does")
    })
}

/// Deletes a row that can't exist: a real commit, which changes nothing.
async fn commit(place: &Place) -> Result<()> {
    let keys = KeySet::builder().add_key(key![NO_ROW]).build();
    let delete = Mutation::delete(&place.table, keys);
    let transaction = place.client.write_only_transaction().build();
    let committed = transaction.write(vec![delete]).await;
    committed.map(drop).map_err(|error| failed(place, "commit", &error))
}

fn failed(place: &Place, doing: &str, error: &spindle::google_cloud_spanner::Error) -> Failure {
    refused(format!("table `{}`: {doing}: {error}", place.table), error)
}

/// Compares this machine's wall clock with Spanner's, as far as the latency allows.
async fn drift(place: &Place, findings: &mut Findings) -> Result<()> {
    let mut best: Option<(Duration, i64)> = None;
    for _ in 0..ROUNDS {
        let before = wall_clock();
        let read_at = read_timestamp(place).await?;
        let after = wall_clock();
        let took = (after - before).to_std().unwrap_or_default();
        let middle = before + (after - before) / 2;
        let ahead_ms = (middle - read_at).num_milliseconds();
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, ahead_ms));
        }
    }
    let (took, ahead_ms) = best.unwrap_or_default();
    let way = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let off = Duration::from_millis(ahead_ms.unsigned_abs());
    let found = format!("this machine is {} {way} Spanner, give or take {took:.1?}", in_words(off));
    if off > DRIFT_MAX + took {
        let cure = "start NTP here; locks don't mind, but logs of several nodes can't be compared";
        findings.note("clock", found, cure);
    } else {
        findings.ok("clock", found);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "people go by it, and no lease does")]
pub fn wall_clock() -> DateTime<Utc> {
    std::time::SystemTime::now().into()
}

/// Late heartbeats, leases that are too short, and locks that nobody has.
async fn locks(place: &Place, findings: &mut Findings, lease_min: Duration) -> Result<()> {
    let mut listing = place.locks.list().page_rows(1_000);
    let (mut held, mut late, mut short, mut expired) = (0, Vec::new(), Vec::new(), Vec::new());
    while let Some(lock) = listing.next().await? {
        match &lock.holding {
            Holding::Held { .. } => {
                held += 1;
                late.extend(is_late(&lock).then(|| lock.name.clone()));
            }
            // Perhaps nobody can take it: its lease may be too short for that, too.
            Holding::Expired { .. } => expired.push(lock.name.clone()),
            _ => continue,
        }
        let is_short = lock.lease.is_some_and(|lease| lease < lease_min);
        short.extend(is_short.then(|| lock.name.clone()));
    }
    if late.is_empty() {
        findings.ok("heartbeats", format!("{held} locks are held, and no heartbeat is late"));
    } else {
        let cure = "see that the holder's runtime isn't blocked and that it reaches Spanner; \
                    `spindle show` tells who it is";
        findings.bad("heartbeats", format!("late: {}", some(&late)), cure);
    }
    if !short.is_empty() {
        let cure = format!("give these locks a lease of {} or more", in_words(lease_min));
        findings.note("leases", format!("short for this latency: {}", some(&short)), cure);
    }
    if !expired.is_empty() {
        let cure = "start a contender, or `spindle rm` what is used no more";
        findings.note("nobody", format!("the lease ran out on {}", some(&expired)), cure);
    }
    Ok(())
}

fn of_protocol(time: Timestamp) -> spindle_protocol::Timestamp {
    let seconds = time.seconds().saturating_mul(1_000_000_000);
    spindle_protocol::Timestamp(seconds.saturating_add(i64::from(time.nanos())))
}

/// Finds what only the bare rows tell: takeover rows of no term, and holders of other implementations.
async fn rows(place: &Place, findings: &mut Findings) -> Result<()> {
    let reading = async {
        let transaction = place.client.single_use().build();
        let request =
            ReadRequest::builder(&place.table, ["name", "heartbeat", "writer", "displaced"]);
        let request = request.with_keys(KeySet::all()).with_retry_policy(NeverRetry).build();
        let mut rows = transaction.execute_read(request).await?;
        let (mut takeovers, mut named, mut foreign) = (Vec::new(), HashSet::new(), Vec::new());
        while let Some(row) = rows.next().await.transpose()? {
            let name: String = row.get("name")?;
            let writer: Option<String> = row.get("writer")?;
            let writer = Writer::from(writer.unwrap_or_default().as_str());
            let heartbeat: Option<Timestamp> = row.get("heartbeat")?;
            let is_takeover = heartbeat.is_none()
                && name.rsplit_once('_').is_some_and(|(lock, _)| is_takeover_key(lock, &name));
            // A released row has no holder, such as the one that names the count of some shards.
            let is_released = heartbeat.is_some_and(|at| at == Timestamp::default());
            let displaced: Option<Timestamp> = row.get("displaced")?;
            named.extend(displaced.map(|token| takeover_key(&name, of_protocol(token))));
            if is_takeover {
                takeovers.push(name);
            } else if !is_released && writer.id().is_some() && writer.nonce().is_none() {
                foreign.push(name);
            }
        }
        takeovers.retain(|key| !named.contains(key));
        Ok::<_, spindle::google_cloud_spanner::Error>((takeovers, foreign))
    };
    let (takeovers, foreign) =
        reading.await.map_err(|error| failed(place, "read its rows", &error))?;
    if takeovers.is_empty() {
        findings.ok("takeover rows", "each belongs to a term");
    } else {
        let cure = "`spindle rm` deletes a lock's, once nobody holds it";
        let of_no_term =
            format!("of no term, left by a hand or another implementation: {}", some(&takeovers));
        findings.note("takeover rows", of_no_term, cure);
    }
    if foreign.is_empty() {
        findings.ok("holders", "every holder is of this implementation");
    } else {
        let cure = "stop the other implementation: two together can both hold a lock";
        findings.bad("holders", format!("others hold {}", some(&foreign)), cure);
    }
    Ok(())
}

/// The first few names, and how many more there are.
fn some(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(3) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_is_said_to_suit_that_the_readme_advises_against() {
        let milliseconds = Duration::from_millis;
        assert_eq!(lease_min(milliseconds(2)), milliseconds(2_000));
        assert_eq!(lease_min(milliseconds(150)), milliseconds(3_000));
    }
}
