//! One request with the acts of many locks, and the answer to each of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::{Answer, Change, Observation, StoredRow};

use super::parcel::{Lane, Load, Parcel};
use super::store::{Fate, Sight, Store, Verdict};
use crate::error::{Error, Result};
use crate::outcome::Outcome;

/// The result of a request.
#[derive(Debug)]
pub(crate) struct Return {
    /// One for each act; none for one that is to be sent again, in smaller company.
    pub(crate) outcomes: Vec<Option<Outcome>>,
    /// True if the request was not in vain: it brought answers.
    pub(crate) is_answered: bool,
    /// True if the server was heard, be it that it refused.
    pub(crate) is_heard: bool,
    /// Why the request may be sent once more as it was, before its outcomes count.
    pub(crate) whole: Option<Whole>,
}

/// Why a request may be sent once more as it was. Nothing of it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// Another transaction was in its way.
    Aborted {
        /// True if nothing but its read was sent.
        at_read: bool,
    },
    /// The server may have ended it for another transaction of the session.
    Gone,
}

impl Whole {
    fn of(fate: Fate) -> Option<Whole> {
        match fate {
            Fate::Aborted { at_read } => Some(Whole::Aborted { at_read }),
            Fate::Gone => Some(Whole::Gone),
            _ => None,
        }
    }

    fn of_read(error: &Error) -> Option<Whole> {
        match error.code() {
            Some(Code::Aborted) => Some(Whole::Aborted { at_read: true }),
            Some(Code::NotFound | Code::FailedPrecondition) => Some(Whole::Gone),
            // The two are taken for a wrong key there.
            _ => error.is_schema().then_some(Whole::Gone),
        }
    }
}

fn is_heard(error: Option<&Error>) -> bool {
    // A schema that is wrong was said to be.
    error.is_none_or(|error| error.is_answer() || error.is_schema())
}

/// Sends the acts in one request, or in the few that a sweep takes.
pub(crate) async fn travel<S: Store>(
    store: &S,
    lane: Lane,
    parcels: &[Arc<Parcel>],
    limit: Duration,
) -> Return {
    match lane {
        Lane::Polls => {
            let keys = parcels.iter().map(|parcel| Arc::clone(&parcel.lock)).collect();
            observed(parcels, store.read(keys, limit).await)
        }
        Lane::Heartbeats | Lane::Releases | Lane::Begins => {
            let changes: Vec<(Arc<str>, Change)> = changes(parcels);
            judged(parcels, store.transact(changes, limit).await)
        }
        Lane::Sweeps => swept(store, parcels, limit).await,
    }
}

fn changes(parcels: &[Arc<Parcel>]) -> Vec<(Arc<str>, Change)> {
    let changes = parcels.iter().filter_map(|parcel| match &parcel.load {
        Load::Change(change) => Some((Arc::clone(&parcel.lock), change.clone())),
        Load::Observe { .. } | Load::Sweep(_) => None,
    });
    changes.collect()
}

fn observed(parcels: &[Arc<Parcel>], read: Result<Sight>) -> Return {
    let Sight { rows, read_at, with_lease } = match read {
        Ok(sight) => sight,
        Err(error) => {
            let outcomes = unread(parcels, &error);
            let (is_heard, whole) = (is_heard(Some(&error)), Whole::of_read(&error));
            return Return { outcomes, is_answered: false, is_heard, whole };
        }
    };
    let rows: HashMap<&str, &StoredRow> = rows.iter().map(|row| (&*row.key, row)).collect();
    let outcome = |parcel: &Arc<Parcel>| {
        let row = rows.get(&*parcel.lock);
        if let Load::Observe { saw_lease, saw_seizure } = &parcel.load {
            saw_lease.store(with_lease, Ordering::Relaxed);
            saw_seizure.store(row.is_some_and(|row| row.is_seized()), Ordering::Relaxed);
        }
        let row = row.map(|row| row.row());
        let answer = Answer::Observed(Observation { row, read_at, wait: Duration::ZERO });
        Some(Outcome { answer, error: None })
    };
    Return {
        outcomes: parcels.iter().map(outcome).collect(),
        is_answered: true,
        is_heard: true,
        whole: None,
    }
}

/// Says to each act that nothing was read.
fn unread(parcels: &[Arc<Parcel>], error: &Error) -> Vec<Option<Outcome>> {
    let is_alone = parcels.len() == 1;
    let outcome = |parcel: &Arc<Parcel>| {
        let stays = is_alone || !parcel.is_repeat;
        stays.then(|| Outcome::failed(Answer::NotApplied, error.clone()))
    };
    parcels.iter().map(outcome).collect()
}

