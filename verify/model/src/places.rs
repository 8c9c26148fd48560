//! Places in line: what a commit may do to them, and what is noticed of them.

use std::time::Duration;

use spindle_protocol::line::{Place, Standing, waiter_of};
use spindle_protocol::{
    Act, Event, Instance, Named, Row, StoredRow, Succession, Timestamp, Writer,
};

use crate::history::{Goal, Invariant};
use crate::scenario::{Member, Scenario};
use crate::table::LOCK;
use crate::world::World;

impl World {
    /// Judges what an act did to the place in line; `before` is the lock's row as it stood.
    pub(crate) fn judge_place(&mut self, act: &Act, before: &StoredRow) {
        let Some(after) = self.table.get(LOCK).cloned() else { return };
        match act {
            Act::Mark { place } => self.judge_mark(place, before, &after),
            Act::Takeover { writer, passes, .. } => {
                self.judge_begin(writer, passes.as_ref(), before, &after);
            }
            Act::Release { next: Succession::InLine { grace }, .. } => {
                self.judge_hand_over(*grace, before, &after);
            }
            _ => {}
        }
    }

    fn judge_mark(&mut self, place: &Place, before: &StoredRow, after: &StoredRow) {
        self.history.notes.meet(Goal::TookPlace);
        let former = Place::of(before);
        if former.is_some_and(|it| it.id() == place.id() && it.waiter != place.waiter) {
            self.history.notes.meet(Goal::ReplacedFormer);
        }
        if is_of(&before.writer, &place.waiter) {
            self.history.notes.meet(Goal::OwnPlace);
        }
        let rest = |row: &StoredRow| StoredRow { next: None, ..row.clone() };
        if rest(before) != rest(after) {
            self.history.notes.breaks(Invariant::Hint);
        }
    }

    fn judge_begin(
        &mut self,
        writer: &Writer,
        passes: Option<&Place>,
        before: &StoredRow,
        after: &StoredRow,
    ) {
        let Some(place) = Place::of(before) else { return };
        let is_own = is_of(writer, &place.waiter);
        let is_promised =
            matches!(before.writer.names(), Named::Successor(process) if is_of(writer, process));
        let is_passed = passes == Some(&place) && !is_own && !is_promised;
        if is_passed {
            self.history.notes.meet(Goal::PassedPlace);
        }
        let stands = if is_own || is_passed { &None } else { &before.next };
        if after.next != *stands {
            self.history.notes.breaks(Invariant::Begin);
        }
    }

    /// The release of a holder that names nobody itself.
    fn judge_hand_over(&mut self, grace: Duration, before: &StoredRow, after: &StoredRow) {
        let first = Place::of(before).filter(|place| !is_of(&before.writer, &place.waiter));
        let promised = match after.writer.names() {
            Named::Successor(waiter) => Some((waiter, after.row().lease)),
            _ => None,
        };
        if first.as_ref().map(|place| (&*place.waiter, Some(grace))) != promised
            || after.next.is_some()
        {
            self.history.notes.breaks(Invariant::HandOver);
        }
        if first.is_some() {
            self.history.notes.meet(Goal::LeftToFirst);
        }
    }

    /// Has a holder that has looked end its term, if it is to yield to who stands first.
    pub(crate) fn look(&mut self, index: usize, scenario: &Scenario) {
        let Some(place) = self.table.get(LOCK).and_then(Place::of) else { return };
        let node = &self.nodes[index];
        let yields = |it: &Instance| it.yields_to(node.now(), &place);
        let token = node.published.as_ref().map(|published| published.token);
        let Some(token) = token.filter(|_| node.instance.as_ref().is_some_and(yields)) else {
            return;
        };
        self.judge_yield(token, &place, &scenario.members[index]);
        self.history.notes.meet(Goal::Yielded);
        self.decide(index, Event::LetGo { next: Succession::Anyone }, scenario);
    }

    /// Judges that a holder ends its term for a higher rank that waits.
    fn judge_yield(&mut self, token: Timestamp, place: &Place, member: &Member) {
        let rank = match member.standing {
            Standing::Ranked { rank, preempts: true } => rank,
            _ => u32::MAX,
        };
        let age = self.spanner().since(token);
        if place.rank <= rank || age < member.timing.lease * 10 {
            self.history.notes.breaks(Invariant::Yields);
        }
    }

    /// Notes that a takeover displaced a row that was promised to one process.
    pub(crate) fn note_promise(&mut self, row: &Row, writer: &Writer) {
        let Named::Successor(promised) = row.writer.names() else { return };
        match self.lives(promised) {
            _ if is_of(writer, promised) => self.history.notes.meet(Goal::FirstTook),
            Some(false) => self.history.notes.meet(Goal::PassedDead),
            _ => {}
        }
    }

    /// Returns since when the lock is promised to a process that is dead; none if it isn't.
    pub(crate) fn promised_to_the_dead_from(&self) -> Option<Timestamp> {
        let row = self.table.lock().filter(Row::is_released)?;
        let Named::Successor(promised) = row.writer.names() else { return None };
        (self.lives(promised) == Some(false)).then_some(row.token)
    }

    /// Returns true if this one process lives; none if it is no process's name.
    fn lives(&self, waiter: &str) -> Option<bool> {
        let (_, nonce) = waiter.rsplit_once('#')?;
        let nonce = u64::from_str_radix(nonce, 16).ok()?;
        let of_nonce = |index: usize| self.nodes[index].nonce(index) == nonce;
        let node = (0..self.nodes.len()).find(|index| of_nonce(*index));
        Some(node.is_some_and(|index| self.nodes[index].instance.is_some()))
    }
}

/// Returns true if this is a term of the process that stood in line.
pub(crate) fn is_of(writer: &Writer, promised: &str) -> bool {
    waiter_of(writer).as_deref() == Some(promised)
}
