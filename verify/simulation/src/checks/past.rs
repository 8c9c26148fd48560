//! The library's account of a lock's past is what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use spindle::operate::{Cause, PastTerm};
use spindle_emulator::engine::Mutation;
use spindle_protocol::{Row, Succession, Timestamp};

use super::{Effect, Purpose};
use crate::coverage::CoverageGoal;

/// The terms of each lock in the order of their tokens, by what the commits were for.
#[derive(Debug, Default)]
pub(crate) struct Past {
    locks: BTreeMap<String, Vec<Announced>>,
    /// When a lock's row was last edited so that its versions don't tell the truth.
    edited: BTreeMap<String, Timestamp>,
    /// The locks whose rows were deleted: terms may be missing then.
    deleted: BTreeSet<String>,
}

/// A term, told by those who began, extended and ended it.
#[derive(Clone, Debug)]
struct Announced {
    token: Timestamp,
    id: String,
    heartbeat: Timestamp,
    lease: Duration,
    end: Option<(Timestamp, &'static str)>,
}

impl Announced {
    fn over(&self) -> Timestamp {
        self.heartbeat + self.lease
    }

    fn ran_out(&self, by: Timestamp) -> (Timestamp, &'static str) {
        let unheard = self.heartbeat == self.token;
        (self.over().min(by), if unheard { "unheard" } else { "lease_ran_out" })
    }
}

impl Past {
    /// Takes note of a commit of the instance `id`, after which the lock's row is `row`.
    pub(super) fn committed(
        &mut self,
        at: Timestamp,
        effect: &Effect,
        id: &str,
        row: Option<&Row>,
    ) {
        let Effect { lock, purpose, mutations, .. } = effect;
        let terms = self.locks.entry(lock.clone()).or_default();
        let open = terms.last_mut().filter(|term| term.end.is_none());
        match purpose {
            Purpose::Insert | Purpose::Takeover { .. } => {
                if let Some(open) = open {
                    open.end = Some(open.ran_out(at));
                }
                let Some(row) = row else { return };
                terms.push(Announced {
                    token: at,
                    id: id.to_string(),
                    heartbeat: at,
                    lease: row.lease.unwrap_or_default(),
                    end: None,
                });
            }
            Purpose::Heartbeat(_) => {
                if let Some(open) = open {
                    open.heartbeat = at;
                }
            }
            Purpose::Release { next, .. } => {
                let is_promised = row.is_some_and(|row| row.writer.successor_id().is_some());
                let how = match next {
                    Succession::InLine { .. } if is_promised => "handed_to",
                    Succession::Anyone | Succession::InLine { .. } => "released",
                    Succession::Successor { .. } => "handed_to",
                };
                if let Some(open) = open {
                    open.end = Some((open.over().min(at), how));
                }
            }
            Purpose::Evict => end_by_hand(open, at, "evicted"),
            Purpose::ManualEdits => match hand(mutations) {
                Some("deleted") => {
                    end_by_hand(open, at, "deleted");
                    self.deleted.insert(lock.clone());
                }
                Some(seized) => end_by_hand(open, at, seized),
                None => drop(self.edited.insert(lock.clone(), at)),
            },
            Purpose::Other | Purpose::Mark(_) | Purpose::Fenced(_) | Purpose::Peer => {}
        }
    }

    /// All rows are gone.
    pub(super) fn lost_rows(&mut self, at: Timestamp) {
        for lock in self.locks.keys() {
            self.edited.insert(lock.clone(), at);
        }
    }

