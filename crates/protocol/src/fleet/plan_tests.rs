//! Plans, even and by weight: what they promise, tried on all small fleets and on random ones.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plan, plan, plan_by_weight};

const IDS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn up_to(&mut self, most: u32) -> u32 {
        1 + u32::try_from(self.below(usize::try_from(most).unwrap())).unwrap()
    }

    fn owners(&mut self, shards: usize, of: usize) -> Vec<Option<&'static str>> {
        (0..shards)
            .map(|_| IDS.get(self.below(of + 1)).copied().filter(|id| *id < IDS[of]))
            .collect()
    }
}

fn count(plan: &Plan, id: &str) -> usize {
    plan.owners().iter().filter(|owner| **owner == Some(id)).count()
}

/// A fleet: ids with weights, the owners of the shards, and what those cost.
#[derive(Clone, Debug)]
struct Fleet {
    members: Vec<(&'static str, u32)>,
    owners: Vec<Option<&'static str>>,
    costs: BTreeMap<usize, u32>,
}

impl Fleet {
    /// One of up to so many members and shards. Some shards are owned by nobody or by one who is gone.
    fn random(numbers: &mut Numbers, members: usize, shards: usize, most: [u32; 2]) -> Fleet {
        let [weight, cost] = most;
        let (members, shards) = (1 + numbers.below(members), numbers.below(shards + 1));
        let owners = numbers.owners(shards, members + 1);
        let members = IDS[..members].iter().map(|id| (*id, numbers.up_to(weight))).collect();
        let costs = (0..shards).map(|shard| (shard, numbers.up_to(cost))).collect();
        Fleet { members, owners, costs }
    }

    fn planned(&self) -> Vec<Option<&'static str>> {
        plan_by_weight(&self.members, &self.owners, &self.costs).owners().to_vec()
    }

    fn cost(&self, shard: usize) -> u64 {
        self.costs.get(&shard).copied().unwrap_or(1).into()
    }

    fn total(&self) -> u64 {
        (0..self.owners.len()).map(|shard| self.cost(shard)).sum()
    }

    fn weights(&self) -> u64 {
        self.members.iter().map(|(_, weight)| u64::from(*weight)).sum()
    }

    fn costs_of(&self, id: &str, owners: &[Option<&str>]) -> Vec<u64> {
        let its = owners.iter().enumerate().filter(|(_, owner)| **owner == Some(id));
        its.map(|(shard, _)| self.cost(shard)).collect()
    }

    /// Fails unless that is even by weight. All is multiplied by the sum of the weights.
    fn check(&self, owners: &[Option<&str>]) {
        let weights = self.weights();
        let least = (0..owners.len()).map(|shard| self.cost(shard)).min().unwrap_or(1);
        let of_least = (0..owners.len()).filter(|shard| self.cost(*shard) == least).count() as u64;
        let mut lacking = 0;
        for (id, weight) in &self.members {
            let fair = self.total() * u64::from(*weight);
            let costs = self.costs_of(id, owners);
            let load: u64 = costs.iter().sum();
            if let Some(cheapest) = costs.iter().min() {
                assert!((load - cheapest) * weights < fair, "{id}: {costs:?} in {self:?}");
            }
            let of_dearer: u64 = costs.iter().filter(|cost| **cost > least).sum();
            lacking += (fair / weights + 1).saturating_sub(of_dearer).div_ceil(least);
        }
        for (id, weight) in self.members.iter().filter(|_| of_least >= lacking) {
            let fair = self.total() * u64::from(*weight);
            let load = self.costs_of(id, owners).iter().sum::<u64>() * weights;
            assert!(load.abs_diff(fair) < least * weights, "{id}: {load} of {fair} in {self:?}");
        }
        let ids: Vec<&str> = self.members.iter().map(|(id, _)| *id).collect();
        assert!(owners.iter().all(|owner| owner.is_some_and(|id| ids.contains(&id))));
    }

