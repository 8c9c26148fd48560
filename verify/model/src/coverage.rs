//! The events that a step is noticed to have caused, so that a vacuous exploration is seen as one.

use spindle_protocol::{Act, Answer, Rejection, Row, Timestamp, Writer};

use crate::history::{Goal, Invariant, Term};
use crate::node::Asked;
use crate::places::is_of;
use crate::scenario::Scenario;
use crate::world::World;

impl World {
    /// Notes that a takeover displaced `row`.
    pub(crate) fn note_takeover(&mut self, row: &Row, writer: &Writer, at: Timestamp) {
        self.history.notes.meet(Goal::TookOver);
        let is_refused = |term: &Term| !self.table.fence_holds(term.token, &term.writer);
        if self.history.begun.iter().any(|term| term.announced && is_refused(term)) {
            self.history.notes.meet(Goal::FenceRefused);
        }
        if self.history.interfered {
            self.history.notes.meet(Goal::TookInterfered);
        }
        if row.writer == Writer::nobody() && !row.is_released() {
            self.history.notes.meet(Goal::EvictedWaited);
        }
        let too_soon = row.is_released() && at < row.token + row.lease.unwrap_or_default();
        match row.writer.as_str().strip_prefix('>') {
            None => {}
            Some(successor) if Some(successor) == writer.id() => {
                self.history.notes.meet(Goal::SuccessorTook);
            }
            Some(process) if is_of(writer, process) => {}
            Some(_) if too_soon => self.history.notes.breaks(Invariant::Grace),
            Some(_) => {}
        }
        self.note_promise(row, writer);
        if let (Some(old), Some(new)) = (row.writer.nonce(), writer.nonce()) {
            if old.instance == new.instance {
                self.history.notes.meet(Goal::TookOwn);
            } else if row.writer.id() == writer.id() {
                self.history.notes.meet(Goal::TookFormerLife);
            }
        }
    }

    /// Notes that a contender was shown a row.
    pub(crate) fn note_waiting(&mut self, index: usize, answer: &Answer, scenario: &Scenario) {
        let Answer::Observed(observation) = answer else { return };
        let Some(row) = &observation.row else { return };
        let own = scenario.members[index].timing.lease;
        let expired = |lease| row.heartbeat + lease <= observation.read_at;
        if !row.is_released() && expired(own) && row.lease.is_some_and(|lease| !expired(lease)) {
            self.history.notes.meet(Goal::LongerLease);
        }
    }

    /// Notes that a process heard an answer.
    pub(crate) fn note_heard(
        &mut self,
        index: usize,
        asked: Option<Asked>,
        answer: &Answer,
        held: bool,
        resolves: bool,
    ) {
        let node = &self.nodes[index];
        let began = !held && node.published.is_some();
        let releases = matches!(&node.asked, Some(Asked { act: Act::Release { .. }, .. }));
        let attempted = asked.is_some_and(|asked| asked.is_attempt());
        let mark = match answer {
            _ if resolves && began => Goal::ResolvedOurs,
            _ if resolves && !releases => Goal::ResolvedNotOurs,
            _ if (resolves || attempted) && releases && !node.wanted => Goal::GivenBack,
            _ if (resolves || attempted) && releases => Goal::StoppedInAttempt,
            Answer::Applied { .. } if attempted && !began => Goal::TooLate,
            Answer::Rejected(Rejection::Changed(_)) if attempted => Goal::Collided,
            _ => return,
        };
        self.history.notes.meet(mark);
    }
}
