//! Processes take the permits of a semaphore in turn, on one table, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::line::{Place, Standing, waiter};
use crate::permits::{PermitMark, PermitWait, TakenPermit};
use crate::{
    Act, Answer, Change, Event, Holder, Instance, Moment, Observation, StoredRow, Succession,
    TermId, Timestamp, Timing, Writer,
};

use super::line::write_cells;

const LEASE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(1);
/// From a request to its answer.
const ROUND_TRIP: Duration = Duration::from_millis(10);
const TODAY: Timestamp = Timestamp(1_795_000_000_000_000_000);

/// An event in the life of a process with one caller.
#[derive(Clone, Debug)]
enum Happens {
    Polls,
    /// The answer to the poll arrives.
    Sees(Timestamp, Vec<StoredRow>),
    Tries(usize),
    Marks(PermitMark),
    GivesBack(usize, TermId),
}

struct Process {
    id: String,
    wait: PermitWait,
    /// For how long it holds; none for one that keeps what it has.
    hold: Option<Duration>,
    waits_since: Option<Moment>,
    longest: Duration,
    turns: usize,
    lost: u32,
    nonces: u64,
}

struct World {
    rows: Vec<StoredRow>,
    processes: Vec<Process>,
    to_come: BTreeMap<(Moment, u64), (usize, Happens)>,
    serial: u64,
    now: Moment,
    chance: u64,
}

