//! Assigns shards to members.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// An assignment of shards to members, made by [`plan`] and [`plan_by_weight`].
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
}

/// Shares shards out among members: sticky and even.
///
/// `owners` has an entry for each shard: the member that has it now, or none. Someone who is not
/// among the members counts as none.
///
/// - Every shard gets an owner, if there is a member.
/// - Shares differ by at most one.
/// - A member keeps what it has up to its share, the lowest numbers first. The rest goes to the
///   members below their shares, shard by shard in the order of the ids. So a join moves only
///   what the joiner gets, and a leave only what the leaver had.
/// - The same arguments make the same plan, whatever the order of the members. Ids that are there
///   twice count once.
/// - Plans made while this one is carried out, of any of its moves, have the same owners.
///
/// All members of a group that see the same make the same plan, so nobody has to be asked.
///
/// ```
/// use spindle_protocol::fleet::plan;
///
/// let owners = [Some("a"), Some("a"), Some("b"), Some("b")];
/// let joined = plan(&["a", "b", "c"], &owners);
/// assert_eq!(joined.owners(), [Some("a"), Some("a"), Some("b"), Some("c")]);
/// assert_eq!(joined.moves().len(), 1);
/// ```
pub fn plan<'a>(members: &[&'a str], owners: &[Option<&'a str>]) -> Plan<'a> {
    let members: Vec<(&str, u32)> = members.iter().map(|id| (*id, 1)).collect();
    plan_by_weight(&members, owners, &BTreeMap::new())
}

/// Shares shards of different costs out among members of different weights: as [`plan`], which is
/// this where each weight and each cost is 1.
///
/// `members` are ids with their weights; `costs` has the costs of some shards by their numbers, and the
/// others cost 1. Zero counts as 1. A member's *load* is what its shards cost together.
/// Its *fair share* is the part of all costs that its weight is of all weights.
///
/// The dearest shards are shared out first, then those of the next cost, and so on. Each time the
/// members with the least load for their weight are filled up to a common level, to the shard.
///
/// - A member's load without the cheapest of its shards is less than its fair share. So no load exceeds
///   the fair share by as much as the dearest shard costs.
/// - Where the shards of the least cost suffice to fill everybody up, each load differs from the fair
///   share by less than one of these. So where all cost the same, each member has its fair share,
///   rounded up or down.
/// - Of the shards of one cost, no assignment to the same level moves fewer, given that of the dearer
///   ones. A plan that is carried out moves nothing more, and plans made meanwhile have the same owners.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use spindle_protocol::fleet::plan_by_weight;
///
/// // The first shard costs as much as four of the others.
/// let costs = BTreeMap::from([(0, 4)]);
/// let plan = plan_by_weight(&[("a", 1), ("b", 3)], &[None; 9], &costs);
/// let of_a = plan.owners().iter().filter(|owner| **owner == Some("a")).count();
/// assert_eq!((plan.owner(0), of_a), (Some("b"), 3));
/// ```
pub fn plan_by_weight<'a>(
    members: &[(&'a str, u32)],
    owners: &[Option<&'a str>],
    costs: &BTreeMap<usize, u32>,
) -> Plan<'a> {
    let mut sharers = sharers(members);
    let mut planned = vec![None; owners.len()];
    if sharers.is_empty() {
        return Plan { owners: planned, moves: Vec::new() };
    }
    let mut by_cost = BTreeMap::<Reverse<u32>, Vec<usize>>::new();
    for shard in 0..owners.len() {
        let cost = costs.get(&shard).copied().unwrap_or(1).max(1);
        by_cost.entry(Reverse(cost)).or_default().push(shard);
    }
    for (Reverse(cost), shards) in by_cost {
        set_quotas(&mut sharers, u128::from(cost), &shards, owners);
        let mut free = Vec::new();
        for shard in shards {
            let owner = owners[shard].and_then(|id| place_of(&sharers, id));
            match owner.map(|at| &mut sharers[at]).filter(|owner| owner.left > 0) {
                Some(owner) => {
                    owner.left -= 1;
                    planned[shard] = Some(owner.id);
                }
                None => free.push(shard),
            }
        }
        let below = sharers.iter().flat_map(|below| std::iter::repeat_n(below.id, below.left));
        for (shard, id) in free.into_iter().zip(below) {
            planned[shard] = Some(id);
        }
    }
    let moves = moves(&sharers, owners, &planned);
    Plan { owners: planned, moves }
}

/// A member, while shards are shared out.
struct Sharer<'a> {
    id: &'a str,
    weight: u128,
    /// The costs of the shards that it is to have.
    load: u128,
    /// How many of the shards of one cost it is to have that are not named yet.
    left: usize,
}

/// The members, in the order of their ids.
fn sharers<'a>(members: &[(&'a str, u32)]) -> Vec<Sharer<'a>> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members.dedup_by_key(|(id, _)| *id);
    let sharer = |(id, weight): (&'a str, u32)| {
        let weight = u128::from(weight.max(1));
        Sharer { id, weight, load: 0, left: 0 }
    };
    members.into_iter().map(sharer).collect()
}

