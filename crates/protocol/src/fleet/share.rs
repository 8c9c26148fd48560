//! Decides about one member's share, each time that it has polled all shards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::plan::{Plan, plan_by_weight};
use crate::{Moment, Named, Row, Timestamp, Timing};

/// From one poll to the next while shards are being handed to this member: right after one arrived,
/// and at most.
const FAST_POLL_MIN: Duration = Duration::from_millis(25);
const FAST_POLL_MAX: Duration = Duration::from_millis(100);
/// For how long nothing may arrive before the polls slow down again.
const FAST_POLLS_FOR: Duration = Duration::from_secs(5);
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
    /// The costs of the shards that don't cost 1.
    pub costs: BTreeMap<usize, u32>,
}

impl View {
    /// Returns true if a member has each shard, and by the plan none would move.
    pub fn is_settled(&self) -> bool {
        let members: Vec<&str> = self.members.iter().map(|member| &*member.id).collect();
        let is_held = |state: &ShardState| state.holder().is_some_and(|id| members.contains(&id));
        self.shards.iter().all(is_held) && self.plan(&members).moves().is_empty()
    }

    /// Returns the members that count, by one of this lease: those that are settled, that have a shard,
    /// or that came before all that is held.
    pub fn counting(&self, lease: Duration) -> Vec<&str> {
        let settling = Timing::from_lease(lease).poll_interval;
        let joined: BTreeMap<&str, Timestamp> =
            self.members.iter().map(|member| (&*member.id, member.since)).collect();
        let held = self.shards.iter().filter_map(|state| match state {
            ShardState::Held { by: Some(by), since, until } => {
                // Not what a former life of the id left: it was heard of since this one joined.
                let joined = *joined.get(&**by)?;
                (*since >= joined || *until > joined + lease).then_some((&**by, *since))
            }
            _ => None,
        });
        let (holders, terms): (BTreeSet<&str>, Vec<Timestamp>) = held.unzip();
        let oldest_term = terms.into_iter().min();
        let oldest = self.members.iter().map(|member| member.since).min();
        let is_begun = oldest.is_some_and(|oldest| self.read_at.since(oldest) >= settling);
        let counts = |member: &&Participant| {
            let is_settled = self.read_at >= member.counts_from;
            let is_founder = is_begun && oldest_term.is_none_or(|oldest| member.since < oldest);
            holders.contains(&*member.id) || is_settled || is_founder
        };
        self.members.iter().filter(counts).map(|member| &*member.id).collect()
    }

    /// Returns the plan of these members, by their weights.
    fn plan<'v>(&'v self, members: &[&'v str]) -> Plan<'v> {
        let weights: BTreeMap<&str, u32> =
            self.members.iter().map(|member| (&*member.id, member.weight)).collect();
        let weight = |id: &&'v str| (*id, weights.get(*id).copied().unwrap_or(1));
        let members: Vec<(&str, u32)> = members.iter().map(weight).collect();
        let owners: Vec<Option<&str>> = self.shards.iter().map(ShardState::owner).collect();
        plan_by_weight(&members, &owners, &self.costs)
    }
}

/// A live member that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    /// Its id.
    pub id: String,
    /// The token of its term.
    pub since: Timestamp,
    /// Until when it is live if it says nothing more.
    pub until: Timestamp,
    /// From when on it counts, if it has no shard before: see [`joins`](super::joins()).
    pub counts_from: Timestamp,
    /// Its weight: 1 where nobody plans by weight.
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
    /// True if there are more to give up after these.
    pub is_more: bool,
    /// When to poll again, counted from now.
    pub poll_again: Duration,
    /// The shards for whose sake it is to be so soon, since others are handing them over: between
    /// two polls of all, it is enough to poll these.
    pub awaited: Vec<usize>,
}

