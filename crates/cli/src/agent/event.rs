//! The events that an application is told, and the answers of the same form.

use axum::response::sse::Event;
use serde::Serialize;
use spindle::{Fence, FencingToken, Term, TermEnd};

use super::deadline::Deadline;
use crate::serve::answers;

/// An event. Its data has its name, too: readers that drop the other lines lose nothing.
pub fn event(name: &str, data: &impl Serialize) -> Event {
    answers::event(name, &Named { event: name, data })
}

#[derive(Serialize)]
struct Named<'a, T> {
    event: &'a str,
    #[serde(flatten)]
    data: &'a T,
}

/// The claim was accepted: the lock is contended for from now on.
#[derive(Serialize)]
pub struct Waiting<'a> {
    pub lock: &'a str,
    /// The secret by which the lock is released.
    pub claim: &'a str,
    /// The holder's id in the table.
    pub id: &'a str,
}

/// A term, as its events tell of it.
#[derive(Serialize)]
pub struct Told<'a> {
    lock: &'a str,
    /// Of one that begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<&'a str>,
    token: FencingToken,
    /// Of one that begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<FenceParts>,
    /// Of one that is lost: work stops now, and has stopped by the deadline.
    #[serde(flatten)]
    loss: Option<Loss>,
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

impl<'a> Told<'a> {
    /// The lock is held, from now until the deadline.
    pub fn gained(claim: &'a str, term: &'a Term) -> Told<'a> {
        let (claim, fence) = (Some(claim), Some(FenceParts::of(term)));
        Told { claim, fence, ..Told::renewed(term) }
    }

    /// A heartbeat has succeeded: the deadline is later.
    pub fn renewed(term: &'a Term) -> Told<'a> {
        let (lock, token, deadline) = (term.lock(), term.token(), Deadline::of(term));
        Told { lock, claim: None, token, fence: None, loss: None, deadline }
    }

    pub fn lost(term: &'a Term) -> Told<'a> {
        Told { loss: Some(Loss::of(term)), ..Told::renewed(term) }
    }
}

/// The reason why a term was lost.
pub fn lost_by(term: &Term) -> &'static str {
    term.ended().unwrap_or(&TermEnd::Expired).as_str()
}

impl Loss {
    fn of(term: &Term) -> Loss {
        let reason = lost_by(term);
        let (superseded_by, holder) = match term.ended() {
            Some(TermEnd::Superseded { by, holder, .. }) => (*by, holder.clone()),
            _ => (None, None),
        };
        Loss { reason, superseded_by, holder }
    }
}
