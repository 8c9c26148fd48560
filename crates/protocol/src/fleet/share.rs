//! Decides about one member's share, each time that it has polled all shards.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::plan::{Plan, plan};
use crate::{Moment, Named, Row, Timestamp, Timing};

/// Pauses after failures: at first, and at most.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(600);
/// At most, between two attempts to take a shard that Spanner did not answer.
const PAUSE_UNANSWERED: Duration = Duration::from_secs(10);

/// One read's picture of the members that share the shards and of the shards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Spanner's timestamp of the read.
    pub read_at: Timestamp,
    /// The live members.
    pub members: Vec<Participant>,
    /// The shards, by their numbers.
    pub shards: Vec<ShardState>,
}

impl View {
    /// Returns the members that count, with their weights.
    pub fn counting(&self) -> Vec<(&str, u32)> {
        let counts = |member: &&Participant| member.counts_from <= self.read_at;
        self.members.iter().filter(counts).map(|member| (&*member.id, member.weight)).collect()
    }
}

/// A live member that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    /// Its id.
    pub id: String,
    /// Until when it is live if it says nothing more.
    pub until: Timestamp,
    /// From when on it counts: see [`counts_from`](super::counts_from()).
    pub counts_from: Timestamp,
    /// Its weight.
    pub weight: u32,
}

/// The standing of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShardState {
    /// Anyone may take it.
    Vacant,
    /// It was released for a member, which alone may take it for a while.
    Promised {
        /// The member.
        to: String,
        /// Until when.
        until: Timestamp,
    },
    /// Someone holds it, or is owed the rest of a lease.
    Held {
        /// The holder; none if it was taken from its holder.
        by: Option<String>,
        /// The token of the holder's term.
        since: Timestamp,
        /// Until when, if nothing more is heard.
        until: Timestamp,
    },
}

/// This member's part in one shard, at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// It tries to take the shard.
    Taking,
    /// It has the shard.
    Working,
    /// It gives the shard up.
    Leaving,
}

/// The next things to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The shards to take.
    pub take: Vec<usize>,
    /// The shards to give up, and to whom: once their tasks have ended.
    pub hand_over: Vec<(usize, String)>,
    /// True if every live member counts, each shard is held, and by the plan none will move.
    pub is_settled: bool,
    /// When to poll again, counted from now.
    pub poll_again: Duration,
}