    /// Compares what is told of a lock, the latest first, as of `read_at`; gives the causes that
    /// were found to be true.
    pub(crate) fn compare(
        &self,
        lock: &str,
        told: &[PastTerm],
        read_at: Timestamp,
        since: Timestamp,
    ) -> Result<Vec<CoverageGoal>, String> {
        let edited = self.edited.get(lock).copied().unwrap_or(Timestamp::EPOCH);
        let truth: Vec<&Announced> = (self.locks.get(lock).into_iter().flatten().rev())
            .filter(|term| term.token <= read_at)
            .collect();
        let mut seen = Vec::new();
        let mut next = 0;
        let mut may_skip = self.deleted.contains(lock);
        for term in told.iter().take_while(|term| at(term.token) > edited) {
            let found = truth[next..].iter().position(|told| told.token == at(term.token));
            let Some(skipped) = found else {
                return Err(format!("lock `{lock}`: {term:?} is told, and never was"));
            };
            if skipped > 0 && !may_skip {
                return Err(format!("lock `{lock}`: before {term:?}, {skipped} are not told"));
            }
            let so = truth[next + skipped];
            next += skipped + 1;
            may_skip = term.vacancy.is_none();
            let cause = same(so, term, read_at).map_err(|what| format!("lock `{lock}`: {what}"))?;
            seen.extend(cause.and_then(goal));
            let before = truth.get(next).filter(|before| before.token > edited);
            let before = before.and_then(|before| before.end);
            if let (Some(vacancy), Some((end, _))) = (term.vacancy, before)
                && vacancy > so.token.since(end)
            {
                return Err(format!("lock `{lock}`: before {term:?} all ended at {end:?}"));
            }
        }
        let missing = truth.get(next).filter(|term| term.token > edited.max(since) && !may_skip);
        match missing {
            Some(missing) => Err(format!("lock `{lock}`: {missing:?} is not told")),
            None => Ok(seen),
        }
    }
}

fn end_by_hand(open: Option<&mut Announced>, at: Timestamp, how: &'static str) {
    if let Some(open) = open {
        open.end = Some(if open.over() <= at { open.ran_out(at) } else { (at, how) });
    }
}

/// Returns the act of a hand, unless it made the row tell untruths.
fn hand(mutations: &[Mutation]) -> Option<&'static str> {
    match mutations {
        [Mutation::Delete { .. }] => Some("deleted"),
        [Mutation::Write { columns, .. }] if columns.iter().any(|column| column == "info") => {
            Some("seized")
        }
        _ => None,
    }
}

/// Gives the cause, if the term had ended by then and both say the same of it.
fn same(
    so: &Announced,
    term: &PastTerm,
    read_at: Timestamp,
) -> Result<Option<&'static str>, String> {
    let ended = so.end.filter(|(end, _)| *end <= read_at);
    let ended = ended.or_else(|| (so.over() <= read_at).then(|| so.ran_out(read_at)));
    let told = term.cause.as_ref().map(name).zip(term.end);
    let wrong = || Err(format!("{so:?} is told as {term:?}, read at {}", read_at.0));
    if term.holder != so.id {
        return wrong();
    }
    match (ended, told) {
        (None, None) => Ok(None),
        // Announced by the latest that it can have been.
        (Some((end, cause)), Some(("deleted", by))) if end <= datetime(by) => {
            Ok((cause == "deleted").then_some(cause))
        }
        (Some((end, cause)), Some((name, at)))
            if cause == name && end == datetime(at) && so.heartbeat == datetime(term.heartbeat) =>
        {
            Ok(Some(cause))
        }
        _ => wrong(),
    }
}

fn name(cause: &Cause) -> &'static str {
    match cause {
        Cause::Released => "released",
        Cause::HandedTo { .. } => "handed_to",
        Cause::Evicted { .. } => "evicted",
        Cause::Seized { .. } => "seized",
        Cause::LeaseRanOut => "lease_ran_out",
        Cause::BeforeHeartbeat => "unheard",
        Cause::Unknown => "deleted",
        _ => "other",
    }
}

/// Manual edits that delete a row also edit it, and what came before an edit isn't compared. So
/// deletions are left to the behaviour tests, as are tables without marks.
fn goal(cause: &str) -> Option<CoverageGoal> {
    Some(match cause {
        "released" => CoverageGoal::ToldRelease,
        "handed_to" => CoverageGoal::ToldHandOver,
        "evicted" => CoverageGoal::ToldEviction,
        "seized" => CoverageGoal::ToldSeizure,
        "lease_ran_out" => CoverageGoal::ToldLeaseRanOut,
        "unheard" => CoverageGoal::ToldUnheard,
        _ => return None,
    })
}

fn at(token: spindle::FencingToken) -> Timestamp {
    Timestamp(token.as_nanoseconds().cast_signed())
}

fn datetime<Z: chrono::TimeZone>(time: chrono::DateTime<Z>) -> Timestamp {
    Timestamp(time.timestamp_nanos_opt().unwrap_or_default())
}
