//! Members that share shards, in a world without requests: rows, views, and steps of time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Join, Part, Participant, ShardState, Share, Step, View, counts_from};
use crate::{Moment, Timestamp};

const LEASE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// One member, with what its process does.
struct Node {
    share: Share,
    since: u64,
    poll_at: u64,
    alive: bool,
    /// It takes no shard, though it is a live member.
    unable: bool,
    /// The view that it decides by, where that is an old one.
    stale: Option<View>,
}

/// Time goes in ticks of 100 ms. A decision is carried out by the next tick.
struct World {
    tick: u64,
    nodes: BTreeMap<&'static str, Node>,
    shards: Vec<Shard>,
    moves: usize,
    /// One that is dead, and since when.
    silent: Option<(&'static str, u64)>,
    /// The weights of those that have another one than 1.
    weights: BTreeMap<&'static str, u32>,
    /// The ticks in which members died.
    died: Vec<u64>,
    /// Says whose tasks of which shards fail, 3 s after they began.
    fails: fn(&str, usize) -> bool,
}

#[derive(Clone, Default)]
struct Shard {
    holder: Option<&'static str>,
    since: u64,
    promised: Option<(String, u64)>,
    /// The tick in which its dead holder's lease runs out.
    expires: Option<u64>,
}

fn at(tick: u64) -> Timestamp {
    Timestamp(1_000_000_000_000) + TICK * u32::try_from(tick).unwrap()
}

impl World {
    fn new(shards: usize) -> World {
        let shards = vec![Shard::default(); shards];
        World {
            tick: 0,
            nodes: BTreeMap::new(),
            shards,
            moves: 0,
            silent: None,
            weights: BTreeMap::new(),
            died: Vec::new(),
            fails: |_, _| false,
        }
    }

    fn join(&mut self, id: &'static str) {
        let share = Share::new(id, LEASE, POLL);
        let (since, poll_at) = (self.tick, self.tick);
        let node = Node { share, since, poll_at, alive: true, unable: false, stale: None };
        self.nodes.insert(id, node);
    }

    /// A member joins, is able to do nothing two polls later, and is gone with its lease.
    fn falls_silent_after_its_join(&mut self, id: &'static str) {
        self.join(id);
        self.run(POLL * 2);
        self.nodes.get_mut(id).unwrap().unable = true;
        self.silent = Some((id, self.tick));
        self.run(LEASE);
        self.nodes.remove(id);
        self.run(LEASE);
    }

    fn crash(&mut self, id: &'static str) {
        self.nodes.remove(id);
        self.died.push(self.tick);
        for shard in self.shards.iter_mut().filter(|shard| shard.holder == Some(id)) {
            shard.expires = Some(self.tick + 100);
        }
    }

    fn view(&self, of: &str) -> View {
        let live: Vec<_> = self.nodes.iter().filter(|(_, node)| node.alive).collect();
        let joins = live.iter().map(|(_, node)| Join { since: at(node.since), ran_out: false });
        let counts_from = counts_from(&joins.collect::<Vec<_>>(), &self.ran_out(), LEASE);
        let members = live.iter().zip(counts_from).map(|((id, _), counts_from)| {
            let silent = self.silent.filter(|(silent, _)| silent == *id);
            let lived = silent.map_or(self.tick, |(_, since)| since);
            let weight = self.weights.get(*id).copied().unwrap_or(1);
            Participant { id: (**id).into(), until: at(lived + 100), counts_from, weight }
        });
        let state = |shard: &Shard| match (shard.holder, &shard.promised) {
            (Some(holder), _) => {
                let until = at(shard.expires.unwrap_or(self.tick + 100));
                ShardState::Held { by: Some(holder.into()), since: at(shard.since), until }
            }
            (None, Some((to, until))) if *until > self.tick || to == of => {
                ShardState::Promised { to: to.clone(), until: at(*until) }
            }
            _ => ShardState::Vacant,
        };
        let shards = self.shards.iter().map(state).collect();
        View { read_at: at(self.tick), members: members.collect(), shards }
    }

