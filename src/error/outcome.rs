//! How an act on the lock table ended.

use spindle_protocol::Answer;

use super::Error;

/// How an act ended, and what went wrong if something did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) error: Option<Error>,
}

impl Outcome {
    pub(crate) fn failed(answer: Answer, error: Error) -> Outcome {
        Outcome { answer, error: Some(error) }
    }
}
