//! Processes take one lock in turn, on one table, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::line::{Place, Standing, waiter};
use crate::{
    Act, Announcement, Answer, Cell, Change, Column, Decision, Event, Holder, Instance, Moment,
    Observation, Row, StoredRow, Succession, Timestamp, Timing, Write, WriteKind, Writer,
};

const LOCK: &str = "job";
const LEASE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(1);
/// From a request to its effect, and from there to its answer.
const WAY: Duration = Duration::from_millis(5);
/// Today, and no moment of a process.
const TODAY: Timestamp = Timestamp(1_795_000_000_000_000_000);

/// An event at a moment.
enum Happens {
    Wakes(Event),
    Arrives(Act, u64),
    Answers(Answer, u64),
}

struct Process {
    instance: Instance,
    holder: Holder,
    /// For how long it holds; none for one that keeps what it has.
    hold: Option<Duration>,
    /// The number of its last act: the answer to any other is dropped.
    last: u64,
    turns: Vec<Moment>,
    is_dead: bool,
    /// The number of its last wake: any other is void.
    wake: u64,
}

/// The table, the processes, and all that is to happen.
struct World {
    rows: BTreeMap<String, StoredRow>,
    processes: Vec<Process>,
    to_come: BTreeMap<(Moment, u64), (usize, Happens, u64)>,
    serial: u64,
    now: Moment,
    chance: u64,
    marks: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let (rows, processes, to_come) = Default::default();
        let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        World { rows, processes, to_come, serial: 0, now: Moment::default(), chance, marks: 0 }
    }

    fn part(&mut self, whole: Duration) -> Duration {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        whole * u32::try_from(self.chance % 1_000).unwrap() / 1_000
    }

    /// Adds a process that begins to want the lock within a poll.
    fn join(&mut self, id: &str, standing: Standing, hold: Option<Duration>) -> usize {
        let timing = Timing::from_lease(LEASE);
        let holder = Holder { lease: LEASE, info: None };
        let (index, nonce) = (self.processes.len(), self.processes.len() as u64 + 1);
        let at = self.now + self.part(POLL);
        let instance = Instance::new(id, nonce, timing, at).standing(standing);
        let (turns, last, wake, is_dead) = (Vec::new(), 0, 0, false);
        self.processes.push(Process { instance, holder, hold, last, turns, is_dead, wake });
        self.schedule(at, index, Happens::Wakes(Event::Wake));
        index
    }

    fn schedule(&mut self, at: Moment, index: usize, happens: Happens) {
        self.serial += 1;
        let wake = self.processes[index].wake;
        self.to_come.insert((at, self.serial), (index, happens, wake));
    }

    fn run(&mut self, until: Moment, mut done: impl FnMut(&World) -> bool) {
        while let Some(entry) = self.to_come.first_entry().filter(|next| next.key().0 <= until) {
            let ((at, _), (index, happens, wake)) = entry.remove_entry();
            self.now = at;
            if self.processes[index].is_dead && !matches!(happens, Happens::Arrives(..)) {
                continue;
            }
            match happens {
                Happens::Wakes(Event::Wake) if wake != self.processes[index].wake => {}
                Happens::Wakes(event) => self.decide(index, event),
                Happens::Arrives(act, number) => {
                    let answer = self.carry_out(index, &act);
                    self.schedule(self.now + WAY, index, Happens::Answers(answer, number));
                }
                Happens::Answers(answer, number) if number == self.processes[index].last => {
                    self.decide(index, Event::Answer(answer));
                    self.yields(index);
                }
                Happens::Answers(..) => {}
            }
            if done(self) {
                return;
            }
        }
        self.now = until;
    }

    fn decide(&mut self, index: usize, event: Event) {
        let is_let_go = event == Event::Contend(false);
        let now = self.now;
        let Decision { announce, act, wake, .. } =
            self.processes[index].instance.decide(now, event);
        if let Some(Announcement::Began { .. }) = announce {
            self.processes[index].turns.push(now);
            if let Some(hold) = self.processes[index].hold {
                self.schedule(now + hold, index, Happens::Wakes(Event::Contend(false)));
            }
        }
        if let Some(act) = act {
            self.serial += 1;
            self.processes[index].last = self.serial;
            self.marks += usize::from(matches!(act, Act::Mark { .. }));
            self.schedule(now + WAY, index, Happens::Arrives(act, self.serial));
        }
        self.processes[index].wake += 1;
        if let Some(wake) = wake {
            let at = wake.at.max(now) + self.part(wake.spread);
            self.schedule(at, index, Happens::Wakes(Event::Wake));
        }
        if is_let_go {
            // It calls again as soon as it has let go.
            self.schedule(now + WAY * 3, index, Happens::Wakes(Event::Contend(true)));
        }
    }

    /// As a driver does whose last heartbeat has read who stands first.
    fn yields(&mut self, index: usize) {
        let place = self.rows.get(LOCK).and_then(Place::of);
        if place.is_some_and(|place| self.processes[index].instance.yields_to(self.now, &place)) {
            self.decide(index, Event::LetGo { next: Succession::Anyone });
        }
    }

    fn spanners_time(&self) -> Timestamp {
        TODAY + self.now.0
    }

    fn carry_out(&mut self, index: usize, act: &Act) -> Answer {
        let at = self.spanners_time();
        let Some(change) = act.change(&self.processes[index].holder) else {
            let found = self.rows.get(LOCK);
            let (row, next) = (found.map(StoredRow::row), found.and_then(Place::of));
            return Answer::Observed(Observation { row, next, read_at: at });
        };
        let keys = change.reads(LOCK).keys;
        let found: Vec<_> = keys.iter().filter_map(|key| self.rows.get(key).cloned()).collect();
        match change.judge(LOCK, &found) {
            Ok(writes) => {
                writes.into_iter().for_each(|write| self.write(write, at));
                Answer::Applied { at }
            }
            Err(rejection) => Answer::Rejected(rejection),
        }
    }

    fn write(&mut self, Write { key, kind, cells }: Write, at: Timestamp) {
        if kind == WriteKind::Delete {
            self.rows.remove(&key);
            return;
        }
        let row = self.rows.entry(key.clone()).or_insert_with(|| StoredRow::new(key));
        write_cells(row, cells, at);
    }

    fn turns(&self) -> Vec<usize> {
        self.processes.iter().map(|process| process.turns.len()).collect()
    }

    fn dies(&mut self, index: usize) {
        self.processes[index].is_dead = true;
    }

    fn holds(&self, index: usize) -> bool {
        !self.processes[index].is_dead && self.processes[index].instance.term().is_some()
    }
}

