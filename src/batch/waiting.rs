//! The acts that wait for one kind of request: in which order they go, and in which batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Budgets, Payment};
use super::op::{Class, Op, OpKind};
use super::request::Reply;
use super::together::{Batch, Chosen, ROWS_MAX, fill_a_request};
use super::window::Window;

/// The longest time that heartbeats gather before they leave. Tasks that wake at one tick run one
/// after another, beside the batcher's.
pub(crate) const GATHERING_MAX: Duration = Duration::from_millis(5);
/// The longest time that several polls gather, unless one of them is somebody's first look.
pub(crate) const POLLS_GATHERING_MAX: Duration = Duration::from_millis(25);
/// An act gathers for no more than this part of its patience.
const GATHERINGS: u32 = 8;

/// The acts that wait for one kind of request.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Those that repeat nothing, and those that repeat what failed; numbered as they came.
    pub(super) fresh: VecDeque<(u64, Arc<Op>)>,
    pub(super) repeats: VecDeque<(u64, Arc<Op>)>,
    /// Those whose predecessors may have held others up.
    pub(super) isolated: VecDeque<Arc<Op>>,
    pub(super) came: u64,
    /// Those that go together once more, each not before its time.
    pub(super) parts: VecDeque<(Instant, Batch)>,
    pub(super) window: Window,
    pub(super) in_flight: usize,
    /// Requests on their way with acts whose predecessors may have held others up.
    pub(super) isolated_in_flight: usize,
    /// How many such acts may share a request: more with each one that arrives.
    pub(super) isolated_max: usize,
}

impl Class {
    /// Returns how many requests may be on their way at a time, to begin with.
    pub(super) fn window(self) -> Window {
        match self {
            Class::Heartbeats => Window::new(2, 8, 32),
            Class::Polls | Class::Releases | Class::Begins => Window::new(1, 4, 16),
        }
    }

    /// Returns true if an act of this kind is repeated at no charge (I8). The parts of a batch that
    /// was refused are charged all the same.
    fn is_free(self) -> bool {
        self == Class::Heartbeats
    }
}

impl Waiting {
    pub(super) fn new(window: Window) -> Waiting {
        Waiting {
            fresh: VecDeque::new(),
            repeats: VecDeque::new(),
            isolated: VecDeque::new(),
            came: 0,
            parts: VecDeque::new(),
            window,
            in_flight: 0,
            isolated_in_flight: 0,
            isolated_max: 1,
        }
    }

    pub(super) fn add(&mut self, op: Arc<Op>) {
        self.came += 1;
        match (op.failure_count, op.is_repeat) {
            (0, false) => self.fresh.push_back((self.came, op)),
            (0, true) => self.repeats.push_back((self.came, op)),
            _ => self.isolated.push_back(op),
        }
    }

    pub(super) fn arrived(&mut self, batch: &Batch, sent: Instant, reply: Reply) {
        if batch.is_isolated {
            self.isolated_in_flight = self.isolated_in_flight.saturating_sub(1);
            let is_done = reply == Reply::Answered;
            self.isolated_max = if is_done { (self.isolated_max * 2).min(ROWS_MAX) } else { 1 };
            return;
        }
        let in_flight = self.in_flight;
        self.in_flight = in_flight.saturating_sub(1);
        if reply != Reply::Silence {
            self.window.answered(in_flight, batch.is_full().then(|| sent.elapsed()));
        } else if batch.ops.len() > 1 {
            // Of a single row nobody knows if the row is at fault, or the server.
            self.window.failed(sent, Instant::now());
        }
    }

    pub(super) fn given_up(&mut self, batch: &Batch) {
        let of = if batch.is_isolated { &mut self.isolated_in_flight } else { &mut self.in_flight };
        *of = of.saturating_sub(1);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty()
            && self.repeats.is_empty()
            && self.isolated.is_empty()
            && self.parts.is_empty()
    }

    /// Returns the one among those not isolated that came first.
    pub(super) fn first_trusted(&self) -> Option<&Arc<Op>> {
        let fronts = [self.fresh.front(), self.repeats.front()].into_iter().flatten();
        fronts.min_by_key(|(came, _)| *came).map(|(_, op)| op)
    }

