//! Who in this process asks for the lock, who of them has it, and what became of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle_protocol::{Answer, Moment, Rejection, Row, Succession};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::status::{Loss, Term};
use crate::token::FencingToken;

/// One request for the lock. Whoever asked and is gone has closed the reply.
pub(crate) struct Claim {
    pub(crate) patience: Patience,
    /// Fired to ask whoever holds to let go; without it, a resignation ends the term at once.
    pub(crate) asked_to_go: Option<CancellationToken>,
    pub(crate) reply: oneshot::Sender<Result<Result<Grant, Occupied>>>,
}

/// How long a claim waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it has the lock.
    Waits,
    /// One look, begun at or after this moment.
    LooksOnce(Moment),
}

/// The lock, given to one claim. Dropping `end` lets go of it.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) term: Term,
    pub(crate) end: oneshot::Sender<End>,
}

/// How whoever has the lock lets go of it.
#[derive(Debug)]
pub(crate) enum End {
    /// Release it, and say what came of that.
    Release { parting: Parting, done: oneshot::Sender<Release> },
    /// Send no more heartbeats, but release nothing.
    Lapse,
}

/// What a release leaves in the row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parting {
    pub(crate) next: Succession,
    pub(crate) info: Option<String>,
}

/// What came of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// Spanner acknowledged it: the lock is free.
    Released,
    /// The term had ended before, and there was nothing to release.
    EndedBefore(Loss),
    /// No answer within the release limit: the lock is free once the lease has run out, if not
    /// already.
    Unacknowledged,
}

/// Why the lock could not be had at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupied {
    /// Who holds; nobody where the lock was taken from its holder and must still be waited for, or
    /// is reserved.
    pub holder: Option<String>,
    /// For whom the last holder reserved the lock, for a bounded time.
    pub reserved_for: Option<String>,
    /// The token in the row.
    pub token: FencingToken,
}

impl Occupied {
    /// Since when the holder holds, or the lock is reserved, by Spanner's clock.
    pub fn since(&self) -> DateTime<Utc> {
        self.token.to_datetime()
    }
}

/// What a claimant did.
pub(crate) enum Heard {
    /// Whoever had the lock let go of it: so, or by dropping it.
    LetGo(Option<End>),
    /// Somebody who waited is gone.
    Left,
}

#[derive(Default)]
pub(crate) struct Claims {
    waiting: VecDeque<Claim>,
    holding: Option<Holding>,
    farewell: Option<Farewell>,
    /// When the last look began.
    looking_since: Moment,
    last: Option<Look>,
}

struct Holding {
    end: oneshot::Receiver<End>,
    asked_to_go: Option<CancellationToken>,
}

/// A release whose outcome somebody waits for.
struct Farewell {
    done: oneshot::Sender<Release>,
    maybe_applied: bool,
    outcome: Release,
}

/// What the last answer said of the lock.
struct Look {
    began: Moment,
    result: Result<Option<Occupied>>,
}

impl Claims {
    pub(crate) fn are_any(&self) -> bool {
        self.holding.is_some() || self.is_any_waiting()
    }

    pub(crate) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn add(&mut self, claim: Claim) {
        self.waiting.push_back(claim);
    }

    /// Asks whoever has the lock to let go, if it wants to be asked.
    pub(crate) fn ask_to_go(&self) -> bool {
        let asked = self.holding.as_ref().and_then(|holding| holding.asked_to_go.as_ref());
        asked.map(CancellationToken::cancel).is_some()
    }

    /// The next thing that a claimant does.
    pub(crate) async fn next(&mut self) -> Heard {
        poll_fn(|context| {
            if let Some(holding) = &mut self.holding
                && let Poll::Ready(end) = Pin::new(&mut holding.end).poll(context)
            {
                self.holding = None;
                return Poll::Ready(Heard::LetGo(end.ok()));
            }
            let before = self.waiting.len();
            self.waiting.retain_mut(|claim| claim.reply.poll_closed(context).is_pending());
            if self.waiting.len() < before { Poll::Ready(Heard::Left) } else { Poll::Pending }
        })
        .await
    }

    /// The term is over; whoever has it learns that from the term.
    pub(crate) fn term_ended(&mut self) {
        self.holding = None;
    }

