//! An onlooker's memory: the terms that began, what was broken, what was seen.

use spindle_protocol::line::Place;
use spindle_protocol::{Row, Timestamp, Writer};

use crate::notes::{Notes, noted};
use crate::places::is_of;

/// The record that the invariants are judged by; nothing in the world depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct History {
    /// The terms that began, in the order of their commits.
    pub begun: Vec<Term>,
    /// The row that the last of them displaced.
    pub displaced: Option<Row>,
    /// The highest token ever.
    pub top: Timestamp,
    /// True if a hand outside the protocol did something.
    pub interfered: bool,
    /// The goals that the last step met, and the invariants that were ever broken.
    pub notes: Notes<Goal, Invariant>,
}

/// A term that began.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Its fencing token.
    pub token: Timestamp,
    /// Its writer.
    pub writer: Writer,
    /// True if its owner was told.
    pub announced: bool,
    /// True if its beginning was lost, with everything that was written under it.
    pub lost: bool,
}

impl History {
    /// Notes that a commit began a term.
    pub fn begin(&mut self, token: Timestamp, writer: &Writer, displaced: Option<Row>) {
        if token <= self.top {
            self.notes.breaks(Invariant::I2);
        }
        self.top = self.top.max(token);
        self.displaced = displaced;
        self.begun.push(Term { token, writer: writer.clone(), announced: false, lost: false });
    }

    /// Notes that an owner was told that its term began.
    pub fn announce(&mut self, token: Timestamp, writer: &Writer) {
        let term = self.begun.iter_mut().find(|term| term.token == token && term.writer == *writer);
        match term {
            Some(term) if !term.announced => term.announced = true,
            _ => self.notes.breaks(Invariant::I2),
        }
    }

    /// Returns the term that began last, of those that the data still tells of.
    pub fn latest(&self) -> Option<&Term> {
        self.begun.iter().rev().find(|term| !term.lost)
    }

    /// Returns true if this is the term that began last.
    pub fn is_latest(&self, token: Timestamp, writer: &Writer) -> bool {
        self.latest().is_some_and(|term| term.token == token && term.writer == *writer)
    }

    /// Returns true if the process of this place has held since its wait began.
    pub fn is_of_earlier_wait(&self, place: &Place) -> bool {
        let is_later = |term: &Term| term.announced && term.token > place.since;
        self.begun.iter().any(|term| is_later(term) && is_of(&term.writer, &place.waiter))
    }

    /// Notes that the data is as it was before the last term began.
    pub fn lose_latest(&mut self) {
        if let Some(term) = self.begun.iter_mut().rev().find(|term| !term.lost) {
            term.lost = true;
        }
    }
}

// The invariants that are judged by a step, not by a state.
noted! {
    always: pub enum Invariant {
        I2: "I2 tokens increase, and none is announced twice",
        I4: "I4 no request changes the row of a later term",
        I7: "I7 a term's end is announced before anything else",
        I8: "I8 a release leaves no takeover row of its own term",
        Grace: "a named successor has its grace",
        Hint: "a place in line changes no other column",
        Begin: "a begin clears its own place in line, and leaves that of another who waits",
        HandOver: "a release leaves the lock to who stands first, for its grace, and to nobody else",
        Since: "a place tells since when its process waits, and of no earlier wait",
        Yields: "a holder yields to a higher rank alone, once its term is ten leases old",
        Unasked: "nobody takes or keeps what its owner does not want",
        Contract: "an instance keeps the proof's contract",
    }
}

noted! {
    sometimes: pub enum Goal {
        TookOver: "a takeover was applied",
        ResolvedOurs: "an unknown attempt turned out to have begun a term",
        ResolvedNotOurs: "an unknown attempt turned out not to have begun a term",
        Repeated: "a heartbeat was repeated after an unknown outcome",
        LateTakeover: "a takeover landed after its sender gave up",
        LateHeartbeat: "a heartbeat landed after its sender gave up",
        LateRelease: "a release landed after its sender gave up",
        LateRefused: "a late request found the row changed",
        Collided: "two takeovers of one term collided",
        WokeUpLate: "a leader woke up after its lease, and another held",
        OutOfContact: "a term was cancelled for want of a heartbeat",
        Superseded: "a holder was told that its row is another's",
        Expired: "a term expired before anything could be said",
        Released: "a term was released",
        WroteOver: "a peer's takeover row was written over",
        SuccessorTook: "a named successor took over",
        TookOwn: "an instance displaced its own former term",
        TookFormerLife: "a restarted instance displaced its former life",
        TooLate: "a commit was acknowledged too late to begin a term",
        StoppedInAttempt: "an attempt under way at the stop was resolved and released",
        EvictedWaited: "an evicted term ran out before another took over",
        DeletedFormer: "a takeover deleted the takeover row of the term before",
        LongerLease: "a contender waited out a holder's longer lease",
        FenceRefused: "a fenced write of a deposed term was refused",
        Lapsed: "a term was left to lapse",
        GivenBack: "an attempt under way was given back, for nobody wanted it any more",
        TookInterfered: "a lock was taken after a manual edit",
        Removed: "the row of a vacant lock was removed",
        WentEarly: "a heartbeat went before it was due",
        TookPlace: "a place in line was taken",
        LatePlace: "a place in line was taken after its sender gave up",
        OwnPlace: "a place in line was taken after its sender began to hold",
        ReplacedFormer: "the place of a former life was replaced",
        LeftToFirst: "a release left the lock to who stood first",
        FirstTook: "who stood first took the lock",
        PassedDead: "others took the lock after the grace of one that was dead",
        PassedPlace: "a ranked contender took a vacant lock though a place stood there",
        Yielded: "a holder yielded to a higher rank",
    }
}
