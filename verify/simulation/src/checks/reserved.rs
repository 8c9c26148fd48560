//! A reservation by a release is kept.

use std::collections::BTreeMap;

use spindle_protocol::{Succession, Timestamp};

use super::{Effect, Purpose};
use crate::coverage::CoverageGoal;

/// For whom each lock is reserved, told by those who reserved it and never by the row's text.
#[derive(Debug, Default)]
pub(super) struct Reservations(BTreeMap<String, Reserved>);

#[derive(Clone, Debug)]
struct Reserved {
    until: Timestamp,
    whom: Whom,
}

#[derive(Clone, Debug)]
enum Whom {
    Only(String),
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
            Purpose::Insert | Purpose::Takeover { .. } => {
                let Some(reserved) = self.0.remove(lock) else { return Ok(None) };
                return reserved.taken(id, at);
            }
            // An edit of a row undoes what it says.
            Purpose::ManualEdits => None,
            Purpose::Release { next, .. } => match next {
                Succession::Anyone => None,
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
            Some(reserved) => drop(self.0.insert(lock.clone(), reserved)),
            None => drop(self.0.remove(lock)),
        }
        Ok(None)
    }

    /// All rows are gone, and what they said.
    pub(super) fn lost_rows(&mut self) {
        self.0.clear();
    }
}

impl Reserved {
    fn taken(&self, id: &str, at: Timestamp) -> Result<Option<CoverageGoal>, String> {
        let may = match &self.whom {
            Whom::Only(successor) => successor == id,
            Whom::Nobody => false,
        };
        if !may && at < self.until {
            return Err(format!("`{id}` took the lock, which was {self:?}"));
        }
        Ok(match &self.whom {
            Whom::Nobody => Some(CoverageGoal::CooldownTook),
            Whom::Only(_) => None,
        })
    }
}
