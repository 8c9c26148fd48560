//! Repeats: of a transaction that was not applied, and of a commit whose answer is missing.
//!
//! Spanner applies a transaction once, however often its commit arrives, and answers each of them
//! alike. So a commit without an answer is sent again, and what it answers then is its outcome.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use google_cloud_gax::error::rpc::{Code, Status};
use google_cloud_gax::exponential_backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use google_cloud_gax::retry_policy::{RetryPolicy, RetryPolicyExt as _};
use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_state::RetryState;
use google_cloud_spanner::builder::TransactionRunnerBuilder;
use google_cloud_spanner::retry_policy::SpannerRetryPolicy;
use google_cloud_spanner::transaction::TransactionRetryPolicy;
use tokio::time::Instant;

use crate::error::{self, Error};

/// The most times that a rollback is sent: Spanner gives up the transaction by itself, after 10 s.
const ROLLBACKS_MAX: u32 = 5;

/// The limit of one rollback, for which the caller waits.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(1);

/// How far a transaction has come: it decides what a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No commit was sent since the transaction was begun, or begun anew.
    Working,
    /// The commit may have been sent, and every answer so far was definite.
    Committing,
    /// A commit was sent that got no definite answer.
    InDoubt,
}

/// The bounds of one transaction's attempts, and how far they have come. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    limit: Duration,
    deadline: Instant,
    progress: Arc<Mutex<Progress>>,
}

#[derive(Debug)]
struct Progress {
    attempts_left: u32,
    stage: Stage,
    /// True if the client is to begin anew because the transaction was gone.
    is_gone: bool,
}

impl Attempts {
    pub(super) fn begin(attempts_max: u32, limit: Duration) -> Attempts {
        let progress =
            Progress { attempts_left: attempts_max, stage: Stage::Working, is_gone: false };
        let progress = Arc::new(Mutex::new(progress));
        Attempts { limit, deadline: Instant::now() + limit, progress }
    }

    pub(super) fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// Takes note that the work begins, perhaps again: the client repeats none that may have been
    /// applied.
    pub(super) fn working(&self) {
        let mut progress = self.lock();
        progress.is_gone = false;
        if progress.stage == Stage::Committing {
            progress.stage = Stage::Working;
        }
    }

    /// Takes note that what follows is the commit.
    pub(super) fn committing(&self) {
        self.lock().stage = Stage::Committing;
    }

    /// Makes `runner` repeat commits and rollbacks, and begin anew after an abort, so that `most`
    /// attempts are its own.
    pub(super) fn bind(
        &self,
        runner: TransactionRunnerBuilder,
        most: u32,
    ) -> TransactionRunnerBuilder {
        let rollbacks = SpannerRetryPolicy::new().with_attempt_limit(ROLLBACKS_MAX);
        runner
            .with_retry_policy(Aborts { attempts: self.clone(), most })
            .with_commit_retry_policy(Commits(self.clone()))
            .with_commit_backoff_policy(pauses())
            // A reply that was lost leaves time for another.
            .with_commit_attempt_timeout(self.limit / 2)
            .with_rollback_retry_policy(rollbacks)
            .with_rollback_backoff_policy(pauses())
            .with_rollback_attempt_timeout(self.limit.min(ROLLBACK_LIMIT))
    }

    /// Returns the error of a read or of the work as the runner should take it, before any commit.
    pub(super) fn failed(&self, error: google_cloud_spanner::Error) -> google_cloud_spanner::Error {
        let is_gone = !Error::is_given_up(&error) && is_transaction_gone(&error);
        if is_gone { self.lock().abort(error) } else { error }
    }

    /// Returns true if a runner ended so because its own attempts were used up, and others are
    /// left.
    pub(super) fn may_go_on_after(&self, error: &google_cloud_spanner::Error) -> bool {
        let progress = self.lock();
        let is_aborted = error::code(error) == Some(Code::Aborted);
        is_aborted && progress.stage == Stage::Working && progress.attempts_left > 0
    }

