//! One shard under the real protocol, and two members who decide about it by the real plan.
//!
//! The shard is the lock of a [`World`]. Beside each of its processes stands what
//! `spindle_protocol::fleet` decides for a member: when it tries for the shard, when it gives it up,
//! and to whom. A member decides by what it has read, however old that is by then. There is a second
//! shard, which stays with the first member while that one lives. So the plan has one to hand over.

use std::collections::BTreeMap;

use spindle_protocol::fleet::{Join, Part, Participant, ShardState, Share, View, counts_from};
use spindle_protocol::{Event, Succession, Timestamp};
use stateright::{Model, Property};

use crate::history::Goal;
use crate::model::of_any_lock;
use crate::notes::{Holds, Noted as _, Notes, noted};
use crate::progress::is_chosen;
use crate::scenario::{Member, Scenario, Start, TICK, ticks};
use crate::scenarios;
use crate::steps::Step;
use crate::world::World;

/// The number of the shard that is explored; the other one is told.
const SHARD: usize = 1;

/// The members and their shard, explored.
#[derive(Clone, Debug)]
pub struct ShardModel {
    /// The bounds, and the members.
    pub scenario: Scenario,
    /// How many views may be kept until they are old.
    pub old_views: u8,
}

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardWorld {
    world: World,
    minds: Vec<Mind>,
    old_views: u8,
    notes: Notes<ShardGoal, ()>,
}

/// A member's knowledge, and what it is about to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mind {
    share: Share,
    /// The tick in which it became a member.
    since: u16,
    /// The last tick in which it lived.
    lived: u16,
    /// True if its life displaced one that had run out.
    ran_out: bool,
    /// Read, and not decided by yet; and whether that may wait.
    view: Option<(View, bool)>,
    poll_at: u16,
    /// For whom its task is being stopped.
    successor: Option<String>,
}

noted! {
    sometimes: pub enum ShardGoal {
        TookByOldView: "a member tried for the shard by an old view",
        GaveByOldView: "a member gave the shard up by an old view",
    }
}

/// One step of a member, or of the world below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardStep {
    /// Something happens to the lock, its holders, or time.
    Lock(Step),
    /// The member polls all shards.
    Poll(usize),
    /// The member keeps what it has read, for as long as it likes.
    Keep(usize),
    /// The member decides by what it has read.
    Decide(usize),
    /// The member's task has stopped, and the shard is released to the successor.
    Stopped(usize),
}

impl ShardModel {
    /// Returns the exploration that runs in CI.
    pub fn short() -> ShardModel {
        let scenario = scenarios::of_two("shard", 8);
        ShardModel { scenario, old_views: 1 }
    }

    /// Returns the same in small.
    pub fn quick() -> ShardModel {
        let short = ShardModel::short();
        ShardModel { scenario: Scenario { ticks: 7, ..short.scenario }, ..short }
    }
}

impl Model for ShardModel {
    type State = ShardWorld;
    type Action = ShardStep;

    fn init_states(&self) -> Vec<ShardWorld> {
        self.scenario.starts.iter().map(|start| ShardWorld::new(self, *start)).collect()
    }

    fn actions(&self, state: &ShardWorld, steps: &mut Vec<ShardStep>) {
        state.steps(&self.scenario, steps);
    }