    /// Returns any that waits, the first to come if it is not isolated.
    pub(super) fn first(&self) -> Option<&Arc<Op>> {
        let in_parts = self.parts.front().and_then(|(_, part)| part.ops.first());
        self.first_trusted().or(in_parts).or(self.isolated.front())
    }

    /// Returns true if more acts may still come that are due at the same tick as those that wait.
    pub(super) fn is_gathering(&self, class: Class, now: Instant) -> bool {
        self.gathers_until(class).is_some_and(|at| now < at) && !fill_a_request(self.trusted_ops())
    }

    /// The first act that came sets the moment, so none waits for another one twice.
    pub(super) fn gathers_until(&self, class: Class) -> Option<Instant> {
        let longest = match class {
            Class::Heartbeats => GATHERING_MAX,
            Class::Polls if self.polls_may_wait() => POLLS_GATHERING_MAX,
            _ => return None,
        };
        let first = self.first_trusted()?;
        let gathering = longest.min(first.patience / GATHERINGS);
        Some(first.asked + gathering)
    }

    /// A poll by itself has nobody to wait for. A caller that looks for the first time wants the lock now.
    fn polls_may_wait(&self) -> bool {
        let is_first = |op: &Arc<Op>| matches!(op.kind, OpKind::Observe { is_first: true });
        self.trusted_ops().nth(1).is_some() && !self.trusted_ops().any(is_first)
    }

    /// Returns those not isolated.
    pub(super) fn trusted_ops(&self) -> impl Iterator<Item = &Arc<Op>> {
        self.fresh.iter().chain(&self.repeats).map(|(_, op)| op)
    }

    /// Drops the next acts as long as nobody waits for them any more.
    pub(super) fn drop_idle(&mut self, now: Instant) {
        for queue in [&mut self.fresh, &mut self.repeats] {
            while queue.front().is_some_and(|(_, op)| op.is_idle()) {
                queue.pop_front();
            }
        }
        self.isolated.retain(|op| !op.is_idle());
        self.parts.retain_mut(|(_, part)| {
            part.ops.retain(|op| !op.is_idle() && !op.is_hopeless(now));
            !part.ops.is_empty()
        });
    }

    /// Returns the next batch, in this order:
    ///
    /// 1. a part whose time has come;
    /// 2. nothing else of this kind while more acts may still come that are due at the same tick;
    /// 3. acts that are not isolated, where heartbeats are late by the age of their terms;
    /// 4. isolated ones, of which two requests may be on their way besides.
    pub(super) fn next_batch(
        &mut self,
        class: Class,
        room: usize,
        (now, is_late): (Instant, bool),
        budgets: &mut Budgets,
    ) -> Option<Batch> {
        if self.is_empty() || (self.in_flight >= room && self.isolated_in_flight > 1) {
            return None;
        }
        let is_gathering = self.is_gathering(class, now);
        if is_gathering && self.parts.is_empty() {
            return None;
        }
        self.drop_idle(now);
        if self.in_flight < room {
            let ready = self.parts.iter().position(|(not_before, _)| *not_before <= now);
            if let Some(ready) = ready
                && let Some(payment) = self.parts[ready].1.payment.or_else(|| budgets.pay(class))
                && let Some((_, part)) = self.parts.remove(ready)
            {
                self.in_flight += 1;
                return Some(Batch { payment: Some(payment), ..part });
            }
            if is_gathering {
                return None;
            }
            let taken = if class == Class::Heartbeats && is_late {
                self.oldest_terms(now)
            } else {
                self.trusted(class, now, budgets)
            };
            if let Some((ops, payment)) = taken {
                self.in_flight += 1;
                return Some(Batch::new(class, ops, payment));
            }
        }
        self.next_isolated(class, budgets)
    }

