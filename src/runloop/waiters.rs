//! The callers in this process: those who ask for the lock, the one who has it, and the end of
//! each.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use spindle_protocol::{Answer, Moment, Rejection, Succession};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ReleaseOutcome, Result, TermEnd};
use crate::term::Term;
use crate::token::FencingToken;

/// One request for the lock. A caller that asked and is gone has closed the reply.
pub(crate) struct Waiter {
    pub(crate) mode: WaitMode,
    /// Fired to ask the holder to let go; without it, a resignation ends the term at once.
    pub(crate) resign: Option<CancellationToken>,
    pub(crate) reply: oneshot::Sender<Result<Grant, NotGranted>>,
}

/// How long a waiter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Until it has the lock, whatever Spanner says: an operator may mend it meanwhile.
    Endures,
    /// Until it has the lock, or the set-up turns out to be one that can't work.
    Waits,
    /// One poll, begun at or after `asked`; another one after a lost race, but none after `until`.
    Tries { asked: Moment, until: Moment },
}

/// The lock, given to one waiter. Dropping `end` lets go of it.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) term: Term,
    pub(crate) end: oneshot::Sender<End>,
}

/// How the holder lets go of it.
#[derive(Debug)]
pub(crate) enum End {
    /// Release it, and say what came of that.
    Release { next: Succession, done: oneshot::Sender<Released> },
    /// Send no more heartbeats, but release nothing.
    Lapse,
}

/// The end of a release.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) outcome: ReleaseOutcome,
    /// True if Spanner acknowledged it. After a lost answer, a changed row may also say that the term had
    /// ended before.
    pub(crate) is_acknowledged: bool,
}

impl Released {
    /// Returns that of a release that Spanner did not acknowledge.
    pub(crate) fn not_acknowledged(outcome: ReleaseOutcome) -> Released {
        Released { outcome, is_acknowledged: false }
    }
}

/// Why a waiter is not given the lock.
#[derive(Debug)]
pub(crate) enum NotGranted {
    /// It only tries, and the lock was not to be had.
    Occupied,
    Failed(Error),
}

impl From<Error> for NotGranted {
    fn from(error: Error) -> NotGranted {
        NotGranted::Failed(error)
    }
}

/// A caller's act.
pub(crate) enum Heard {
    /// The caller that had the lock let go of it: so, or by dropping it.
    LetGo(Option<End>),
    /// Somebody who waited is gone.
    Left,
}

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: VecDeque<Waiter>,
    holding: Option<Holding>,
    /// The caller that waits to hear how the release went.
    resigning: Option<oneshot::Sender<Released>>,
    /// When the last poll began.
    polling_since: Moment,
    last: Option<LastPoll>,
    /// Why the last attempt failed, unless another was seen to have the lock since.
    failure: Option<Error>,
}

struct Holding {
    end: oneshot::Receiver<End>,
    resign: Option<CancellationToken>,
}

/// A release under way, and what is known of it.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) token: FencingToken,
    maybe_applied: bool,
    is_acknowledged: bool,
    /// Nothing but an answer tells it.
    outcome: Option<ReleaseOutcome>,
}

impl Leaving {
    pub(crate) fn new(token: FencingToken) -> Leaving {
        Leaving { token, maybe_applied: false, is_acknowledged: false, outcome: None }
    }

    /// Takes note of an answer to the release.
    pub(crate) fn answered(&mut self, answer: &Answer) {
        match answer {
            Answer::Applied { .. } => {
                (self.outcome, self.is_acknowledged) = (Some(ReleaseOutcome::Released), true);
            }
            // The row has changed, most likely because an earlier try did arrive.
            Answer::Rejected(_) if self.maybe_applied => {
                self.outcome = Some(ReleaseOutcome::Released);
            }
            Answer::Rejected(rejection) => {
                let by = rejection.clone().seen();
                self.outcome = Some(ReleaseOutcome::EndedBefore(TermEnd::superseded(by)));
            }
            Answer::Unknown => self.maybe_applied = true,
            Answer::NotApplied | Answer::Observed(_) => {}
        }
    }

    /// Returns what came of it; the row protects the term for `held_for` yet if nothing did.
    pub(crate) fn outcome(self, held_for: Duration) -> Released {
        let outcome = self.outcome.unwrap_or(ReleaseOutcome::Unacknowledged { held_for });
        Released { outcome, is_acknowledged: self.is_acknowledged }
    }
}

/// The lock as the last answer showed it.
struct LastPoll {
    began: Moment,
    /// True if it was somebody's; false where that poll doesn't say.
    result: Result<bool>,
}