/// Writes cells into a row, at this commit timestamp.
pub(super) fn write_cells(row: &mut StoredRow, cells: Vec<(Column, Cell)>, at: Timestamp) {
    for (column, cell) in cells {
        let time = match &cell {
            Cell::CommitTimestamp => Some(at),
            Cell::Epoch => Some(Timestamp::EPOCH),
            Cell::Time(time) => Some(*time),
            _ => None,
        };
        let text = if let Cell::Text(text) = &cell { Some(text.clone()) } else { None };
        match column {
            Column::Heartbeat => row.heartbeat = time,
            Column::Token => row.token = time,
            Column::Writer => row.writer = Writer::from(text.unwrap_or_default().as_str()),
            Column::LeaseMs => {
                row.lease_ms = if let Cell::Milliseconds(ms) = cell { Some(ms) } else { None };
            }
            Column::Info => row.info = text,
            Column::Displaced => row.displaced = time,
            Column::Next => row.next = text,
        }
    }
}

/// Returns how often each of so many processes had the lock, of 100 turns and some before them.
fn turns_of(count: usize, hold: Duration, seed: u64) -> Vec<usize> {
    let ids: Vec<String> = (0..count).map(|index| format!("p{index}")).collect();
    turns_of_ids(&ids, hold, seed)
}

fn turns_of_ids(ids: &[String], hold: Duration, seed: u64) -> Vec<usize> {
    let (mut world, count) = (World::new(seed), ids.len());
    for id in ids {
        world.join(id, Standing::Plain, Some(hold));
    }
    let first = 2 * count;
    let until = Moment(Duration::from_secs(5_000));
    world.run(until, |world| world.turns().iter().sum::<usize>() >= first);
    let before = world.turns();
    world.run(until, |world| world.turns().iter().sum::<usize>() >= first + 100);
    let turns = world.turns().iter().zip(before).map(|(now, before)| now - before).collect();
    assert!(world.marks <= 6 * (first + 100), "{} marks", world.marks);
    turns
}

#[test]
fn two_processes_that_loop_get_the_lock_about_as_often() {
    for (hold, most) in [(100, 2.0), (300, 2.0), (1_000, 1.5), (3_000, 1.5), (10_000, 1.5)] {
        for seed in 0..50 {
            let turns = turns_of(2, Duration::from_millis(hold), seed);
            let (less, more) = (turns[0].min(turns[1]), turns[0].max(turns[1]));
            assert!(more as f64 <= less as f64 * most, "hold {hold} ms, seed {seed}: {turns:?}");
        }
    }
}

