//! The events that an application is told, and the answers of the same form.

use serde::Serialize;
use spindle::{Fence, FencingToken, Term, TermEnd};

use super::deadline::Deadline;

/// The claim was accepted: the lock is contended for from now on.
#[derive(Serialize)]
pub struct Waiting<'a> {
    pub lock: &'a str,
    /// The secret by which the lock is released.
    pub claim: &'a str,
    /// The holder's id in the table.
    pub id: &'a str,
}

/// The lock is held, from now until the deadline.
#[derive(Serialize)]
pub struct Gained<'a> {
    lock: &'a str,
    claim: &'a str,
    token: FencingToken,
    fence: FenceParts,
    deadline: Deadline,
}

/// A heartbeat has succeeded: the deadline is later.
#[derive(Serialize)]
pub struct Renewed<'a> {
    lock: &'a str,
    token: FencingToken,
    deadline: Deadline,
}

/// The lock is lost: work stops now, and has stopped by the deadline.
#[derive(Serialize)]
pub struct Lost<'a> {
    lock: &'a str,
    token: FencingToken,
    #[serde(flatten)]
    loss: Loss,
    deadline: Deadline,
}

/// Nothing more is told of this lock: the claim is over.
#[derive(Serialize)]
pub struct Ended<'a> {
    pub lock: &'a str,
    pub reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The agent is to end: let go within its grace, or the lease runs out.
#[derive(Serialize)]
pub struct Ending<'a> {
    pub lock: &'a str,
}

#[derive(Serialize)]
struct Loss {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<FencingToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

/// The fence, and its token as SQL's TIMESTAMP takes it.
#[derive(Serialize)]
pub struct FenceParts {
    #[serde(flatten)]
    fence: Fence,
    timestamp: String,
}

impl FenceParts {
    pub fn of(term: &Term) -> FenceParts {
        let time = term.token().to_datetime();
        let timestamp = time.to_rfc3339_opts(chrono::SecondsFormat::Nanos, true);
        FenceParts { fence: term.fence(), timestamp }
    }
}

impl<'a> Gained<'a> {
    pub fn new(claim: &'a str, term: &'a Term) -> Gained<'a> {
        Gained {
            lock: term.lock(),
            claim,
            token: term.token(),
            fence: FenceParts::of(term),
            deadline: Deadline::of(term),
        }
    }
}

impl<'a> Renewed<'a> {
    pub fn new(term: &'a Term) -> Renewed<'a> {
        Renewed { lock: term.lock(), token: term.token(), deadline: Deadline::of(term) }
    }
}

impl<'a> Lost<'a> {
    pub fn new(term: &'a Term) -> Lost<'a> {
        Lost {
            lock: term.lock(),
            token: term.token(),
            loss: Loss::of(term.ended()),
            deadline: Deadline::of(term),
        }
    }
}

impl Loss {
    fn of(end: Option<&TermEnd>) -> Loss {
        let (mut superseded_by, mut holder) = (None, None);
        let reason = match end {
            Some(TermEnd::LetGo) => "let_go",
            Some(TermEnd::Lapsed) => "lapsed",
            Some(TermEnd::Superseded { by, holder: other, .. }) => {
                (superseded_by, holder) = (*by, other.clone());
                "superseded"
            }
            Some(TermEnd::OutOfContact) => "out_of_contact",
            Some(TermEnd::Expired) | None => "expired",
            Some(TermEnd::Abandoned) => "abandoned",
            Some(_) => "other",
        };
        Loss { reason, superseded_by, holder }
    }
}
