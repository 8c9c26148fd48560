//! One lock, in the words and the fields that every command uses.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::ValueEnum;
use serde::Serialize;
use spindle::{Holding, LockState};

use crate::output::{Cell, Line, Paint, printable};

/// By which a row without a lease, another implementation's, is judged.
pub const LEASE_ASSUMED: Duration = Duration::from_secs(10);

/// Nobody seizes a lock rather than wait for less.
const SEIZED_FROM: Duration = Duration::from_secs(20);

/// The state of a lock, as the output and the metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(into = "&'static str")]
#[value(rename_all = "snake_case")]
pub enum State {
    Held,
    NeverHeld,
    Released,
    Promised,
    Evicted,
    Expired,
    /// Of a writer that waits until nobody reads any more.
    Waiting,
    /// One that the library tells and this program doesn't know.
    #[value(skip)]
    Other,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Held => "held",
            State::NeverHeld => "never_held",
            State::Released => "released",
            State::Promised => "promised",
            State::Evicted => "evicted",
            State::Expired => "expired",
            State::Waiting => "waiting",
            State::Other => "other",
        }
    }
}

impl From<State> for &'static str {
    fn from(state: State) -> &'static str {
        state.as_str()
    }
}

/// A lock as the output shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    pub name: String,
    /// The fleet that the row belongs to; nothing for a lock of a user's.
    pub fleet: Option<String>,
    pub state: State,
    /// The holder; the writer where one waits.
    pub holder: Option<String>,
    /// The one that no longer holds, as its lease ran out.
    pub last_holder: Option<String>,
    /// For whom it is reserved.
    pub reserved_for: Option<String>,
    /// In RFC 3339, by Spanner's clock.
    pub since: Option<String>,
    pub since_ms: Option<i64>,
    /// When the lease ran out, if it did.
    pub lost: Option<String>,
    pub lost_ms: Option<i64>,
    pub token: Option<String>,
    pub lease_ms: Option<u128>,
    pub heartbeat_age_ms: Option<u128>,
    pub info: Option<String>,
    /// The id of who waits first in line.
    pub next_in_line: Option<String>,
    pub next_in_line_since: Option<String>,
    pub next_in_line_ms: Option<i64>,
    /// The obstacle that keeps the next contender out, in words.
    pub next: String,
}

impl Record {
    pub fn new(state: &LockState) -> Record {
        let (word, holder) = match &state.holding {
            Holding::Held { id, .. } => (State::Held, Some(id)),
            Holding::NeverHeld => (State::NeverHeld, None),
            Holding::Released => (State::Released, None),
            Holding::Promised { .. } => (State::Promised, None),
            Holding::Evicted => (State::Evicted, None),
            Holding::Expired { .. } => (State::Expired, None),
            _ => (State::Other, None),
        };
        let (last_holder, reserved_for) = match &state.holding {
            Holding::Expired { id, .. } => (Some(id.clone()), None),
            Holding::Promised { to, .. } => (None, Some(to.clone())),
            _ => (None, None),
        };
        let since = state.since();
        let ago = |at: DateTime<Utc>| (state.read_at - at).num_milliseconds();
        let lost = lost(state);
        Record {
            name: state.name.clone(),
            fleet: state.fleet().map(str::to_string),
            state: word,
            holder: holder.cloned(),
            last_holder,
            reserved_for,
            since: since.map(rfc3339),
            since_ms: since.map(ago),
            lost: lost.map(rfc3339),
            lost_ms: lost.map(ago),
            token: state.token.map(|token| token.to_string()),
            lease_ms: state.lease.map(|lease| lease.as_millis()),
            heartbeat_age_ms: state.heartbeat_age.map(|age| age.as_millis()),
            info: state.info.clone(),
            next_in_line: state.next.clone(),
            next_in_line_since: state.next_since.map(rfc3339),
            next_in_line_ms: state.next_since.map(ago),
            next: next(state),
        }
    }

    pub fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// The state in a word or two.
    pub fn holding(&self) -> String {
        match &self.reserved_for {
            Some(id) => format!("reserved for {}", printable(id)),
            None => self.state.as_str().replace('_', " "),
        }
    }

    /// For how long it has been so: where a lease ran out, since then.
    pub fn duration(&self) -> Option<String> {
        self.lost_ms.or(self.since_ms).map(so_long)
    }

    /// The contender that stands first in line, and for how long it has waited.
    pub fn in_line(&self) -> Option<String> {
        let waits = self.next_in_line_ms.map(so_long)?;
        Some(format!("{} (for {waits})", self.next_in_line.as_ref()?))
    }

    /// How long ago the last heartbeat came.
    pub fn heartbeat(&self) -> Option<String> {
        self.heartbeat_age_ms.map(|age_ms| format!("{} ago", milliseconds(age_ms)))
    }