#[test]
fn two_processes_of_one_id_get_the_lock_about_as_often() {
    for seed in 0..10 {
        let turns = turns_of_ids(&["p".into(), "p".into()], Duration::from_millis(100), seed);
        let (less, more) = (turns[0].min(turns[1]), turns[0].max(turns[1]));
        assert!(more <= less * 2, "seed {seed}: {turns:?}");
    }
}

#[test]
fn none_of_twenty_processes_is_far_from_the_mean() {
    for hold in [100, 1_000, 10_000] {
        for seed in 0..10 {
            let turns = turns_of(20, Duration::from_millis(hold), seed);
            let is_fair = turns.iter().all(|turns| (2..=15).contains(turns));
            assert!(is_fair, "hold {hold} ms, seed {seed}: {turns:?}");
        }
    }
}

#[test]
fn who_stands_first_and_died_costs_two_polls_and_only_once() {
    let mut world = World::new(7);
    let second = Duration::from_secs(1);
    let holder = world.join("a", Standing::Plain, Some(second * 20));
    world.run(Moment(second * 2), |_| false);
    let dead = world.join("b", Standing::Plain, Some(second * 5));
    world.run(Moment(second * 8), |_| false);
    assert!(world.rows[LOCK].next.as_deref().is_some_and(|next| next.contains(" b#")));
    world.dies(dead);
    let next = world.join("c", Standing::Plain, Some(second * 5));
    world.run(Moment(second * 60), |world| !world.processes[next].turns.is_empty());
    let released = world.processes[holder].turns[0] + second * 20;
    let took = world.processes[next].turns[0].since(released);
    assert!((POLL * 2..POLL * 3 + WAY * 10).contains(&took), "{took:?}");
    assert_eq!(world.rows[LOCK].next, None, "nobody waits for it any more");
}

#[test]
fn a_place_is_kept_by_those_who_begin_in_between() {
    let mut world = World::new(3);
    let (a, hold) = (world.join("a", Standing::Plain, None), Duration::from_secs(3));
    world.run(Moment(POLL * 2), |_| false);
    let b = world.join("b", Standing::Plain, Some(hold));
    world.run(Moment(POLL * 6), |_| false);
    // The holder dies, and another one takes the lock first.
    world.dies(a);
    let c = world.join("c", Standing::Plain, Some(hold));
    world.run(Moment(POLL * 60), |world| !world.processes[b].turns.is_empty());
    let (of_b, of_c) = (&world.processes[b].turns, &world.processes[c].turns);
    assert!(of_c.len() <= 1, "{of_b:?} {of_c:?}");
}

fn ranked(rank: u32, preempts: bool) -> Standing {
    Standing::Ranked { rank, preempts }
}

#[test]
fn the_highest_rank_that_waits_takes_after_a_crash_and_after_a_release() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        let top = world.join("top", ranked(9, false), None);
        world.run(Moment(POLL * 3), |_| false);
        let low = world.join("low", ranked(1, false), None);
        let high = world.join("high", ranked(2, false), None);
        world.run(Moment(POLL * 8), |_| false);
        world.dies(top);
        world.run(Moment(POLL * 60), |world| world.holds(high) || world.holds(low));
        assert!(world.holds(high), "seed {seed}");
        world.run(world.now + POLL * 5, |_| false);
        world.decide(high, Event::Contend(false));
        world.run(Moment(POLL * 90), |world| world.holds(low) || world.holds(high));
        assert!(world.holds(low), "seed {seed}");
    }
}

#[test]
fn who_has_a_rank_and_was_promised_the_lock_leaves_the_place_of_another() {
    let timing = Timing::from_lease(LEASE);
    let mut first = Instance::new("b", 2, timing, Moment::default()).standing(ranked(1, false));
    let next = Succession::Successor { id: waiter("b", 2).to_string(), grace: POLL * 2 };
    let (heartbeat, token) = (Timestamp::EPOCH, TODAY);
    let row = Row { heartbeat, token, writer: next.writer(), lease: next.grace() };
    let older = Place { rank: 1, since: Timestamp(1), waiter: waiter("a", 1) };
    let (row, next) = (Some(row), Some(older));
    let seen = Observation { row, next, read_at: TODAY };
    first.decide(Moment::default(), Event::Wake);
    let took = first.decide(Moment::default(), Event::Answer(Answer::Observed(seen)));
    assert!(matches!(took.act, Some(Act::Takeover { passes: None, .. })), "{took:?}");
}

