//! A world without time: one lock's row, and the contenders.

use spindle_protocol::line::Place;
use spindle_protocol::{Act, Answer, Named, Row, StoredRow, Succession};

use super::contender::{
    self, LEASE, LONG_AGO, NOW, Process, RAN_OUT, Seen, number, released, stamp,
};
use super::{LineModel, Member};
use crate::table::{LOCK, Request, Table, stored};

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) owner: Owner,
    pub(super) next: Option<Stand>,
    pub(super) contenders: Vec<Contender>,
    /// A place whose sender gave up, still on its way.
    pub(super) late: Option<Stand>,
}

/// The row's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Nobody,
    /// A holder; dead or alive.
    Holder(Process),
    /// A holder that died, and whose lease is over.
    RunOut(Process),
    /// Promised to one process, for the time being.
    Promised(Process),
    /// As before, and the time is over.
    Lapsed(Process),
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stand {
    pub(super) process: Process,
    /// When its wait began: a number in the order of all waits.
    pub(super) since: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) life: u8,
    pub(super) is_alive: bool,
    pub(super) seen: Seen,
    pub(super) asks: Option<Ask>,
    /// True if it has polled in this round.
    pub(super) has_polled: bool,
}

/// A request on its way; and whether the row is of the term that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Take { is_fresh: bool, passes: Option<Stand> },
    Mark { is_fresh: bool, place: Stand },
}

impl World {
    pub(super) fn new(model: &LineModel) -> World {
        let contender = Contender {
            life: 0,
            is_alive: true,
            seen: Seen::default(),
            asks: None,
            has_polled: false,
        };
        let contenders = vec![contender; model.members.len()];
        World { owner: Owner::Nobody, next: None, contenders, late: None }
    }

    pub(super) fn process(&self, index: usize) -> Process {
        Process { member: index as u8, life: self.contenders[index].life }
    }

    pub(super) fn lives(&self, process: Process) -> bool {
        let contender = &self.contenders[usize::from(process.member)];
        contender.is_alive && contender.life == process.life
    }

    pub(super) fn row(&self, members: &[Member]) -> Row {
        let member = |process: Process| &members[usize::from(process.member)];
        let held = |process: Process, at| {
            let writer = process.writer(member(process));
            // Where it has run out, all that wait do so since before the last heartbeat.
            let heartbeat = if at == NOW { NOW } else { RAN_OUT };
            Row { heartbeat, token: at, writer, lease: Some(LEASE) }
        };
        let promised = |process: Process, at| {
            let id = process.waiter(member(process)).to_string();
            released(&Succession::Successor { id, grace: LEASE / 5 }, at)
        };
        match self.owner {
            Owner::Nobody => released(&Succession::Anyone, NOW),
            Owner::Holder(process) => held(process, NOW),
            Owner::RunOut(process) => held(process, LONG_AGO),
            Owner::Promised(process) => promised(process, NOW),
            Owner::Lapsed(process) => promised(process, LONG_AGO),
        }
    }

    /// Carries an act out, as the protocol says; returns true if it was applied.
    pub(super) fn carry_out(&mut self, members: &[Member], act: Act) -> bool {
        let next = self.next.map(|stand| stand.place(members).to_string());
        let row = StoredRow { next, ..stored(LOCK, &self.row(members)) };
        let mut table = Table::new([row]);
        let answer = table.carry_out(NOW, &Request { act, holder: contender::holder() });
        let row = table.get(LOCK).expect("no act deletes the row");
        self.next = Place::of(row).and_then(|place| Stand::of(&place, 0));
        let is_applied = matches!(answer, Answer::Applied { .. });
        if is_applied && row.row().token > NOW {
            self.owner = match row.writer.names() {
                Named::Term { .. } => Process::of(row.writer.as_str()).map(Owner::Holder),
                Named::Successor(waiter) => Process::of(waiter).map(Owner::Promised),
                _ => None,
            }
            .unwrap_or(Owner::Nobody);
            self.outdate();
        }
        is_applied
    }

    /// Notes that the row is of another term than it was.
    fn outdate(&mut self) {
        for contender in &mut self.contenders {
            contender.seen.vacant = 0;
            if let Some(Ask::Take { is_fresh, .. } | Ask::Mark { is_fresh, .. }) =
                &mut contender.asks
            {
                *is_fresh = false;
            }
        }
    }

