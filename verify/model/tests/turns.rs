//! Readers and writers take turns under one lock, in virtual time: how long each waits at most.

use std::collections::BTreeMap;
use std::time::Duration;

use spindle_model::table::Table;
use spindle_protocol::line::{Place, Standing};
use spindle_protocol::rw::{Reader, WriteLock};
use spindle_protocol::{
    Act, Announcement, Answer, Change, Decision, Event, Holder, Instance, Moment, Observation, Row,
    StoredRow, TermId, Timestamp, Timing,
};

const GATE: &str = "rw";
const WRITE_LOCK: &str = "rw/write";
const READERS: &str = "rw/reader-";
const LEASE: Duration = Duration::from_secs(10);
/// From a request to its effect, and from there to its answer.
const WAY: Duration = Duration::from_millis(5);
/// Today, and no moment of a process.
const TODAY: Timestamp = Timestamp(1_795_000_000_000_000_000);
const RUN: Duration = Duration::from_secs(600);

/// An event at a moment: of a process, or of an instance by its number.
enum Happens {
    Asks(usize),
    Wakes(u64, Event),
    /// A wake by the decision of this number: one of an earlier decision is void.
    Due(u64, u64),
    Arrives(u64, Act),
    Answers(u64, Answer),
}

enum View {
    Gate,
    Reader(Reader),
    WriteLock(WriteLock),
}

/// An instance of a process, for one row and one turn.
struct Contender {
    process: usize,
    key: String,
    instance: Instance,
    view: View,
    decisions: u64,
}

struct Process {
    writes: bool,
    asked: Moment,
    turns: usize,
    longest: Duration,
}

struct World {
    table: Table,
    hold: Duration,
    has_line: bool,
    processes: Vec<Process>,
    contenders: BTreeMap<u64, Contender>,
    to_come: BTreeMap<(Moment, u64), Happens>,
    serial: u64,
    now: Moment,
    chance: u64,
}

fn holder() -> Holder {
    Holder { lease: LEASE, info: None }
}

impl World {
    fn new((writers, readers): (usize, usize), hold: Duration, has_line: bool, seed: u64) -> World {
        let mut world = World {
            table: Table::new([]),
            hold,
            has_line,
            processes: Vec::new(),
            contenders: BTreeMap::new(),
            to_come: BTreeMap::new(),
            serial: 0,
            now: Moment::default(),
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        };
        for index in 0..writers + readers {
            let (asked, turns, longest) = Default::default();
            world.processes.push(Process { writes: index < writers, asked, turns, longest });
            let at = Moment(world.part(Duration::from_secs(1)));
            world.schedule(at, Happens::Asks(index));
        }
        world
    }

    fn part(&mut self, whole: Duration) -> Duration {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        whole * u32::try_from(self.chance % 1_000).expect("below 1,000") / 1_000
    }

    fn schedule(&mut self, at: Moment, happens: Happens) {
        self.serial += 1;
        self.to_come.insert((at, self.serial), happens);
    }

    fn run(&mut self) {
        while let Some(next) = self.to_come.first_entry().filter(|next| next.key().0.0 < RUN) {
            self.now = next.key().0;
            match next.remove() {
                Happens::Asks(process) => self.asks(process),
                Happens::Wakes(contender, event) => self.decide(contender, event),
                Happens::Due(contender, decision)
                    if self.contenders[&contender].decisions == decision =>
                {
                    self.decide(contender, Event::Wake);
                }
                Happens::Due(..) => {}
                Happens::Arrives(contender, act) => {
                    let answer = self.carry_out(contender, &act);
                    self.schedule(self.now + WAY, Happens::Answers(contender, answer));
                }
                Happens::Answers(contender, answer) => {
                    self.decide(contender, Event::Answer(answer))
                }
            }
        }
        for process in &mut self.processes {
            process.longest = process.longest.max(Moment(RUN).since(process.asked));
        }
    }

    fn asks(&mut self, process: usize) {
        self.processes[process].asked = self.now;
        if self.processes[process].writes {
            self.contender(process, GATE.into(), Standing::Plain, View::Gate);
        } else {
            let keys = [GATE.into(), WRITE_LOCK.into()];
            let view = View::Reader(Reader::new(keys, format!("p{process}"), LEASE));
            self.contender(process, format!("{READERS}{}", self.serial), Standing::Reader, view);
        }
    }

    fn contender(&mut self, process: usize, key: String, standing: Standing, view: View) {
        self.serial += 1;
        let (id, timing) = (format!("p{process}"), Timing::from_lease(LEASE));
        let standing = if self.has_line { standing } else { Standing::Aside };
        let instance = Instance::new(&id, self.serial, timing, self.now).standing(standing);
        let number = self.serial;
        self.contenders.insert(number, Contender { process, key, instance, view, decisions: 0 });
        self.decide(number, Event::Wake);
    }

