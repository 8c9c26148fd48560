//! The metrics that Prometheus scrapes, made from a poll of the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use spindle::LockState;
use spindle::job::JobState;

use super::poller::Snapshot;
use crate::jobs::has_failed;
use crate::readers::Readers;
use crate::record::State;

/// The locks that have no label of their own share this one.
const OTHERS: &str = "(others)";

/// One lock in numbers, or one fleet.
struct Numbers {
    held: u32,
    lease_seconds: Option<f64>,
    heartbeat_age_seconds: Option<f64>,
    /// When the term began or was ended.
    token_timestamp_seconds: Option<f64>,
    /// For how long the first in line has waited.
    first_waits_seconds: Option<f64>,
}

impl Numbers {
    fn new(state: &LockState, readers: &Readers) -> Numbers {
        // The rows of a fleet that are not held, such as those of members that have gone, have none.
        let is_held = readers.is_held(state);
        let age = state.heartbeat_age.filter(|_| is_held || state.fleet().is_none());
        Numbers {
            held: u32::from(is_held),
            lease_seconds: state.lease.map(|lease| lease.as_secs_f64()),
            heartbeat_age_seconds: age.map(|age| age.as_secs_f64()),
            token_timestamp_seconds: state
                .since()
                .map(|since| since.timestamp_micros() as f64 / 1_000_000.0),
            first_waits_seconds: state
                .next_since
                .map(|since| (state.read_at - since).num_milliseconds().max(0) as f64 / 1_000.0),
        }
    }

    /// The worse of two: an alert about either is one about both. Lease and heartbeat are those of the lock whose
    /// heartbeat is older, in leases.
    fn worse(self, other: Numbers) -> Numbers {
        let leases = |numbers: &Numbers| {
            numbers.heartbeat_age_seconds.zip(numbers.lease_seconds).map(|(age, lease)| age / lease)
        };
        let older = if leases(&other) > leases(&self) { &other } else { &self };
        Numbers {
            held: self.held.min(other.held).min(1),
            lease_seconds: older.lease_seconds,
            heartbeat_age_seconds: older.heartbeat_age_seconds,
            token_timestamp_seconds: None,
            first_waits_seconds: greater(self.first_waits_seconds, other.first_waits_seconds),
        }
    }

    /// Two rows of one fleet.
    fn together(self, other: Numbers) -> Numbers {
        Numbers {
            held: self.held + other.held,
            lease_seconds: greater(self.lease_seconds, other.lease_seconds),
            heartbeat_age_seconds: greater(self.heartbeat_age_seconds, other.heartbeat_age_seconds),
            token_timestamp_seconds: greater(
                self.token_timestamp_seconds,
                other.token_timestamp_seconds,
            ),
            first_waits_seconds: greater(self.first_waits_seconds, other.first_waits_seconds),
        }
    }
}

fn greater(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}

/// The text of a scrape. The rows of a fleet are one; locks beyond the first `labels_max` are one.
pub fn text(snapshot: &Snapshot, labels_max: usize) -> String {
    let mut text = String::new();
    let up = u64::from(snapshot.trouble.is_none());
    number(&mut text, "spindle_table_up", "gauge", "1 if the last poll of the table succeeded", up);
    let (polls, failures) = ("spindle_table_polls_total", "spindle_table_poll_failures_total");
    number(&mut text, polls, "counter", "Polls of the table", snapshot.polls);
    number(&mut text, failures, "counter", "Polls that failed", snapshot.failures);
    if snapshot.trouble.is_some() {
        // The state of before may no longer be true.
        return text;
    }
    let mut states = BTreeMap::<State, u64>::new();
    for state in snapshot.states.values() {
        *states.entry(snapshot.readers.record(state).state).or_default() += 1;
    }
    family(&mut text, "spindle_table_locks", "gauge", "Locks of the table, by state");
    for (state, count) in states {
        let _ = writeln!(text, "spindle_table_locks{{state=\"{}\"}} {count}", state.as_str());
    }
    let mut labelled = BTreeMap::<&str, Numbers>::new();
    for state in snapshot.states.values() {
        let label = state.fleet().unwrap_or(&state.name);
        let mut numbers = Numbers::new(state, &snapshot.readers);
        if let Some(before) = labelled.remove(label) {
            numbers = before.together(numbers);
        }
        labelled.insert(label, numbers);
    }
    let mut labelled = labelled.into_iter();
    let mut locks: Vec<(&str, Numbers)> = labelled.by_ref().take(labels_max).collect();
    let others = labelled.map(|(_, numbers)| numbers).reduce(Numbers::worse);
    locks.extend(others.map(|numbers| (OTHERS, numbers)));
    of_locks(&mut text, &locks);
    of_jobs(&mut text, snapshot.jobs.values().take(labels_max));
    text
}

fn of_jobs<'a>(text: &mut String, jobs: impl Iterator<Item = &'a JobState> + Clone) {
    type Value = fn(&JobState) -> Option<f64>;
    let families: [(&str, &str, Value); 3] = [
        ("spindle_table_job_failed", "1 if the last slot of a job is recorded as failed", |job| {
            Some(if has_failed(job) { 1.0 } else { 0.0 })
        }),
        ("spindle_table_job_starts", "Starts of the last slot of a job", |job| {
            job.last.as_ref().map(|last| f64::from(last.starts))
        }),
        (
            "spindle_table_job_slot_timestamp_seconds",
            "Last slot of a job that was started, in seconds of 1970",
            |job| job.last.as_ref().map(|last| last.slot.timestamp() as f64),
        ),
    ];
    for (name, help, value) in families {
        family(text, name, "gauge", help);
        for job in jobs.clone() {
            if let Some(value) = value(job) {
                let _ = writeln!(text, "{name}{{lock=\"{}\"}} {value}", escape(&job.name));
            }
        }
    }
}

fn of_locks(text: &mut String, locks: &[(&str, Numbers)]) {
    type Value = fn(&Numbers) -> Option<f64>;
    let families: [(&str, &str, Value); 5] = [
        (
            "spindle_table_lock_held",
            "1 if somebody holds the lock; of a fleet, how many are held",
            |lock| Some(f64::from(lock.held)),
        ),
        ("spindle_table_lock_lease_seconds", "Lease of the last holder", |lock| lock.lease_seconds),
        ("spindle_table_lock_heartbeat_age_seconds", "Time since the last heartbeat", |lock| {
            lock.heartbeat_age_seconds
        }),
        (
            "spindle_table_lock_token_timestamp_seconds",
            "When the term began, or the last one was ended, in seconds of 1970",
            |lock| lock.token_timestamp_seconds,
        ),
        (
            "spindle_table_lock_first_waits_seconds",
            "For how long the first in line has waited",
            |lock| lock.first_waits_seconds,
        ),
    ];
    for (name, help, value) in families {
        family(text, name, "gauge", help);
        for (lock, numbers) in locks {
            if let Some(value) = value(numbers) {
                let _ = writeln!(text, "{name}{{lock=\"{}\"}} {value}", escape(lock));
            }
        }
    }
}

pub fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

pub fn number(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    family(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

pub fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_own_quotes() {
        assert_eq!(escape("a\"} 1\nb\\"), "a\\\"} 1\\nb\\\\");
    }
}