    /// Sorts the error that ended the transaction.
    pub(super) fn sort(&self, doing: String, error: google_cloud_spanner::Error) -> Error {
        match (self.stage(), Error::extract(&error)) {
            // An earlier attempt got no definite answer, whatever the last one got.
            (Stage::InDoubt, _) => Error::new(error::Kind::Unknown { doing, source: Some(error) }),
            (Stage::Committing, _) if !error.is_exhausted() => Error::from_write(doing, error),
            (Stage::Working, Some(ours)) => ours.clone(),
            // Exhausted by failures to send anything at all.
            _ => Error::from_read(doing, error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says after an abort whether to begin again. The caller bounds the time of all attempts together.
#[derive(Debug)]
struct Aborts {
    attempts: Attempts,
    most: u32,
}

impl TransactionRetryPolicy for Aborts {
    fn on_abort(
        &self,
        error: google_cloud_spanner::Error,
        attempts: u32,
        _elapsed: Duration,
    ) -> RetryResult {
        let mut progress = self.attempts.lock();
        // The client has other reasons to begin anew, which leave a doubt where it was.
        if progress.stage == Stage::InDoubt && error::code(&error) != Some(Code::Aborted) {
            return RetryResult::Permanent(error);
        }
        // An aborted transaction was not committed and never will be.
        progress.stage = Stage::Working;
        // It was not aborted for the sake of others: time alone bounds that.
        if !progress.is_gone {
            progress.attempts_left = progress.attempts_left.saturating_sub(1);
        }
        if progress.attempts_left > 0 && attempts < self.most {
            RetryResult::Continue(error)
        } else {
            RetryResult::Exhausted(error)
        }
    }
}

/// Says after a commit whether to send the same again.
#[derive(Debug)]
struct Commits(Attempts);

impl RetryPolicy for Commits {
    fn on_error(&self, _: &RetryState, error: google_cloud_spanner::Error) -> RetryResult {
        let mut progress = self.0.lock();
        if error.is_transient_and_before_rpc() {
            return RetryResult::Continue(error);
        }
        if error::is_definite(&error) {
            let is_gone = progress.stage == Stage::Committing && is_transaction_gone(&error);
            return RetryResult::Permanent(if is_gone { progress.abort(error) } else { error });
        }
        progress.stage = Stage::InDoubt;
        match error::code(&error) {
            // Spanner has lost track of it, so a repetition learns nothing.
            Some(Code::Unknown | Code::Internal | Code::DataLoss) => RetryResult::Permanent(error),
            _ => RetryResult::Continue(error),
        }
    }

    fn remaining_time(&self, _: &RetryState) -> Option<Duration> {
        Some(self.0.deadline.saturating_duration_since(Instant::now()))
    }
}

fn pauses() -> ExponentialBackoff {
    let pauses = ExponentialBackoffBuilder::new()
        .with_initial_delay(Duration::from_millis(20))
        .with_maximum_delay(Duration::from_secs(1));
    // The bounds are in order; the client's own would do otherwise.
    pauses.build().unwrap_or_default()
}

/// Returns true if Spanner seems to know the transaction no more. Google's emulator forgets one
/// when its session begins another.
///
/// The text alone tells it from a row that is missing. It decides only whether to try again what
/// was not applied. The caller's own reason to give up is none of Spanner's texts, and no more is what
/// this library says by itself, with the name of a lock in it.
fn is_transaction_gone(error: &google_cloud_spanner::Error) -> bool {
    let said = Error::extract(error).map_or(Some(error), Error::spanner);
    let Some(status) = said.and_then(google_cloud_spanner::Error::status) else { return false };
    let text = status.message.to_ascii_lowercase();
    matches!(status.code, Code::NotFound | Code::FailedPrecondition)
        && ["transaction not found", "invalid transaction", "a transaction after it has been"]
            .iter()
            .any(|said| text.contains(said))
}

impl Progress {
    /// Returns an abort for the client's loop, which then begins the transaction anew.
    fn abort(&mut self, error: google_cloud_spanner::Error) -> google_cloud_spanner::Error {
        self.is_gone = true;
        let status = Status::default().set_code(Code::Aborted).set_message(error.to_string());
        google_cloud_spanner::Error::service_full(status, None, None, Some(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use Code::{Aborted, AlreadyExists, FailedPrecondition, NotFound, Unavailable, Unknown};

    use super::*;

    const GONE: &str = "Transaction not found: 7";

    fn service(code: Code, text: &str) -> google_cloud_spanner::Error {
        google_cloud_spanner::Error::service(Status::default().set_code(code).set_message(text))
    }

    /// Answers one commit so, as often as it is sent. Returns the error that it ends with, if it
    /// ends.
    fn answered(
        answers: impl IntoIterator<Item = google_cloud_spanner::Error>,
    ) -> (Attempts, Option<google_cloud_spanner::Error>) {
        let attempts = Attempts::begin(20, Duration::from_secs(10));
        attempts.committing();
        let commits = Commits(attempts.clone());
        for answer in answers {
            match commits.on_error(&RetryState::new(true), answer) {
                RetryResult::Continue(_) => {}
                RetryResult::Permanent(error) | RetryResult::Exhausted(error) => {
                    return (attempts, Some(error));
                }
            }
        }
        (attempts, None)
    }

    fn aborts(attempts: &Attempts) -> Aborts {
        Aborts { attempts: attempts.clone(), most: 5 }
    }

    #[tokio::test]
    async fn a_commit_without_a_definite_answer_is_sent_again() {
        let timeout = google_cloud_spanner::Error::timeout("slow");
        for unclear in [service(Unavailable, ""), service(Code::Cancelled, ""), timeout] {
            let (attempts, ended) = answered([unclear]);
            assert!(ended.is_none());
            assert_eq!(attempts.stage(), Stage::InDoubt);
        }
        let (attempts, ended) = answered([google_cloud_spanner::Error::connect("refused")]);
        assert!(ended.is_none());
        assert_eq!(attempts.stage(), Stage::Committing, "it was never sent");
        let (attempts, ended) = answered([service(Unknown, "Transaction outcome unknown.")]);
        let error = attempts.sort("write".into(), ended.unwrap());
        assert!(error.is_outcome_unknown(), "{error}");
    }

    #[tokio::test]
    async fn of_a_commit_in_doubt_an_abort_alone_says_that_it_was_not_applied() {
        for (code, text) in [(NotFound, GONE), (AlreadyExists, ""), (FailedPrecondition, GONE)] {
            let (attempts, ended) = answered([service(Unavailable, ""), service(code, text)]);
            let ended = ended.unwrap();
            assert_eq!(error::code(&ended), Some(code), "an abort would begin it anew");
            let error = attempts.sort("write".into(), ended);
            assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");
        }
        let (attempts, ended) = answered([service(Unavailable, ""), service(Aborted, "")]);
        let again = aborts(&attempts).on_abort(ended.unwrap(), 1, Duration::ZERO);
        assert!(matches!(again, RetryResult::Continue(_)));
        assert_eq!(attempts.stage(), Stage::Working);
        // The client takes errors of an emulator for an abort that say nothing of the kind.
        let (attempts, ended) = answered([service(Code::Internal, "Schema generation 0")]);
        let error = match aborts(&attempts).on_abort(ended.unwrap(), 1, Duration::ZERO) {
            RetryResult::Continue(_) => panic!("begun anew although it may have been applied"),
            RetryResult::Permanent(error) | RetryResult::Exhausted(error) => error,
        };
        assert!(attempts.sort("write".into(), error).is_outcome_unknown());
    }

    #[tokio::test]
    async fn a_transaction_that_is_gone_is_begun_anew_and_a_row_that_is_missing_is_an_answer() {
        for (code, text) in [(NotFound, GONE), (FailedPrecondition, "Invalid transaction ID")] {
            let (_, ended) = answered([service(code, text)]);
            assert_eq!(error::code(&ended.unwrap()), Some(Aborted));
            let attempts = Attempts::begin(20, Duration::from_secs(10));
            assert_eq!(error::code(&attempts.failed(service(code, text))), Some(Aborted));
            let checked = Error::from_read("check", service(code, text));
            assert_eq!(error::code(&attempts.failed(checked.into())), Some(Aborted));
        }
        let (attempts, ended) = answered([service(NotFound, "Row [1] in table T is missing.")]);
        let error = attempts.sort("write".into(), ended.unwrap());
        assert_eq!(error.code(), Some(NotFound));
        assert!(!error.is_outcome_unknown(), "{error}");
    }
}
