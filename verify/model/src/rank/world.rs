//! The world: contenders, their places among the members, and the lock.

use spindle_protocol::fleet::{Contest, Ranked};
use spindle_protocol::{Answer, Event, Succession, Timestamp};

use super::{Goal, RankModel, Rule};
use crate::node::Passage;
use crate::notes::Notes;
use crate::scenario::{Member, Start, ticks};
use crate::steps::Step;
use crate::world::World;

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RankWorld {
    pub(super) world: World,
    pub(super) minds: Vec<Mind>,
    pub(super) old_views: u8,
    /// The leaders that gave up their terms, and for which membership.
    pub(super) handed: Vec<(u64, usize, Timestamp)>,
    pub(super) notes: Notes<Goal, Rule>,
}

/// A contender's memory, and its place among the members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mind {
    pub(super) contest: Contest,
    /// When the process started.
    pub(super) born: Timestamp,
    pub(super) place: Option<Place>,
    /// The members that the last poll showed, as long as somebody may decide by them.
    pub(super) known: Vec<Ranked>,
    /// True if it waits as those said, which were not the members any more.
    pub(super) is_misled: bool,
    /// The members that it read as a leader and has not decided by yet.
    pub(super) view: Option<Vec<Ranked>>,
    pub(super) poll_at: u16,
    /// For whom it gives up its term.
    pub(super) successor: Option<String>,
    /// Until when it is no member, since it has handed over.
    pub(super) away_until: u16,
}

/// A row among the members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) since: Timestamp,
    /// The tick in which it has run out.
    pub(super) until: u16,
    /// The life of the process that wrote it.
    pub(super) life: u8,
}

/// One step of a contender, or of the world below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankStep {
    /// Something happens to the lock, its holders, or time.
    Lock(Step),
    /// A poll is answered, with the members as they were a poll ago.
    OldView(usize),
    /// The leader reads the members, and decides at once.
    Mind(usize),
    /// The leader reads the members, and keeps what it has read for as long as it likes.
    Keep(usize),
    /// The leader decides by what it has kept.
    Decide(usize),
}

impl RankWorld {
    pub(super) fn new(model: &RankModel, start: Start) -> RankWorld {
        let world = World::new(&model.scenario, start);
        let born = world.table.read_timestamp(world.spanner());
        let minds = (0..model.ranks.len()).map(|index| Mind::new(model, index, born)).collect();
        let mut state = RankWorld {
            world,
            minds,
            old_views: model.old_views,
            handed: Vec::new(),
            notes: Notes::default(),
        };
        state.follow_up(model);
        state
    }

    pub(super) fn lives(&self, index: usize) -> bool {
        self.world.nodes[index].instance.is_some()
    }

    pub(super) fn leads(&self, index: usize) -> bool {
        self.world.nodes[index].has_lock().is_some()
    }

    /// Returns the members as a read shows them now.
    pub(super) fn members(&self, model: &RankModel) -> Vec<Ranked> {
        let ranked = |index: usize| {
            let place = self.minds[index].place.as_ref()?;
            let id = model.scenario.members[index].id.to_string();
            let is_live = place.until > self.world.tick;
            is_live.then(|| Ranked { id, rank: model.ranks[index], since: place.since })
        };
        (0..self.minds.len()).filter_map(ranked).collect()
    }

    pub(super) fn steps(&self, model: &RankModel, steps: &mut Vec<RankStep>) {
        let scenario = &model.scenario;
        let mut below = Vec::new();
        self.world.steps(scenario, &mut below);
        let is_patient = (0..self.minds.len()).all(|index| !self.minds_now(index));
        for step in below {
            if matches!(step, Step::Tick { .. }) && !is_patient {
                continue;
            }
            if let Step::Exchange(index) = step
                && self.may_be_misled(index, model)
            {
                steps.push(RankStep::OldView(index));
            }
            steps.push(RankStep::Lock(step));
        }
        let is_sending = self.world.nodes.iter().any(|node| node.is_sending());
        if is_sending || self.world.tick >= scenario.ticks {
            return;
        }
        for index in (0..self.minds.len()).filter(|index| self.lives(*index)) {
            if self.minds_now(index) {
                steps.push(RankStep::Mind(index));
                if self.old_views > 0 {
                    steps.push(RankStep::Keep(index));
                }
            } else if self.minds[index].view.is_some() {
                steps.push(RankStep::Decide(index));
            }
        }
    }

    /// Returns true if this is a leader that reads the members before the clock goes on.
    pub(super) fn minds_now(&self, index: usize) -> bool {
        let mind = &self.minds[index];
        let is_idle = mind.view.is_none() && mind.successor.is_none();
        let is_running = self.lives(index) && !self.world.nodes[index].paused;
        is_idle && is_running && self.leads(index) && mind.poll_at <= self.world.tick
    }

    /// Returns true if the members have changed since this contender's last poll.
    pub(super) fn may_be_misled(&self, index: usize, model: &RankModel) -> bool {
        let asked = self.world.nodes[index].asked.as_ref();
        let is_poll =
            asked.is_some_and(|asked| matches!(asked.act, spindle_protocol::Act::Observe));
        is_poll && self.old_views > 0 && self.minds[index].known != self.members(model)
    }