/// One member's share of the shards: what it remembers from one poll to the next.
///
/// - **Stabilisation.** A join counts later, as [`counts_from`](super::counts_from()) says. A leave
///   counts at once. A member that doesn't count hands nothing over.
/// - **Progress.** A vacant shard that its planned owner has left alone for two polls goes to the
///   member that would have it without that owner, and so on. The owner is absent: it is handed
///   nothing until it is heard of again. After two leases anyone takes the shard. The taker doesn't
///   hand it back before a pause, which grows each time, and hands over no other in its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    id: String,
    lease: Duration,
    poll: Duration,
    settling: Duration,
    /// The shards that nobody holds, as far as this member saw.
    unheld: BTreeMap<usize, Unheld>,
    /// The members that left a shard of theirs alone, and until when they were live by their rows
    /// then.
    absent: BTreeMap<String, Timestamp>,
    /// The shards that this member's own tasks failed in.
    own: BTreeMap<usize, Pause>,
    /// The shards that this member tried to take when Spanner did not answer.
    unanswered: BTreeMap<usize, Pause>,
    /// The shards that another didn't take.
    left_alone: BTreeMap<(usize, String), Pause>,
    /// True if the next poll comes early, for a change that was foreseen.
    is_early: bool,
    /// Since when this member has not been one.
    away_since: Option<Moment>,
    /// The last plan of all members that count.
    pub(super) last_plan: LastPlan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unheld {
    since: Moment,
    /// Since when the member whose turn it is has left it alone.
    left_since: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pause {
    until: Moment,
    length: Duration,
}

impl Share {
    /// Returns the share of the member `id`, which polls the shards every `poll`.
    ///
    /// All members should have the same lease.
    pub fn new(id: &str, lease: Duration, poll: Duration) -> Share {
        Share {
            id: id.to_string(),
            lease,
            poll,
            settling: Timing::from_lease(lease).poll_interval,
            unheld: BTreeMap::new(),
            absent: BTreeMap::new(),
            own: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            left_alone: BTreeMap::new(),
            is_early: false,
            away_since: None,
            last_plan: LastPlan::default(),
        }
    }

    /// Decides after a poll. `parts` has the shards that this member does something about;
    /// `is_member` says whether it is one by its own clock.
    pub fn decide(
        &mut self,
        now: Moment,
        view: &View,
        parts: &BTreeMap<usize, Part>,
        is_member: bool,
    ) -> Step {
        self.note(now, view);
        self.unanswered.retain(|shard, _| parts.get(shard) != Some(&Part::Working));
        let mut step = Step {
            take: Vec::new(),
            hand_over: Vec::new(),
            is_settled: false,
            poll_again: self.next_poll(now, view),
        };
        if self.is_briefly_away(now, is_member) {
            return step;
        }
        let mut members = view.counting();
        members.retain(|(id, _)| is_member || *id != self.id);
        let owners: Vec<Option<&str>> = view.shards.iter().map(ShardState::owner).collect();
        let by_all = self.last_plan.of(&members, &owners);
        // Those who don't take what they are handed are absent: they take, but are handed nothing.
        let mut by_present = self.without_the_absent(&members, &owners, &by_all);
        if self.notes_absent(now, view, [&by_all, &by_present]) {
            by_present = self.without_the_absent(&members, &owners, &by_all);
        }
        if is_member {
            step.take = self.takes(now, view, parts, [&by_all, &by_present]);
        }
        let counts = members.iter().any(|(id, _)| *id == self.id);
        if counts || !is_member {
            step.hand_over = self.surplus(now, view, parts, &by_present);
        }
        let is_held = |state: &ShardState| state.holder().is_some();
        step.is_settled = counts
            && members.len() == view.members.len()
            && by_all.moves().is_empty()
            && view.shards.iter().all(is_held);
        step
    }

    /// Returns for how long a shard is promised to the member that it is handed over to: two polls.
    /// It polls meanwhile.
    pub fn promise(&self) -> Duration {
        self.poll.max(self.settling) * 2
    }

    /// Notes that this member's task in the shard ended by itself; `ran` is how long it was at work.
    /// Others may have the shard first.
    pub fn failed(&mut self, now: Moment, shard: usize, ran: Duration) {
        if ran >= PAUSE_LONGEST {
            self.own.remove(&shard);
        }
        let pause = Pause::after(self.own.get(&shard), PAUSE_FIRST, PAUSE_LONGEST, now);
        self.own.insert(shard, pause);
    }

    /// Notes that this member could not find out whether it may have the shard. That is no fault of
    /// the task, and forgotten once this member has the shard.
    pub fn unanswered(&mut self, now: Moment, shard: usize) {
        let last = self.unanswered.get(&shard);
        let pause = Pause::after(last, PAUSE_FIRST, PAUSE_UNANSWERED, now);
        self.unanswered.insert(shard, pause);
    }

    /// Forgets what it remembers: the numbers of the shards mean others from now on.
    pub fn forget(&mut self) {
        *self = Share::new(&self.id, self.lease, self.poll);
    }

    fn note(&mut self, now: Moment, view: &View) {
        self.unheld.retain(|shard, _| *shard < view.shards.len());
        let is_member = |id: &str| view.members.iter().any(|member| member.id == id);
        for (shard, state) in view.shards.iter().enumerate() {
            match state {
                ShardState::Held { .. } => _ = self.unheld.remove(&shard),
                // While it is kept for one that has left, nobody leaves it alone.
                ShardState::Promised { to, .. } if !is_member(to) => {
                    self.unheld.insert(shard, Unheld { since: now, left_since: now });
                }
                _ => {
                    self.unheld.entry(shard).or_insert(Unheld { since: now, left_since: now });
                }
            }
        }
        let is_silent = |id: &str, until: Timestamp| {
            view.members.iter().any(|member| member.id == id && member.until == until)
        };
        self.absent.retain(|id, until| is_silent(id, *until));
        self.left_alone.retain(|(shard, member), pause| {
            let holds = |state: &ShardState| state.holder() == Some(member);
            let is_past =
                view.shards.get(*shard).is_some_and(holds) || now >= pause.until + PAUSE_LONGEST;
            // One that comes back may do better.
            is_member(member) && !is_past
        });
    }

    /// Notes who leaves a vacant shard of its own alone for as long as a promise lasts; true if there is
    /// somebody.
    fn notes_absent(&mut self, now: Moment, view: &View, plans: [&Plan; 2]) -> bool {
        let before = self.absent.len();
        let vacant =
            (0..view.shards.len()).filter(|shard| view.shards[*shard] == ShardState::Vacant);
        for shard in vacant {
            let Some(owner) = self.responsible(shard, plans).filter(|id| *id != self.id) else {
                continue;
            };
            let promise = self.promise();
            let Some(unheld) = self.unheld.get_mut(&shard) else { continue };
            if now.since(unheld.left_since) >= promise {
                unheld.left_since = now;
                let absent = view.members.iter().find(|member| member.id == owner);
                self.absent.extend(absent.map(|member| (member.id.clone(), member.until)));
            }
        }
        self.absent.len() > before
    }

    /// Returns the plan of those that aren't absent.
    fn without_the_absent<'v>(
        &self,
        members: &[(&'v str, u32)],
        owners: &[Option<&'v str>],
        by_all: &Plan<'v>,
    ) -> Plan<'v> {
        if self.absent.is_empty() {
            return by_all.clone();
        }
        let is_present = |(id, _): &(&str, u32)| !self.absent.contains_key(*id);
        let present: Vec<(&str, u32)> = members.iter().copied().filter(is_present).collect();
        plan(&present, owners)
    }

    /// Returns the member that is to take the shard.
    fn responsible<'v>(&self, shard: usize, plans: [&Plan<'v>; 2]) -> Option<&'v str> {
        let [by_all, by_present] = plans.map(|plan| plan.owner(shard));
        by_all.filter(|owner| !self.absent.contains_key(*owner)).or(by_present)
    }

    /// A member that has lost its term for less than a lease may be back in time: nothing moves.
    fn is_briefly_away(&mut self, now: Moment, is_member: bool) -> bool {
        if is_member {
            self.away_since = None;
            return false;
        }
        now.since(*self.away_since.get_or_insert(now)) < self.lease
    }

    fn takes(
        &mut self,
        now: Moment,
        view: &View,
        parts: &BTreeMap<usize, Part>,
        plans: [&Plan; 2],
    ) -> Vec<usize> {
        let is_paused = |shard: &usize| {
            let pauses = [self.own.get(shard), self.unanswered.get(shard)];
            pauses.into_iter().flatten().any(|pause| now < pause.until)
        };
        let is_anyones = |shard: &usize| {
            self.unheld.get(shard).is_some_and(|unheld| now.since(unheld.since) >= self.lease * 2)
        };
        let is_mine = |shard: &usize| match &view.shards[*shard] {
            ShardState::Promised { to, .. } => *to == self.id,
            ShardState::Held { .. } => false,
            ShardState::Vacant => {
                self.responsible(*shard, plans) == Some(&*self.id) || is_anyones(shard)
            }
        };
        let taken = (0..view.shards.len()).filter(is_mine);
        let taken = taken.filter(|shard| !parts.contains_key(shard) && !is_paused(shard));
        let taken: Vec<usize> = taken.collect();
        for shard in &taken {
            if let Some(other) = plans[0].owner(*shard).filter(|owner| **owner != *self.id) {
                let key = (*shard, other.to_string());
                let last = self.left_alone.get(&key);
                let pause = Pause::after(last, self.lease, PAUSE_LONGEST, now);
                self.left_alone.insert(key, pause);
            }
        }
        taken
    }

    /// Returns the shards to hand over: as many as the plan says, and those first that the receiver has
    /// left alone, once their pauses are over. In place of one that it is to have back later it is
    /// given no other, whose task would stop for nothing.
    fn surplus(
        &self,
        now: Moment,
        view: &View,
        parts: &BTreeMap<usize, Part>,
        plan: &Plan,
    ) -> Vec<(usize, String)> {
        let is_here = |shard: &usize| {
            let holder = view.shards.get(*shard).and_then(ShardState::holder);
            holder == Some(&*self.id) && parts.contains_key(shard)
        };
        let mut moves = BTreeMap::<&str, Vec<usize>>::new();
        // The last first: so the plan of those that are left is the same.
        for moved in plan.moves().iter().rev().filter(|moved| is_here(&moved.shard)) {
            moves.entry(moved.to).or_default().push(moved.shard);
        }
        let planned_elsewhere = |shard: usize, to: &str| {
            moves.iter().any(|(other, shards)| *other != to && shards.contains(&shard))
        };
        let mut handed = Vec::new();
        for (&to, planned) in &moves {
            let left = self.left_alone.iter();
            let left = left.filter(|((shard, other), _)| {
                other == to && is_here(shard) && !planned_elsewhere(*shard, to)
            });
            let left = left.map(|((shard, _), pause)| (*shard, now < pause.until));
            let was_left = |shard: usize| self.left_alone.contains_key(&(shard, to.to_string()));
            let others = planned.iter().filter(|shard| !was_left(**shard));
            let chosen = left.chain(others.map(|shard| (*shard, false))).take(planned.len());
            let may_leave = |(shard, is_paused): &(usize, bool)| {
                !is_paused && parts.get(shard) == Some(&Part::Working)
            };
            handed.extend(chosen.filter(may_leave).map(|(shard, _)| (shard, to.to_string())));
        }
        handed
    }

    /// Returns the pause before the next poll. After one that came early the next change is waited for a
    /// little longer: there may be one for each shard that was kept for somebody.
    fn next_poll(&mut self, now: Moment, view: &View) -> Duration {
        let change = self.next_change(now, view);
        let at_least = if self.is_early { self.poll / 20 } else { Duration::ZERO };
        self.is_early = change < self.poll;
        change.max(at_least)
    }

    /// Returns how long it is until something that the view shows changes by itself, or to the next
    /// poll.
    fn next_change(&self, now: Moment, view: &View) -> Duration {
        // What others hand to this one once it counts is there a little later.
        let joins = view.members.iter().map(|member| match member.id == self.id {
            true => member.counts_from + self.poll / 4,
            false => member.counts_from,
        });
        let leaves = view.members.iter().map(|member| member.until);
        let ends = view.shards.iter().filter_map(|state| match state {
            ShardState::Held { until, .. } | ShardState::Promised { until, .. } => Some(*until),
            ShardState::Vacant => None,
        });
        let changes = joins.chain(leaves).chain(ends).filter(|at| *at > view.read_at);
        let changes = changes.map(|at| at.since(view.read_at));
        let overdue = self.unheld.values().map(|unheld| unheld.left_since + self.promise());
        let overdue = overdue.filter(|at| *at > now).map(|at| at.since(now));
        let first = changes.chain(overdue).min();
        first.map_or(self.poll, |first| first.min(self.poll))
    }
}