    /// Begins a round once everybody who waits has polled.
    pub(super) fn round(&mut self) {
        let waits = |index: usize| {
            let contender = &self.contenders[index];
            contender.is_alive && self.owner != Owner::Holder(self.process(index))
        };
        let is_done = |it: &Contender| it.has_polled && it.asks.is_none();
        if (0..self.contenders.len()).all(|it| !waits(it) || is_done(&self.contenders[it])) {
            self.contenders.iter_mut().for_each(|it| it.has_polled = false);
        }
    }

    /// Numbers waits and lives anew: of the waits of a rank only the order matters, and of the lives of
    /// a contender only which is which.
    pub(super) fn number(&mut self, members: &[Member]) {
        let rank = |process: Process| members[usize::from(process.member)].rank();
        let mut waits: Vec<(u32, u8)> = Vec::new();
        self.each_wait(|process, since| waits.push((rank(process), *since)));
        waits.sort_unstable();
        waits.dedup();
        self.each_wait(|process, since| {
            let of_rank = waits.iter().filter(|(of, _)| *of == rank(process));
            *since = of_rank.take_while(|(_, before)| *before < *since).count() as u8;
        });
        let mut lives: Vec<Process> = Vec::new();
        self.each_process(|process| {
            if !lives.contains(process) {
                lives.push(*process);
            }
        });
        self.each_process(|process| {
            let of_seat = lives.iter().filter(|it| it.member == process.member);
            process.life = of_seat.take_while(|it| **it != *process).count() as u8;
        });
    }

    /// Returns the number of a wait that begins now: the highest.
    pub(super) fn newest(&mut self) -> u8 {
        let mut newest = 0;
        self.each_wait(|_, since| newest = newest.max(*since + 1));
        newest
    }

    /// Returns a life of this contender of which nothing tells.
    pub(super) fn new_life(&mut self, index: usize) -> u8 {
        let mut newest = 0;
        self.each_process(|process| {
            if usize::from(process.member) == index {
                newest = newest.max(process.life + 1);
            }
        });
        newest
    }

    fn each_wait(&mut self, mut of: impl FnMut(Process, &mut u8)) {
        for (index, contender) in self.contenders.iter_mut().enumerate() {
            if let Some(since) = &mut contender.seen.since {
                of(Process { member: index as u8, life: contender.life }, since);
            }
        }
        self.each_stand(|stand| of(stand.process, &mut stand.since));
    }

    /// The process of a contender that lives comes first.
    fn each_process(&mut self, mut of: impl FnMut(&mut Process)) {
        for (index, contender) in self.contenders.iter_mut().enumerate() {
            let mut process = Process { member: index as u8, life: contender.life };
            if contender.is_alive {
                of(&mut process);
            } else {
                process.life = 0;
            }
            contender.life = process.life;
        }
        match &mut self.owner {
            Owner::Nobody => {}
            Owner::Holder(it) | Owner::RunOut(it) | Owner::Promised(it) | Owner::Lapsed(it) => {
                of(it)
            }
        }
        self.each_stand(|stand| of(&mut stand.process));
    }

    fn each_stand(&mut self, mut of: impl FnMut(&mut Stand)) {
        self.next.iter_mut().chain(&mut self.late).for_each(&mut of);
        for contender in &mut self.contenders {
            if let Some(Ask::Take { passes: Some(stand), .. } | Ask::Mark { place: stand, .. }) =
                &mut contender.asks
            {
                of(stand);
            }
        }
    }
}

impl Stand {
    pub(super) fn place(self, members: &[Member]) -> Place {
        let member = &members[usize::from(self.process.member)];
        let rank = member.rank();
        Place { rank, since: stamp(self.since), waiter: self.process.waiter(member) }
    }

    /// Returns what a place says; `newest` is the number of a wait that begins now.
    pub(super) fn of(place: &Place, newest: u8) -> Option<Stand> {
        let since = number(place.since).unwrap_or(newest);
        Some(Stand { process: Process::of(&place.waiter)?, since })
    }
}
