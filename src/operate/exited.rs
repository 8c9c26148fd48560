//! Releasing what a process held that is known to be gone.

use std::time::Duration;

use futures_util::future::join_all;
use spindle_protocol::job::RecordChange;
use spindle_protocol::{Answer, Change, Nonce, Observation, Succession, TermId, Timing};

use crate::batch::OpKind;
use crate::error::{Error, Outcome};
use crate::settings::LEASE_DEFAULT;
use crate::store::{REQUEST_LIMIT, Table};
use crate::system::random;
use crate::term::Term;
use crate::token::FencingToken;

/// A request that takes longer than this counts as slow.
const PATIENCE: Duration = Duration::from_secs(1);

/// An instance of a process that is gone: the lock that it contended for, and its nonce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(hidden)]
pub struct ExitedInstance {
    pub lock: String,
    pub nonce: u64,
}

impl ExitedInstance {
    /// Returns the instance that holds under this term, should its process be gone.
    pub fn holder_of(term: &Term) -> Option<ExitedInstance> {
        let nonce = term.writer().nonce()?.instance;
        Some(ExitedInstance { lock: term.lock().to_string(), nonce })
    }

    /// Reads a nonce as 16 hexadecimal digits, the form in which `writer` has it.
    pub fn parse(lock: &str, nonce: &str) -> Option<ExitedInstance> {
        let nonce = Nonce::parse(&format!("{nonce}-0"))?.instance;
        Some(ExitedInstance { lock: lock.to_string(), nonce })
    }
}

/// The outcome for the row of an instance whose process is gone.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum AtExit {
    /// Its term was released: the next contender takes the lock at its next poll.
    Released(FencingToken),
    /// Its term is younger than its lease, which runs out.
    Lapses(FencingToken),
    /// It has no term, or none any more.
    HasNone,
    /// Nobody knows yet, or nothing could be asked.
    Unknown(Error),
}

/// Releases each row that carries the nonce of its instance, in as few requests as the batcher needs.
///
/// The caller knows that these processes are gone. The condition is that of any release: the token and the
/// writer, as they were read here.
pub(crate) async fn release_exited(table: &Table, gone: &[ExitedInstance]) -> Vec<AtExit> {
    join_all(gone.iter().map(|instance| release(table, instance, Spares::Young, None))).await
}

/// Releases what an instance left to its lease, for the client behind it, which says that its work has stopped; and
/// records how a job's run has ended.
pub(crate) async fn release_left(
    table: &Table,
    instance: &ExitedInstance,
    record: Option<RecordChange>,
) -> AtExit {
    release(table, instance, Spares::None, record).await
}

/// The terms that are left to their leases all the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spares {
    None,
    Young,
}

async fn release(
    table: &Table,
    instance: &ExitedInstance,
    spares: Spares,
    record: Option<RecordChange>,
) -> AtExit {
    let lock = instance.lock.as_str();
    if table.check_lock(lock).is_err() {
        // No lock can have that name.
        return AtExit::HasNone;
    }
    let handle = table.batchers.handle(&table.store, lock.into(), random::draw());
    let send = |kind| handle.send(kind, REQUEST_LIMIT, PATIENCE);
    let observation = match send(OpKind::Observe { is_first: false }).await {
        Outcome { answer: Answer::Observed(observation), .. } => observation,
        failed => return unknown(lock, failed),
    };
    let (term, lease, is_young) = match term_of(&observation, instance.nonce) {
        None => return AtExit::HasNone,
        Some(found) => found,
    };
    let token = FencingToken::from_timestamp(term.token);
    if is_young && spares == Spares::Young {
        return AtExit::Lapses(token);
    }
    // The row doesn't tell how often the dead process polled.
    let next = Succession::InLine { grace: Timing::from_lease(lease).poll_interval * 2 };
    let release = Change::Release { term, next };
    let change = match record {
        None => release,
        Some(record) => Change::Job { term: Box::new(release), record },
    };
    let outcome = send(OpKind::Change(change)).await;
    match outcome.answer {
        Answer::Applied { .. } => AtExit::Released(token),
        Answer::Rejected(_) => AtExit::HasNone,
        _ => unknown(lock, outcome),
    }
}

/// Returns the term that the row protects, if it carries the nonce, and its lease; and true if it is younger than that.
///
/// A job that kills its process would run through the fleet if its young terms were released.
fn term_of(observation: &Observation, nonce: u64) -> Option<(TermId, Duration, bool)> {
    let Observation { row, read_at, .. } = observation;
    let row = row.as_ref()?;
    let is_its = row.writer.nonce().is_some_and(|of| of.instance == nonce);
    let lease = row.lease.unwrap_or(LEASE_DEFAULT);
    let protects = !row.is_released() && row.heartbeat + lease > *read_at;
    let term = TermId { token: row.token, writer: row.writer.clone() };
    (is_its && protects).then_some((term, lease, row.token + lease > *read_at))
}

fn unknown(lock: &str, outcome: Outcome) -> AtExit {
    let nothing = || Error::unknown(format!("lock `{lock}`: release for a process that is gone"));
    AtExit::Unknown(outcome.error.unwrap_or_else(nothing))
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Row, Timestamp, Writer};

    use super::*;

    #[test]
    fn a_term_is_its_own_by_the_nonce_alone_and_lapses_while_it_is_young() {
        let lease = Duration::from_nanos(100);
        let seen = |heartbeat, token, read_at, instance| {
            let writer = Writer::term("a", Nonce { instance, attempt: 3 });
            let row = Row {
                heartbeat: Timestamp(heartbeat),
                token: Timestamp(token),
                writer,
                lease: Some(lease),
            };
            Observation { row: Some(row), next: None, read_at: Timestamp(read_at) }
        };
        let is_young = |observation| term_of(&observation, 7).map(|(_, _, is_young)| is_young);
        assert_eq!(is_young(seen(1_050, 1_000, 1_100, 7)), Some(false));
        assert_eq!(is_young(seen(1_050, 1_000, 1_099, 7)), Some(true));
        assert_eq!(is_young(seen(1_050, 1_000, 1_150, 7)), None, "it has run out");
        assert_eq!(is_young(seen(0, 1_000, 1_100, 7)), None, "it was released");
        assert_eq!(is_young(seen(1_050, 1_000, 1_100, 8)), None, "another instance's");
        let none = Observation { row: None, ..seen(0, 0, 0, 0) };
        assert!(term_of(&none, 7).is_none());
    }
}