impl World {
    /// A semaphore with so many permits, and so many processes, of which some keep what they have.
    fn new(permits: usize, holds: &[Option<Duration>], seed: u64) -> World {
        let never = |number: usize| StoredRow {
            heartbeat: Some(Timestamp::EPOCH),
            token: Some(Timestamp(TODAY.0 - 1_000)),
            ..StoredRow::new(number.to_string())
        };
        let process = |(index, hold): (usize, &Option<Duration>)| Process {
            id: format!("p{index}"),
            wait: PermitWait::new(&format!("p{index}"), index as u64, POLL),
            hold: *hold,
            waits_since: None,
            longest: Duration::ZERO,
            turns: 0,
            lost: 0,
            nonces: 0,
        };
        let mut world = World {
            rows: (0..permits).map(never).collect(),
            processes: holds.iter().enumerate().map(process).collect(),
            to_come: BTreeMap::new(),
            serial: 0,
            now: Moment::default(),
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        for (index, hold) in holds.iter().enumerate() {
            // Those that keep what they have are first.
            let late = if hold.is_some() { POLL } else { Duration::ZERO };
            let at = world.part(POLL) + late;
            world.schedule(at, index, Happens::Polls);
        }
        world
    }

    fn part(&mut self, whole: Duration) -> Duration {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        whole * u32::try_from(self.chance % 1_000).unwrap() / 1_000
    }

    fn schedule(&mut self, after: Duration, index: usize, happens: Happens) {
        self.serial += 1;
        self.to_come.insert((self.now + after, self.serial), (index, happens));
    }

    fn polls_after(&mut self, index: usize, pause: Duration) {
        let early = self.part(pause / 4);
        self.schedule(pause - early, index, Happens::Polls);
    }

    fn run(&mut self, until: impl Fn(&World) -> bool) {
        while !until(self) {
            let ((at, _), (index, happens)) = self.to_come.pop_first().expect("it goes on");
            self.now = at;
            match happens {
                Happens::Polls => {
                    self.processes[index].waits_since.get_or_insert(at);
                    let seen = Happens::Sees(TODAY + at.0, self.rows.clone());
                    self.schedule(ROUND_TRIP, index, seen);
                }
                Happens::Sees(read_at, rows) => self.sees(index, read_at, &rows),
                Happens::Tries(number) => self.tries(index, number),
                Happens::Marks(PermitMark { number, place }) => {
                    self.change(number, &Change::Mark { place });
                }
                Happens::GivesBack(number, term) => {
                    let next = Succession::InLine { grace: POLL * 2 };
                    self.change(number, &Change::Release { term, next });
                    self.schedule(ROUND_TRIP, index, Happens::Polls);
                }
            }
        }
    }

    fn sees(&mut self, index: usize, read_at: Timestamp, rows: &[StoredRow]) {
        let process = &mut self.processes[index];
        let (mut free, mut promised, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for (number, full) in rows.iter().enumerate() {
            let row = full.row();
            if row.vacant_for_all_from(LEASE) <= read_at {
                free.push(number);
            } else if process.wait.is_promised(&row) {
                promised.push(number);
            } else {
                taken.push(TakenPermit { number, token: row.token, next: Place::of(full) });
            }
        }
        let has_choice = !free.is_empty() || !promised.is_empty();
        let mark = process.wait.polled(self.now, read_at, has_choice, &taken);
        self.marks(index, mark);
        let chance = self.chance as usize;
        if let Some(number) =
            promised.pop().or_else(|| free.get(chance % free.len().max(1)).copied())
        {
            self.schedule(ROUND_TRIP * 3 / 2, index, Happens::Tries(number));
        } else {
            self.polls_after(index, POLL);
        }
    }

    /// As an instance does that takes the lock of this permit for its pool, or finds it taken.
    fn tries(&mut self, index: usize, number: usize) {
        let (now, read_at) = (self.now, TODAY + self.now.0);
        let full = &self.rows[number];
        let (row, next) = (Some(full.row()), Place::of(full));
        let process = &mut self.processes[index];
        process.nonces += 1;
        let nonce = process.nonces * 1_000 + index as u64;
        let instance = Instance::new(&process.id, nonce, Timing::from_lease(LEASE), now);
        let mut instance = instance.standing(Standing::Pooled { pool: index as u64 });
        instance.decide(now, Event::Wake);
        let seen = Answer::Observed(Observation { row, next, read_at });
        let act = instance.decide(now, Event::Answer(seen)).act;
        let change = act.and_then(|act| act.change(&Holder { lease: LEASE, info: None }));
        let Some(Change::Takeover { writer, .. }) = &change else {
            process.lost += 1;
            let mark = process.wait.lost_race(now, number);
            let pause = (POLL / 20 * 2_u32.pow(process.lost.min(6))).min(POLL);
            self.marks(index, mark);
            return self.polls_after(index, pause);
        };
        let writer: Writer = writer.clone();
        let token = self.change(number, change.as_ref().unwrap()).expect("nothing came between");
        let process = &mut self.processes[index];
        let waited = process.waits_since.take().map_or(Duration::ZERO, |since| now.since(since));
        process.longest = process.longest.max(waited);
        (process.lost, process.turns) = (0, process.turns + 1);
        process.wait.ends();
        let Some(hold) = process.hold else {
            // Its heartbeats are left out: its lease has no end.
            self.rows[number].lease_ms = Some(80_000_000);
            return;
        };
        self.schedule(
            hold + ROUND_TRIP * 2,
            index,
            Happens::GivesBack(number, TermId { token, writer }),
        );
    }

    fn marks(&mut self, index: usize, mark: Option<PermitMark>) {
        if let Some(mark) = mark {
            self.schedule(ROUND_TRIP * 3 / 2, index, Happens::Marks(mark));
        }
    }

    /// Carries a change out. Returns its commit timestamp, if it was applied.
    fn change(&mut self, number: usize, change: &Change) -> Option<Timestamp> {
        let (key, at) = (number.to_string(), TODAY + self.now.0);
        let writes = change.judge(&key, std::slice::from_ref(&self.rows[number])).ok()?;
        let of_lock = writes.into_iter().filter(|write| write.key == key);
        of_lock.for_each(|write| write_cells(&mut self.rows[number], write.cells, at));
        Some(at)
    }

    fn turns(&self) -> usize {
        self.processes.iter().map(|process| process.turns).sum()
    }
}

/// Returns how often each process that loops had a permit, and for how long one of them waited at the most:
/// so many turns, and some before them.
fn turns_of(
    permits: usize,
    (loop_, keep): (usize, usize),
    hold: Duration,
    seed: u64,
) -> (Vec<usize>, Duration) {
    let mut holds = vec![Some(hold); loop_];
    holds.resize(loop_ + keep, None);
    let mut world = World::new(permits, &holds, seed);
    let (first, all) = (3 * loop_, 100.max(10 * loop_));
    world.run(|world| world.turns() >= keep + first);
    let before: Vec<usize> = world.processes.iter().map(|process| process.turns).collect();
    world.processes.iter_mut().for_each(|process| process.longest = Duration::ZERO);
    world.run(|world| world.turns() >= keep + first + all);
    let (now, looping) = (world.now, &world.processes[..loop_]);
    let longest =
        |it: &Process| it.longest.max(it.waits_since.map_or(Duration::ZERO, |at| now.since(at)));
    let turns = looping.iter().zip(before).map(|(process, before)| process.turns - before);
    (turns.collect(), looping.iter().map(longest).max().unwrap())
}

#[test]
fn two_processes_that_loop_get_a_permit_about_as_often() {
    for (hold, most) in [(100, 2.0), (300, 2.0), (1_000, 1.5), (3_000, 1.5), (10_000, 1.5)] {
        for seed in 0..50 {
            let (turns, _) = turns_of(1, (2, 0), Duration::from_millis(hold), seed);
            let (less, more) = (turns[0].min(turns[1]), turns[0].max(turns[1]));
            assert!(more as f64 <= less as f64 * most, "hold {hold} ms, seed {seed}: {turns:?}");
        }
    }
}

#[test]
fn no_process_is_far_from_the_mean_however_many_permits_there_are() {
    for (permits, processes) in [(1, 20), (3, 6), (4, 20)] {
        for hold in [100, 1_000, 10_000] {
            for seed in 0..5 {
                let (turns, _) =
                    turns_of(permits, (processes, 0), Duration::from_millis(hold), seed);
                let mean = turns.iter().sum::<usize>().div_ceil(processes);
                let is_fair = turns.iter().all(|turns| (mean / 3..=mean * 3).contains(turns));
                assert!(is_fair, "{permits} permits, hold {hold} ms, seed {seed}: {turns:?}");
            }
        }
    }
}

#[test]
fn nobody_waits_for_those_who_keep_their_permits() {
    for (permits, loop_, keep) in [(2, 2, 1), (4, 3, 3), (10, 11, 9)] {
        let mut longest = Duration::ZERO;
        for seed in 0..50 {
            let (turns, waited) = turns_of(permits, (loop_, keep), POLL, seed);
            assert!(turns.iter().all(|turns| *turns > 3), "seed {seed}: {turns:?}");
            longest = longest.max(waited);
        }
        let most = POLL * 4 * u32::try_from(loop_).unwrap();
        assert!(longest <= most, "{permits} permits, {keep} kept: {longest:?}");
    }
}

#[test]
fn a_begin_clears_the_place_of_its_own_pool_and_that_of_no_other() {
    let ran_out = StoredRow {
        heartbeat: Some(Timestamp(TODAY.0 - 20_000_000_000)),
        token: Some(Timestamp(TODAY.0 - 30_000_000_000)),
        lease_ms: Some(10_000),
        ..StoredRow::new("0")
    };
    for (pool, next) in [(7, None), (8, Some(8))] {
        let place = |nonce| Place { rank: 0, since: Timestamp(1), waiter: waiter("a", nonce) };
        let row = StoredRow { next: Some(place(8).to_string()), ..ran_out.clone() };
        let mut instance = Instance::new("a", 9, Timing::from_lease(LEASE), Moment::default())
            .standing(Standing::Pooled { pool });
        instance.decide(Moment::default(), Event::Wake);
        let seen = Observation { row: Some(row.row()), next: Place::of(&row), read_at: TODAY };
        let act = instance.decide(Moment::default(), Event::Answer(Answer::Observed(seen))).act;
        let Some(Act::Takeover { passes, .. }) = act else { panic!("{act:?}") };
        assert_eq!(passes, next.map(place), "the pool's nonce is {pool}");
    }
}