    /// Returns how many shards of this cost each member may have once the dearer ones are planned: what
    /// fills the members with the least load for their weight to a common level, rounded down and up.
    fn bounds(&self, cost: u64, planned: &[Option<&str>]) -> Vec<[u64; 2]> {
        let dearer = |(id, _): &(&str, u32)| {
            self.costs_of(id, planned).into_iter().filter(|other| *other > cost).sum::<u64>()
        };
        let loads: Vec<u64> = self.members.iter().map(dearer).collect();
        let of_cost = (0..self.owners.len()).filter(|shard| self.cost(*shard) == cost).count();
        // Of all sets of members: the one that is filled, beside which the others are full already.
        for set in 1..1_u32 << self.members.len() {
            let of_set = |at: &usize| set & (1 << at) != 0;
            let filled: Vec<usize> = (0..loads.len()).filter(of_set).collect();
            let load = cost * of_cost as u64 + filled.iter().map(|at| loads[*at]).sum::<u64>();
            let weight: u64 = filled.iter().map(|at| u64::from(self.members[*at].1)).sum();
            let level_of = |at: usize| load * u64::from(self.members[at].1);
            let is_below = |at: &usize| loads[*at] * weight <= level_of(*at);
            let are_others_full = (0..loads.len()).all(|at| of_set(&at) || !is_below(&at));
            if filled.iter().all(is_below) && are_others_full {
                let bound = |at| match of_set(&at) {
                    true => {
                        let lacks = level_of(at) - loads[at] * weight;
                        [lacks / (weight * cost), lacks.div_ceil(weight * cost)]
                    }
                    false => [0, 0],
                };
                return (0..loads.len()).map(bound).collect();
            }
        }
        panic!("no level: {self:?}")
    }

    /// Fails if shards of one cost could be assigned to the same level with fewer moves.
    fn moves_fewest(&self, planned: &[Option<&str>]) {
        let costs: BTreeSet<u64> = (0..self.owners.len()).map(|shard| self.cost(shard)).collect();
        for cost in costs {
            let shards: Vec<usize> =
                (0..self.owners.len()).filter(|shard| self.cost(*shard) == cost).collect();
            let bounds = self.bounds(cost, planned);
            let all = self.members.len().pow(u32::try_from(shards.len()).unwrap());
            let moves = (0..all).filter_map(|mut number| {
                let (mut counts, mut moves) = (vec![0; self.members.len()], 0);
                for shard in &shards {
                    let at = number % self.members.len();
                    number /= self.members.len();
                    counts[at] += 1;
                    moves += usize::from(self.owners[*shard] != Some(self.members[at].0));
                }
                let mut pairs = counts.iter().zip(&bounds);
                pairs.all(|(count, [least, most])| (least..=most).contains(&count)).then_some(moves)
            });
            let fewest = moves.min().expect("the plan itself");
            let are =
                shards.iter().filter(|shard| self.owners[**shard] != planned[**shard]).count();
            assert_eq!(are, fewest, "{planned:?} of the shards that cost {cost} in {self:?}");
        }
    }
}

/// Calls with each way to choose `length` numbers below `bound`.
fn each_choice(length: usize, bound: usize, mut call: impl FnMut(&[usize])) {
    let mut choice = vec![0; length];
    for mut number in 0..bound.pow(u32::try_from(length).unwrap()) {
        for value in &mut choice {
            *value = number % bound;
            number /= bound;
        }
        call(&choice);
    }
}

#[test]
fn a_join_moves_only_what_the_joiner_gets_and_a_leave_only_what_the_leaver_had() {
    let mut numbers = Numbers(3);
    for _ in 0..500 {
        let (members, shards) = (1 + numbers.below(10), numbers.below(200));
        let owners = numbers.owners(shards, 11);
        let settled = plan(&IDS[..members], &owners);
        let joiner = IDS[members];
        let joined = plan(&IDS[..=members], settled.owners());
        assert!(joined.moves().iter().all(|moved| moved.to == joiner), "{joined:?}");
        assert_eq!(joined.moves().len(), count(&joined, joiner));

        let leaver = IDS[numbers.below(members)];
        let rest: Vec<&str> = IDS[..=members].iter().copied().filter(|id| *id != leaver).collect();
        let left = plan(&rest, joined.owners());
        let had = joined.owners().iter().filter(|owner| **owner == Some(leaver)).count();
        assert_eq!(left.moves().len(), had, "{left:?}");
        assert!(left.moves().iter().all(|moved| moved.from.is_none()));
    }
}

