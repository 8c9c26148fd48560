//! A world without time: the rows of a semaphore's permits, and the processes.

use std::time::Duration;

use spindle_protocol::line::{Place, Standing, waiter};
use spindle_protocol::permits::{PermitWait, TakenPermit};
use spindle_protocol::{
    Act, Answer, Event, Holder, Instance, Moment, Named, Nonce, Observation, Row, StoredRow,
    Succession, TermId, Timestamp, Timing, Writer,
};

use super::PermitModel;
use crate::table::{LOCK, Request, Table, stored};

const LEASE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_secs(1);

/// The time of every read. Each row changed hands just before, and each wait began a little earlier.
pub(super) const NOW: Timestamp = Timestamp(1_795_000_000_000_000_000);
const TOKENS: i64 = NOW.0 - 1_000;
const WAITS: i64 = NOW.0 - 1_000_000;

/// A moment at which no pause is on.
pub(super) const AWAKE: Moment = Moment(Duration::from_secs(1_000));

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) permits: Vec<Permit>,
    pub(super) pools: Vec<Pool>,
}

/// A permit's row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Permit {
    pub(super) owner: Owner,
    pub(super) next: Option<Stand>,
    /// When it changed hands: a number in the order of all.
    pub(super) token: u8,
}

/// The owner of a permit: a process, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Nobody,
    Holder(u8),
    /// For the time being.
    Promised(u8),
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stand {
    pub(super) process: u8,
    /// When its wait began: a number in the order of all waits.
    pub(super) since: u8,
}

/// The knowledge that the callers of one process share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Pool {
    /// When the present wait began.
    pub(super) since: Option<u8>,
    /// At how many polls it couldn't take any.
    pub(super) misses: u8,
    pub(super) asks: Option<Ask>,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    /// An attempt to take this permit, and the others that its poll showed free, by bits.
    Try {
        number: u8,
        others: u8,
    },
    Mark {
        number: u8,
        stand: Stand,
    },
}

impl World {
    pub(super) fn new(model: &PermitModel) -> World {
        let permit = |number| Permit { owner: Owner::Nobody, next: None, token: number as u8 };
        let permits = (0..model.permits).map(permit).collect();
        World { permits, pools: vec![Pool::default(); model.processes.len()] }
    }

    /// Returns true if a caller of this process waits.
    pub(super) fn waits(&self, model: &PermitModel, process: usize) -> bool {
        let has = |permit: &&Permit| permit.owner == Owner::Holder(process as u8);
        self.permits.iter().filter(has).count() < model.processes[process].callers
    }

    /// Returns the permits that others have, as a poll shows them to this process.
    pub(super) fn taken(&self, process: u8) -> Vec<TakenPermit> {
        let taken = self.permits.iter().enumerate().filter(|(_, permit)| match permit.owner {
            Owner::Nobody => false,
            Owner::Holder(it) | Owner::Promised(it) => it != process,
        });
        let taken = taken.map(|(number, permit)| TakenPermit {
            number,
            token: permit.row(number).token,
            next: permit.next.map(Stand::place),
        });
        taken.collect()
    }

    /// Returns the wait of this process, which has seen the same poll by poll.
    pub(super) fn wait(&self, process: u8) -> PermitWait {
        let Pool { since, misses, .. } = self.pools[usize::from(process)];
        let mut wait = PermitWait::new(id(process), nonce(process), POLL);
        if let Some(since) = since {
            wait.polled(AWAKE, Timestamp(WAITS + i64::from(since)), true, &[]);
        }
        (0..misses).for_each(|_| drop(wait.polled(AWAKE, NOW, false, &[])));
        wait
    }

    /// Lets the process try a permit, as a fresh instance does for it. Returns true if it has it.
    pub(super) fn try_to_take(&mut self, process: u8, number: usize) -> bool {
        let timing = Timing { poll_interval: POLL, ..Timing::from_lease(LEASE) };
        let instance = Instance::new(id(process), 1_000, timing, AWAKE);
        let mut instance = instance.standing(Standing::Pooled { pool: nonce(process) });
        instance.decide(AWAKE, Event::Wake);
        let permit = &self.permits[number];
        let (row, next) = (Some(permit.row(number)), permit.next.map(Stand::place));
        let seen = Observation { row, next, read_at: NOW };
        match instance.decide(AWAKE, Event::Answer(Answer::Observed(seen))).act {
            Some(Act::Takeover { seen, passes, .. }) => {
                let writer = writer(process, number);
                self.carry_out(number, Act::Takeover { seen, writer, passes })
            }
            _ => false,
        }
    }

