//! Plans: what they promise, tried on all small fleets and on random ones.

use std::collections::BTreeSet;

use super::{Plan, plan};

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

/// Members of weight 1.
fn alike<'a>(ids: &[&'a str]) -> Vec<(&'a str, u32)> {
    ids.iter().map(|id| (*id, 1)).collect()
}

/// A fleet: ids with weights, and the owners of the shards.
#[derive(Clone, Debug)]
struct Fleet {
    members: Vec<(&'static str, u32)>,
    owners: Vec<Option<&'static str>>,
}

impl Fleet {
    /// One of up to so many members and shards. Some shards are owned by nobody or by one who is gone.
    fn random(numbers: &mut Numbers, members: usize, shards: usize, weight: u32) -> Fleet {
        let (members, shards) = (1 + numbers.below(members), numbers.below(shards + 1));
        let owners = numbers.owners(shards, members + 1);
        let members = IDS[..members].iter().map(|id| (*id, numbers.up_to(weight))).collect();
        Fleet { members, owners }
    }

    fn planned(&self) -> Vec<Option<&'static str>> {
        plan(&self.members, &self.owners).owners().to_vec()
    }

    /// The least and the most that each member may have.
    fn bounds(&self) -> Vec<[usize; 2]> {
        let weights: usize = self.members.iter().map(|(_, weight)| *weight as usize).sum();
        let fair = |weight: u32| self.owners.len() * weight as usize;
        let members = self.members.iter();
        members.map(|(_, it)| [fair(*it) / weights, fair(*it).div_ceil(weights)]).collect()
    }

    /// Fails unless each shard has an owner, and each member its fair share.
    fn check(&self, planned: &[Option<&str>]) {
        let mut all = 0;
        for ((id, _), [least, most]) in self.members.iter().zip(self.bounds()) {
            let count = planned.iter().filter(|owner| **owner == Some(*id)).count();
            assert!((least..=most).contains(&count), "{id}: {planned:?} in {self:?}");
            all += count;
        }
        assert_eq!(all, planned.len(), "{planned:?} in {self:?}");
    }

    /// Fails if shards could be assigned as evenly with fewer moves.
    fn moves_fewest(&self, planned: &[Option<&str>]) {
        let bounds = self.bounds();
        let mut fewest = usize::MAX;
        each_choice(self.owners.len(), self.members.len(), |owners| {
            let (mut counts, mut moves) = (vec![0; self.members.len()], 0);
            for (at, owner) in owners.iter().zip(&self.owners) {
                counts[*at] += 1;
                moves += usize::from(*owner != Some(self.members[*at].0));
            }
            if counts
                .iter()
                .zip(&bounds)
                .all(|(count, [least, most])| (least..=most).contains(&count))
            {
                fewest = fewest.min(moves);
            }
        });
        let are = self.owners.iter().zip(planned).filter(|(owner, to)| owner != to).count();
        assert_eq!(are, fewest, "{planned:?} in {self:?}");
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
        let settled = plan(&alike(&IDS[..members]), &owners);
        let joiner = IDS[members];
        let joined = plan(&alike(&IDS[..=members]), settled.owners());
        assert!(joined.moves().iter().all(|moved| moved.to == joiner), "{joined:?}");
        assert_eq!(joined.moves().len(), count(&joined, joiner));

        let leaver = IDS[numbers.below(members)];
        let rest: Vec<&str> = IDS[..=members].iter().copied().filter(|id| *id != leaver).collect();
        let left = plan(&alike(&rest), joined.owners());
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
    let settled = plan(&alike(&names[..20]), &[None; 1_000]);
    let joined = plan(&alike(&names), settled.owners());
    assert_eq!(joined.moves().len(), 47);
    let from: BTreeSet<_> = joined.moves().iter().map(|moved| moved.from).collect();
    assert_eq!(from.len(), 20, "everybody gives something");
}

#[test]
fn each_small_fleet_is_even_by_weight_and_moves_the_fewest() {
    const WEIGHTS: [u32; 3] = [1, 2, 3];
    let mut fleets = 0;
    for (members, shards) in [(1, 3), (2, 5), (3, 4)] {
        each_choice(members, WEIGHTS.len(), |weights| {
            each_choice(shards, members + 1, |owners| {
                let weights = weights.iter().zip(IDS);
                let fleet = Fleet {
                    members: weights.map(|(at, id)| (id, WEIGHTS[*at])).collect(),
                    owners: owners.iter().map(|at| (*at < members).then(|| IDS[*at])).collect(),
                };
                let planned = fleet.planned();
                fleet.check(&planned);
                fleet.moves_fewest(&planned);
                fleets += 1;
            });
        });
    }
    assert_eq!(fleets, 3 * 8 + 9 * 243 + 27 * 256);
}

#[test]
fn random_fleets_are_even_by_weight() {
    let mut numbers = Numbers(11);
    for round in 0..2_000 {
        let fleet = Fleet::random(&mut numbers, 10, 120, [1, 9, 1_000][round % 3]);
        fleet.check(&fleet.planned());
    }
    for _ in 0..300 {
        let fleet = Fleet::random(&mut numbers, 3, 6, 4);
        fleet.moves_fewest(&fleet.planned());
    }
}

#[test]
fn weights_that_are_all_equal_make_the_plan_of_members_that_are_alike() {
    let mut numbers = Numbers(13);
    for _ in 0..2_000 {
        let weight = numbers.up_to(1_000);
        let mut fleet = Fleet::random(&mut numbers, 10, 100, 1);
        let without = fleet.planned();
        fleet.members.iter_mut().for_each(|(_, of_member)| *of_member = weight);
        assert_eq!(fleet.planned(), without, "{fleet:?}");
    }
}

#[test]
fn a_plan_stays_the_same_while_it_is_carried_out_and_then_moves_nothing() {
    let mut numbers = Numbers(14);
    for round in 0..1_000 {
        let mut fleet = Fleet::random(&mut numbers, 10, 60, [1, 5][round % 2]);
        let planned = fleet.planned();
        loop {
            let now = plan(&fleet.members, &fleet.owners);
            assert_eq!(now.owners(), planned, "{fleet:?}");
            let Some(left) = now.moves().len().checked_sub(1) else { break };
            let moved = now.moves()[numbers.below(left + 1)];
            fleet.owners[moved.shard] = planned[moved.shard];
        }
        fleet.members.reverse();
        assert_eq!(fleet.planned(), planned, "the order of members says nothing");
    }
}

#[test]
fn the_largest_weights_overflow_nothing_zero_counts_as_one_and_those_of_an_id_add_up() {
    let members = [("a", u32::MAX), ("b", u32::MAX), ("c", 1)];
    let planned = plan(&members, &[None; 100]);
    assert_eq!(["a", "b", "c"].map(|id| count(&planned, id)), [50, 50, 0]);
    let zero = plan(&[("a", 0), ("b", 0)], &[None; 4]);
    assert_eq!(zero.owners(), plan(&alike(&["a", "b"]), &[None; 4]).owners());
    let twice = plan(&[("a", 1), ("b", 1), ("a", 2)], &[None; 4]);
    assert_eq!(["a", "b"].map(|id| count(&twice, id)), [3, 1]);
}
