//! The steps that may come next in a world without time.

use spindle_protocol::Act;

use super::contender::{MISSES, Seen, VACANT};
use super::world::{Ask, Owner, Stand, World};
use super::{Dies, LineModel, Rule};

/// A step. Indices are of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Polls(usize),
    /// Its attempt arrives, and begins a term.
    Begins(usize),
    /// Its attempt arrives too late.
    TooLate(usize),
    /// Its place arrives, and whether it is taken.
    Marks(usize),
    Releases(usize),
    /// A place arrives whose sender has given up.
    MarksLate,
    Dies(usize),
    Returns(usize),
    /// The time of a promise is over.
    Lapses,
    /// The lease of one that died is over.
    RunsOut,
}

impl Step {
    /// Returns the contender of whom it is the turn to act.
    pub(super) fn actor(self) -> Option<usize> {
        match self {
            Step::Polls(it)
            | Step::Begins(it)
            | Step::TooLate(it)
            | Step::Marks(it)
            | Step::Releases(it) => Some(it),
            _ => None,
        }
    }
}

impl World {
    /// Returns the steps that may come next, and where each leads.
    pub(super) fn steps(&self, model: &LineModel) -> Vec<(Step, World)> {
        let mut steps = Vec::new();
        let mut add = |step, mut world: World| {
            if model.is_paced {
                world.round();
            }
            world.number(&model.members);
            steps.push((step, world));
        };
        for index in 0..self.contenders.len() {
            if !self.contenders[index].is_alive {
                add(Step::Returns(index), self.returned(index));
                continue;
            }
            let holds = self.owner == Owner::Holder(self.process(index));
            let dies = model.members[index].dies;
            if dies == Dies::Anywhere || dies == Dies::Waiting && !holds {
                add(Step::Dies(index), self.died(index, model));
            }
            if holds {
                add(Step::Releases(index), self.released(model, index));
                continue;
            }
            let contender = &self.contenders[index];
            match contender.asks {
                // The first poll of a wait comes at once.
                None if contender.has_polled && contender.seen.since.is_some() => {}
                None => add(Step::Polls(index), self.polled(model, index)),
                Some(Ask::Take { is_fresh, passes }) => {
                    let (step, world) = self.took(model, index, is_fresh, passes);
                    add(step, world);
                }
                Some(Ask::Mark { is_fresh, place }) => {
                    let mut world = self.clone();
                    world.contenders[index].asks = None;
                    world.mark(model, place, is_fresh);
                    add(Step::Marks(index), world);
                    if model.has_late && self.late.is_none() && !contender.has_polled {
                        let mut world = self.clone();
                        world.contenders[index].asks = None;
                        world.late = Some(place);
                        add(Step::Polls(index), world.polled(model, index));
                    }
                }
            }
        }
        if let Some(place) = self.late {
            let mut world = World { late: None, ..self.clone() };
            world.mark(model, place, false);
            add(Step::MarksLate, world);
        }
        match self.owner {
            Owner::Promised(process) if self.may_lapse() => {
                add(Step::Lapses, World { owner: Owner::Lapsed(process), ..self.clone() });
            }
            Owner::Holder(process) if self.may_run_out() => {
                add(Step::RunsOut, World { owner: Owner::RunOut(process), ..self.clone() });
            }
            _ => {}
        }
        steps
    }

    /// Returns true if a promise may be over: one that lives has its try before.
    pub(super) fn may_lapse(&self) -> bool {
        matches!(self.owner, Owner::Promised(process) if !self.lives(process))
    }

    /// Returns true if the lease may be over.
    pub(super) fn may_run_out(&self) -> bool {
        matches!(self.owner, Owner::Holder(process) if !self.lives(process))
    }

