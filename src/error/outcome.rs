//! How an act on the lock table ended.

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::{Answer, Rejection};

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

    /// Sent once and refused because the row exists: somebody else's, whatever the reason.
    pub(crate) fn already_exists_means(self, rejection: Rejection) -> Outcome {
        match &self.error {
            Some(error) if error.code() == Some(Code::AlreadyExists) => {
                Outcome { answer: Answer::Rejected(rejection), error: None }
            }
            _ => self,
        }
    }
}