    /// All there is to say, one line each.
    pub fn in_words(&self) -> String {
        let mut lines = vec![("lock", self.name.clone()), ("state", self.holding())];
        let label = if self.state == State::Waiting { "contender" } else { "holder" };
        lines.extend(self.holder.clone().map(|holder| (label, holder)));
        lines.extend(self.last_holder.clone().map(|holder| ("last holder", holder)));
        let times = [("since", &self.since, self.since_ms), ("ran out", &self.lost, self.lost_ms)];
        for (label, at, ago) in times {
            if let (Some(at), Some(ago)) = (at, ago) {
                lines.push((label, format!("{at} ({})", so_long(ago))));
            }
        }
        if let Some(lease_ms) = self.lease_ms {
            let label = if self.state == State::Promised { "reserved" } else { "lease" };
            lines.push((label, milliseconds(lease_ms)));
        }
        lines.extend(self.heartbeat().map(|heartbeat| ("heartbeat", heartbeat)));
        lines.extend(self.token.clone().map(|token| ("token", token)));
        lines.extend(self.info.clone().map(|info| ("info", info)));
        lines.extend(self.in_line().map(|in_line| ("in line", in_line)));
        lines.push(("next", self.next.clone()));
        let line = |(name, text): &(&str, String)| format!("{name:<12}{}\n", printable(text));
        lines.iter().map(line).collect()
    }
}

impl Line for Record {
    const HEAD: &'static [&'static str] =
        &["LOCK", "HOLDER", "STATE", "FOR", "LEASE", "HEARTBEAT", "INFO", "TOKEN", "IN LINE"];
    const GOES_FIRST: &'static [&'static str] = &["INFO", "LEASE", "HEARTBEAT"];
    const WIDE: usize = 2;

    fn cells(&self) -> Vec<Cell> {
        let paint = match self.state {
            State::Held | State::Waiting => Paint::Good,
            State::Expired | State::Evicted => Paint::Bad,
            _ => Paint::Faint,
        };
        let dash = || "-".to_string();
        vec![
            Cell::name(self.name.clone()),
            Cell::name(self.holder.clone().unwrap_or_else(dash)),
            Cell::painted(self.holding(), paint),
            Cell::plain(self.duration().unwrap_or_else(dash)),
            Cell::plain(self.lease_ms.map_or_else(dash, milliseconds)),
            Cell::plain(self.heartbeat().unwrap_or_else(dash)),
            Cell::plain(self.info.clone().unwrap_or_default()),
            Cell::plain(self.token.clone().unwrap_or_else(dash)),
            Cell::plain(self.in_line().unwrap_or_else(dash)),
        ]
    }
}

/// A contender waits for the longer of the last holder's lease and its own, which no row tells.
const AT_ONCE_BY_LEASE: &str = "may take it at once, or when its own longer lease is over";

/// Returns what keeps the next contender out, and until when.
fn next(state: &LockState) -> String {
    let lease = state.lease.unwrap_or(LEASE_ASSUMED);
    let rest = in_words(lease.saturating_sub(state.heartbeat_age.unwrap_or(lease)));
    match &state.holding {
        Holding::Held { .. } => {
            let waiting = format!(
                "waits until no heartbeat has come for the lease: not before {rest} from now"
            );
            if lease.saturating_sub(state.heartbeat_age.unwrap_or(lease)) < SEIZED_FROM {
                waiting
            } else {
                format!("{waiting}; if the holder is dead, `spindle seize` does not wait")
            }
        }
        Holding::Expired { .. } => AT_ONCE_BY_LEASE.to_string(),
        Holding::Evicted if rest == "0s" => AT_ONCE_BY_LEASE.to_string(),
        Holding::Evicted => format!("waits for the rest of the evicted holder's lease: {rest}"),
        Holding::Promised { to, .. } => {
            let since = state.since().map(|since| (state.read_at - since).to_std());
            let passed = since.and_then(Result::ok).unwrap_or_default();
            let rest = lease.saturating_sub(passed);
            if rest.is_zero() {
                "may take it at once: the reservation is over".to_string()
            } else {
                format!("waits {} unless it is `{to}`", in_words(rest))
            }
        }
        _ => "may take it at once".to_string(),
    }
}

/// Returns when the lease ran out, by Spanner's clock, if it did.
fn lost(state: &LockState) -> Option<DateTime<Utc>> {
    let Holding::Expired { .. } = state.holding else { return None };
    let ago = state.heartbeat_age?.saturating_sub(state.lease.unwrap_or(LEASE_ASSUMED));
    state.read_at.checked_sub_signed(chrono::TimeDelta::from_std(ago).ok()?)
}

/// Returns true if the holder's next heartbeat should have come by now.
pub fn is_late(lock: &LockState) -> bool {
    // One comes each third of the lease by default, and each half at the latest.
    lock.lease.zip(lock.heartbeat_age).is_some_and(|(lease, age)| age > lease / 3 * 2)
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

fn so_long(milliseconds: i64) -> String {
    in_words(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)))
}

fn milliseconds(milliseconds: u128) -> String {
    in_words(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX)))
}

/// A duration as people say it: two units at most, tenths below ten seconds.
pub fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.is_zero() => "0s".to_string(),
        0 => format!("{}ms", duration.as_millis().max(1)),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_in_two_units_at_most() {
        let said = |milliseconds| in_words(Duration::from_millis(milliseconds));
        assert_eq!(said(0), "0s");
        assert_eq!(said(340), "340ms");
        assert_eq!(said(1_234), "1.2s");
        assert_eq!(said(59_900), "59s");
        assert_eq!(said(61_000), "1m01s");
        assert_eq!(said(7_380_000), "2h03m");
        assert_eq!(said(90_000_000), "1d01h");
    }
}