    /// When the rows of those that died ran out.
    fn ran_out(&self) -> Vec<Timestamp> {
        self.died.iter().map(|tick| *tick + 100).filter(|at| *at <= self.tick).map(at).collect()
    }

    fn act(&mut self, id: &'static str) -> Step {
        let fresh = self.view(id);
        let view = self.nodes[id].stale.clone().unwrap_or(fresh);
        let mine = self.shards.iter().enumerate().filter(|(_, shard)| shard.holder == Some(id));
        let parts = mine.map(|(shard, _)| (shard, Part::Working)).collect();
        let now = Moment(TICK * u32::try_from(self.tick).unwrap());
        let node = self.nodes.get_mut(id).unwrap();
        let step = node.share.decide(now, &view, &parts, node.alive);
        let poll_again = step.poll_again.as_millis().div_ceil(100).max(1);
        node.poll_at = self.tick + u64::try_from(poll_again).unwrap();
        for shard in step.take.iter().filter(|_| !node.unable) {
            let shard = &mut self.shards[*shard];
            // Another was faster: the row refuses.
            let is_for_another =
                shard.promised.as_ref().is_some_and(|(to, until)| to != id && *until > self.tick);
            if shard.holder.is_none() && !is_for_another {
                *shard = Shard { holder: Some(id), since: self.tick, ..Shard::default() };
                self.moves += 1;
            }
        }
        let is_anothers = |shard: &&usize| matches!(&view.shards[**shard], ShardState::Promised { to, .. } if to != id);
        assert_eq!(
            step.take.iter().find(is_anothers),
            None,
            "{id} takes what is promised to another"
        );
        for (shard, to) in &step.hand_over {
            assert_eq!(self.shards[*shard].holder, Some(id));
            self.shards[*shard] =
                Shard { promised: Some((to.clone(), self.tick + 20)), ..Shard::default() };
        }
        step
    }

    fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.tick += 1;
            for shard in &mut self.shards {
                if shard.expires.is_some_and(|at| at <= self.tick) {
                    *shard = Shard::default();
                }
            }
            self.fail();
            let ids: Vec<&str> = self.nodes.keys().copied().collect();
            for id in ids {
                if self.nodes[id].poll_at <= self.tick {
                    self.act(id);
                }
            }
        }
    }

    fn fail(&mut self) {
        let now = Moment(TICK * u32::try_from(self.tick).unwrap());
        for (number, shard) in self.shards.iter_mut().enumerate() {
            let Some(holder) = shard.holder.filter(|id| (self.fails)(id, number)) else { continue };
            let ran = TICK * u32::try_from(self.tick - shard.since).unwrap();
            if ran >= seconds(3) {
                *shard = Shard::default();
                self.nodes.get_mut(holder).unwrap().share.failed(now, number, ran);
            }
        }
    }

    fn count(&self, id: &str) -> usize {
        self.shards.iter().filter(|shard| shard.holder == Some(id)).count()
    }

    fn counts(&self) -> Vec<usize> {
        self.nodes.keys().map(|id| self.count(id)).collect()
    }
}

