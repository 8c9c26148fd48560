//! Plans where all weights and all costs are 1.

use std::collections::BTreeSet;

use super::{Plan, plan};

pub const IDS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Numbers that are the same in each run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    pub fn up_to(&mut self, most: u32) -> u32 {
        1 + u32::try_from(self.below(usize::try_from(most).unwrap())).unwrap()
    }

    pub fn owners(&mut self, shards: usize, of: usize) -> Vec<Option<&'static str>> {
        (0..shards)
            .map(|_| IDS.get(self.below(of + 1)).copied().filter(|id| *id < IDS[of]))
            .collect()
    }
}

fn count(plan: &Plan, id: &str) -> usize {
    plan.owners().iter().filter(|owner| **owner == Some(id)).count()
}

fn is_even(owners: &[Option<&str>], members: &[&str]) -> bool {
    let counts = members.iter().map(|id| owners.iter().filter(|owner| **owner == Some(id)).count());
    let counts: Vec<usize> = counts.collect();
    counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1
}

/// Returns how many shards change hands in the best of all even assignments.
fn fewest_moves(members: &[&str], owners: &[Option<&str>]) -> usize {
    let all = members.len().pow(u32::try_from(owners.len()).unwrap());
    let assignments = (0..all).map(|mut number| {
        let owner = |_| {
            let id = members[number % members.len()];
            number /= members.len();
            Some(id)
        };
        (0..owners.len()).map(owner).collect::<Vec<_>>()
    });
    let even = assignments.filter(|assigned| is_even(assigned, members));
    let moves = even.map(|new| owners.iter().zip(&new).filter(|(old, new)| old != new).count());
    moves.min().unwrap()
}

#[test]
fn no_even_assignment_moves_fewer_shards() {
    let mut numbers = Numbers(1);
    for _ in 0..300 {
        let (members, shards) = (&IDS[..1 + numbers.below(3)], numbers.below(7));
        // Some are owned by nobody, some by someone who is gone.
        let owners = numbers.owners(shards, 4);
        let plan = plan(members, &owners);
        assert_eq!(plan.moves().len(), fewest_moves(members, &owners), "{members:?} {owners:?}");
    }
}

#[test]
fn every_shard_has_an_owner_and_shares_differ_by_at_most_one() {
    let mut numbers = Numbers(2);
    for _ in 0..500 {
        let members = &IDS[..1 + numbers.below(11)];
        let shards = numbers.below(100);
        let owners = numbers.owners(shards, 11);
        let plan = plan(members, &owners);
        assert!(plan.owners().iter().all(|owner| owner.is_some_and(|id| members.contains(&id))));
        assert!(is_even(plan.owners(), members), "{plan:?}");
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
fn a_plan_stays_the_same_while_it_is_carried_out() {
    let mut numbers = Numbers(5);
    for _ in 0..500 {
        let (members, shards) = (1 + numbers.below(10), numbers.below(60));
        let mut owners = numbers.owners(shards, 11);
        let planned = plan(&IDS[..members], &owners).owners().to_vec();
        loop {
            let now = plan(&IDS[..members], &owners);
            assert_eq!(now.owners(), planned, "{owners:?}");
            let (Some(left), moves) = (now.moves().len().checked_sub(1), now.moves()) else {
                break;
            };
            let moved = moves[numbers.below(left + 1)];
            owners[moved.shard] = Some(moved.to);
        }
    }
}

#[test]
fn a_settled_fleet_moves_nothing_and_the_order_of_members_says_nothing() {
    let mut numbers = Numbers(4);
    for _ in 0..300 {
        let (members, shards) = (1 + numbers.below(11), numbers.below(100));
        let owners = numbers.owners(shards, 11);
        let settled = plan(&IDS[..members], &owners);
        let mut shuffled = IDS[..members].to_vec();
        shuffled.rotate_left(numbers.below(members));
        shuffled.push(shuffled[0]);
        assert_eq!(plan(&shuffled, &owners), settled);
        let again = plan(&shuffled, settled.owners());
        assert_eq!((again.owners(), again.moves().len()), (settled.owners(), 0));
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