#[test]
fn a_highest_rank_that_died_after_it_stood_first_is_waited_for_by_three_polls() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        let low = world.join("low", ranked(1, false), None);
        world.run(Moment(POLL * 3), |_| false);
        world.decide(low, Event::Stop);
        world.run(Moment(POLL * 4), |_| false);
        let high = world.join("high", ranked(9, false), None);
        world.run(Moment(POLL * 20), |world| world.rows[LOCK].next.is_some());
        world.dies(high);
        let (from, next) = (world.now, world.join("next", ranked(1, false), None));
        world.run(Moment(POLL * 60), |world| world.holds(next));
        let took = world.now.since(from);
        assert!(world.holds(next) && took <= POLL * 4, "seed {seed}: {took:?}");
        assert_eq!(world.rows[LOCK].next, None, "it has waited for that place");
    }
}

#[test]
fn a_holder_that_preempts_ends_its_term_for_a_higher_rank_once_it_is_ten_leases_old() {
    for (preempts, higher) in [(true, 2), (true, 1), (false, 2)] {
        let mut world = World::new(5);
        let low = world.join("low", ranked(1, preempts), None);
        world.run(Moment(POLL * 3), |_| false);
        let high = world.join("high", ranked(higher, false), None);
        world.run(Moment(LEASE * 10), |_| false);
        assert!(world.holds(low), "it is young");
        world.run(Moment(LEASE * 20), |world| world.holds(high));
        let yields = preempts && higher > 1;
        assert_eq!((world.holds(low), world.holds(high)), (!yields, yields));
        if yields {
            assert!(world.now.0 <= LEASE * 10 + LEASE / 2 + POLL * 3, "{:?}", world.now);
        }
    }
}

#[test]
fn the_late_answer_to_a_heartbeat_of_a_lost_term_is_no_place_that_failed() {
    let timing = Timing::from_lease(LEASE);
    let mut lost = Instance::new("a", 1, timing.clone(), Moment::default());
    let (row, next) = (None, None);
    let seen = Observation { row, next, read_at: TODAY };
    lost.decide(Moment::default(), Event::Wake);
    lost.decide(Moment::default(), Event::Answer(Answer::Observed(seen)));
    lost.decide(Moment::default(), Event::Answer(Answer::Applied { at: TODAY }));
    let asked = lost.decide(Moment(timing.heartbeat_interval), Event::Wake);
    assert!(matches!(asked.act, Some(Act::Heartbeat { .. })), "{asked:?}");
    let ended = lost.decide(Moment(timing.renew_deadline), Event::Wake);
    assert!(matches!(ended.announce, Some(Announcement::Ended { .. })), "{ended:?}");
    for answer in [Answer::Unknown, Answer::NotApplied] {
        let mut heard = lost.clone();
        heard.decide(Moment(timing.renew_deadline), Event::Answer(answer));
        assert_eq!(heard, lost, "it has taken no place");
    }
}

/// It may come late, when the row has been removed.
#[test]
fn a_place_makes_no_row() {
    let place = Place { rank: 0, since: Timestamp(9), waiter: waiter("a", 1) };
    assert!(Change::Mark { place }.judge(LOCK, &[]).is_err());
}

#[test]
fn a_process_that_starts_anew_has_the_place_of_its_former_life() {
    let place = |waiter: &str| Place { rank: 0, since: Timestamp(9), waiter: waiter.into() };
    let (before, now) = (place("a#0000000000000001"), place("a#0000000000000002"));
    assert!(now.goes_before(&before) && !now.goes_before(&now));
}

#[test]
fn the_higher_rank_goes_first_and_of_equals_the_older_wait() {
    let place = |rank, since, id: &str| {
        let waiter = format!("{id}#0000000000000001").into();
        Place { rank, since: Timestamp(since), waiter }
    };
    assert!(place(2, 9, "a").goes_before(&place(1, 1, "b")));
    assert!(place(1, 1, "a").goes_before(&place(1, 2, "b")));
    assert!(!place(1, 2, "a").goes_before(&place(1, 2, "b")));
    let read = |text: &str| Place::parse(text).map(|place| place.to_string());
    assert_eq!(read("7 1795 a b#0000000000000001").as_deref(), Some("7 1795 a b#0000000000000001"));
    for text in ["", "7", "7 1795", "7 1795 ", "x 1795 a", "7 x a", "-7 1795 a"] {
        assert_eq!(read(text), None, "{text}");
    }
}