fn place_of(sharers: &[Sharer], id: &str) -> Option<usize> {
    sharers.binary_search_by(|sharer| sharer.id.cmp(id)).ok()
}

/// Sets how many of these shards, of one cost, each member is to have.
///
/// The remainder of the division goes to those who have more than the quotient already, which costs
/// no moves. Of these the one with the largest remainder comes first, then the id decides: it is as it
/// was when a part of the moves is done.
fn set_quotas(sharers: &mut [Sharer], cost: u128, shards: &[usize], owners: &[Option<&str>]) {
    let mut held = vec![0_usize; sharers.len()];
    for id in shards.iter().filter_map(|shard| owners[*shard]) {
        if let Some(at) = place_of(sharers, id) {
            held[at] += 1;
        }
    }
    sharers.iter_mut().for_each(|sharer| sharer.left = 0);
    // The level is `load / weight` of those that are filled up to it. The others are above it already.
    let mut filled: Vec<usize> = (0..sharers.len()).collect();
    let (load, weight) = loop {
        let sum = |of: fn(&Sharer) -> u128| filled.iter().map(|at| of(&sharers[*at])).sum::<u128>();
        let load = sum(|sharer| sharer.load) + cost * shards.len() as u128;
        let (weight, before) = (sum(|sharer| sharer.weight), filled.len());
        filled.retain(|at| sharers[*at].load * weight <= load * sharers[*at].weight);
        if filled.len() == before {
            break (load, weight);
        }
    };
    let mut remainders = Vec::new();
    let mut rest = shards.len();
    for at in filled {
        let sharer = &mut sharers[at];
        let lacks = load * sharer.weight - sharer.load * weight;
        let remainder = lacks % (weight * cost);
        // It is at most the number of the shards.
        sharer.left = usize::try_from(lacks / (weight * cost)).unwrap_or(rest);
        rest -= sharer.left;
        if remainder > 0 {
            remainders.push((held[at] <= sharer.left, Reverse(remainder), at));
        }
    }
    remainders.sort_unstable();
    remainders.into_iter().take(rest).for_each(|(_, _, at)| sharers[at].left += 1);
    sharers.iter_mut().for_each(|sharer| sharer.load += cost * sharer.left as u128);
}

fn moves<'a>(
    sharers: &[Sharer<'a>],
    owners: &[Option<&'a str>],
    planned: &[Option<&'a str>],
) -> Vec<Move<'a>> {
    let is_member = |id: &&str| place_of(sharers, id).is_some();
    let pairs = owners.iter().map(|owner| owner.filter(is_member)).zip(planned).enumerate();
    let moves = pairs.filter_map(|(shard, (from, to))| Some(Move { shard, from, to: (*to)? }));
    moves.filter(|moved| moved.from != Some(moved.to)).collect()
}