impl Waiters {
    pub(crate) fn are_any(&self) -> bool {
        self.holding.is_some() || self.is_any_waiting()
    }

    pub(crate) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if a caller holds.
    pub(crate) fn is_held(&self) -> bool {
        self.holding.is_some()
    }

    /// Returns true if a caller that dropped its future is in the queue yet.
    pub(crate) fn has_any_left(&self) -> bool {
        self.waiting.iter().any(|waiter| waiter.reply.is_closed())
    }

    /// Returns true if a caller still waits: one that dropped its future may be in the queue yet.
    pub(crate) fn is_any_alive(&self) -> bool {
        self.waiting.iter().any(|waiter| !waiter.reply.is_closed())
    }

    pub(crate) fn add(&mut self, waiter: Waiter) {
        self.waiting.push_back(waiter);
    }

    /// Asks the holder to let go, if it wants to be asked.
    pub(crate) fn ask_to_go(&self) -> bool {
        let asked = self.holding.as_ref().and_then(|holding| holding.resign.as_ref());
        asked.map(CancellationToken::cancel).is_some()
    }

    /// Returns the next thing that a caller does.
    pub(crate) async fn next(&mut self) -> Heard {
        poll_fn(|context| {
            if let Some(holding) = &mut self.holding
                && let Poll::Ready(end) = Pin::new(&mut holding.end).poll(context)
            {
                self.holding = None;
                return Poll::Ready(Heard::LetGo(end.ok()));
            }
            let before = self.waiting.len();
            self.waiting.retain_mut(|waiter| waiter.reply.poll_closed(context).is_pending());
            if self.waiting.len() < before { Poll::Ready(Heard::Left) } else { Poll::Pending }
        })
        .await
    }

    /// Notes that the term is over; its caller learns that from the term. One that was just letting go
    /// hears what becomes of the release.
    pub(crate) fn term_ended(&mut self) {
        self.failure = None;
        let Some(Holding { mut end, .. }) = self.holding.take() else { return };
        end.close();
        if let Ok(End::Release { done, .. }) = end.try_recv() {
            self.resigning = Some(done);
        }
    }

    /// Gives the term to the first caller that is still there.
    pub(crate) fn grant(&mut self, term: &Term) {
        while self.holding.is_none()
            && let Some(Waiter { resign, reply, .. }) = self.waiting.pop_front()
        {
            let (sender, end) = oneshot::channel();
            if reply.send(Ok(Grant { term: term.clone(), end: sender })).is_ok() {
                self.holding = Some(Holding { end, resign });
            }
        }
    }

    /// Tells those who only try that this process has the lock itself.
    pub(crate) fn refuse_tries(&mut self) {
        self.answer_tries(|_, _| Some(NotGranted::Occupied));
    }

    /// Answers those who only try, since nothing is under way, unless it came too early.
    pub(crate) fn settle(&mut self, now: Moment) {
        let Some(LastPoll { began, result }) = self.last.take() else { return };
        self.answer_tries(|asked, until| match &result {
            _ if began < asked => None,
            Ok(true) => Some(NotGranted::Occupied),
            // A lost race says nothing of who won it; the next poll does, while there is time for one.
            Ok(false) => (now > until).then_some(NotGranted::Occupied),
            Err(error) => {
                (!error.is_interrupted() || now > until).then(|| NotGranted::Failed(error.clone()))
            }
        });
    }

    fn answer_tries(&mut self, answer: impl Fn(Moment, Moment) -> Option<NotGranted>) {
        for waiter in std::mem::take(&mut self.waiting) {
            let answer = match waiter.mode {
                WaitMode::Endures | WaitMode::Waits => None,
                WaitMode::Tries { asked, until } => answer(asked, until),
            };
            match answer {
                // Nobody waits for it any more if it can't be delivered.
                Some(answer) => drop(waiter.reply.send(Err(answer))),
                None => self.waiting.push_back(waiter),
            }
        }
    }

    pub(crate) fn poll_begins(&mut self, now: Moment) {
        self.polling_since = now;
    }

    /// Takes note that an attempt to begin a term failed. What may be mended by hand is told at once, by
    /// its own answer.
    pub(crate) fn attempt_failed(&mut self, error: &Error) {
        self.failure = Some(error.clone()).filter(|error| !error.is_schema() && !error.is_config());
    }

