//! A reservation by a release is kept.

use std::collections::BTreeMap;

use spindle_protocol::line::Place;
use spindle_protocol::{Succession, Timestamp};

use super::{Effect, Purpose};
use crate::coverage::CoverageGoal;

/// For whom each lock is reserved, told by those who reserved it and never by the row's text.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    locks: BTreeMap<String, Reserved>,
    /// Who stands first in line, told by the commits that wrote it.
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
    InLine(String),
    Nobody,
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
            Purpose::Insert | Purpose::Takeover { .. } => {
                let passes = match purpose {
                    Purpose::Takeover { passes, .. } => passes.as_ref(),
                    _ => None,
                };
                self.line
                    .retain(|of, place| of != lock || !(place.id() == id || passes == Some(place)));
                let Some(reserved) = self.locks.remove(lock) else { return Ok(None) };
                return reserved.taken(id, at);
            }
            // An edit of a row undoes what it says.
            Purpose::ManualEdits => {
                self.line.remove(lock);
                None
            }
            Purpose::Release { next, .. } => match next {
                Succession::Anyone => None,
                Succession::InLine { grace } => {
                    let place = self.line.remove(lock).filter(|place| place.id() != id);
                    let whom = place.map(|place| Whom::InLine(place.id().to_string()));
                    whom.map(|whom| Reserved { until: at + *grace, whom })
                }
                Succession::Successor { id, grace } => {
                    Some(Reserved { until: at + *grace, whom: Whom::Only(id.clone()) })
                }
                Succession::Cooldown { rest } => {
                    Some(Reserved { until: at + *rest, whom: Whom::Nobody })
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
    fn taken(&self, id: &str, at: Timestamp) -> Result<Option<CoverageGoal>, String> {
        let may = match &self.whom {
            Whom::Only(successor) | Whom::InLine(successor) => successor == id,
            Whom::Nobody => false,
        };
        if !may && at < self.until {
            return Err(format!("`{id}` took the lock, which was {self:?}"));
        }
        Ok(match &self.whom {
            Whom::Nobody => Some(CoverageGoal::CooldownTook),
            Whom::InLine(_) if may => Some(CoverageGoal::TookInTurn),
            Whom::Only(_) | Whom::InLine(_) => None,
        })
    }
}
