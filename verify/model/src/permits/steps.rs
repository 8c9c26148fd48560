//! The steps that may come next.

use spindle_protocol::permits::PermitMark;

use super::world::{AWAKE, Ask, NOW, Owner, Stand, World};
use super::{PermitModel, Rule};
use crate::search::Endless;

/// As many polls as the protocol counts.
const MISSES: u8 = 2;

/// A step. Indices are of processes, and then of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Polls(usize),
    /// An attempt arrives, and a caller has the permit.
    Begins(usize),
    /// An attempt arrives too late.
    TooLate(usize),
    /// A place arrives, and whether it is taken.
    Marks(usize),
    Releases(usize, usize),
    /// The time of a promise is over.
    Lapses(usize),
}

impl Endless for PermitModel {
    type World = World;
    type Step = Step;

    fn first(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World) -> Vec<(Step, World)> {
        let mut steps = Vec::new();
        for index in (0..self.processes.len()).filter(|index| world.waits(self, *index)) {
            match world.pools[index].asks {
                None => steps.extend(self.polled(world, index)),
                Some(Ask::Try { number, others }) => {
                    steps.extend(self.tried(world, index, number, others));
                }
                Some(Ask::Mark { number, stand }) => {
                    let mut world = world.clone();
                    world.pools[index].asks = None;
                    world.mark(number.into(), stand);
                    steps.push((Step::Marks(index), world));
                }
            }
        }
        for (number, permit) in world.permits.iter().enumerate() {
            let mut next = world.clone();
            match permit.owner {
                Owner::Holder(it) if !self.processes[usize::from(it)].keeps => {
                    next.release(number);
                    if self.lacks(Rule::Moves) {
                        next.permits[number].owner = Owner::Nobody;
                    }
                    steps.push((Step::Releases(it.into(), number), next));
                }
                Owner::Promised(it) if !world.waits(self, it.into()) => {
                    next.permits[number].owner = Owner::Nobody;
                    steps.push((Step::Lapses(number), next));
                }
                _ => {}
            }
        }
        steps.iter_mut().for_each(|(_, world)| world.number());
        steps
    }

    fn members(&self) -> usize {
        self.processes.len()
    }

    fn actor(step: Step) -> Option<usize> {
        match step {
            Step::Polls(it)
            | Step::Begins(it)
            | Step::TooLate(it)
            | Step::Marks(it)
            | Step::Releases(it, _) => Some(it),
            Step::Lapses(_) => None,
        }
    }

    fn rests(&self, index: usize, world: &World) -> bool {
        self.processes[index].keeps && !world.waits(self, index)
    }

    /// Whoever has a permit gives it back in the end, though other callers of its process act.
    fn certain(&self) -> Vec<Step> {
        let loops = (0..self.processes.len()).filter(|index| !self.processes[*index].keeps);
        let releases = loops
            .flat_map(|index| (0..self.permits).map(move |number| Step::Releases(index, number)));
        releases.chain((0..self.permits).map(Step::Lapses)).collect()
    }

    fn is_possible(&self, step: Step, world: &World) -> bool {
        match step {
            Step::Releases(index, number) => {
                world.permits[number].owner == Owner::Holder(index as u8)
            }
            Step::Lapses(number) => {
                let owner = world.permits[number].owner;
                matches!(owner, Owner::Promised(it) if !world.waits(self, it.into()))
            }
            _ => true,
        }
    }
}

impl PermitModel {
    /// A process polls, and picks what it may take: what is promised to it goes first.
    fn polled(&self, world: &World, index: usize) -> Vec<(Step, World)> {
        let (process, mut world) = (index as u8, world.clone());
        let bits = |owner: Owner| {
            let such = world.permits.iter().enumerate().filter(|(_, it)| it.owner == owner);
            such.fold(0_u8, |bits, (number, _)| bits | 1 << number)
        };
        let (promised, free) = (bits(Owner::Promised(process)), bits(Owner::Nobody));
        let newest = world.newest();
        let taken = world.taken(process);
        let has_choice = promised | free != 0;
        let mark = world.wait(process).polled(AWAKE, NOW, has_choice, &taken);
        let pool = &mut world.pools[index];
        pool.since.get_or_insert(newest);
        if !has_choice {
            pool.misses = (pool.misses + 1).min(MISSES);
            self.asks(&mut world, index, mark, newest);
            return vec![(Step::Polls(index), world)];
        }
        let best = if promised != 0 { promised } else { free };
        attempts(&world, index, best, promised | free).map(|it| (Step::Polls(index), it)).collect()
    }

    fn tried(&self, world: &World, index: usize, number: u8, others: u8) -> Vec<(Step, World)> {
        let (process, mut world) = (index as u8, world.clone());
        world.pools[index].asks = None;
        if world.try_to_take(process, number.into()) {
            (world.pools[index].since, world.pools[index].misses) = (None, 0);
            return vec![(Step::Begins(index), world)];
        }
        if others != 0 {
            let next = attempts(&world, index, others, others);
            return next.map(|it| (Step::TooLate(index), it)).collect();
        }
        if !self.lacks(Rule::Tried) {
            let newest = world.newest();
            let mark = world.wait(process).lost_race(AWAKE, number.into());
            let pool = &mut world.pools[index];
            pool.misses = (pool.misses + 1).min(MISSES);
            self.asks(&mut world, index, mark, newest);
        }
        vec![(Step::TooLate(index), world)]
    }

    /// Sends a place, if there is one to take.
    fn asks(&self, world: &mut World, index: usize, mark: Option<PermitMark>, newest: u8) {
        let is_own = |stand: Stand| usize::from(stand.process) == index;
        let stands = world.permits.iter().any(|permit| permit.next.is_some_and(is_own));
        if let Some(PermitMark { number, place }) = mark
            && !(stands && self.lacks(Rule::Another))
        {
            let stand = Stand::of(&place, newest);
            world.pools[index].asks = Some(Ask::Mark { number: number as u8, stand });
        }
    }
}

/// Returns the worlds in which a caller tries one of these permits, of all that may be tried.
fn attempts(world: &World, index: usize, these: u8, all: u8) -> impl Iterator<Item = World> {
    let numbers = (0..8_u8).filter(move |number| these & 1 << number != 0);
    numbers.map(move |number| {
        let mut world = world.clone();
        world.pools[index].asks = Some(Ask::Try { number, others: all & !(1 << number) });
        world
    })
}