    fn polled(&self, model: &LineModel, index: usize) -> World {
        let mut world = self.clone();
        let (member, process) = (&model.members[index], self.process(index));
        let newest = world.newest();
        let is_held = matches!(self.owner, Owner::Holder(_));
        let is_vacant = match self.owner {
            Owner::Holder(_) => false,
            Owner::Promised(to) => to == process,
            _ => true,
        };
        let next = self.next.map(|stand| stand.place(&model.members));
        let contender = &mut world.contenders[index];
        let seen = &mut contender.seen;
        let act = process.polls(member, seen, self.row(&model.members), next.clone());
        seen.since.get_or_insert(newest);
        contender.has_polled = model.is_paced;
        let mark = match act {
            Some(Act::Takeover { passes, .. }) => {
                let is_promised = self.owner == Owner::Promised(process);
                let clears =
                    passes.or_else(|| next.filter(|_| is_promised && model.lacks(Rule::Leaves)));
                let passes = clears.and_then(|place| Stand::of(&place, newest));
                contender.asks = Some(Ask::Take { is_fresh: true, passes });
                return world;
            }
            Some(Act::Mark { place }) => Stand::of(&place, newest),
            _ => None,
        };
        if is_vacant {
            seen.vacant = (seen.vacant + 1).min(VACANT);
        } else if is_held || !model.lacks(Rule::Tried) {
            (seen.misses, seen.vacant) = ((seen.misses + 1).min(MISSES), 0);
        }
        if let Some(place) = mark.filter(|_| is_vacant || is_held || !model.lacks(Rule::Tried)) {
            contender.asks = Some(Ask::Mark { is_fresh: true, place }.of(model));
        }
        world
    }

    fn took(
        &self,
        model: &LineModel,
        index: usize,
        is_fresh: bool,
        passes: Option<Stand>,
    ) -> (Step, World) {
        let mut world = self.clone();
        world.contenders[index].asks = None;
        let (member, process) = (&model.members[index], self.process(index));
        let mut seen = self.row(&model.members);
        if !is_fresh {
            seen.token.0 -= 1;
        }
        let passes = passes.map(|stand| stand.place(&model.members));
        let act = Act::Takeover { seen, writer: process.writer(member), passes };
        if world.carry_out(&model.members, act) {
            world.contenders[index].seen = Seen::default();
            if model.lacks(Rule::Moves) {
                world.next = None;
            }
            return (Step::Begins(index), world);
        }
        let mark = process.comes_too_late(member, &self.contenders[index].seen);
        let newest = world.newest();
        let seen = &mut world.contenders[index].seen;
        if !model.lacks(Rule::Tried) {
            (seen.misses, seen.vacant) = ((seen.misses + 1).min(MISSES), 0);
            if let Some(place) = mark.and_then(|place| Stand::of(&place, newest)) {
                world.contenders[index].asks = Some(Ask::Mark { is_fresh, place }.of(model));
            }
        }
        (Step::TooLate(index), world)
    }

    fn mark(&mut self, model: &LineModel, stand: Stand, is_fresh: bool) {
        let is_refused = match model.lacking {
            Some(Rule::AnyTerm) => !is_fresh,
            Some(Rule::Order) => {
                self.next.is_some_and(|next| next.process.member != stand.process.member)
            }
            _ => false,
        };
        let before = self.next;
        if !is_refused {
            self.carry_out(&model.members, Act::Mark { place: stand.place(&model.members) });
        }
        if model.lacks(Rule::Vacancy) && before != self.next {
            self.contenders.iter_mut().for_each(|it| it.seen.vacant = 0);
        }
    }

    fn released(&self, model: &LineModel, index: usize) -> World {
        let mut world = self.clone();
        let act = self.process(index).releases(&model.members[index]);
        assert!(world.carry_out(&model.members, act), "a holder's release applies");
        if model.lacks(Rule::Moves) || model.lacks(Rule::Empties) {
            world.next = self.next;
        }
        world
    }

    fn died(&self, index: usize, model: &LineModel) -> World {
        let mut world = self.clone();
        let contender = &mut world.contenders[index];
        let asks = contender.asks.take();
        (contender.is_alive, contender.seen) = (false, Seen::default());
        contender.has_polled = false;
        if let (Some(Ask::Mark { place, .. }), true, None) = (asks, model.has_late, self.late) {
            world.late = Some(place);
        }
        world
    }

    /// It comes back as a process of which nothing tells any more.
    fn returned(&self, index: usize) -> World {
        let mut world = self.clone();
        let life = world.new_life(index);
        (world.contenders[index].life, world.contenders[index].is_alive) = (life, true);
        world
    }
}

impl Ask {
    /// Only where a place is of one term does it matter of which it is.
    fn of(self, model: &LineModel) -> Ask {
        match self {
            Ask::Mark { place, .. } if !model.lacks(Rule::AnyTerm) => {
                Ask::Mark { is_fresh: false, place }
            }
            it => it,
        }
    }
}