    fn decide(&mut self, number: u64, event: Event) {
        let now = self.now;
        let contender = self.contenders.get_mut(&number).expect("it has begun");
        contender.decisions += 1;
        let decision = contender.decisions;
        let Decision { announce, act, wake, .. } = contender.instance.decide(now, event);
        if let Some(act) = act {
            self.schedule(now + WAY, Happens::Arrives(number, act));
        }
        if let Some(wake) = wake {
            let at = wake.at.max(now) + self.part(wake.spread);
            self.schedule(at, Happens::Due(number, decision));
        }
        if let Some(Announcement::Began { token, writer, .. }) = announce {
            self.began(number, TermId { token, writer });
        }
    }

    fn began(&mut self, number: u64, term: TermId) {
        let (process, end) = (self.contenders[&number].process, self.now + self.hold);
        let let_go = Event::Contend(false);
        match &self.contenders[&number].view {
            View::Gate => {
                let view = WriteLock::new((GATE.into(), term), format!("p{process}"), LEASE);
                self.contender(process, WRITE_LOCK.into(), Standing::Aside, View::WriteLock(view));
                return;
            }
            View::Reader(_) => {
                self.schedule(end, Happens::Wakes(number, let_go));
                self.schedule(end + WAY * 3, Happens::Asks(process));
            }
            View::WriteLock(_) => {
                let is_gate = |contender: &Contender| {
                    contender.process == process && matches!(contender.view, View::Gate)
                };
                let gate = self.contenders.iter().rfind(|(_, contender)| is_gate(contender));
                let gate = *gate.expect("it has the gate").0;
                self.schedule(end, Happens::Wakes(number, let_go.clone()));
                self.schedule(end + WAY * 2, Happens::Wakes(gate, let_go));
                self.schedule(end + WAY * 5, Happens::Asks(process));
            }
        }
        let process = &mut self.processes[process];
        process.turns += 1;
        process.longest = process.longest.max(self.now.since(process.asked));
        process.asked = end;
    }

    fn carry_out(&mut self, number: u64, act: &Act) -> Answer {
        let at = TODAY + self.now.0;
        let contender = self.contenders.get_mut(&number).expect("it has begun");
        let key = contender.key.clone();
        let change = match &mut contender.view {
            View::Gate => act.change(&holder()),
            View::Reader(reader) => reader.change(act, &holder()),
            View::WriteLock(lock) => lock.change(act, &holder()),
        };
        if let Some(change) = change {
            let key = if matches!(change, Change::Mark { .. }) { GATE } else { &*key };
            return self.table.change_of(key, at, &change);
        }
        let observe = |key: &str| {
            let found = self.table.get(key);
            let (row, next) = (found.map(StoredRow::row), found.and_then(Place::of));
            Observation { row, next, read_at: self.table.read_timestamp(at) }
        };
        let own = observe(&key);
        Answer::Observed(match &mut contender.view {
            View::Gate => own,
            View::Reader(reader) => reader.observed(own, [observe(GATE), observe(WRITE_LOCK)]),
            View::WriteLock(lock) => {
                let rows = self.table.rows().filter(|row| row.key.starts_with(READERS));
                let readers: Vec<(String, Row)> =
                    rows.map(|row| (row.key.clone(), row.row())).collect();
                lock.observed(own, readers)
            }
        })
    }
}

/// Returns how long a writer and a reader waited at most, and the fewest turns of each.
fn waits(parties: (usize, usize), hold: u64, has_line: bool) -> [(Duration, usize); 2] {
    let mut found = [(Duration::ZERO, usize::MAX); 2];
    for seed in 0..5 {
        let mut world = World::new(parties, Duration::from_millis(hold), has_line, seed);
        world.run();
        for process in world.processes {
            let (longest, turns) = &mut found[usize::from(!process.writes)];
            *longest = process.longest.max(*longest);
            *turns = process.turns.min(*turns);
        }
    }
    found
}

/// Each bar is what the line takes, of writers and of readers, and a quarter more.
#[test]
fn nobody_waits_longer_than_the_line_takes() {
    for (parties, hold, of_writer, of_reader) in [
        ((1, 1), 1_000, 5, 4),
        ((2, 4), 3_000, 18, 14),
        ((4, 4), 100, 15, 8),
        ((8, 20), 1_000, 22, 20),
    ] {
        let [(writer, writes), (reader, reads)] = waits(parties, hold, true);
        let [of_writer, of_reader] = [of_writer, of_reader].map(Duration::from_secs);
        assert!(writer <= of_writer && reader <= of_reader, "{parties:?}: {writer:?} {reader:?}");
        assert!(writes.min(reads) >= 35, "{parties:?}: {writes} writes, {reads} reads of the last");
    }
}

#[test]
fn without_the_line_somebody_waits_for_minutes() {
    let found = waits((8, 20), 1_000, false);
    assert!(found.iter().any(|(longest, _)| *longest > Duration::from_secs(120)), "{found:?}");
}