    fn next_state(&self, state: &ShardWorld, step: ShardStep) -> Option<ShardWorld> {
        let mut next = state.clone();
        next.notes.next_step();
        next.take(&self.scenario, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<ShardModel>> {
        let mut properties = of_any_lock();
        properties.extend([
            Property::always(
                "the shard comes to be at work",
                |model: &ShardModel, state: &ShardWorld| state.leads_to_work(model),
            ),
            Property::always(
                "the plan is carried out",
                |model: &ShardModel, state: &ShardWorld| state.leads_to_the_plan(model),
            ),
            Goal::SuccessorTook.property(),
            ShardGoal::TookByOldView.property(),
            ShardGoal::GaveByOldView.property(),
            Property::sometimes("the shard of a dead member was taken", |_, state: &ShardWorld| {
                state.took_from_the_dead()
            }),
        ]);
        properties
    }
}

impl Holds<ShardGoal> for ShardWorld {
    fn holds(&self, goal: ShardGoal) -> bool {
        self.notes.has_met(goal)
    }
}

impl AsRef<World> for ShardWorld {
    fn as_ref(&self) -> &World {
        &self.world
    }
}

impl ShardWorld {
    fn new(model: &ShardModel, start: Start) -> ShardWorld {
        let scenario = &model.scenario;
        let mind = |member: &Member| Mind::new(member, 0, false);
        let minds = scenario.members.iter().map(mind).collect();
        let world = World::new(scenario, start);
        let (old_views, notes) = (model.old_views, Notes::default());
        let mut state = ShardWorld { world, minds, old_views, notes };
        state.follow_up(scenario);
        state
    }

    fn lives(&self, index: usize) -> bool {
        self.world.nodes[index].instance.is_some()
    }

    /// A dead member counts until its row has run out.
    fn is_member(&self, index: usize, scenario: &Scenario) -> bool {
        let lease = ticks(scenario.members[index].timing.lease);
        self.lives(index) || self.world.tick < self.minds[index].lived + lease
    }

    fn steps(&self, scenario: &Scenario, steps: &mut Vec<ShardStep>) {
        let mut below = Vec::new();
        self.world.steps(scenario, &mut below);
        let is_sending = self.world.nodes.iter().any(|node| node.is_sending());
        let is_patient = (0..self.minds.len()).all(|index| !self.must_act(index));
        let may_pass = |step: &Step| !matches!(step, Step::Tick { .. }) || is_patient;
        steps.extend(below.into_iter().filter(may_pass).map(ShardStep::Lock));
        if is_sending || self.world.tick >= scenario.ticks {
            return;
        }
        for index in (0..self.minds.len()).filter(|index| self.lives(*index)) {
            match &self.minds[index].view {
                None if self.is_poll_due(index) => steps.push(ShardStep::Poll(index)),
                None => {}
                Some((_, kept)) => {
                    steps.push(ShardStep::Decide(index));
                    if !kept && self.old_views > 0 {
                        steps.push(ShardStep::Keep(index));
                    }
                }
            }
            if self.is_stopping(index) {
                steps.push(ShardStep::Stopped(index));
            }
        }
    }

    fn is_poll_due(&self, index: usize) -> bool {
        self.minds[index].view.is_none() && self.minds[index].poll_at <= self.world.tick
    }

    fn is_stopping(&self, index: usize) -> bool {
        self.minds[index].successor.is_some() && self.world.nodes[index].published.is_some()
    }

    /// Returns true if a member that gets its time does something before the clock goes on.
    fn must_act(&self, index: usize) -> bool {
        let has_read = matches!(self.minds[index].view, Some((_, false)));
        self.lives(index) && (has_read || self.is_poll_due(index))
    }

    fn take(&mut self, scenario: &Scenario, step: ShardStep) {
        self.world.history.notes.next_step();
        match step {
            ShardStep::Lock(step) => {
                self.world = self.world.after(scenario, step);
                if let Step::Restart(index) = step {
                    // It waits for no row of its own here, and says that it has run out.
                    let member = &scenario.members[index];
                    self.minds[index] = Mind::new(member, self.world.tick, true);
                }
            }
            ShardStep::Poll(index) => {
                let view = self.view(index, scenario);
                self.minds[index].view = Some((view, false));
            }
            ShardStep::Keep(index) => {
                self.old_views -= 1;
                if let Some((_, kept)) = &mut self.minds[index].view {
                    *kept = true;
                }
            }
            ShardStep::Decide(index) => self.decide(index, scenario),
            ShardStep::Stopped(index) => self.stopped(index, scenario),
        }
        self.follow_up(scenario);
    }

    /// Does what a caller does at once: whoever did not get the shard wants it no more.
    fn follow_up(&mut self, scenario: &Scenario) {
        for index in 0..self.minds.len() {
            let node = &self.world.nodes[index];
            let Some(instance) = &node.instance else {
                let mind = &mut self.minds[index];
                (mind.view, mind.successor) = (None, None);
                continue;
            };
            let has_failed = node.published.is_none()
                && node.asked.is_none()
                && instance.is_standing_by()
                && node.wanted;
            if has_failed {
                self.world.decide(index, Event::Contend(false), scenario);
            }
            self.minds[index].lived = self.world.tick;
            if self.world.nodes[index].published.is_none() {
                self.minds[index].successor = None;
            }
        }
    }

    /// Returns what a poll shows now.
    fn view(&self, index: usize, scenario: &Scenario) -> View {
        let read_at = self.world.table.read_timestamp(self.world.spanner());
        let of_tick = |tick: u16| self.world.spanner_at(tick);
        let lease = |index: usize| scenario.members[index].timing.lease;
        let members: Vec<usize> =
            (0..self.minds.len()).filter(|other| self.is_member(*other, scenario)).collect();
        let join = |other: &usize| Join {
            since: of_tick(self.minds[*other].since),
            ran_out: self.minds[*other].ran_out,
        };
        let joins: Vec<Join> = members.iter().map(join).collect();
        let participant = |(other, counts_from): (&usize, Timestamp)| Participant {
            id: scenario.members[*other].id.to_string(),
            until: of_tick(self.minds[*other].lived) + lease(*other),
            counts_from,
            weight: 1,
        };
        let counts_from = counts_from(&joins, &self.ran_out(read_at, scenario), lease(index));
        let told = members.first().map_or(ShardState::Vacant, |first| ShardState::Held {
            by: Some(scenario.members[*first].id.to_string()),
            since: of_tick(self.minds[*first].since),
            until: of_tick(self.minds[*first].lived) + lease(*first),
        });
        let row = self.world.table.lock();
        let shard =
            row.map_or(ShardState::Vacant, |row| ShardState::of(&row, lease(index), read_at));
        View {
            read_at,
            members: members.iter().zip(counts_from).map(participant).collect(),
            shards: vec![told, shard],
        }
    }

    /// When the rows of the dead ran out.
    fn ran_out(&self, read_at: Timestamp, scenario: &Scenario) -> Vec<Timestamp> {
        let dead = (0..self.minds.len()).filter(|index| !self.lives(*index));
        let ends = dead.map(|index| {
            let lived = self.world.spanner_at(self.minds[index].lived);
            lived + scenario.members[index].timing.lease
        });
        ends.filter(|end| *end <= read_at).collect()
    }

    fn decide(&mut self, index: usize, scenario: &Scenario) {
        let node = &self.world.nodes[index];
        let (now, is_member) = (node.now(), self.lives(index));
        let part = match (&node.published, &self.minds[index].successor) {
            (Some(_), Some(_)) => Some(Part::Leaving),
            (Some(_), None) => Some(Part::Working),
            (None, _) if node.wanted || node.asked.is_some() => Some(Part::Taking),
            (None, _) => None,
        };
        let parts: BTreeMap<usize, Part> = part.into_iter().map(|part| (SHARD, part)).collect();
        let mind = &mut self.minds[index];
        let Some((view, _)) = mind.view.take() else { return };
        let step = mind.share.decide(now, &view, &parts, is_member);
        mind.poll_at = self.world.tick + ticks(step.poll_again).max(1);
        let is_old = view.read_at + TICK <= self.world.spanner();
        if let Some((_, to)) = step.hand_over.iter().find(|(shard, _)| *shard == SHARD) {
            mind.successor = Some(to.clone());
            if is_old {
                self.notes.meet(ShardGoal::GaveByOldView);
            }
        }
        if step.take.contains(&SHARD) {
            if is_old {
                self.notes.meet(ShardGoal::TookByOldView);
            }
            self.world.decide(index, Event::Contend(true), scenario);
        }
    }

    fn stopped(&mut self, index: usize, scenario: &Scenario) {
        let Some(id) = self.minds[index].successor.take() else { return };
        let next = Succession::Successor { id, grace: self.minds[index].share.promise() };
        self.world.decide(index, Event::Resign { next }, scenario);
        self.world.decide(index, Event::Contend(false), scenario);
    }

    fn took_from_the_dead(&self) -> bool {
        let holder = self.world.nodes.iter().position(|node| node.has_lock().is_some());
        holder.is_some_and(|holder| {
            let begun = &self.world.history.begun;
            let last = begun.len().checked_sub(2).and_then(|last| begun[last].writer.id());
            let index = last.and_then(|id| (id == "b").then_some(1).or(Some(0)));
            index.is_some_and(|index| index != holder && !self.lives(index))
        })
    }

    /// Returns true if the shard is at work within the bound when nothing goes wrong any more: two
    /// leases until anyone may take it, and one each for a term that died, for a promise to one that
    /// died, and for whoever has resigned.
    fn leads_to_work(&self, model: &ShardModel) -> bool {
        !self.is_continued(model) || self.goes_on(model, 32, |state| state.world.holders() == 1)
    }

    /// Returns true if, in the end, each of the members has one of the two shards.
    fn leads_to_the_plan(&self, model: &ShardModel) -> bool {
        let all_live = (0..self.minds.len()).all(|index| self.lives(index));
        let is_planned = |state: &ShardWorld| state.world.nodes[1].has_lock().is_some();
        !all_live || !self.is_continued(model) || self.goes_on(model, 64, is_planned)
    }

    /// Returns true if it comes to that within so many ticks in which nothing goes wrong.
    fn goes_on(&self, model: &ShardModel, most: u16, done: impl Fn(&ShardWorld) -> bool) -> bool {
        let mut state = self.clone();
        let scenario = Scenario { ticks: u16::MAX, ..model.scenario.clone() };
        state.world.late.clear();
        if (0..state.minds.len()).all(|index| !state.lives(index)) {
            state.take(&scenario, ShardStep::Lock(Step::Restart(0)));
        }
        for _ in 0..most {
            state.settle(&scenario);
            if done(&state) {
                return true;
            }
            state.world.pass(&scenario, 0);
            state.follow_up(&scenario);
        }
        false
    }

    /// Everything that can happen at this instant happens, and nothing goes wrong.
    fn settle(&mut self, scenario: &Scenario) {
        for _ in 0..16 {
            for index in
                (0..self.minds.len()).filter(|index| self.lives(*index)).collect::<Vec<_>>()
            {
                self.world.settle(scenario, index);
                self.follow_up(scenario);
                if self.minds[index].view.is_some() {
                    self.take(scenario, ShardStep::Decide(index));
                } else if self.is_poll_due(index) {
                    self.take(scenario, ShardStep::Poll(index));
                } else if self.is_stopping(index) {
                    self.take(scenario, ShardStep::Stopped(index));
                }
            }
        }
    }

    fn is_continued(&self, model: &ShardModel) -> bool {
        is_chosen(&self.world, model.scenario.progress_checked_one_in)
    }
}

impl Mind {
    fn new(member: &Member, tick: u16, ran_out: bool) -> Mind {
        let Member { id, timing, .. } = member;
        let share = Share::new(id, timing.lease, timing.poll_interval);
        let (view, successor) = (None, None);
        Mind { share, since: tick, lived: tick, ran_out, view, poll_at: tick, successor }
    }
}