    /// Gives the term to the first claimant that is still there.
    pub(crate) fn grant(&mut self, term: &Term) {
        while self.holding.is_none()
            && let Some(Claim { asked_to_go, reply, .. }) = self.waiting.pop_front()
        {
            let (sender, end) = oneshot::channel();
            if reply.send(Ok(Ok(Grant { term: term.clone(), end: sender }))).is_ok() {
                self.holding = Some(Holding { end, asked_to_go });
            }
        }
    }

    /// Tells those who only look that this process has the lock itself.
    pub(crate) fn refuse_lookers(&mut self, occupied: &Occupied) {
        self.answer_lookers(|_| Some(Ok(Err(occupied.clone()))));
    }

    /// Nothing is under way: those who only look have their answer, unless it came too early.
    pub(crate) fn settle(&mut self, limit: Duration, now: Moment) {
        let Some(Look { began, result }) = self.last.take() else { return };
        self.answer_lookers(|asked| match &result {
            Ok(Some(occupied)) => (began >= asked).then(|| Ok(Err(occupied.clone()))),
            // A lost race says nothing of who won it; the next look does.
            Ok(None) => None,
            Err(error) => {
                let lost_race = error.code() == Some(google_cloud_gax::error::rpc::Code::Aborted);
                (!lost_race || now.since(asked) > limit).then(|| Err(error.clone()))
            }
        });
    }

    fn answer_lookers(
        &mut self,
        answer: impl Fn(Moment) -> Option<Result<Result<Grant, Occupied>>>,
    ) {
        for claim in std::mem::take(&mut self.waiting) {
            let answer = match claim.patience {
                Patience::Waits => None,
                Patience::LooksOnce(asked) => answer(asked),
            };
            match answer {
                // Nobody waits for it any more if it can't be delivered.
                Some(answer) => drop(claim.reply.send(answer)),
                None => self.waiting.push_back(claim),
            }
        }
    }

    pub(crate) fn look_begins(&mut self, now: Moment) {
        self.looking_since = now;
    }

    /// Takes note of an answer while nobody here holds.
    pub(crate) fn answered(&mut self, answer: &Answer, error: Option<&Error>) {
        let result = match (answer, error) {
            (Answer::Observed(observation), _) => Ok(observation.row.as_ref().map(Occupied::by)),
            (Answer::Rejected(Rejection::Changed(Some(seen))), _) => Ok(Some(Occupied {
                holder: seen.writer.id().map(str::to_string),
                reserved_for: None,
                token: FencingToken::from_timestamp(seen.token),
            })),
            (_, Some(error)) => Err(error.clone()),
            _ => Ok(None),
        };
        if let Err(error) = &result
            && (error.is_schema() || error.is_denied())
        {
            // Waiting can't cure it.
            for claim in self.waiting.drain(..) {
                drop(claim.reply.send(Err(error.clone())));
            }
        }
        self.last = Some(Look { began: self.looking_since, result });
    }

    pub(crate) fn releasing(&mut self, done: oneshot::Sender<Release>) {
        let outcome = Release::Unacknowledged;
        self.farewell = Some(Farewell { done, maybe_applied: false, outcome });
    }

    /// Takes note of an answer to a release.
    pub(crate) fn release_answered(&mut self, answer: &Answer) {
        let Some(farewell) = &mut self.farewell else { return };
        match answer {
            Answer::Applied { .. } => farewell.outcome = Release::Released,
            // The row has changed because an earlier try did arrive.
            Answer::Rejected(_) if farewell.maybe_applied => farewell.outcome = Release::Released,
            Answer::Rejected(rejection) => {
                let by = match rejection {
                    Rejection::Changed(seen) => seen.clone(),
                    Rejection::TakeoverRowExists | Rejection::Needless => None,
                };
                farewell.outcome = Release::EndedBefore(Loss::superseded(by));
            }
            Answer::Unknown => farewell.maybe_applied = true,
            Answer::NotApplied | Answer::Observed(_) | Answer::Swept { .. } => {}
        }
    }

    /// The release is over, one way or another.
    pub(crate) fn release_ended(&mut self) {
        if let Some(Farewell { done, outcome, .. }) = self.farewell.take() {
            // Nobody waits for it any more if it can't be delivered.
            let _ = done.send(outcome);
        }
    }
}

impl Occupied {
    fn by(row: &Row) -> Occupied {
        Occupied {
            holder: row.writer.id().filter(|_| !row.is_released()).map(str::to_string),
            reserved_for: row.writer.successor_id().map(str::to_string),
            token: FencingToken::from_timestamp(row.token),
        }
    }
}