/// Returns the longest time, in ticks, for which one of the shards is left alone meanwhile.
fn longest_gap(world: &mut World, time: Duration) -> u64 {
    let (mut longest, mut unheld) = (0, vec![0_u64; world.shards.len()]);
    for _ in 0..time.as_millis() / 100 {
        world.run(TICK);
        for (shard, since) in world.shards.iter().zip(&mut unheld) {
            *since = if shard.holder.is_some() { 0 } else { *since + 1 };
            longest = longest.max(*since);
        }
    }
    longest
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Twenty shards, shared evenly by these.
fn settled(ids: &[&'static str]) -> World {
    let mut world = World::new(20);
    ids.iter().for_each(|id| world.join(id));
    world.run(seconds(10));
    assert!(world.counts().iter().all(|count| *count == 20 / ids.len()), "{:?}", world.counts());
    world.moves = 0;
    world
}

#[test]
fn a_member_that_comes_and_goes_moves_nothing() {
    let mut world = settled(&["a", "b"]);
    for _ in 0..20 {
        world.join("c");
        world.run(seconds(2));
        world.crash("c");
        world.run(seconds(1));
    }
    assert_eq!((world.counts(), world.moves), (vec![10, 10], 0));
}

#[test]
fn a_shard_that_is_handed_over_is_left_alone_for_a_moment_only() {
    let mut world = settled(&["a", "b", "c", "d"]);
    world.join("A");
    let gap = longest_gap(&mut world, seconds(5));
    assert!((1..=10).contains(&gap) && world.moves == 4, "{gap} ticks, {} moves", world.moves);
}

#[test]
fn shards_that_were_kept_for_one_that_stays_away_move_once_by_the_plan() {
    for kept in [50, 250] {
        let mut world = settled(&["a", "b", "c", "d"]);
        world.nodes.remove("d");
        let until = world.tick + kept;
        for shard in world.shards.iter_mut().filter(|shard| shard.holder == Some("d")) {
            *shard = Shard { promised: Some(("d".into(), until)), ..Shard::default() };
        }
        world.run(seconds(40));
        assert_eq!((world.counts(), world.moves), (vec![7, 7, 6], 5), "after {kept} ticks");
    }
}

#[test]
fn the_shards_of_the_dead_run_elsewhere_as_soon_as_their_leases_are_over() {
    for ticks_after_a_poll in 0..10 {
        let mut world = settled(&["a", "b"]);
        world.run(TICK * ticks_after_a_poll);
        world.crash("a");
        world.run(seconds(10));
        world.run(TICK);
        assert_eq!((world.counts(), world.moves), (vec![20], 10));
    }
}

#[test]
fn a_shard_that_neither_its_owner_nor_the_next_takes_goes_to_anyone_after_two_leases() {
    let mut world = World::new(1);
    ["a", "b", "c"].into_iter().for_each(|id| world.join(id));
    for id in ["a", "b"] {
        world.nodes.get_mut(id).unwrap().unable = true;
    }
    world.run(LEASE * 2 - POLL);
    assert_eq!(world.count("c"), 0, "it is not c's turn");
    world.run(POLL * 2);
    assert_eq!(world.count("c"), 1);
}

/// Nothing is read anew but the times: the heartbeats go on.
#[test]
fn a_poll_that_shows_the_same_makes_no_plan() {
    let mut world = settled(&["a", "b"]);
    let made = |world: &World| world.nodes["a"].share.last_plan.made;
    let before = made(&world);
    world.run(seconds(30));
    assert_eq!(made(&world), before);
    assert!(world.act("a").is_settled);
    world.join("d");
    world.run(seconds(30));
    let joined = made(&world);
    assert!(joined > before && world.act("a").is_settled, "{joined}");
    world.weights.insert("d", 2);
    world.run(seconds(30));
    assert!(made(&world) > joined);
    assert_eq!(world.counts(), [5, 5, 10]);
}

/// Its members see what each of them gave up, and by the plan that they had before.
#[test]
fn a_plan_that_is_remembered_is_the_one_that_would_be_made() {
    let mut world = settled(&["a", "b"]);
    world.weights.insert("b", 3);
    world.run(POLL * 2);
    world.join("d");
    for _ in 0..50 {
        world.run(TICK);
        for id in ["a", "b", "d"] {
            let view = world.view(id);
            let now = Moment(TICK * u32::try_from(world.tick).unwrap());
            let mut remembers = world.nodes[id].share.clone();
            let mut forgets = remembers.clone();
            forgets.last_plan = Default::default();
            let parts = BTreeMap::new();
            let steps = [&mut remembers, &mut forgets];
            let [one, other] = steps.map(|share| share.decide(now, &view, &parts, true));
            assert_eq!(one, other, "{id} at {}", world.tick);
        }
    }
}

#[test]
fn a_member_that_cannot_take_its_shards_does_not_starve_them() {
    let mut world = settled(&["a", "b"]);
    world.join("c");
    world.nodes.get_mut("c").unwrap().unable = true;
    let longest = longest_gap(&mut world, seconds(300));
    assert!(longest <= 115, "a shard was left alone for {longest} ticks");
    assert_eq!(world.count("a") + world.count("b"), 20, "{:?}", world.counts());
    let tried = world.moves;
    world.run(seconds(300));
    assert!(world.moves - tried < tried, "{tried} moves, then {}", world.moves - tried);
}

/// Returns whose shards have moved since the members settled, and how often all of them together.
fn moved(world: &mut World, time: Duration) -> (Vec<usize>, usize) {
    let before: Vec<_> = world.shards.iter().map(|shard| shard.since).collect();
    world.run(time);
    let moved = |(_, (shard, before)): &(usize, (&Shard, u64))| shard.since != *before;
    let shards = world.shards.iter().zip(before).enumerate().filter(moved);
    (shards.map(|(number, _)| number).collect(), world.moves)
}

#[test]
fn a_task_that_fails_everywhere_moves_its_own_shard_alone() {
    let mut world = settled(&["a", "b"]);
    world.fails = |_, shard| shard == 0;
    let (shards, moves) = moved(&mut world, seconds(600));
    assert_eq!(shards, [0], "{:?}", world.counts());
    assert!(moves <= 30, "{moves} moves");
}

#[test]
fn a_member_whose_tasks_fail_draws_no_shards_from_the_others() {
    let mut world = settled(&["a", "b", "c", "d"]);
    let of_a = world.shards.iter().enumerate().filter(|(_, shard)| shard.holder == Some("a"));
    let of_a: Vec<usize> = of_a.map(|(number, _)| number).collect();
    world.fails = |id, _| id == "a";
    let (shards, moves) = moved(&mut world, seconds(600));
    assert_eq!(shards, of_a, "{:?}", world.counts());
    assert!(moves <= 30 * of_a.len(), "{moves} moves");
}

/// Its tasks failed in the life before, and its id is the same.
#[test]
fn a_member_that_left_and_came_back_is_handed_shards_as_any_other() {
    let mut world = settled(&["a", "b"]);
    world.fails = |id, _| id == "a";
    world.run(seconds(300));
    world.nodes.remove("a");
    world.shards.iter_mut().filter(|shard| shard.holder != Some("b")).for_each(|shard| {
        *shard = Shard::default();
    });
    world.run(POLL * 3);
    world.fails = |_, _| false;
    world.join("a");
    world.run(POLL * 6);
    assert_eq!(world.counts(), [10, 10]);
}

/// Returns the shards that b hands over to a, which has left shard 0 alone.
#[test]
fn the_shard_that_was_left_alone_goes_back_in_place_of_another() {
    let mut share = Share::new("b", LEASE, POLL);
    let mut hands_over = |second: u64, of_a: &[usize], part: Option<Part>| {
        let member = |id: &str| {
            let until = at(second * 10 + 100);
            Participant { id: id.into(), until, counts_from: at(0), weight: 1 }
        };
        let held = |shard| {
            let by = Some(if of_a.contains(&shard) { "a" } else { "b" }.to_string());
            ShardState::Held { by, since: at(0), until: at(second * 10 + 100) }
        };
        let mut shards: Vec<ShardState> = (0..6).map(held).collect();
        let mut parts: BTreeMap<_, _> = [3, 4, 5].map(|shard| (shard, Part::Working)).into();
        match part {
            Some(part) => _ = parts.insert(0, part),
            None => shards[0] = ShardState::Vacant,
        }
        let members = vec![member("a"), member("b")];
        let view = View { read_at: at(second * 10), members, shards };
        let step = share.decide(Moment(seconds(second)), &view, &parts, true);
        (step.take, step.hand_over)
    };
    let to_a = |shards: &[usize]| {
        (vec![], shards.iter().map(|shard| (*shard, "a".to_string())).collect::<Vec<_>>())
    };
    assert_eq!(hands_over(10, &[1, 2], None), to_a(&[]));
    assert_eq!(hands_over(12, &[1, 2], None).0, [0], "a has left it alone");
    for second in [13, 21] {
        assert_eq!(hands_over(second, &[1, 2], Some(Part::Working)), to_a(&[]));
    }
    assert_eq!(hands_over(21, &[1], Some(Part::Working)), to_a(&[5]), "a is to have two");
    assert_eq!(hands_over(22, &[1, 2], Some(Part::Working)), to_a(&[0]), "a lease later");
    assert_eq!(hands_over(22, &[1, 2], Some(Part::Leaving)), to_a(&[]), "its task stops");
}

#[test]
fn failures_are_forgiven_once_a_task_was_at_work_for_ten_minutes() {
    for (ran, holder) in [(seconds(599), None), (seconds(600), Some("a"))] {
        let mut world = settled(&["a"]);
        let now = Moment(TICK * u32::try_from(world.tick).unwrap());
        world.shards[0] = Shard::default();
        let share = &mut world.nodes.get_mut("a").unwrap().share;
        for _ in 0..8 {
            share.failed(now, 0, Duration::ZERO);
        }
        share.failed(now, 0, ran);
        world.run(seconds(3));
        assert_eq!(world.shards[0].holder, holder, "after {ran:?}");
    }
}

#[test]
fn a_shard_that_spanner_gave_no_answer_about_is_tried_again_within_ten_seconds() {
    let mut world = settled(&["a", "b"]);
    let unanswered = |world: &mut World| {
        let now = Moment(TICK * u32::try_from(world.tick).unwrap());
        world.shards[0] = Shard::default();
        for node in world.nodes.values_mut() {
            node.share.unanswered(now, 0);
        }
    };
    for _ in 0..20 {
        unanswered(&mut world);
    }
    world.run(seconds(12));
    let holder = world.shards[0].holder;
    assert!(holder.is_some());
    // It has had an answer since, so it begins with the shortest pause.
    unanswered(&mut world);
    world.run(seconds(3));
    assert_eq!(world.shards[0].holder, holder);
}

#[test]
fn views_of_different_age_end_in_the_same_plan() {
    let mut world = settled(&["a", "b", "c", "d"]);
    let old = world.view("a");
    world.crash("d");
    for id in ["a", "b"] {
        world.nodes.get_mut(id).unwrap().stale = Some(old.clone());
    }
    world.run(seconds(15));
    assert_eq!(world.count("a"), 5, "an old view takes nothing that it does not see");
    for id in ["a", "b"] {
        world.nodes.get_mut(id).unwrap().stale = None;
    }
    world.run(seconds(20));
    let mut counts = world.counts();
    counts.sort_unstable();
    assert_eq!(counts, [6, 7, 7]);
}

#[test]
fn a_member_that_is_out_of_contact_for_less_than_a_lease_keeps_its_shards() {
    let mut world = settled(&["a", "b"]);
    world.nodes.get_mut("a").unwrap().alive = false;
    world.run(seconds(9));
    let node = world.nodes.get_mut("a").unwrap();
    (node.alive, node.since) = (true, world.tick);
    world.run(seconds(20));
    assert_eq!((world.counts(), world.moves), (vec![10, 10], 0));
}

#[test]
fn a_member_that_is_none_any_more_hands_its_shards_over() {
    let mut world = settled(&["a", "b"]);
    world.nodes.get_mut("a").unwrap().alive = false;
    world.run(seconds(60));
    assert_eq!(world.counts(), [0, 20]);
}

#[test]
fn a_fleet_that_starts_anew_waits_for_one_poll_and_shares_evenly() {
    for apart in 0..=4 {
        let mut world = World::new(20);
        for id in ["a", "b", "c"] {
            world.join(id);
            world.run(TICK * apart);
        }
        world.run(POLL * 2 - TICK * apart * 3);
        assert_eq!((world.counts(), world.moves), (vec![7, 7, 6], 20), "{apart} ticks apart");
    }
}

#[test]
fn one_that_comes_before_any_member_counts_by_time_counts_at_once() {
    for (later, at_once) in [(POLL * 2, vec![10, 10]), (POLL * 3 + TICK, vec![20, 0])] {
        let mut world = World::new(20);
        world.join("a");
        world.run(later);
        world.join("b");
        world.run(POLL * 2 + TICK * 5);
        assert_eq!(world.counts(), at_once, "after {later:?}");
        world.run(POLL * 20);
        assert_eq!((world.counts(), world.moves), (vec![10, 10], 30));
    }
}

/// It is promised twelve, which come back.
#[test]
fn one_that_left_its_first_shards_alone_is_handed_no_more() {
    let mut world = World::new(60);
    ["a", "b", "c", "d"].into_iter().for_each(|id| world.join(id));
    world.run(LEASE);
    assert_eq!(world.counts(), [15; 4]);
    world.moves = 0;
    world.falls_silent_after_its_join("x");
    assert_eq!(world.counts(), [15; 4]);
    assert!(world.moves <= 12, "{} moves", world.moves);
}

/// Its row counts until its lease is over.
#[test]
fn one_that_takes_nothing_is_handed_nothing_until_it_is_heard_of() {
    let mut world = settled(&["a", "b", "c", "d"]);
    world.falls_silent_after_its_join("x");
    assert_eq!(world.counts(), [5; 4]);
    assert!(world.moves <= 4, "{} moves", world.moves);
}

/// What it is owed by the plan changes as others come, while its row counts until its lease is over.
#[test]
fn an_absent_member_is_handed_nothing_when_others_come() {
    let mut world = settled(&["a", "b", "c", "d"]);
    world.join("x");
    world.run(POLL * 2);
    world.nodes.get_mut("x").unwrap().unable = true;
    world.silent = Some(("x", world.tick));
    world.run(POLL * 5);
    world.join("A");
    world.join("y");
    let is_for_x = |shard: &Shard| shard.promised.as_ref().is_some_and(|(to, _)| to == "x");
    for _ in 0..48 {
        world.run(TICK);
        assert!(!world.shards.iter().any(is_for_x), "at {}: handed another", world.tick);
    }
    assert_eq!(world.count("A") + world.count("y"), 6, "{:?}", world.counts());
}

#[test]
fn shards_are_settled_once_live_members_have_each_and_none_is_to_move() {
    let held = |by: &str| {
        let by = (!by.is_empty()).then(|| by.to_string());
        ShardState::Held { by, since: at(0), until: at(100) }
    };
    let is_settled = |members: &[(&str, u64)], shards: [ShardState; 3]| {
        let members = members.iter().map(|(id, counts_from)| Participant {
            id: (*id).to_string(),
            until: at(100),
            counts_from: at(*counts_from),
            weight: 1,
        });
        let view = View { read_at: at(1), members: members.collect(), shards: shards.to_vec() };
        let mut share = Share::new("a", LEASE, POLL);
        share.decide(Moment::default(), &view, &BTreeMap::new(), true).is_settled
    };
    assert!(is_settled(&[("a", 0)], ["a", "a", "a"].map(held)));
    assert!(is_settled(&[("a", 0), ("b", 0)], ["a", "b", "a"].map(held)));
    assert!(!is_settled(&[("a", 0), ("b", 0)], ["a", "a", "a"].map(held)), "one is to move");
    assert!(!is_settled(&[("a", 0), ("b", 9)], ["a", "a", "a"].map(held)), "one doesn't count yet");
    assert!(!is_settled(&[("b", 0)], ["b", "b", "b"].map(held)), "this one is no member");
    assert!(!is_settled(&[("a", 0)], ["a", "b", "a"].map(held)), "its owner has left");
    assert!(!is_settled(&[("a", 0)], ["a", "", "a"].map(held)), "it was taken from its owner");
    let promised = ShardState::Promised { to: "a".to_string(), until: at(9) };
    for state in [ShardState::Vacant, promised] {
        assert!(!is_settled(&[("a", 0)], [held("a"), held("a"), state]));
    }
}

/// Its own row was lost, and its shards' rows weren't.
#[test]
fn a_member_that_does_not_count_hands_nothing_over() {
    let mut world = settled(&["a", "b"]);
    world.nodes.get_mut("a").unwrap().since = world.tick;
    world.run(seconds(20));
    assert_eq!((world.counts(), world.moves), (vec![10, 10], 0));
}

#[test]
fn a_heavy_member_that_takes_nothing_is_handed_nothing_until_it_is_heard_of() {
    let mut world = settled(&["a", "b", "c", "d"]);
    world.weights.insert("x", 8);
    world.falls_silent_after_its_join("x");
    assert_eq!(world.counts(), [5; 4]);
    assert!(world.moves <= 14, "{} moves: its thirteen", world.moves);
}

/// The shards become fewer while one of them is vacant, and as many again much later.
#[test]
fn a_number_that_comes_back_after_another_count_is_left_to_its_owner() {
    let member =
        |id: &str| Participant { id: id.into(), until: at(10_000), counts_from: at(0), weight: 1 };
    let of_a = ShardState::Held { by: Some("a".into()), since: at(10), until: at(10_000) };
    let mut share = Share::new("a", LEASE, POLL);
    let mut takes = |tick, shards| {
        let view = View { read_at: at(tick), members: vec![member("a"), member("b")], shards };
        let now = Moment(TICK * u32::try_from(tick).unwrap());
        share.decide(now, &view, &BTreeMap::from([(0, Part::Working)]), true).take
    };
    assert_eq!(
        takes(100, vec![of_a.clone(), ShardState::Vacant]),
        Vec::<usize>::new(),
        "it is b's"
    );
    assert_eq!(takes(110, vec![of_a.clone()]), Vec::<usize>::new());
    assert_eq!(
        takes(500, vec![of_a.clone(), ShardState::Vacant]),
        Vec::<usize>::new(),
        "it is b's"
    );
}

/// As after a member that is to come back, and has shards of its own for each of its releases.
#[test]
fn promises_that_end_one_after_the_other_cost_no_poll_each() {
    let end = |shard: u32| at(100) + Duration::from_millis(5) * shard;
    let promised = |shard| ShardState::Promised { to: "gone".into(), until: end(shard) };
    let member = Participant { id: "a".into(), until: at(1_000), counts_from: at(0), weight: 1 };
    let mut share = Share::new("a", LEASE, POLL);
    let (mut now, mut polls) = (Moment(TICK * 99), 0);
    while now < Moment(TICK * 110) {
        let read_at = Timestamp(1_000_000_000_000) + now.0;
        let shards = (0..200).map(promised).collect();
        let view = View { read_at, members: vec![member.clone()], shards };
        let step = share.decide(now, &view, &BTreeMap::new(), true);
        if polls == 0 {
            assert_eq!(step.poll_again, TICK, "the first end is waited for");
        }
        now = now + step.poll_again;
        polls += 1;
    }
    assert!((15..=25).contains(&polls), "{polls} polls in 1.1 s");
}

#[test]
fn a_promise_lasts_for_two_polls_of_whoever_polls_more_seldom() {
    let promise = |poll| Share::new("a", Duration::from_secs(30), poll).promise();
    assert_eq!(promise(Duration::from_secs(10)), Duration::from_secs(20));
    // Others may poll by default.
    assert_eq!(promise(Duration::from_millis(100)), Duration::from_secs(2));
}