/// Says to each act what the transaction means for it.
fn judged(parcels: &[Arc<Parcel>], verdict: Verdict) -> Return {
    let Verdict { refused, fate, error } = verdict;
    let is_alone = parcels.len() == 1;
    let of_the_rest = |parcel: &Parcel| {
        let answer = match (fate, &parcel.load) {
            (Fate::Applied { at }, _) => Answer::Applied { at },
            // The rest goes again: which of the rows it was, nobody has said.
            (fate, _) if !is_alone && may_be_a_rows(fate) => return None,
            // A heartbeat may be repeated (I4). At the first failure its instance does that.
            (_, load) if !is_alone && parcel.is_repeat && load.lane() == Lane::Heartbeats => {
                return None;
            }
            (Fate::Exists, Load::Change(change)) => {
                let answer = Answer::Rejected(change.already_exists());
                return Some(Outcome { answer, error: None });
            }
            (Fate::Unknown, _) => Answer::Unknown,
            _ => Answer::NotApplied,
        };
        Some(Outcome { answer, error: error.clone() })
    };
    let outcomes = parcels.iter().zip(refused);
    let outcomes = outcomes.map(|(parcel, refused)| match refused {
        Some(rejection) => Some(Outcome { answer: Answer::Rejected(rejection), error: None }),
        None => of_the_rest(parcel),
    });
    Return {
        outcomes: outcomes.collect(),
        is_answered: error.is_none(),
        is_heard: is_heard(error.as_ref()),
        whole: Whole::of(fate),
    }
}

/// Returns true if one row can be the reason that a whole transaction is refused.
fn may_be_a_rows(fate: Fate) -> bool {
    matches!(fate, Fate::Exists | Fate::Spoilt | Fate::Aborted { .. } | Fate::Gone)
}

/// Finds the leftovers of all these locks in one read, and deletes them in one transaction.
async fn swept<S: Store>(store: &S, parcels: &[Arc<Parcel>], limit: Duration) -> Return {
    let ranges = parcels.iter().filter_map(|parcel| match parcel.load {
        Load::Sweep(before) => Some((Arc::clone(&parcel.lock), before)),
        Load::Observe { .. } | Load::Change(_) => None,
    });
    let found = match store.leftovers(ranges.collect(), limit).await {
        Ok(found) => found,
        Err(error) => return failed(parcels, &error),
    };
    let alls: Vec<bool> = found.iter().map(|(_, all)| *all).collect();
    let locks = parcels.iter().map(|parcel| Arc::clone(&parcel.lock));
    let changes: Vec<_> = locks
        .zip(found)
        .filter(|(_, (keys, _))| !keys.is_empty())
        .map(|(lock, (keys, _))| (lock, Change::Sweep { keys }))
        .collect();
    let (mut fate, mut error) = (None, None);
    if !changes.is_empty() {
        let verdict = store.transact(changes, limit).await;
        // Refused are those whose rows are gone already.
        (fate, error) = (Some(verdict.fate), verdict.error);
    }
    let outcome = |all: bool| {
        let answer = match fate {
            None | Some(Fate::Applied { .. }) => Answer::Swept { all },
            Some(Fate::Unknown) => Answer::Unknown,
            Some(_) => Answer::NotApplied,
        };
        Some(Outcome { answer, error: error.clone() })
    };
    Return {
        outcomes: alls.into_iter().map(outcome).collect(),
        is_answered: error.is_none(),
        is_heard: is_heard(error.as_ref()),
        whole: None,
    }
}

/// Says to each act that its request panicked: nobody knows what came of it.
pub(crate) fn panicked(parcels: &[Arc<Parcel>], message: &str) -> Return {
    let outcome = |parcel: &Arc<Parcel>| {
        let doing = format!("lock `{}`: the request panicked: {message}", parcel.lock);
        Some(Outcome::failed(parcel.without_answer(), Error::unknown(doing)))
    };
    let outcomes = parcels.iter().map(outcome).collect();
    Return { outcomes, is_answered: false, is_heard: true, whole: None }
}

fn failed(parcels: &[Arc<Parcel>], error: &Error) -> Return {
    let outcome = |_| Some(Outcome::failed(Answer::NotApplied, error.clone()));
    let is_heard = is_heard(Some(error));
    Return {
        outcomes: parcels.iter().map(outcome).collect(),
        is_answered: false,
        is_heard,
        whole: None,
    }
}