    pub(super) fn take(&mut self, model: &RankModel, step: RankStep) {
        let scenario = &model.scenario;
        let before = self.world.table.lock();
        self.notes.next_step();
        self.world.history.notes.next_step();
        match step {
            RankStep::Lock(step) => self.take_below(model, step),
            RankStep::OldView(index) => {
                self.old_views -= 1;
                self.world.arrive(index, scenario);
                let known = self.minds[index].known.clone();
                self.notes.meet(Goal::MisledTurn);
                self.hears(index, known, model);
                self.minds[index].is_misled = true;
            }
            RankStep::Mind(index) => {
                let members = self.members(model);
                self.decide(index, &members, model);
            }
            RankStep::Keep(index) => {
                self.old_views -= 1;
                self.minds[index].view = Some(self.members(model));
            }
            RankStep::Decide(index) => {
                if let Some(members) = self.minds[index].view.take() {
                    let is_old = members != self.members(model);
                    let handed = self.handed.len();
                    self.decide(index, &members, model);
                    if is_old && self.handed.len() > handed {
                        self.notes.meet(Goal::HandedByOldView);
                    }
                }
            }
        }
        self.judge(before.as_ref(), model);
        self.follow_up(model);
    }

    pub(super) fn take_below(&mut self, model: &RankModel, step: Step) {
        let scenario = &model.scenario;
        match step {
            Step::Exchange(index) | Step::Answer(index) => {
                if matches!(step, Step::Exchange(_)) {
                    self.world.arrive(index, scenario);
                }
                let members = self.members(model);
                self.hears(index, members, model);
            }
            _ => {
                let heard = match step {
                    Step::Lose(index) | Step::TimeOut(index) => Some((index, Answer::Unknown)),
                    Step::Abort(index) => Some((index, Answer::NotApplied)),
                    _ => None,
                };
                if let Some((index, answer)) = heard
                    && let Some(asked) = &self.world.nodes[index].asked
                {
                    self.minds[index].contest.acted(&asked.act, &answer);
                }
                self.world = self.world.after(scenario, step);
                if let Step::Restart(index) = step {
                    let place = self.minds[index].place.take();
                    let born = self.world.table.read_timestamp(self.world.spanner());
                    self.minds[index] = Mind { place, ..Mind::new(model, index, born) };
                }
            }
        }
    }

    /// The answer reaches its process, which asks whose turn it is if the lock is vacant.
    pub(super) fn hears(&mut self, index: usize, members: Vec<Ranked>, model: &RankModel) {
        let read_at = self.world.table.read_timestamp(self.world.spanner());
        let mind = &mut self.minds[index];
        if let Some(asked) = &mut self.world.node_mut(index).asked
            && let Passage::Answered(answer) = &mut asked.passage
        {
            if let Answer::Observed(observation) = answer {
                mind.is_misled = false;
                mind.known.clear();
                if mind.contest.sees(observation) {
                    if self.old_views > 0 {
                        mind.known.clone_from(&members);
                    }
                    observation.wait = mind.contest.wait(members, read_at);
                }
            } else {
                mind.contest.acted(&asked.act, answer);
            }
        }
        self.world.answer(index, &model.scenario);
    }

    /// The leader goes for a higher rank, if it has to.
    pub(super) fn decide(&mut self, index: usize, members: &[Ranked], model: &RankModel) {
        let (tick, leads) = (self.world.tick, self.leads(index));
        let now = self.world.table.read_timestamp(self.world.spanner());
        let mind = &mut self.minds[index];
        mind.poll_at = tick + 1;
        if !leads {
            return;
        }
        let Some(successor) = mind.contest.successor(members, now) else { return };
        mind.successor = Some(successor.clone());
        let grace = mind.contest.grace();
        self.note_handed(index, &successor, members, model);
        let next = Succession::Successor { id: successor, grace };
        self.world.decide(index, Event::Resign { next }, &model.scenario);
    }

    /// Does what happens at once: places among the members are taken, kept and left.
    pub(super) fn follow_up(&mut self, model: &RankModel) {
        let (tick, now) = (self.world.tick, self.world.table.read_timestamp(self.world.spanner()));
        for index in 0..self.minds.len() {
            let lease = ticks(model.scenario.members[index].timing.lease);
            let (node, mind) = (&self.world.nodes[index], &mut self.minds[index]);
            let Some(instance) = &node.instance else {
                (mind.view, mind.successor, mind.is_misled) = (None, None, false);
                mind.known.clear();
                mind.place = mind.place.take().filter(|place| place.until > tick);
                continue;
            };
            if self.old_views == 0 {
                mind.known.clear();
            }
            if node.published.is_none() {
                mind.view = None;
                if mind.successor.is_some() && !instance.is_releasing() {
                    (mind.successor, mind.place) = (None, None);
                    mind.away_until = tick + lease;
                }
            }
            mind.place = mind.place.take().filter(|place| place.until > tick);
            if node.paused || mind.away_until > tick {
                continue;
            }
            match &mut mind.place {
                Some(place) if place.life == node.life => place.until = tick + lease,
                // The row of the former life counts until its lease is over.
                Some(_) => {}
                None => {
                    let since = Timestamp(now.0 + 1);
                    mind.place = Some(Place { since, until: tick + lease, life: node.life });
                }
            }
        }
    }
}

impl Mind {
    pub(super) fn new(model: &RankModel, index: usize, born: Timestamp) -> Mind {
        let Member { id, timing, .. } = &model.scenario.members[index];
        Mind {
            contest: Contest::new(id, model.ranks[index], timing),
            born,
            place: None,
            known: Vec::new(),
            is_misled: false,
            view: None,
            poll_at: 0,
            successor: None,
            away_until: 0,
        }
    }
}
