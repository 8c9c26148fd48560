//! Decides when a contender by rank counts, by the rows of those that came before.

use std::time::Duration;

use crate::{Row, Timestamp};

/// So many members that joined one after the other may be on trial at a time.
const TRIALS_MAX: usize = 2;
/// A join counts no later than so many leases after it. By then the rows of the dead go, too.
const SETTLING_LEASES_MAX: u32 = 10;
/// Before the number of early deaths, in the text that a member declares.
const DECLARED: &str = " early ";

/// One life of a member, from its join to the last that was heard of it, as its row tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// The token of its term.
    pub since: Timestamp,
    /// When it was last heard of.
    pub heard: Timestamp,
    /// True if its lease has not run out.
    pub is_live: bool,
    /// How many lives of the same id before it ended early, in a row.
    pub early: u32,
}

/// The weight that a [`Life`] has among the contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// From when on the member counts.
    pub counts_from: Timestamp,
    /// True if it was last heard of less than a lease after that.
    pub is_young: bool,
}

impl Life {
    /// Returns the life of which a row tells, with what its member declares; none if that one left.
    pub fn of(row: &Row, info: Option<&str>, lease: Duration, read_at: Timestamp) -> Option<Life> {
        let _ = row.writer.id().filter(|_| !row.is_released())?;
        let is_live = row.vacant_for_all_from(lease) > read_at;
        let early = info.map_or(0, declared_early);
        Some(Life { since: row.token, heard: row.heartbeat, is_live, early })
    }
}

impl Standing {
    /// Returns how many lives of an id ended early in a row, if this was the last one.
    pub fn early_with(&self, life: &Life) -> u32 {
        if self.is_young { life.early.saturating_add(1) } else { 0 }
    }
}

/// Returns when each of these joins counts, in their order; `usual` is how long it takes where
/// nothing is amiss.
///
/// - A member that died within a lease of the moment from which it counted, died early. Every early
///   death makes the joins after it count later: two leases after they came, then four times as
///   late each, up to ten leases.
/// - Under a stable id the next life takes the row of the last one, so it declares how many before
///   it died early. Under random ids the rows of the dead tell.
/// - The end of a member that has just died is not known for a lease. So at most two that joined
///   one after the other may be on trial: heard of for less than a lease since they count. A third
///   one waits for the first to prove itself. Those that come together count together, and those
///   that came with the first live member are on no trial.
///
/// All contenders that see the same agree.
pub fn joins(lives: &[Life], usual: Duration, lease: Duration) -> Vec<Standing> {
    let first = lives.iter().filter(|life| life.is_live).map(|life| life.since).min();
    let is_founder = |life: &Life| first.is_some_and(|first| life.since <= first + usual);
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|at| lives[*at].since);
    let mut joins = vec![Standing { counts_from: Timestamp::EPOCH, is_young: false }; lives.len()];
    let (mut deaths, mut trials): (u32, Vec<Timestamp>) = (0, Vec::new());
    for at in order {
        let life = &lives[at];
        let before = trials.iter().filter(|counts_from| **counts_from <= life.since).count();
        let waits_for = u32::try_from((before + 1).saturating_sub(TRIALS_MAX)).unwrap_or(u32::MAX);
        let strikes = life.early.saturating_add(deaths).saturating_add(waits_for);
        let counts_from = life.since + settling(strikes, usual, lease);
        let is_young = life.heard < counts_from + lease;
        joins[at] = Standing { counts_from, is_young };
        match (is_young, life.is_live) {
            (true, true) if !is_founder(life) => trials.push(counts_from),
            (true, false) => deaths = deaths.saturating_add(1),
            _ => {}
        }
    }
    joins
}

fn settling(strikes: u32, usual: Duration, lease: Duration) -> Duration {
    let Some(more) = strikes.checked_sub(1) else { return usual };
    let leases = 4_u32.saturating_pow(more).saturating_mul(2).min(SETTLING_LEASES_MAX);
    usual.max(lease * leases)
}

/// Returns what a member declares besides its own: so many lives of its id ended early.
pub fn declare_early(declaration: &str, early: u32) -> String {
    if early == 0 { declaration.to_string() } else { format!("{declaration}{DECLARED}{early}") }
}

/// Returns how many lives before it ended early, as a member declares in this text.
fn declared_early(info: &str) -> u32 {
    let early = info.rsplit_once(DECLARED).map(|(_, early)| early);
    early.and_then(|early| early.parse().ok()).unwrap_or(0)
}