impl ShardState {
    /// Returns the standing of a shard whose row was read at `read_at`, by a member of this lease.
    pub fn of(row: &Row, lease: Duration, read_at: Timestamp) -> ShardState {
        let until = row.vacant_for_all_from(lease);
        match row.writer.names() {
            _ if until <= read_at => ShardState::Vacant,
            Named::Successor(to) if row.is_released() => {
                ShardState::Promised { to: to.to_string(), until }
            }
            _ => {
                let by = row.writer.id().map(str::to_string);
                ShardState::Held { by, since: row.token, until }
            }
        }
    }

    fn holder(&self) -> Option<&str> {
        match self {
            ShardState::Held { by, .. } => by.as_deref(),
            ShardState::Vacant | ShardState::Promised { .. } => None,
        }
    }

    fn owner(&self) -> Option<&str> {
        match self {
            ShardState::Promised { to, .. } => Some(to),
            other => other.holder(),
        }
    }
}

impl Pause {
    /// Twice as long as the last one.
    fn after(last: Option<&Pause>, first: Duration, longest: Duration, now: Moment) -> Pause {
        let length = last.map_or(first, |last| (last.length * 2).min(longest.max(first)));
        Pause { until: now + length, length }
    }
}

/// The last plan and what it was made of, so that a poll that shows the same makes none.
///
/// It changes no decision, so that it counts for nothing when two shares are compared.
#[derive(Clone, Debug, Default)]
pub(super) struct LastPlan {
    members: Vec<(String, u32)>,
    owners: Vec<Option<String>>,
    /// The members in the order of the shards that they are to have, as places in `members`.
    planned: Vec<Option<usize>>,
    /// How many plans were made.
    pub(super) made: usize,
}

