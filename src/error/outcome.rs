//! How an act on the lock table ends.

use spindle_protocol::Answer;
use spindle_protocol::line::Place;

use super::kind::Error;

/// How an act on the lock table ended, and what went wrong if something did.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) error: Option<Error>,
    /// True if its transaction found a row that says that it was seized.
    pub(crate) is_seized: bool,
    /// The first in line, where a heartbeat has looked.
    pub(crate) next: Option<Place>,
}

impl Outcome {
    pub(crate) fn new(answer: Answer, error: Option<Error>) -> Outcome {
        Outcome { answer, error, is_seized: false, next: None }
    }

    pub(crate) fn of(answer: Answer) -> Outcome {
        Outcome::new(answer, None)
    }

    pub(crate) fn failed(answer: Answer, error: Error) -> Outcome {
        Outcome::new(answer, Some(error))
    }
}