    pub(super) fn mark(&mut self, number: usize, stand: Stand) {
        self.carry_out(number, Act::Mark { place: stand.place() });
    }

    pub(super) fn release(&mut self, number: usize) {
        let Row { token, writer, .. } = self.permits[number].row(number);
        let (term, next) = (TermId { token, writer }, Succession::InLine { grace: POLL * 2 });
        let is_applied = self.carry_out(number, Act::Release { term, next });
        assert!(is_applied, "a holder's release applies");
    }

    /// Carries an act out, as the protocol says; returns true if it was applied.
    fn carry_out(&mut self, number: usize, act: Act) -> bool {
        let newest = self.permits.iter().map(|permit| permit.token).max().unwrap_or_default();
        let permit = &mut self.permits[number];
        let next = permit.next.map(|stand| stand.place().to_string());
        let before = StoredRow { next, ..stored(LOCK, &permit.row(number)) };
        let mut table = Table::new([before]);
        let holder = Holder { lease: LEASE, info: None };
        let answer = table.carry_out(NOW, &Request { act, holder });
        let row = table.get(LOCK).expect("no act deletes the row");
        permit.next = Place::of(row).map(|place| Stand::of(&place, 0));
        if row.row().token > NOW {
            permit.owner = match row.writer.names() {
                Named::Term { id, .. } => Owner::Holder(process(id)),
                Named::Successor(waiter) => Owner::Promised(process(waiter)),
                _ => Owner::Nobody,
            };
            permit.token = newest + 1;
        }
        matches!(answer, Answer::Applied { .. })
    }

    /// Numbers waits and tokens anew: only their order matters.
    pub(super) fn number(&mut self) {
        let mut waits: Vec<u8> = Vec::new();
        self.each_wait(|since| waits.push(*since));
        waits.sort_unstable();
        waits.dedup();
        self.each_wait(|since| *since = waits.partition_point(|it| *it < *since) as u8);
        let mut tokens: Vec<u8> = self.permits.iter().map(|permit| permit.token).collect();
        tokens.sort_unstable();
        for permit in &mut self.permits {
            permit.token = tokens.partition_point(|it| *it < permit.token) as u8;
        }
    }

    /// Returns the number of a wait that begins now: the highest.
    pub(super) fn newest(&mut self) -> u8 {
        let mut newest = 0;
        self.each_wait(|since| newest = newest.max(*since + 1));
        newest
    }

    fn each_wait(&mut self, mut of: impl FnMut(&mut u8)) {
        self.permits.iter_mut().flat_map(|it| &mut it.next).for_each(|it| of(&mut it.since));
        for pool in &mut self.pools {
            pool.since.iter_mut().for_each(&mut of);
            if let Some(Ask::Mark { stand, .. }) = &mut pool.asks {
                of(&mut stand.since);
            }
        }
    }
}

impl Permit {
    fn row(&self, number: usize) -> Row {
        let token = Timestamp(TOKENS + i64::from(self.token));
        let left = |next: Succession| Row {
            heartbeat: Timestamp::EPOCH,
            token,
            writer: next.writer(),
            lease: next.grace(),
        };
        match self.owner {
            Owner::Nobody => left(Succession::Anyone),
            Owner::Promised(process) => {
                let id = waiter(id(process), nonce(process)).to_string();
                left(Succession::Successor { id, grace: POLL * 2 })
            }
            Owner::Holder(process) => {
                let writer = writer(process, number);
                Row { heartbeat: NOW, token, writer, lease: Some(LEASE) }
            }
        }
    }
}

impl Stand {
    fn place(self) -> Place {
        let Stand { process, since } = self;
        let since = Timestamp(WAITS + i64::from(since));
        Place { rank: 0, since, waiter: waiter(id(process), nonce(process)) }
    }

    /// Returns what a place says; `newest` is the number of a wait that begins now.
    pub(super) fn of(place: &Place, newest: u8) -> Stand {
        let since = u8::try_from(place.since.0 - WAITS).unwrap_or(newest);
        Stand { process: process(&place.waiter), since }
    }
}

fn id(process: u8) -> &'static str {
    ["a", "b", "c", "d"][usize::from(process)]
}

/// Returns the process of this id, or of a name that begins with it.
fn process(name: &str) -> u8 {
    name.bytes().next().expect("an id is not empty") - b'a'
}

/// Under which the pool of a process stands in line.
fn nonce(process: u8) -> u64 {
    u64::from(process) + 1
}

fn writer(process: u8, number: usize) -> Writer {
    Writer::term(id(process), Nonce { instance: 100 + number as u64, attempt: 1 })
}