impl LastPlan {
    /// Returns the plan of these members and owners.
    fn of<'v>(&mut self, members: &[(&'v str, u32)], owners: &[Option<&'v str>]) -> Plan<'v> {
        if self.is_of(members, owners) {
            let owner = |at: &Option<usize>| at.and_then(|at| Some(members.get(at)?.0));
            return Plan::of(members, owners, self.planned.iter().map(owner).collect());
        }
        let made = plan(members, owners);
        let place_of: BTreeMap<&str, usize> =
            members.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
        let place = |owner: &Option<&str>| owner.and_then(|id| place_of.get(id).copied());
        *self = LastPlan {
            members: members.iter().map(|(id, weight)| (id.to_string(), *weight)).collect(),
            owners: owners.iter().map(|owner| owner.map(str::to_string)).collect(),
            planned: made.owners().iter().map(place).collect(),
            made: self.made + 1,
        };
        made
    }

    fn is_of(&self, members: &[(&str, u32)], owners: &[Option<&str>]) -> bool {
        let owns = self.owners.iter().map(Option::as_deref);
        let is_of = self.members.iter().map(|(id, weight)| (&**id, *weight));
        is_of.eq(members.iter().copied()) && owns.eq(owners.iter().copied())
    }
}

impl PartialEq for LastPlan {
    fn eq(&self, _: &LastPlan) -> bool {
        true
    }
}

impl Eq for LastPlan {}

impl Hash for LastPlan {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