/// One member's share of the shards: what it remembers from one poll to the next.
///
/// - **Stabilisation.** A member counts once it has a shard, or has been there for as long as
///   [`joins`](super::joins()) says: three polls as a rule. A leave counts at once. Members that came
///   before all that is held disturb nobody. They count once the first of them has been there for a
///   poll.
/// - **Little at a time.** At most a tenth of this member's shards are handed over at a time, but at
///   least one.
/// - **Progress.** A vacant shard that its planned owner has left alone for two polls goes to the
///   member that would have it without that owner, and so on. The owner is handed nothing until it
///   is heard of again. After two leases anyone takes it. The taker doesn't hand that shard back
///   before a pause, which grows each time.
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
    doubted: BTreeMap<String, Timestamp>,
    /// The shards that this member's own tasks failed in.
    own: BTreeMap<usize, Pause>,
    /// The shards that this member tried to take when Spanner did not answer.
    unanswered: BTreeMap<usize, Pause>,
    /// The shards that another didn't take.
    declined: BTreeMap<(usize, String), Pause>,
    /// How many shards others have to hand over, and when one arrived last.
    awaited: Option<(usize, Moment)>,
    /// Since when this member has not been one.
    away_since: Option<Moment>,
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
            doubted: BTreeMap::new(),
            own: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            declined: BTreeMap::new(),
            awaited: None,
            away_since: None,
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
            is_more: false,
            poll_again: self.next_change(now, view),
            awaited: Vec::new(),
        };
        if self.is_briefly_away(now, is_member) {
            return step;
        }
        // Those who don't take what they are handed are in doubt: they take, but are handed nothing.
        let members = self.counting(view, is_member);
        let by_all = view.plan(&members);
        self.doubt(now, view, &members, &by_all);
        let by_others = view.plan(&self.undoubted(&members));
        if is_member {
            step.take = self.takes(now, view, parts, [&by_all, &by_others]);
        }
        let most = self.at_a_time(view, parts);
        step.hand_over = self.surplus(now, view, parts, &by_others);
        step.is_more = step.hand_over.len() > most;
        step.hand_over.truncate(most);
        let awaited = self.awaited(view, &by_all);
        if let Some(fast_poll) = self.fast_poll(now, awaited.len()) {
            step.poll_again = step.poll_again.min(fast_poll);
            step.awaited = awaited;
        }
        step
    }

    /// Returns after what time a join counts where nothing is amiss: three of the lease's default polls.
    pub fn usual_settling(lease: Duration) -> Duration {
        Timing::from_lease(lease).poll_interval * 3
    }

    /// Returns for how long a shard is promised to the member that it is handed over to: two polls. It
    /// expects the shard, and polls it many times meanwhile.
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
        self.doubted.retain(|id, until| is_silent(id, *until));
        self.declined.retain(|(shard, member), pause| {
            let holds = |state: &ShardState| state.holder() == Some(member);
            !view.shards.get(*shard).is_some_and(holds) && now < pause.until + PAUSE_LONGEST
        });
    }

    /// Notes who leaves a vacant shard of its own alone for as long as a promise lasts.
    fn doubt(&mut self, now: Moment, view: &View, members: &[&str], by_all: &Plan) {
        let by_others = view.plan(&self.undoubted(members));
        let vacant =
            (0..view.shards.len()).filter(|shard| view.shards[*shard] == ShardState::Vacant);
        for shard in vacant {
            let owner = self.responsible(shard, [by_all, &by_others]);
            let Some(other) = owner.filter(|id| *id != self.id) else { continue };
            let promise = self.promise();
            let Some(unheld) = self.unheld.get_mut(&shard) else { continue };
            if now.since(unheld.left_since) >= promise {
                unheld.left_since = now;
                let silent = view.members.iter().find(|member| member.id == other);
                self.doubted.extend(silent.map(|member| (member.id.clone(), member.until)));
            }
        }
    }

    fn undoubted<'v>(&self, members: &[&'v str]) -> Vec<&'v str> {
        members.iter().copied().filter(|id| !self.doubted.contains_key(*id)).collect()
    }

    /// Returns the member that is to take the shard.
    fn responsible<'v>(&self, shard: usize, plans: [&Plan<'v>; 2]) -> Option<&'v str> {
        let [by_all, by_others] = plans.map(|plan| plan.owner(shard));
        by_all.filter(|owner| !self.doubted.contains_key(*owner)).or(by_others)
    }

    /// A member that has lost its term for less than a lease may be back in time: nothing moves.
    fn is_briefly_away(&mut self, now: Moment, is_member: bool) -> bool {
        if is_member {
            self.away_since = None;
            return false;
        }
        now.since(*self.away_since.get_or_insert(now)) < self.lease
    }

    /// Returns the members that are reckoned with.
    fn counting<'v>(&self, view: &'v View, is_member: bool) -> Vec<&'v str> {
        let mut members = view.counting(self.lease);
        members.retain(|id| is_member || *id != self.id);
        members
    }

    fn takes(
        &mut self,
        now: Moment,
        view: &View,
        parts: &BTreeMap<usize, Part>,
        plans: [&Plan; 2],
    ) -> Vec<usize> {
        let is_resting = |shard: &usize| {
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
        let taken = taken.filter(|shard| !parts.contains_key(shard) && !is_resting(shard));
        let taken: Vec<usize> = taken.collect();
        for shard in &taken {
            if let Some(other) = plans[0].owner(*shard).filter(|owner| **owner != *self.id) {
                let key = (*shard, other.to_string());
                let pause = Pause::after(self.declined.get(&key), self.lease, PAUSE_LONGEST, now);
                self.declined.insert(key, pause);
            }
        }
        taken
    }

    /// Returns the shards to hand over, sooner or later.
    fn surplus(
        &self,
        now: Moment,
        view: &View,
        parts: &BTreeMap<usize, Part>,
        plan: &Plan,
    ) -> Vec<(usize, String)> {
        let handed = plan.moves().iter().filter_map(|moved| {
            let is_here = parts.get(&moved.shard) == Some(&Part::Working)
                && view.shards[moved.shard].holder() == Some(&*self.id)
                && moved.to != self.id;
            let key = (moved.shard, moved.to.to_string());
            let was_declined = self.declined.get(&key).is_some_and(|pause| now < pause.until);
            (is_here && !was_declined).then_some(key)
        });
        handed.collect()
    }

    /// Returns how many more shards this member may hand over now.
    ///
    /// One that it holds no more counts no more: its task may be one that nobody can stop.
    fn at_a_time(&self, view: &View, parts: &BTreeMap<usize, Part>) -> usize {
        let is_held =
            |shard: usize| view.shards.get(shard).and_then(ShardState::holder) == Some(&*self.id);
        let are = |part: Part| {
            parts.iter().filter(|(shard, other)| **other == part && is_held(**shard)).count()
        };
        let (working, leaving) = (are(Part::Working), are(Part::Leaving));
        ((working + leaving) / 10).max(1).saturating_sub(leaving)
    }

    /// Returns the shards that others have to hand to this member.
    fn awaited(&self, view: &View, plan: &Plan) -> Vec<usize> {
        let others =
            |shard: usize| view.shards[shard].holder().is_some_and(|holder| holder != self.id);
        let moves = plan.moves().iter().filter(|moved| moved.to == self.id);
        moves.map(|moved| moved.shard).filter(|shard| others(*shard)).collect()
    }

    /// Returns how soon to poll while so many are awaited: it polls slower the longer none arrives.
    fn fast_poll(&mut self, now: Moment, count: usize) -> Option<Duration> {
        self.awaited = match self.awaited {
            _ if count == 0 => None,
            Some((before, since)) if count >= before => Some((count, since)),
            _ => Some((count, now)),
        };
        let waited = now.since(self.awaited?.1);
        (waited < FAST_POLLS_FOR).then(|| (waited / 4).clamp(FAST_POLL_MIN, FAST_POLL_MAX))
    }

    /// Returns how long it is until something that the view shows changes by itself, or to the next
    /// poll.
    fn next_change(&self, now: Moment, view: &View) -> Duration {
        let joins = view.members.iter().map(|member| member.counts_from);
        let begins = view.members.iter().map(|member| member.since + self.settling);
        let leaves = view.members.iter().map(|member| member.until);
        let ends = view.shards.iter().filter_map(|state| match state {
            ShardState::Held { until, .. } | ShardState::Promised { until, .. } => Some(*until),
            ShardState::Vacant => None,
        });
        let changes = joins.chain(begins).chain(leaves).chain(ends).filter(|at| *at > view.read_at);
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
