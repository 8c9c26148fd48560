//! Checks that ranks decide who leads, by the rows of the lock and of its members.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::evidence::{Evidence, Property, Violation};
use super::exempt::exempt_in_spanner;
use super::rows::{Hold, holds};
use super::terms::in_part;
use crate::history::nanoseconds;
use crate::setup::{Rank, Target};
use crate::tables::Version;

/// Some may take a worker for the one that held last, and so has its turn last, if it held within
/// this time. It is longer than anybody is kept from polling.
const RECENT: Duration = Duration::from_secs(15);

pub fn judge(evidence: &Evidence, lease: Duration) -> Vec<Violation> {
    let contest = Contest::of(evidence, lease);
    let mut violations = contest.highest_leads();
    violations.extend(contest.handed_up());
    violations.extend(contest.in_turn());
    violations
}

/// A life of a member. From `counts_from` on it counts for certain.
struct Member {
    life: Hold,
    counts_from: u64,
}

/// The rows of one ranked lock.
struct Contest<'a> {
    target: Target,
    lease: u64,
    /// Of the lock's own row, by commit.
    versions: Vec<&'a Version>,
    terms: Vec<Hold>,
    members: Vec<Member>,
    exempt: Option<(u64, u64)>,
}

impl<'a> Contest<'a> {
    fn of(evidence: &'a Evidence, lease: Duration) -> Contest<'a> {
        let target = evidence.target();
        let (key, members) = (target.key(0), format!("spindle:member:{}/", target.key(0)));
        let versions = &evidence.tables.versions;
        let all = holds(versions);
        Contest {
            target,
            lease: nanoseconds(lease),
            versions: versions.iter().filter(|version| version.key == key).collect(),
            terms: all.iter().filter(|hold| hold.key == key).cloned().collect(),
            members: joined(
                all.into_iter().filter(|hold| hold.key.starts_with(&members)),
                versions,
                lease,
            ),
            exempt: exempt_in_spanner(evidence, lease),
        }
    }

    fn rank(&self, id: &str) -> Option<Rank> {
        self.target.rank(id)
    }

    fn is_higher(&self, id: &str, than: &str) -> bool {
        let rank = |id| self.rank(id).map(|rank| rank.rank);
        rank(id) > rank(than)
    }

    /// A leader that preempts doesn't lead on beside a member of higher rank that counts and has not had
    /// the lock in that membership.
    fn highest_leads(&self) -> Vec<Violation> {
        let limit = self.target.rank_limit();
        let mut violations = Vec::new();
        let preempts = |term: &&Hold| self.rank(&term.id).is_some_and(|rank| rank.preempts);
        for term in self.terms.iter().filter(preempts) {
            for member in
                self.members.iter().filter(|member| self.is_higher(&member.life.id, &term.id))
            {
                let both =
                    (term.token.max(member.counts_from), term.last().min(member.life.last()));
                let is_too_long = both.1.saturating_sub(both.0) > nanoseconds(limit);
                let is_excused =
                    self.has_led(&member.life, both.1) || self.has_led_beside(term, &member.life);
                if is_too_long && !is_excused && !in_part(both, self.exempt) {
                    let what = format!(
                        "{} led under {} for more than {limit:?} beside the member {} of higher rank",
                        term.id, term.token, member.life.id
                    );
                    violations.push(Violation { property: Property::HighestLeads, what });
                }
            }
        }
        violations
    }

    /// True if this one had the lock in this membership by then, or was promised it.
    fn has_led(&self, member: &Hold, by: u64) -> bool {
        let id = Some(&*member.id);
        let in_time = |version: &&&Version| (member.token + 1..by).contains(&version.token);
        let mut since = self.versions.iter().filter(in_time);
        since.any(|version| version.holder() == id || version.successor() == id)
    }

    /// True if the leader has led before in this membership: it may have sent a release for this one's
    /// sake, of which nothing came, and sends no second one.
    fn has_led_beside(&self, leader: &Hold, member: &Hold) -> bool {
        let mut before = self.terms.iter().filter(|term| term.token < leader.token);
        before.any(|term| term.id == leader.id && term.last() > member.token)
    }

    /// A lock is released for a higher rank alone, and by a leader that preempts.
    fn handed_up(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (earlier, later) in self.changes() {
            let (Some(leader), Some(successor)) = (earlier.holder(), later.successor()) else {
                continue;
            };
            let preempts = self.rank(leader).is_some_and(|rank| rank.preempts);
            if !preempts || !self.is_higher(successor, leader) {
                let what = format!("{leader} handed over to {successor} at {}", later.token);
                violations.push(Violation { property: Property::HandedUp, what });
            }
        }
        violations
    }

    /// A vacant lock is left for a grace to each member that goes before and counts.
    fn in_turn(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut last = None;
        for (earlier, later) in self.changes() {
            last = earlier.holder().or(last);
            let Some(taker) = later.holder().filter(|_| later.heartbeat == later.token) else {
                continue;
            };
            let vacant_from = match earlier.heartbeat {
                0 => earlier.token,
                heartbeat => heartbeat + self.lease,
            };
            if last == Some(taker) || earlier.successor() == Some(taker) {
                continue;
            }
            let before = |Member { life, counts_from }: &&Member| {
                Some(&*life.id) != last
                    && self.goes_before(&life.id, taker)
                    && *counts_from <= vacant_from
                    && !self.has_held_recently(&life.id, later.token)
                    && life.is_live(vacant_from, later.token, self.lease)
            };
            let before: Vec<&str> =
                self.members.iter().filter(before).map(|member| &*member.life.id).collect();
            let owed = nanoseconds(self.target.grace()) * before.len() as u64;
            if later.token < vacant_from + owed {
                let what = format!(
                    "{taker} took the lock at {}, vacant since {vacant_from}, before {before:?}",
                    later.token
                );
                violations.push(Violation { property: Property::InTurn, what });
            }
        }
        violations
    }

    fn goes_before(&self, id: &str, other: &str) -> bool {
        let place = |id: &str| (Reverse(self.rank(id).map(|rank| rank.rank)), id.to_string());
        place(id) < place(other)
    }

    fn has_held_recently(&self, id: &str, now: u64) -> bool {
        let recent = now.saturating_sub(nanoseconds(RECENT));
        self.terms.iter().any(|term| term.id == id && term.last() > recent && term.token < now)
    }

    /// Each version of the lock's row and the next one, where nobody edited it.
    fn changes(&self) -> impl Iterator<Item = (&'a Version, &'a Version)> {
        let pairs = self.versions.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|(earlier, later)| {
            !in_part((earlier.committed(), later.committed() + 1), self.exempt)
        })
    }
}

