//! How a term ends, and what came of its release.

use std::time::Duration;

use spindle_protocol::{EndReason, Seen};

use super::contact::Contact;
use crate::token::FencingToken;

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TermEnd {
    /// Its holder let go: cancelled, resigned, or dropped. The release is sent after that, and may
    /// fail.
    LetGo,
    /// Its holder let go without a release, because its work could not be stopped: the lease runs
    /// out.
    Lapsed,
    /// The row is another's now, or nobody's: taken over, evicted, seized, edited or deleted.
    #[non_exhaustive]
    Superseded {
        /// The token in the row, if there is a row.
        by: Option<FencingToken>,
        /// The holder under it.
        holder: Option<String>,
    },
    /// No heartbeat succeeded within the renew deadline.
    #[non_exhaustive]
    OutOfContact {
        /// How fast Spanner was, and what lease would do.
        contact: Option<Contact>,
    },
    /// The lease ran out before anything could be said: the process or its machine was paused, or its
    /// runtime was blocked.
    Expired,
    /// The loop is gone: it panicked, or its runtime shut down.
    Abandoned,
}

impl TermEnd {
    /// Returns the word that the metrics and `spindle agent` have for it, such as `out_of_contact`.
    pub fn as_str(&self) -> &'static str {
        match self {
            TermEnd::LetGo => "let_go",
            TermEnd::Lapsed => "lapsed",
            TermEnd::Superseded { .. } => "superseded",
            TermEnd::OutOfContact { .. } => "out_of_contact",
            TermEnd::Expired => "expired",
            TermEnd::Abandoned => "abandoned",
        }
    }

    pub(crate) fn superseded(by: Option<Seen>) -> TermEnd {
        let Some(Seen { token, writer }) = by else {
            return TermEnd::Superseded { by: None, holder: None };
        };
        TermEnd::Superseded {
            by: Some(FencingToken::from_timestamp(token)),
            holder: writer.id().map(str::to_string),
        }
    }

    pub(crate) fn of(reason: EndReason) -> TermEnd {
        match reason {
            EndReason::Released => TermEnd::LetGo,
            EndReason::Lapsed => TermEnd::Lapsed,
            EndReason::Superseded(seen) => TermEnd::superseded(seen),
            EndReason::OutOfContact => TermEnd::OutOfContact { contact: None },
            EndReason::Expired => TermEnd::Expired,
        }
    }
}

/// The outcome of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// Spanner acknowledged it: the lock is free. Or no answer came to a try, and the row has changed
    /// since: most likely by that try, else by somebody who had ended the term before.
    Released,
    /// The term had ended before, and there was nothing to release.
    EndedBefore(TermEnd),
    /// No answer within the release limit, or the loop was gone before one came. Others may see the lock
    /// as held until its lease has run out.
    #[non_exhaustive]
    Unacknowledged {
        /// About how long that is yet.
        held_for: Duration,
    },
}
