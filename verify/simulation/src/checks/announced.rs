//! I7: a term that ends is announced before it expires locally and before any further I/O, for as
//! long as the instance runs.

use std::time::Duration;

use spindle::{CancellationToken, FencingToken, Term, TermEnd, simulation};
use spindle_protocol::{Act, Writer};

use crate::coverage::CoverageGoal;
use crate::instance::Instance;
use crate::timeline::Timeline;

/// The term of one instance, from its publication until its end was announced.
#[derive(Debug, Default)]
pub(super) struct Announced(Option<Watched>);

#[derive(Debug)]
struct Watched {
    term: Term,
    cancelled: CancellationToken,
}

impl Announced {
    pub(super) fn is_watching(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn is_new(&self, token: FencingToken) -> bool {
        self.0.as_ref().is_none_or(|watched| watched.term.token() != token)
    }

    pub(super) fn writer(&self) -> Option<Writer> {
        self.0.as_ref().map(|watched| Writer::from(simulation::writer(&watched.term)))
    }

    /// The instance has just run, or is paused and only looked at.
    pub(super) fn step(
        &mut self,
        instance: &Instance,
        held: Option<FencingToken>,
        timeline: &Timeline,
    ) -> Result<(), String> {
        let is_other = |watched: &mut Watched| {
            watched.cancelled.is_cancelled() || Some(watched.term.token()) != held
        };
        let ended = self.0.take_if(is_other);
        let judged = ended.map_or(Ok(()), |ended| self.judge(ended, instance, timeline));
        if held.is_some()
            && let Some(term) = instance.term()
            && self.is_new(term.token())
        {
            let cancelled = term.cancellation();
            self.0 = Some(Watched { term, cancelled });
        }
        judged
    }

    fn judge(
        &mut self,
        ended: Watched,
        instance: &Instance,
        timeline: &Timeline,
    ) -> Result<(), String> {
        let now = timeline.now();
        let (lock, who) = (&instance.lock_name, instance.who);
        let token = ended.term.token();
        let timing = &instance.plan.timing;
        // A nap is measured by the runtime's clock, which may differ by the margin from the own.
        let slack = timing.lease / 1_000 + Duration::from_millis(10);
        let just_woke =
            instance.last_paused(now).is_some_and(|last| now <= last + Duration::from_millis(5));
        if !ended.cancelled.is_cancelled() {
            if just_woke {
                // It had no chance to say so yet.
                self.0 = Some(ended);
                return Ok(());
            }
            return Err(format!("lock `{lock}`: #{who} lost {token} without being told"));
        }
        match ended.term.ended() {
            Some(TermEnd::OutOfContact { .. }) => timeline.saw(CoverageGoal::OutOfContact),
            Some(TermEnd::Expired) => timeline.saw(CoverageGoal::Expired),
            Some(TermEnd::Superseded { .. }) => timeline.saw(CoverageGoal::Superseded),
            _ => {}
        }
        let remaining = ended.term.remaining();
        let owed = timing.validity().saturating_sub(timing.renew_deadline);
        match ended.term.ended() {
            _ if just_woke => Ok(()),
            Some(TermEnd::Expired | TermEnd::OutOfContact { .. }) if remaining + slack < owed => {
                Err(format!(
                    "lock `{lock}`: #{who} was told of the end of {token} with {remaining:?} left of {owed:?}"
                ))
            }
            Some(_) => Ok(()),
            None => Err(format!("lock `{lock}`: #{who} lost {token} for no reason")),
        }
    }

    /// The instance is about to send something.
    pub(super) fn before_act(&self, instance: &Instance, act: &Act) -> Result<(), String> {
        if matches!(act, Act::Heartbeat { .. }) {
            return Ok(());
        }
        let believes = instance.has_lock().is_some()
            || self.0.as_ref().is_some_and(|watched| !watched.cancelled.is_cancelled());
        if believes {
            let (lock, who) = (&instance.lock_name, instance.who);
            return Err(format!(
                "lock `{lock}`: #{who} sends {act:?} and still says that it holds"
            ));
        }
        Ok(())
    }
}
