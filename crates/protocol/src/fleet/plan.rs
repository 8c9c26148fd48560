//! Assigns shards to members.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// An assignment of shards to members, made by [`plan`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan<'a> {
    owners: Vec<Option<&'a str>>,
    moves: Vec<Move<'a>>,
}

/// A shard that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move<'a> {
    /// The number of the shard.
    pub shard: usize,
    /// The member that has it; none if no live member does.
    pub from: Option<&'a str>,
    /// The member that is to have it.
    pub to: &'a str,
}

impl<'a> Plan<'a> {
    /// Returns the member that is to have the shard; none where there are no members or no such
    /// shard.
    pub fn owner(&self, shard: usize) -> Option<&'a str> {
        self.owners.get(shard).copied().flatten()
    }

    /// Returns the members in the order of the shards that they are to have.
    pub fn owners(&self) -> &[Option<&'a str>] {
        &self.owners
    }

    /// Returns the shards that change hands, in their order: no plan as even as this one has fewer.
    pub fn moves(&self) -> &[Move<'a>] {
        &self.moves
    }

    /// Returns the plan by which these members are to have the shards of these owners.
    pub(super) fn of(
        members: &[(&'a str, u32)],
        owners: &[Option<&'a str>],
        planned: Vec<Option<&'a str>>,
    ) -> Plan<'a> {
        let changes = owners.iter().zip(&planned).enumerate().filter(|(_, (from, to))| from != to);
        let is_member = |id: &&str| members.iter().any(|(member, _)| member == id);
        let moved = |(shard, (from, to)): (usize, (&Option<&'a str>, &Option<&'a str>))| {
            Some(Move { shard, from: from.filter(is_member), to: (*to)? })
        };
        let moves = changes.filter_map(moved).collect();
        Plan { owners: planned, moves }
    }
}

/// Shares shards out among members: sticky and even, by weight.
///
/// `members` are ids with their weights: one of weight 3 counts as three. Zero counts as 1, and the
/// weights of an id that is there twice add up. `owners` has an entry for each shard: the member that
/// has it now, or none. Someone who is not among the members counts as none.
///
/// - Every shard gets an owner, if there is a member.
/// - Each member has its fair share, rounded down or up: the part of all shards that its weight is of
///   all weights. So shares of equal weight differ by at most one.
/// - A member keeps what it has up to its share, the lowest numbers first. The rest goes to the
///   members below their shares, shard by shard in the order of the ids. So a join moves only
///   what the joiner gets, and a leave only what the leaver had.
/// - The same arguments make the same plan, whatever the order of the members.
/// - Plans made while this one is carried out, of any of its moves, have the same owners.
///
/// All members of a group that see the same make the same plan, so nobody has to be asked.
///
/// ```
/// use spindle_protocol::fleet::plan;
///
/// let owners = [Some("a"), Some("a"), Some("b"), Some("b")];
/// let joined = plan(&[("a", 1), ("b", 1), ("c", 1)], &owners);
/// assert_eq!(joined.owners(), [Some("a"), Some("a"), Some("b"), Some("c")]);
/// assert_eq!(joined.moves().len(), 1);
/// ```
pub fn plan<'a>(members: &[(&'a str, u32)], owners: &[Option<&'a str>]) -> Plan<'a> {
    let mut sharers = sharers(members);
    set_quotas(&mut sharers, owners);
    let mut planned = vec![None; owners.len()];
    let mut free = Vec::new();
    for (shard, owner) in owners.iter().enumerate() {
        let owner = owner.and_then(|id| Some((id, sharers.get_mut(id)?)));
        match owner.filter(|(_, sharer)| sharer.left > 0) {
            Some((id, sharer)) => {
                sharer.left -= 1;
                planned[shard] = Some(id);
            }
            None => free.push(shard),
        }
    }
    let below = sharers.iter().flat_map(|(id, below)| std::iter::repeat_n(*id, below.left));
    for (shard, id) in free.into_iter().zip(below) {
        planned[shard] = Some(id);
    }
    Plan::of(members, owners, planned)
}

/// A member, while shards are shared out.
#[derive(Default)]
struct Sharer {
    weight: u128,
    /// How many of the shards it has.
    held: usize,
    /// How many shards it is to have that are not named yet.
    left: usize,
}

/// The members, in the order of their ids.
fn sharers<'a>(members: &[(&'a str, u32)]) -> BTreeMap<&'a str, Sharer> {
    let mut sharers = BTreeMap::<&str, Sharer>::new();
    for (id, weight) in members {
        sharers.entry(id).or_default().weight += u128::from((*weight).max(1));
    }
    sharers
}

/// Sets how many shards each member is to have.
///
/// The remainder of the division goes to those who have more than the quotient already, which costs
/// no moves. Of these the one with the largest remainder comes first, then the id decides: it is as it
/// was when a part of the moves is done.
fn set_quotas<'a>(sharers: &mut BTreeMap<&'a str, Sharer>, owners: &[Option<&'a str>]) {
    for owner in owners.iter().flatten() {
        if let Some(sharer) = sharers.get_mut(owner) {
            sharer.held += 1;
        }
    }
    let weights: u128 = sharers.values().map(|sharer| sharer.weight).sum();
    let (mut rest, mut remainders) = (owners.len(), Vec::new());
    for (at, sharer) in sharers.values_mut().enumerate() {
        let fair = owners.len() as u128 * sharer.weight;
        // It is at most the number of the shards.
        sharer.left = usize::try_from(fair / weights).unwrap_or(rest);
        rest -= sharer.left;
        remainders.push((sharer.held <= sharer.left, Reverse(fair % weights), at));
    }
    remainders.retain(|(_, Reverse(remainder), _)| *remainder > 0);
    remainders.sort_unstable();
    let more: BTreeSet<usize> = remainders.into_iter().take(rest).map(|(.., at)| at).collect();
    for (at, sharer) in sharers.values_mut().enumerate() {
        sharer.left += usize::from(more.contains(&at));
    }
}