#[test]
fn without_members_nobody_owns_anything() {
    let plan = plan(&[], &[None, Some("a")]);
    assert_eq!((plan.owner(0), plan.owner(1), plan.owner(2)), (None, None, None));
    assert!(plan.moves().is_empty());
}

#[test]
fn the_twenty_first_of_many_members_moves_its_own_share_and_no_more() {
    let names: Vec<String> = (0..21).map(|number| format!("node-{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let settled = plan(&names[..20], &[None; 1_000]);
    let joined = plan(&names, settled.owners());
    assert_eq!(joined.moves().len(), 47);
    let from: BTreeSet<_> = joined.moves().iter().map(|moved| moved.from).collect();
    assert_eq!(from.len(), 20, "everybody gives something");
}

#[test]
fn each_small_fleet_is_even_by_weight_and_moves_the_fewest() {
    const WEIGHTS: [u32; 3] = [1, 2, 3];
    const COSTS: [u32; 3] = [1, 2, 5];
    let mut fleets = 0;
    for (members, shards) in [(1, 3), (2, 4), (3, 3)] {
        each_choice(members, WEIGHTS.len(), |weights| {
            each_choice(shards, COSTS.len(), |costs| {
                each_choice(shards, members + 1, |owners| {
                    let fleet = Fleet {
                        members: weights
                            .iter()
                            .zip(IDS)
                            .map(|(at, id)| (id, WEIGHTS[*at]))
                            .collect(),
                        owners: owners.iter().map(|at| (*at < members).then(|| IDS[*at])).collect(),
                        costs: costs.iter().map(|at| COSTS[*at]).enumerate().collect(),
                    };
                    let planned = fleet.planned();
                    fleet.check(&planned);
                    fleet.moves_fewest(&planned);
                    fleets += 1;
                });
            });
        });
    }
    assert_eq!(fleets, 3 * 27 * 8 + 9 * 81 * 81 + 27 * 27 * 64);
}

#[test]
fn random_fleets_are_even_by_weight() {
    let mut numbers = Numbers(11);
    for round in 0..2_000 {
        let fleet = match round % 3 {
            0 => Fleet::random(&mut numbers, 10, 120, [9, 1]),
            1 => Fleet::random(&mut numbers, 10, 120, [1, 20]),
            _ => Fleet::random(&mut numbers, 10, 120, [1_000, 1_000]),
        };
        fleet.check(&fleet.planned());
    }
    for _ in 0..300 {
        let fleet = Fleet::random(&mut numbers, 3, 6, [4, 4]);
        fleet.moves_fewest(&fleet.planned());
    }
}

#[test]
fn shards_of_one_cost_are_shared_to_the_fair_share_rounded_down_or_up() {
    let mut numbers = Numbers(12);
    for _ in 0..500 {
        let fleet = Fleet::random(&mut numbers, 10, 100, [7, 1]);
        let planned = fleet.planned();
        for (id, weight) in &fleet.members {
            let fair = fleet.total() * u64::from(*weight);
            let count = fleet.costs_of(id, &planned).len() as u64;
            let bounds = fair / fleet.weights()..=fair.div_ceil(fleet.weights());
            assert!(bounds.contains(&count), "{id}: {count} of {bounds:?} in {fleet:?}");
        }
    }
}

/// Without weights the plan is that of the members that know none.
#[test]
fn equal_weights_and_costs_make_the_plan_that_is_made_without_any() {
    let mut numbers = Numbers(13);
    for _ in 0..2_000 {
        let (weight, cost) = (numbers.up_to(1_000), numbers.up_to(1_000));
        let mut fleet = Fleet::random(&mut numbers, 10, 100, [1, 1]);
        fleet.members.iter_mut().for_each(|(_, of_member)| *of_member = weight);
        fleet.costs.values_mut().for_each(|of_shard| *of_shard = cost);
        let ids: Vec<&str> = fleet.members.iter().map(|(id, _)| *id).collect();
        let without = by_count(&ids, &fleet.owners);
        assert_eq!(fleet.planned(), without, "{fleet:?}");
        assert_eq!(plan(&ids, &fleet.owners).owners(), without);
    }
}

/// The plan of the versions before weights, from the words of its promise.
fn by_count(ids: &[&'static str], owners: &[Option<&str>]) -> Vec<Option<&'static str>> {
    let (each, rest) = (owners.len() / ids.len(), owners.len() % ids.len());
    let held = |id: &str| owners.iter().filter(|owner| **owner == Some(id)).count();
    let (has_more, others): (Vec<&str>, Vec<&str>) = ids.iter().partition(|id| held(id) > each);
    let one_more: Vec<&str> = has_more.into_iter().chain(others).take(rest).collect();
    let share = |id: &str| each + usize::from(one_more.contains(&id));
    let mut planned = vec![None; owners.len()];
    for id in ids {
        let its = (0..owners.len()).filter(|shard| owners[*shard] == Some(id)).take(share(id));
        its.for_each(|shard| planned[shard] = Some(*id));
    }
    for id in ids {
        while planned.iter().filter(|owner| **owner == Some(id)).count() < share(id) {
            let free = planned.iter().position(Option::is_none).expect("the shares are all shards");
            planned[free] = Some(*id);
        }
    }
    planned
}

#[test]
fn a_plan_stays_the_same_while_it_is_carried_out_and_then_moves_nothing() {
    let mut numbers = Numbers(14);
    for round in 0..1_000 {
        let most = [[1, 1], [5, 1], [1, 9], [4, 30]][round % 4];
        let mut fleet = Fleet::random(&mut numbers, 10, 60, most);
        let planned = fleet.planned();
        loop {
            let now = plan_by_weight(&fleet.members, &fleet.owners, &fleet.costs);
            assert_eq!(now.owners(), planned, "{fleet:?}");
            let Some(left) = now.moves().len().checked_sub(1) else { break };
            let moved = now.moves()[numbers.below(left + 1)];
            fleet.owners[moved.shard] = planned[moved.shard];
        }
        fleet.members.reverse();
        fleet.members.push(fleet.members[0]);
        assert_eq!(
            fleet.planned(),
            planned,
            "neither order nor repetition of members says anything"
        );
    }
}

#[test]
fn heavy_shards_are_spread_first_and_light_ones_fill_up() {
    let members = [("a", 1), ("b", 1), ("c", 1), ("d", 1)];
    let costs = (0..8).map(|shard| (shard, 5)).collect();
    let fleet = Fleet { members: members.to_vec(), owners: vec![None; 48], costs };
    let settled = fleet.planned();
    for (id, _) in members {
        let costs = fleet.costs_of(id, &settled);
        assert_eq!((costs.len(), costs.iter().sum::<u64>()), (12, 20), "{id}: {costs:?}");
    }
    // One that comes while nobody has a heavy one to spare is filled up by light ones.
    let lone = Fleet {
        members: vec![("a", 1), ("b", 1), ("c", 1)],
        owners: [vec![Some("a"); 11], vec![Some("b"); 11]].concat(),
        costs: BTreeMap::from([(0, 20), (11, 20)]),
    };
    let joined = lone.planned();
    assert_eq!((joined[0], joined[11]), (Some("a"), Some("b")));
    assert_eq!(lone.costs_of("c", &joined), [1; 20]);
}

#[test]
fn the_largest_numbers_overflow_nothing_and_zero_counts_as_one() {
    let costs: BTreeMap<usize, u32> = (0..100).map(|shard| (shard, u32::MAX)).collect();
    let members = [("a", u32::MAX), ("b", u32::MAX), ("c", 1)];
    let planned = plan_by_weight(&members, &[None; 100], &costs);
    let count = |id| planned.owners().iter().filter(|owner| **owner == Some(id)).count();
    assert_eq!([count("a"), count("b"), count("c")], [50, 50, 0]);
    let zero = plan_by_weight(&[("a", 0), ("b", 0)], &[None; 4], &BTreeMap::from([(0, 0)]));
    assert_eq!(zero.owners(), plan(&["a", "b"], &[None; 4]).owners());
}
