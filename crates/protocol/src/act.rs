use std::time::Duration;

use crate::line::Place;
use crate::{Moment, Observation, Row, Succession, TermId, Timestamp, Writer};

/// An event: the input of [`Instance::decide`](crate::Instance::decide).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The time that the last decision named has come; harmless at any other time.
    Wake,
    /// Other locks of the owner's act now. The acts that [`Decision::early`] allows go along.
    Early,
    /// The act under way was answered.
    Answer(Answer),
    /// The owner gives up the term, if there is one, and makes no attempt to begin another for a lease.
    Resign {
        /// The succession to the term.
        next: Succession,
    },
    /// True if the owner wants the lock; an instance begins by wanting it.
    ///
    /// Wanted: who stands by polls at once. When it is unwanted, a held lock is released, and so is
    /// one that an attempt under way wins. Then nothing is done until the lock is wanted again.
    Contend(bool),
    /// The owner lets go of the term, if there is one, and goes on as a contender; others have one
    /// poll interval to poll first.
    LetGo {
        /// The succession to the term.
        next: Succession,
    },
    /// The owner stops renewing the term, if there is one, but can't say that its work has ended:
    /// nothing is released, the lease runs out.
    Lapse,
    /// The owner is done: release what is held, then end.
    Stop,
}

/// A request to the lock table. Each is sent once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// One strong read of the lock row, with Spanner's timestamp of the read.
    Observe,
    /// Insert the lock row, which nobody has; heartbeat and token are the commit timestamp.
    Insert {
        /// The term's writer.
        writer: Writer,
    },
    /// In one transaction: read the row again and give up unless it is `seen`, delete the takeover
    /// row of the term before, insert that of the displaced token, begin the term.
    Takeover {
        /// The row as it was observed.
        seen: Row,
        /// The term's writer.
        writer: Writer,
        /// The place in line that it has waited for in vain.
        passes: Option<Place>,
    },
    /// In one transaction: read token and writer, give up unless both are the term's, set the
    /// heartbeat to the commit timestamp.
    Heartbeat {
        /// The term.
        term: TermId,
        /// Read who stands first in line, too.
        looks: bool,
    },
    /// As a heartbeat, but sets the heartbeat to the epoch and the token to the commit timestamp.
    /// It deletes the takeover row of the term.
    Release {
        /// The term.
        term: TermId,
        /// The succession to the term.
        next: Succession,
    },
    /// In one transaction: read the place in line, and give up unless this one goes before it; write it.
    Mark {
        /// The contender's place.
        place: Place,
    },
}

/// How an act ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The answer to [`Act::Observe`].
    Observed(Observation),
    /// The write was committed, and Spanner acknowledged it.
    Applied {
        /// Its commit timestamp.
        at: Timestamp,
    },
    /// The write was not and will not be committed: its condition did not hold.
    Rejected(Rejection),
    /// The write was not and will not be committed, for a passing reason; or a read failed.
    NotApplied,
    /// The write may have been committed, or may still be.
    Unknown,
}

/// The owner of a row that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The token in the row.
    pub token: Timestamp,
    /// The writer in the row.
    pub writer: Writer,
}

impl From<Row> for Seen {
    fn from(row: Row) -> Seen {
        Seen { token: row.token, writer: row.writer }
    }
}

/// Why a condition did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// The row is not what the act expects; here is whose it is, where there is one.
    Changed(Option<Seen>),
    /// There is nothing to do: nobody to evict, no term to end, no row to delete.
    Needless,
}

impl Rejection {
    /// Returns whose the row is, where one was found in place of what the act expects.
    pub fn seen(self) -> Option<Seen> {
        match self {
            Rejection::Changed(seen) => seen,
            Rejection::Needless => None,
        }
    }
}

/// The orders for now: the output of [`Instance::decide`](crate::Instance::decide).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Decision {
    /// To be published before anything else is done (I7).
    pub announce: Option<Announcement>,
    /// To be started then; it replaces an act still under way.
    pub act: Option<Act>,
    /// When to ask again, if nothing happens before.
    pub wake: Option<Wake>,
    /// When [`Event::Early`] has the next heartbeat sent, though nothing asks for it yet.
    pub early: Option<Wake>,
}

/// When to ask again: at a random moment from `at` to `at + spread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wake {
    /// The earliest moment.
    pub at: Moment,
    /// How much later it may be.
    pub spread: Duration,
}

impl Wake {
    /// Asks again at this moment, and no later.
    pub(crate) fn at(at: Moment) -> Wake {
        Wake { at, spread: Duration::ZERO }
    }
}

/// A change of what the owner may believe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Announcement {
    /// A term began.
    Began {
        /// Its fencing token.
        token: Timestamp,
        /// Its writer.
        writer: Writer,
        /// The owner is holder before this moment, not at it.
        valid_until: Moment,
    },
    /// The term goes on.
    Extended {
        /// The owner is holder before this moment, not at it.
        valid_until: Moment,
    },
    /// The term is over, for good.
    Ended {
        /// Its fencing token.
        token: Timestamp,
        /// Why.
        reason: EndReason,
    },
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The owner let go of it.
    Released,
    /// The owner let go of it, and nothing is released: the lease runs out.
    Lapsed,
    /// The row is another's, or nobody's; here is whose, where it exists.
    Superseded(Option<Seen>),
    /// No heartbeat succeeded within the renew deadline.
    OutOfContact,
    /// The lease ran out before anything could be said.
    Expired,
}

impl EndReason {
    /// Returns true if the owner didn't choose it.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            EndReason::Released | EndReason::Lapsed => false,
            EndReason::Superseded(_) | EndReason::OutOfContact | EndReason::Expired => true,
        }
    }
}