    /// Takes the next acts that are not isolated, with their payment. The first to come goes
    /// first. Repeats go along for nothing, or wait until they may.
    fn trusted(
        &mut self,
        class: Class,
        now: Instant,
        budgets: &mut Budgets,
    ) -> Option<(Vec<Arc<Op>>, Option<Payment>)> {
        let is_fresh_in_reach = self.fresh.front().is_some_and(|(came, _)| {
            let before = self.repeats.partition_point(|(other, _)| other < came);
            before < ROWS_MAX
        });
        let is_charged = !is_fresh_in_reach && !class.is_free();
        let is_repeat = is_charged && !self.repeats.is_empty();
        let payment = if is_repeat { budgets.pay(class) } else { None };
        let pays = !is_charged || payment.is_some();
        let mut chosen = Chosen::new(class);
        loop {
            let (fresh, repeat) = (self.fresh.front(), self.repeats.front().filter(|_| pays));
            let queue = match (fresh, repeat) {
                (Some((one, _)), Some((other, _))) if other < one => &mut self.repeats,
                (None, Some(_)) => &mut self.repeats,
                (Some(_), _) => &mut self.fresh,
                (None, None) => break,
            };
            if !queue.front().is_some_and(|(_, op)| chosen.has_room_for(op)) {
                break;
            }
            let is_of_use = |op: &Op| !op.is_idle() && !op.is_hopeless(now);
            if let Some((came, op)) = queue.pop_front().filter(|(_, it)| is_of_use(it)) {
                chosen.add(came, op);
            }
        }
        let Chosen { ops, twice, .. } = chosen;
        for (came, op) in twice.into_iter().rev() {
            let queue = if op.is_repeat { &mut self.repeats } else { &mut self.fresh };
            queue.push_front((came, op));
        }
        (!ops.is_empty()).then_some((ops, payment))
    }

    /// Takes the heartbeats of the oldest terms. Where there are more than the server carries,
    /// always the same ones fail; in the order in which they came, all would be late in turn.
    fn oldest_terms(&mut self, now: Instant) -> Option<(Vec<Arc<Op>>, Option<Payment>)> {
        let waiting = self.fresh.drain(..).chain(self.repeats.drain(..));
        let is_of_use = |op: &Op| !op.is_idle() && !op.is_hopeless(now);
        let mut waiting: Vec<_> = waiting.filter(|(_, op)| is_of_use(op)).collect();
        waiting.sort_by_key(|(_, op)| op.kind.term_began());
        let (mut chosen, mut left) = (Chosen::new(Class::Heartbeats), Vec::new());
        for (came, op) in waiting {
            if chosen.has_room_for(&op) {
                chosen.add(came, op);
            } else {
                left.push((came, op));
            }
        }
        left.append(&mut chosen.twice);
        left.sort_by_key(|(came, _)| *came);
        for (came, op) in left {
            let queue = if op.is_repeat { &mut self.repeats } else { &mut self.fresh };
            queue.push_back((came, op));
        }
        (!chosen.ops.is_empty()).then_some((chosen.ops, None))
    }

    fn next_isolated(&mut self, class: Class, budgets: &mut Budgets) -> Option<Batch> {
        if self.isolated_in_flight > 1 || self.isolated.is_empty() {
            return None;
        }
        let payment = if class.is_free() { None } else { budgets.pay(class) };
        let taken = if class.is_free() || payment.is_some() {
            self.isolated(class)
        } else {
            // Those that repeat nothing go all the same, and so in one request.
            self.take(class, ROWS_MAX, |op| !op.is_repeat)
        };
        if taken.is_empty() {
            return None;
        }
        self.isolated_in_flight += 1;
        Some(Batch { is_isolated: true, ..Batch::new(class, taken, payment) })
    }

    /// Takes acts whose predecessors may have held others up: those least isolated together, and
    /// beside them the act that has waited longest, alone.
    fn isolated(&mut self, class: Class) -> Vec<Arc<Op>> {
        if self.isolated_in_flight > 0 {
            return self.take(class, 1, |_| true);
        }
        let least = self.isolated.iter().map(|op| op.failure_count).min();
        self.take(class, self.isolated_max, |op| Some(op.failure_count) == least)
    }

    /// Takes those isolated that suit and may share a request.
    fn take(&mut self, class: Class, max: usize, suits: impl Fn(&Op) -> bool) -> Vec<Arc<Op>> {
        let mut chosen = Chosen::new(class);
        let mut left = VecDeque::new();
        for op in std::mem::take(&mut self.isolated) {
            if chosen.ops.len() < max && suits(&op) && chosen.has_room_for(&op) {
                chosen.add(0, op);
            } else {
                left.push_back(op);
            }
        }
        left.extend(chosen.twice.into_iter().map(|(_, op)| op));
        self.isolated = left;
        chosen.ops
    }
}
