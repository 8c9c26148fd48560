//! I7: a term that ends is announced before it expires locally and before any further I/O, for as
//! long as the process runs.

use std::time::Duration;

use spindle::{CancellationToken, FencingToken, Term, TermEnd, simulation};
use spindle_protocol::{Act, Writer};

use crate::coverage::CoverageGoal;
use crate::process::Process;

/// The term of one process, from its publication until its end was announced.
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

    /// The process has just run, or is paused and only looked at.
    pub(super) fn step(
        &mut self,
        process: &Process,
        held: Option<FencingToken>,
        now: Duration,
        coverage: &mut Vec<CoverageGoal>,
    ) -> Result<(), String> {
        let is_other = |watched: &mut Watched| {
            watched.cancelled.is_cancelled() || Some(watched.term.token()) != held
        };
        let ended = self.0.take_if(is_other);
        let judged = ended.map_or(Ok(()), |ended| self.judge(ended, process, now, coverage));
        if held.is_some()
            && let Some(term) = process.term()
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
        process: &Process,
        now: Duration,
        coverage: &mut Vec<CoverageGoal>,
    ) -> Result<(), String> {
        let (lock, who) = (&process.lock_name, process.who);
        let token = ended.term.token();
        let timing = &process.timing();
        // A nap is measured by the runtime's clock, which may differ by the margin from the own.
        let slack = timing.lease / 1_000 + Duration::from_millis(10);
        let just_woke =
            process.last_paused(now).is_some_and(|last| now <= last + Duration::from_millis(5));
        if !ended.cancelled.is_cancelled() {
            if just_woke {
                // It had no chance to say so yet.
                self.0 = Some(ended);
                return Ok(());
            }
            return Err(format!("lock `{lock}`: #{who} lost {token} without being told"));
        }
        coverage.extend(match ended.term.ended() {
            Some(TermEnd::OutOfContact) => Some(CoverageGoal::OutOfContact),
            Some(TermEnd::Expired) => Some(CoverageGoal::Expired),
            Some(TermEnd::Superseded { .. }) => Some(CoverageGoal::Superseded),
            _ => None,
        });
        let remaining = ended.term.remaining();
        let owed = timing.validity().saturating_sub(timing.renew_deadline);
        match ended.term.ended() {
            _ if just_woke => Ok(()),
            Some(TermEnd::Expired | TermEnd::OutOfContact) if remaining + slack < owed => {
                Err(format!(
                    "lock `{lock}`: #{who} was told of the end of {token} with {remaining:?} left of {owed:?}"
                ))
            }
            Some(_) => Ok(()),
            None => Err(format!("lock `{lock}`: #{who} lost {token} for no reason")),
        }
    }

    /// The process is about to send something.
    pub(super) fn before_act(&self, process: &Process, act: &Act) -> Result<(), String> {
        if matches!(act, Act::Heartbeat { .. } | Act::Sweep { .. }) {
            return Ok(());
        }
        let believes = process.has_lock().is_some()
            || self.0.as_ref().is_some_and(|watched| !watched.cancelled.is_cancelled());
        if believes {
            let (lock, who) = (&process.lock_name, process.who);
            return Err(format!(
                "lock `{lock}`: #{who} sends {act:?} and still says that it holds"
            ));
        }
        Ok(())
    }
}
