//! A reservation by a release is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use spindle_protocol::line::{Place, waiter_of};
use spindle_protocol::{Succession, Timestamp};

use super::{Effect, Purpose};
use crate::coverage::CoverageGoal;

/// For whom each lock is reserved, told by those who reserved it and never by the row's text.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    locks: BTreeMap<String, Reserved>,
    /// The first in line of each lock, told by the commits that wrote it.
    line: BTreeMap<String, Place>,
}

#[derive(Clone, Debug)]
struct Reserved {
    until: Timestamp,
    whom: Whom,
}

#[derive(Clone, Debug)]
enum Whom {
    Only(String),
    /// One process of an id.
    InLine(Arc<str>),
}

impl Reservations {
    /// Takes note of a commit of the instance `id`, or judges it.
    pub(super) fn committed(
        &mut self,
        at: Timestamp,
        effect: &Effect,
        id: &str,
    ) -> Result<Option<CoverageGoal>, String> {
        let Effect { lock, purpose, .. } = effect;
        let reserved = match purpose {
            Purpose::Mark(place) => {
                self.line.insert(lock.clone(), place.clone());
                return Ok(Some(CoverageGoal::TookPlace));
            }
            Purpose::Insert => {
                // No place stands where there is no row.
                self.line.remove(lock);
                let Some(reserved) = self.locks.remove(lock) else { return Ok(None) };
                return reserved.taken(id, None, at);
            }
            Purpose::Takeover { writer, passes, .. } => {
                let waiter = waiter_of(writer);
                let is_over = |place: &Place| {
                    waiter.as_ref() == Some(&place.waiter) || passes.as_ref() == Some(place)
                };
                self.line.retain(|of, place| of != lock || !is_over(place));
                let Some(reserved) = self.locks.remove(lock) else { return Ok(None) };
                return reserved.taken(id, waiter.as_deref(), at);
            }
            // An edit of a row undoes what it says.
            Purpose::ManualEdits => {
                self.line.remove(lock);
                None
            }
            Purpose::Release { term, next } => match next {
                Succession::Anyone => None,
                Succession::InLine { grace } => {
                    let own = waiter_of(&term.writer);
                    let place = self.line.remove(lock);
                    let place = place.filter(|place| own.as_ref() != Some(&place.waiter));
                    let whom = place.map(|place| Whom::InLine(place.waiter));
                    whom.map(|whom| Reserved { until: at + *grace, whom })
                }
                Succession::Successor { id, grace } => {
                    Some(Reserved { until: at + *grace, whom: Whom::Only(id.clone()) })
                }
            },
            _ => return Ok(None),
        };
        match reserved {
            Some(reserved) => drop(self.locks.insert(lock.clone(), reserved)),
            None => drop(self.locks.remove(lock)),
        }
        Ok(None)
    }

    /// All rows are gone, and what they said.
    pub(super) fn lost_rows(&mut self) {
        self.locks.clear();
        self.line.clear();
    }
}

impl Reserved {
    fn taken(
        &self,
        id: &str,
        waiter: Option<&str>,
        at: Timestamp,
    ) -> Result<Option<CoverageGoal>, String> {
        let may = match &self.whom {
            Whom::Only(successor) => successor == id,
            Whom::InLine(process) => waiter == Some(&**process),
        };
        if !may && at < self.until {
            return Err(format!("`{id}` took the lock, which was {self:?}"));
        }
        Ok(match &self.whom {
            Whom::InLine(_) if may => Some(CoverageGoal::TookInTurn),
            Whom::Only(_) | Whom::InLine(_) => None,
        })
    }
}
