//! The contract: what the proof asks of an instance, checked beside one step of it.

use super::{Attempt, Instance, Phase, Turn};
use crate::{Act, Announcement, Answer, Decision, Event, Moment, Nonce, Observation, Timestamp};

impl Instance {
    /// Returns the rule of docs/proof.md that a step breaks, if it breaks one. The step was from
    /// `before`, by `event` at `now`, to this instance and `decision`.
    ///
    /// For the model and the simulation, which ask at every step.
    #[doc(hidden)]
    pub fn broken_rule(
        &self,
        before: &Instance,
        now: Moment,
        event: &Event,
        decision: &Decision,
    ) -> Option<&'static str> {
        let is_kept = [
            (
                "an attempt leaves after a read of exactly the row that it names",
                self.may_attempt(before, now, event, decision),
            ),
            ("a heartbeat leaves a believed term", self.may_heartbeat(before, now, decision)),
            (
                "validity counts from a request that is known to be applied",
                self.may_believe(before, now, event, decision),
            ),
            (
                "what is believed is announced, and nothing that is over",
                self.is_announced(before, now, decision),
            ),
            (
                "a release leaves a term that is not believed, and names no holder",
                self.may_release(decision),
            ),
        ];
        is_kept.into_iter().find(|(_, is_kept)| !is_kept).map(|(rule, _)| rule)
    }

    fn may_attempt(
        &self,
        before: &Instance,
        now: Moment,
        event: &Event,
        decision: &Decision,
    ) -> bool {
        let (seen, writer) = match &decision.act {
            Some(Act::Insert { writer }) => (None, writer),
            Some(Act::Takeover { seen, writer, .. }) => (Some(seen), writer),
            _ => return self.attempts == before.attempts,
        };
        let Event::Answer(Answer::Observed(read)) = event else { return false };
        let is_vacant = seen.is_none_or(|row| {
            let lease = self.timing.lease.max(row.lease.unwrap_or_default());
            let is_ours = row.writer.nonce().is_some_and(|nonce| nonce.instance == self.nonce);
            row.heartbeat == Timestamp::EPOCH
                || read.read_at.since(row.heartbeat) >= lease
                || (is_ours && before.term().is_none())
        });
        let fresh = Nonce { instance: self.nonce, attempt: self.attempts };
        let is_fresh = self.attempts > before.attempts && writer.nonce() == Some(fresh);
        let is_noted = matches!(&self.phase, Phase::Beginning(attempt)
            if attempt.sent == now && attempt.observed == read.read_at && attempt.writer == *writer);
        seen == read.row.as_ref() && is_vacant && is_fresh && is_noted
    }

    fn may_heartbeat(&self, before: &Instance, now: Moment, decision: &Decision) -> bool {
        match (&decision.act, &self.phase, &before.phase) {
            (Some(Act::Heartbeat { term, .. }), Phase::Holding(held), _) => {
                held.id == *term && held.heartbeat == Turn::Asked { sent: now }
            }
            (Some(Act::Heartbeat { .. }), ..) => false,
            (_, Phase::Holding(held), Phase::Holding(before)) => {
                !matches!(held.heartbeat, Turn::Asked { .. }) || held.heartbeat == before.heartbeat
            }
            (_, Phase::Holding(held), _) => !matches!(held.heartbeat, Turn::Asked { .. }),
            _ => true,
        }
    }

    fn may_believe(
        &self,
        before: &Instance,
        now: Moment,
        event: &Event,
        decision: &Decision,
    ) -> bool {
        let validity = self.timing.lease - self.timing.clock_drift_margin;
        let is_resolved_by = |attempt: &Attempt, read: &Observation, token: Timestamp| {
            read.row.as_ref().is_some_and(|row| {
                row.writer == attempt.writer && (row.heartbeat, row.token) == (token, token)
            }) && attempt.observed < token
                && token <= read.read_at
        };
        match (&decision.announce, &before.phase, event) {
            (
                Some(Announcement::Began { token, writer, valid_until }),
                Phase::Beginning(attempt) | Phase::Resolving(attempt, _),
                Event::Answer(answer),
            ) => {
                let is_applied = match answer {
                    Answer::Applied { at } => at == token,
                    Answer::Observed(read) => is_resolved_by(attempt, read, *token),
                    _ => false,
                };
                is_applied && *writer == attempt.writer && *valid_until == attempt.sent + validity
            }
            (
                Some(Announcement::Extended { valid_until }),
                Phase::Holding(held),
                Event::Answer(Answer::Applied { .. }),
            ) => {
                let is_of = |sent| *valid_until == sent + validity && now < held.renewed + validity;
                matches!(held.heartbeat, Turn::Asked { sent } if is_of(sent))
            }
            (Some(Announcement::Began { .. } | Announcement::Extended { .. }), ..) => false,
            _ => match (&before.phase, &self.phase) {
                (Phase::Beginning(sent) | Phase::Resolving(sent, _), Phase::Resolving(kept, _)) => {
                    sent == kept
                }
                _ => !matches!(self.phase, Phase::Resolving(..)),
            },
        }
    }

    fn is_announced(&self, before: &Instance, now: Moment, decision: &Decision) -> bool {
        let told = match &decision.announce {
            Some(Announcement::Began { token, valid_until, .. }) => Some((*token, *valid_until)),
            Some(Announcement::Extended { valid_until }) => {
                before.term().map(|(token, _)| (token, *valid_until))
            }
            Some(Announcement::Ended { .. }) => None,
            None => before.term(),
        };
        self.term() == told && told.is_none_or(|(_, until)| now < until)
    }

    fn may_release(&self, decision: &Decision) -> bool {
        let Some(Act::Release { next, .. }) = &decision.act else { return true };
        self.term().is_none() && next.writer().id().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Succession, Timing, Writer};

    /// A step that was taken, to be changed.
    struct Step {
        before: Instance,
        now: Moment,
        event: Event,
        after: Instance,
        decision: Decision,
    }

    impl Step {
        fn of(before: &Instance, seconds: u64, event: Event) -> Step {
            let (mut after, now) = (before.clone(), Moment(Duration::from_secs(seconds)));
            let decision = after.decide(now, event.clone());
            let step = Step { before: before.clone(), now, event, after, decision };
            assert_eq!(step.broken(), None);
            step
        }

        fn broken(&self) -> Option<&'static str> {
            self.after.broken_rule(&self.before, self.now, &self.event, &self.decision)
        }

        /// Says that the step breaks the rule that begins so once it is changed.
        fn breaks(&mut self, rule: &str, change: impl FnOnce(&mut Step)) {
            change(self);
            let broken = self.broken();
            assert!(
                broken.is_some_and(|broken| broken.starts_with(rule)),
                "{broken:?}, not {rule}"
            );
        }
    }

    fn read(row: Option<crate::Row>) -> Event {
        let read_at = Timestamp(1_000);
        Event::Answer(Answer::Observed(Observation { row, next: None, read_at }))
    }

    fn applied() -> Event {
        Event::Answer(Answer::Applied { at: Timestamp(2_000) })
    }

    #[test]
    fn each_rule_tells_a_step_that_breaks_it() {
        let timing = Timing::from_lease(Duration::from_secs(10));
        let start = Instance::new("a", 7, timing, Moment::default());
        let polls = Step::of(&start, 0, Event::Wake);
        let mut attempts = Step::of(&polls.after, 0, read(None));
        let mut begins = Step::of(&attempts.after, 1, applied());
        let mut beats = Step::of(&begins.after, 5, Event::Wake);
        let mut renews = Step::of(&beats.after, 6, applied());
        let mut releases = Step::of(&renews.after, 7, Event::LetGo { next: Succession::Anyone });

        let writer = Writer::from("somebody");
        let (heartbeat, token) = (Timestamp(999), Timestamp(999));
        let held = crate::Row { heartbeat, token, writer, lease: None };
        attempts.breaks("an attempt", |step| step.event = read(Some(held)));
        begins.breaks("validity", |step| step.event = Event::Answer(Answer::Unknown));
        beats.breaks("a heartbeat", |step| step.after = step.before.clone());
        renews.breaks("what is believed", |step| step.after = step.before.clone());
        releases.breaks("a release", |step| {
            let Some(Act::Release { next, .. }) = &mut step.decision.act else {
                panic!("{:?}", step.decision);
            };
            *next = Succession::Successor { id: "b".into(), grace: Duration::ZERO };
            step.decision.announce = None;
            step.after = step.before.clone();
        });
    }
}