    /// Takes note of an answer while nobody here holds; `is_free` if it shows a lock that this
    /// process may have.
    pub(crate) fn answered(&mut self, answer: &Answer, error: Option<&Error>, is_free: bool) {
        if error.is_none() && !is_free {
            self.failure = None;
        }
        let result = match (answer, error.or(self.failure.as_ref())) {
            // Either the poll failed, or the attempt before it, and nothing else is in the way.
            (Answer::Observed(_), Some(error)) => Err(error.clone()),
            (Answer::Observed(observation), None) => Ok(observation.row.is_some()),
            // A row that was given back meanwhile is looked at once more.
            (Answer::Rejected(Rejection::Changed(Some(seen))), _) => Ok(seen.writer.id().is_some()),
            (_, Some(error)) => Err(error.clone()),
            _ => Ok(false),
        };
        if let Err(error) = &result
            && (error.is_schema() || error.is_config())
        {
            let (endure, others): (VecDeque<Waiter>, VecDeque<Waiter>) =
                std::mem::take(&mut self.waiting)
                    .into_iter()
                    .partition(|waiter| waiter.mode == WaitMode::Endures);
            self.waiting = endure;
            for waiter in others {
                // Nobody waits for it any more if it can't be delivered.
                drop(waiter.reply.send(Err(error.clone().into())));
            }
        }
        self.last = Some(LastPoll { began: self.polling_since, result });
    }

    pub(crate) fn releasing(&mut self, done: oneshot::Sender<Released>) {
        self.resigning = Some(done);
    }

    /// Notes that the release is over, one way or another.
    pub(crate) fn release_ended(&mut self, outcome: impl FnOnce() -> Released) {
        if let Some(done) = self.resigning.take() {
            // Nobody waits for it any more if it can't be delivered.
            let _ = done.send(outcome());
        }
    }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Observation, Row, Seen, Timestamp, Writer};

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    /// The answer of a poll that shows another holder.
    fn held() -> Answer {
        let row = Row {
            heartbeat: Timestamp(2),
            token: Timestamp(1),
            writer: Writer::nobody(),
            lease: None,
        };
        let (row, read_at) = (Some(row), Timestamp(3));
        Answer::Observed(Observation { row, next: None, read_at })
    }

    #[test]
    fn a_try_is_answered_by_a_poll_that_began_after_it_asked() {
        let mut waiters = Waiters::default();
        waiters.poll_begins(at(1));
        let (reply, mut answer) = oneshot::channel();
        let mode = WaitMode::Tries { asked: at(2), until: at(10) };
        waiters.add(Waiter { mode, resign: None, reply });
        let error = Error::timed_out("read", Duration::from_secs(1));
        for (polled, error) in [(held(), None), (Answer::NotApplied, Some(&error))] {
            waiters.answered(&polled, error, false);
            waiters.settle(at(3));
            assert!(answer.try_recv().is_err(), "that poll says nothing of the lock at the try");
        }

        waiters.poll_begins(at(4));
        waiters.answered(&held(), None, false);
        waiters.settle(at(5));
        assert!(
            matches!(answer.try_recv(), Ok(Err(NotGranted::Occupied))),
            "this one saw the lock held"
        );
    }

    #[test]
    fn a_try_that_lost_a_race_for_a_lock_that_was_given_back_is_not_told_that_it_is_held() {
        let another = Writer::term("b", spindle_protocol::Nonce { instance: 2, attempt: 1 });
        for (writer, is_held) in [(Writer::nobody(), false), (another, true)] {
            let mut waiters = Waiters::default();
            let (reply, mut answer) = oneshot::channel();
            let mode = WaitMode::Tries { asked: at(1), until: at(10) };
            waiters.add(Waiter { mode, resign: None, reply });
            waiters.poll_begins(at(2));
            let seen = Seen { token: Timestamp(1), writer };
            waiters.answered(&Answer::Rejected(Rejection::Changed(Some(seen))), None, false);
            waiters.settle(at(3));
            assert_eq!(answer.try_recv().is_ok(), is_held);
        }
    }

    #[test]
    fn a_try_that_loses_one_race_after_another_has_an_end() {
        let mut waiters = Waiters::default();
        let (reply, mut answer) = oneshot::channel();
        let mode = WaitMode::Tries { asked: at(1), until: at(10) };
        waiters.add(Waiter { mode, resign: None, reply });
        for (now, is_over) in [(3, false), (10, false), (11, true)] {
            waiters.poll_begins(at(2));
            waiters.answered(&Answer::Rejected(Rejection::Changed(None)), None, false);
            waiters.settle(at(now));
            assert_eq!(answer.try_recv().is_ok(), is_over, "{now}");
        }
    }
}