/// Tells of each life when it counts. Those before it that died early, or were on trial when it came,
/// make it count later, and an early death of its own most.
fn joined(lives: impl Iterator<Item = Hold>, versions: &[Version], lease: Duration) -> Vec<Member> {
    let lease = nanoseconds(lease);
    let has_left = |life: &Hold, by: u64| {
        let in_time = |version: &&Version| (life.token + 1..by).contains(&version.token);
        let mut since = versions.iter().filter(in_time);
        since.any(|version| version.key == life.key && version.heartbeat == 0)
    };
    let mut members: Vec<Member> = Vec::new();
    for life in lives {
        let before = members.iter().filter(|before| before.life.token < life.token);
        // The last life of each, which the rows show.
        let before: BTreeMap<&str, &Member> = before.map(|it| (&*it.life.id, it)).collect();
        let is_early = |before: &&Member| {
            before.life.last().min(life.token) < before.counts_from + lease
                && !has_left(&before.life, life.token)
        };
        let leases = match before.get(&*life.id).copied().filter(is_early) {
            Some(_) => 10,
            None => match before.values().copied().filter(is_early).count() {
                0 => 0,
                1 => 2,
                2 => 8,
                _ => 10,
            },
        };
        let counts_from = life.token + lease * leases;
        members.push(Member { life, counts_from });
    }
    members
}
