//! Why a term ended, judged by its last version and by what came after it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle_protocol::line::id_of;
use spindle_protocol::{Named, StoredRow, Timestamp};

use super::past_term::{Cause, PastTerm};
use crate::settings::LEASE_DEFAULT;
use crate::token::FencingToken;

/// The version that came after the last one of a term.
#[derive(Clone, Debug)]
pub(super) enum Later {
    /// Nothing yet, as of this read.
    Nothing(Timestamp),
    /// Another version of the row.
    Version(StoredRow),
    /// No row: it was deleted after the first moment, and before the second.
    Deleted(Timestamp, Timestamp),
}

/// Returns true if the row is a term's, and not what ended one.
pub(super) fn is_term(stored: &StoredRow) -> bool {
    stored.writer.id().is_some() && !stored.row().is_released()
}

pub(super) fn past_term(term: &StoredRow, later: &Later, vacancy: Option<Duration>) -> PastTerm {
    let row = term.row();
    let ended = ended(term, later);
    PastTerm {
        holder: row.writer.id().unwrap_or_default().to_string(),
        token: FencingToken::from_timestamp(row.token),
        heartbeat: datetime(row.heartbeat),
        info: term.info.clone(),
        end: ended.as_ref().map(|(end, _)| datetime(*end)),
        cause: ended.map(|(_, cause)| cause),
        vacancy,
    }
}

/// Returns when and why the term ended; nothing if it goes on.
fn ended(term: &StoredRow, later: &Later) -> Option<(Timestamp, Cause)> {
    let over = term.row().vacant_since(LEASE_DEFAULT);
    let ran_out = |by: Timestamp| {
        let had_none = term.heartbeat == term.token;
        let cause = if had_none { Cause::BeforeHeartbeat } else { Cause::LeaseRanOut };
        Some((over.min(by), cause))
    };
    match later {
        Later::Nothing(read_at) if over <= *read_at => ran_out(*read_at),
        Later::Nothing(_) => None,
        Later::Deleted(after, by) if over <= *after => ran_out(*by),
        Later::Deleted(_, by) => Some((*by, Cause::Unknown)),
        Later::Version(version) if is_term(version) => ran_out(version.row().token),
        Later::Version(version) => {
            let cause = cause(version);
            let at = version.row().token;
            let is_by_hand = matches!(cause, Cause::Evicted { .. } | Cause::Seized { .. });
            // A change by hand to a row whose lease had run out didn't end the term.
            if is_by_hand && over <= at {
                return ran_out(at);
            }
            // A release may come after the lease has run out; without its lease a row doesn't tell.
            let end = if term.lease_ms.is_some() { over.min(at) } else { at };
            Some((end, cause))
        }
    }
}

/// Returns how the term before the version ended, as the version says.
fn cause(version: &StoredRow) -> Cause {
    let row = version.row();
    if !row.is_released() {
        let (by, reason) = mark(version, "evicted").unwrap_or_default();
        return Cause::Evicted { by, reason };
    }
    if let Some((by, reason)) = mark(version, "seized") {
        return Cause::Seized { by, reason };
    }
    match row.writer.names() {
        Named::Successor(to) => Cause::HandedTo { to: id_of(to).to_string() },
        _ => Cause::Released,
    }
}

/// Returns who left the mark in the row, and why: `evicted`, `evicted by alice`,
/// `evicted: bad deploy` or `evicted by alice: bad deploy`.
fn mark(version: &StoredRow, verb: &str) -> Option<(Option<String>, Option<String>)> {
    let text = version.info.as_deref()?.strip_prefix(verb)?;
    let (by, reason) = match text.split_once(": ") {
        Some((by, reason)) => (by, Some(reason.to_string())),
        None => (text, None),
    };
    let by = match by.strip_prefix(" by ") {
        Some(by) => Some(by.to_string()),
        None if by.is_empty() => None,
        // The text is a holder's own, and only begins with the same word.
        None => return None,
    };
    Some((by, reason))
}

fn datetime(timestamp: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(timestamp.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_with_and_without_who_and_why() {
        let of = |info: &str| {
            mark(&StoredRow { info: Some(info.into()), ..StoredRow::new("job") }, "evicted")
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(of("evicted by alice: bad deploy"), Some((some("alice"), some("bad deploy"))));
        assert_eq!(of("evicted by alice"), Some((some("alice"), None)));
        assert_eq!(of("evicted: bad deploy"), Some((None, some("bad deploy"))));
        assert_eq!(of("evicted"), Some((None, None)));
        assert_eq!(of("evictedly"), None);
        assert_eq!(of("10.0.0.7"), None);
    }
}
