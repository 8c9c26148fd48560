//! The queues of a batcher: which kind of request goes next.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Budget, Budgets, Payment};
use super::op::{Class, Op};
use super::request::Reply;
use super::together::{Batch, fill_a_request};
use super::waiting::Waiting;
use super::window::{Growth, Pause};

/// Heartbeats that have waited in the queue beyond their patience keep other requests back for so
/// many times as long.
const HELD_BACK: u32 = 3;

/// How long transactions stay apart after the server has ended one for another: at first, and at
/// most. After that they are tried side by side again.
const APART_MIN: Duration = Duration::from_secs(10);
const APART_MAX: Duration = Duration::from_secs(600);

/// All that waits.
#[derive(Debug)]
pub(crate) struct Queues {
    queues: [Waiting; Class::ALL.len()],
    budgets: Budgets,
    /// While transactions of several requests are not open side by side on one session. Some
    /// servers, Google's emulator among them, end the earlier one when another begins. Nothing says
    /// so but what becomes of them.
    apart: Pause,
    growth: Growth,
    /// All requests on their way, and those among them that are to be alone.
    in_flight: usize,
    alone_in_flight: usize,
    last_departed: Instant,
    /// The kind that went last besides heartbeats, while transactions are apart.
    last: usize,
    /// Until when nobody polls and no term begins, because heartbeats were late.
    late_until: Instant,
}

impl Queues {
    pub(crate) fn new(budget: Arc<Budget>, now: Instant) -> Queues {
        Queues {
            queues: Class::ALL.map(|class| Waiting::new(class.window())),
            budgets: Budgets::new(budget, now),
            apart: Pause::new(APART_MIN, APART_MAX),
            growth: Growth::allowed(),
            in_flight: 0,
            alone_in_flight: 0,
            last_departed: now,
            last: 0,
            late_until: now,
        }
    }

    pub(crate) fn add(&mut self, op: Arc<Op>) {
        self.class(op.kind.class()).add(op);
    }

    /// Sends this batch once more, and not before `not_before`. It goes before other parts: the row
    /// that failed one batch is found before it fails more.
    pub(crate) fn add_part(&mut self, not_before: Instant, part: Batch) {
        self.class(part.class).parts.push_front((not_before, part));
    }

    /// Pays for sending a request once more, if there is enough: for all of it, or for the one read
    /// with which it ended.
    pub(crate) fn pay_repeat(
        &mut self,
        class: Class,
        only_read: bool,
        now: Instant,
    ) -> Option<Payment> {
        self.budgets.refill(now);
        if only_read { self.budgets.pay_read(class) } else { self.budgets.pay(class) }
    }

    /// Returns the next request that may leave now.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Option<Batch> {
        self.budgets.refill(now);
        self.mind_lateness(now);
        let (is_late, is_apart) = (self.late_until(now).is_some(), self.is_apart(now));
        let mut is_urgent_waiting = false;
        for class in self.order(is_apart) {
            if !self.may_leave(class, is_apart, now) {
                self.class(class).drop_idle(now);
                continue;
            }
            let waiting = &mut self.queues[class as usize];
            // A slot of its own keeps a class from starving behind those before it.
            let room = if is_urgent_waiting { 1 } else { waiting.window.size() };
            if let Some(batch) = waiting.next_batch(class, room, (now, is_late), &mut self.budgets)
            {
                self.in_flight += 1;
                self.alone_in_flight += usize::from(batch.is_alone);
                self.last_departed = now;
                if class != Class::Heartbeats {
                    self.last = class as usize;
                }
                return Some(batch);
            }
            is_urgent_waiting |= !waiting.is_empty() && !waiting.is_gathering(class, now);
        }
        None
    }

    /// Returns true if requests of this kind may leave beside those on their way.
    fn may_leave(&self, class: Class, is_apart: bool, now: Instant) -> bool {
        if is_apart && self.in_flight > 0 {
            let overtakes = self.overtakes_at().is_some_and(|at| at <= now);
            return class == Class::Heartbeats && overtakes;
        }
        let leads_to_terms = matches!(class, Class::Polls | Class::Begins);
        let is_held_back = self.late_until(now).is_some() || !self.growth.is_allowed(now);
        !(leads_to_terms && is_held_back)
    }

    /// Returns true if something is held back.
    pub(crate) fn is_waiting(&self) -> bool {
        self.queues.iter().any(|waiting| !waiting.is_empty())
    }

    /// Returns when the next request that is held back may leave.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let parts = self.queues.iter().flat_map(|waiting| waiting.parts.iter());
        let parts = parts.map(|(not_before, _)| *not_before).filter(|at| *at > now).min();
        let paid = self.budgets.refilled_at().filter(|_| self.is_waiting());
        let [beats, polls] =
            [Class::Heartbeats, Class::Polls].map(|class| self.of(class).gathers_until(class));
        let overtakes = self.overtakes_at().filter(|_| self.is_apart(now) && self.in_flight > 0);
        let held_back = [Class::Polls, Class::Begins].map(|class| !self.of(class).is_empty());
        let resumes = held_back.contains(&true).then_some(self.late_until);
        let grows = self.growth.resumes(now).filter(|_| held_back.contains(&true));
        let later =
            [beats, polls, overtakes, resumes, grows].into_iter().flatten().filter(|at| *at > now);
        parts.into_iter().chain(paid).chain(later).min()
    }

    /// Notes that a request is no longer on its way.
    pub(crate) fn arrived(&mut self, batch: &Batch, sent: Instant, reply: Reply) {
        let (class, acts, is_done) = (batch.class, batch.ops.len(), reply == Reply::Answered);
        if let Some(payment) = batch.payment.filter(|_| is_done) {
            self.budgets.refund(payment);
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.alone_in_flight -= usize::from(batch.is_alone).min(self.alone_in_flight);
        if is_done && batch.is_alone {
            // It failed beside others.
            self.apart.begin(Instant::now());
        }
        if is_done && class == Class::Heartbeats && self.of(Class::Begins).in_flight > 0 {
            self.growth.kept(acts);
        } else if is_done && class == Class::Begins && batch.is_full() {
            self.growth.begun(acts, Instant::now());
        }
        self.class(class).arrived(batch, sent, reply);
    }

    /// Notes that nobody waits for a request any more: its flow was given up. That says nothing of
    /// the server.
    pub(crate) fn given_up(&mut self, batch: &Batch) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.alone_in_flight -= usize::from(batch.is_alone).min(self.alone_in_flight);
        self.class(batch.class).given_up(batch);
    }

    /// Returns until when heartbeats count as late, if they do.
    pub(crate) fn late_until(&self, now: Instant) -> Option<Instant> {
        (now < self.late_until).then_some(self.late_until)
    }

    /// Returns true if requests go one at a time.
    pub(crate) fn is_apart(&self, now: Instant) -> bool {
        let mut parts = self.queues.iter().flat_map(|waiting| &waiting.parts);
        let mut is_asked = || parts.any(|(not_before, part)| part.is_alone && *not_before <= now);
        self.apart.ends(now).is_some() || self.alone_in_flight > 0 || is_asked()
    }

    /// Heartbeats go first. While requests go one at a time, the others take turns.
    fn order(&self, is_apart: bool) -> [Class; Class::ALL.len()] {
        let mut order = Class::ALL;
        if is_apart {
            let others = &mut order[1..];
            others.rotate_left(self.last % others.len());
        }
        order
    }

    /// Heartbeats wait for another request until this moment, then leave even if they end it.
    fn overtakes_at(&self) -> Option<Instant> {
        let heartbeats = self.of(Class::Heartbeats);
        let patience = heartbeats.first()?.patience;
        let are_out = heartbeats.in_flight + heartbeats.isolated_in_flight > 0;
        Some(self.last_departed + patience * if are_out { HELD_BACK } else { 1 })
    }

    /// Keeps terms from beginning for a while if heartbeats wait in the queue for too long, and
    /// polls from leading to that.
    fn mind_lateness(&mut self, now: Instant) {
        let waiting = self.class(Class::Heartbeats);
        waiting.drop_idle(now);
        let Some(first) = waiting.first_trusted() else { return };
        let (asked, patience) = (first.asked, first.patience);
        if now.saturating_duration_since(asked) >= patience {
            let are_many = fill_a_request(waiting.trusted_ops());
            self.late_until = self.late_until.max(now + patience * HELD_BACK);
            if are_many {
                self.growth.pause(now);
            }
        }
    }

    fn of(&self, class: Class) -> &Waiting {
        &self.queues[class as usize]
    }

    fn class(&mut self, class: Class) -> &mut Waiting {
        &mut self.queues[class as usize]
    }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Change, Nonce, TermId, Timestamp, Writer};
    use tokio::sync::oneshot;

    use super::*;
    use crate::batch::op::OpKind;
    use crate::batch::together::{BYTES_MAX, ROWS_MAX};
    use crate::batch::waiting::{GATHERING_MAX, POLLS_GATHERING_MAX};
    use crate::batch::window::PAUSE_MIN;
    use crate::error::Outcome;

    const LIMIT: Duration = Duration::from_secs(3);
    const PATIENCE: Duration = Duration::from_millis(500);

    /// Acts that wait, and those who wait for them.
    struct Waiters {
        queues: Queues,
        answers: Vec<oneshot::Receiver<Outcome>>,
    }

    fn look() -> OpKind {
        OpKind::Observe { is_first: false }
    }

    fn heartbeat() -> OpKind {
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(7), writer };
        OpKind::Change(Change::Heartbeat { term, looks: false })
    }

    fn release() -> OpKind {
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(7), writer };
        let next = spindle_protocol::Succession::Anyone;
        OpKind::Change(Change::Release { term, next, info: None })
    }

    fn begin() -> OpKind {
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let holder = spindle_protocol::Holder { lease: LIMIT, info: None };
        OpKind::Change(Change::Insert { writer, holder })
    }

    /// A request that was paid for.
    fn paid(class: Class, is_isolated: bool) -> Batch {
        Batch { is_isolated, ..Batch::new(class, Vec::new(), payment(class)) }
    }

    fn payment(class: Class) -> Option<Payment> {
        Budgets::new(Arc::new(Budget::new()), Instant::now()).pay(class)
    }

    fn unpaid(class: Class) -> Batch {
        Batch::new(class, Vec::new(), None)
    }

    impl Waiters {
        fn none() -> Waiters {
            Waiters {
                queues: Queues::new(Arc::new(Budget::new()), Instant::now()),
                answers: Vec::new(),
            }
        }

        fn add(&mut self, lock: &str, kind: OpKind, is_repeat: bool, failure_count: u32) {
            let (op, answer) =
                Op::new(lock.into(), kind, (LIMIT, PATIENCE), (is_repeat, failure_count));
            self.queues.add(op);
            self.answers.push(answer);
        }

        /// Waits until those that are due at the same tick have come.
        async fn gather(&self) {
            tokio::time::advance(GATHERING_MAX).await;
        }

        fn arrived(&mut self, batch: Batch, is_done: bool) {
            let reply = if is_done { Reply::Answered } else { Reply::Refused };
            self.queues.arrived(&batch, Instant::now(), reply);
        }

        fn next_batch(&mut self) -> Option<(Class, Vec<String>)> {
            let batch = self.queues.next_batch(Instant::now())?;
            Some((batch.class, batch.ops.iter().map(|op| op.lock.to_string()).collect()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_never_mix_and_heartbeats_go_first() {
        let mut waiters = Waiters::none();
        waiters.add("a", release(), false, 0);
        waiters.add("b", look(), false, 0);
        waiters.add("d", heartbeat(), false, 0);
        waiters.add("c", heartbeat(), false, 0);
        waiters.gather().await;
        assert_eq!(waiters.next_batch(), Some((Class::Heartbeats, vec!["c".into(), "d".into()])));
        assert_eq!(waiters.next_batch(), Some((Class::Polls, vec!["b".into()])));
        assert_eq!(waiters.next_batch(), Some((Class::Releases, vec!["a".into()])));
        assert_eq!(waiters.next_batch(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_has_no_more_rows_than_it_may_and_none_twice() {
        let mut waiters = Waiters::none();
        for n in 0..ROWS_MAX + 1 {
            waiters.add(&format!("{n:04}"), heartbeat(), false, 0);
        }
        waiters.add("0000", heartbeat(), false, 0);
        waiters.gather().await;
        let sizes: Vec<_> =
            std::iter::from_fn(|| waiters.next_batch()).map(|(_, b)| b.len()).collect();
        assert_eq!(sizes, [ROWS_MAX, 2]);
        let long = "n".repeat(BYTES_MAX / 8);
        for n in 0..3 {
            waiters.add(&format!("{long}{n}"), heartbeat(), false, 0);
        }
        waiters.gather().await;
        assert_eq!(waiters.next_batch().unwrap().1.len(), 2, "its bytes are bounded, too");
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_of_one_tick_leave_together_a_moment_after_the_first() {
        let mut waiters = Waiters::none();
        waiters.add("a", heartbeat(), false, 0);
        waiters.add("p", look(), false, 0);
        waiters.add("t", release(), false, 0);
        assert_eq!(
            waiters.next_batch().unwrap().0,
            Class::Polls,
            "a poll by itself waits for none"
        );
        assert_eq!(waiters.next_batch().unwrap().0, Class::Releases);
        assert_eq!(waiters.next_batch(), None);
        let until = waiters.queues.next(Instant::now());
        assert_eq!(until, Some(Instant::now() + GATHERING_MAX));
        tokio::time::advance(GATHERING_MAX - Duration::from_millis(1)).await;
        waiters.add("b", heartbeat(), true, 0);
        assert_eq!(waiters.next_batch(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b"], "the last to come delays nobody");
        for n in 0..ROWS_MAX {
            waiters.add(&format!("{n:04}"), heartbeat(), false, 0);
        }
        assert_eq!(
            waiters.next_batch().unwrap().1.len(),
            ROWS_MAX,
            "a full request waits for nobody"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn polls_that_a_busy_machine_wakes_apart_leave_together() {
        let mut waiters = Waiters::none();
        waiters.add("a", look(), false, 0);
        waiters.add("b", look(), false, 0);
        assert_eq!(waiters.next_batch(), None);
        tokio::time::advance(POLLS_GATHERING_MAX - Duration::from_millis(1)).await;
        waiters.add("c", look(), false, 0);
        assert_eq!(waiters.next_batch(), None);
        assert!(waiters.queues.next(Instant::now()).is_some_and(|at| at > Instant::now()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_look_waits_for_no_other_poll_and_takes_along_those_that_do() {
        let mut waiters = Waiters::none();
        waiters.add("a", look(), false, 0);
        waiters.add("b", look(), false, 0);
        assert_eq!(waiters.next_batch(), None);
        waiters.add("c", OpKind::Observe { is_first: true }, false, 0);
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn every_kind_keeps_a_slot_of_its_own() {
        let mut waiters = Waiters::none();
        for n in 0..20 * ROWS_MAX {
            waiters.add(&format!("{n:05}"), heartbeat(), false, 0);
        }
        waiters.add("z", look(), false, 0);
        waiters.add("z", release(), false, 0);
        let queues: Vec<_> =
            std::iter::from_fn(|| waiters.next_batch()).map(|(class, _)| class).collect();
        let heartbeats = queues.iter().filter(|class| **class == Class::Heartbeats).count();
        assert_eq!(heartbeats, Class::Heartbeats.window().size());
        assert!(queues.contains(&Class::Polls) && queues.contains(&Class::Releases), "{queues:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_term_begins_for_a_while_after_heartbeats_waited_in_the_queue() {
        no_term_begins_after_heartbeats_of("", ROWS_MAX).await;
        // Each takes an eighth of a request's bytes, and a little more.
        no_term_begins_after_heartbeats_of(&"n".repeat(BYTES_MAX / 8 / 3), 7).await;
    }

    async fn no_term_begins_after_heartbeats_of(name: &str, in_a_request: usize) {
        let mut waiters = Waiters::none();
        let window = Class::Heartbeats.window().size();
        for n in 0..(window + 1) * in_a_request {
            waiters.add(&format!("{name}{n:05}"), heartbeat(), false, 0);
        }
        waiters.gather().await;
        let sent = std::iter::from_fn(|| waiters.next_batch()).count();
        assert_eq!(sent, window);
        tokio::time::advance(PATIENCE).await;
        waiters.add("b", begin(), false, 0);
        waiters.add("p", look(), false, 0);
        waiters.add("r", release(), false, 0);
        assert_eq!(waiters.next_batch().unwrap().0, Class::Releases, "a release lightens the load");
        assert_eq!(waiters.next_batch(), None);
        waiters.arrived(unpaid(Class::Heartbeats), true);
        assert_eq!(waiters.next_batch().unwrap().0, Class::Heartbeats);
        assert_eq!(waiters.next_batch(), None, "they may be late again");
        let from = waiters.queues.next(Instant::now());
        assert_eq!(from, Some(Instant::now() + PATIENCE * HELD_BACK));
        tokio::time::advance(PAUSE_MIN - Duration::from_millis(1)).await;
        waiters.add("c", begin(), false, 0);
        waiters.add("q", look(), false, 0);
        assert_eq!(waiters.next_batch(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(waiters.next_batch().unwrap().0, Class::Polls);
        assert_eq!(waiters.next_batch().unwrap().0, Class::Begins);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_of_the_oldest_terms_go_first_where_they_are_late() {
        let mut waiters = Waiters::none();
        let window = Class::Heartbeats.window().size();
        // The youngest terms come first.
        for n in (0..(window + 2) * ROWS_MAX).rev() {
            let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
            let term = TermId { token: Timestamp(n as i64), writer };
            let kind = OpKind::Change(Change::Heartbeat { term, looks: false });
            waiters.add(&format!("{n:05}"), kind, n % 2 == 0, 0);
        }
        let sent: Vec<_> = std::iter::from_fn(|| waiters.next_batch()).collect();
        assert_eq!((sent.len(), &*sent[0].1[0]), (window, "09000"), "in the order they came");
        tokio::time::advance(PATIENCE).await;
        assert_eq!(waiters.next_batch(), None);
        for first in ["00000", "01000"] {
            waiters.arrived(unpaid(Class::Heartbeats), true);
            let (_, batch) = waiters.next_batch().unwrap();
            assert_eq!((batch.len(), &*batch[0]), (ROWS_MAX, first));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_one_at_a_time_where_one_failed_beside_others_and_not_alone() {
        let mut waiters = Waiters::none();
        let (part, _answer) = Op::new("a".into(), look(), (LIMIT, PATIENCE), (false, 0));
        let alone = Batch::new(Class::Polls, vec![part], payment(Class::Polls));
        let alone = Batch { is_alone: true, repeats: 1, ..alone };
        waiters.add("r", release(), false, 0);
        assert_eq!(waiters.next_batch().unwrap().0, Class::Releases);
        waiters.queues.add_part(Instant::now(), alone);
        assert_eq!(waiters.next_batch(), None, "it waits until it is alone");
        waiters.arrived(unpaid(Class::Releases), true);
        let alone = waiters.queues.next_batch(Instant::now()).unwrap();
        waiters.add("r", release(), false, 0);
        waiters.add("p", look(), false, 0);
        assert_eq!(waiters.next_batch(), None, "and nothing goes beside it");
        waiters.arrived(alone, true);
        assert_eq!(waiters.next_batch().unwrap().0, Class::Releases, "they take turns");
        assert_eq!(waiters.next_batch(), None, "it had failed for the others: they stay apart");
        waiters.add("h", heartbeat(), false, 0);
        tokio::time::advance(PATIENCE).await;
        assert_eq!(
            waiters.next_batch().unwrap().0,
            Class::Heartbeats,
            "which waits for no other long"
        );
        assert_eq!(waiters.next_batch(), None);
        waiters.arrived(unpaid(Class::Heartbeats), true);
        waiters.arrived(unpaid(Class::Releases), true);
        assert_eq!(waiters.next_batch(), None, "it was late");
        tokio::time::advance(LIMIT).await;
        assert_eq!(waiters.next_batch().unwrap().0, Class::Polls);
        waiters.arrived(unpaid(Class::Polls), true);
        tokio::time::advance(Duration::from_secs(10)).await;
        waiters.add("s", release(), false, 0);
        waiters.add("q", look(), false, 0);
        assert!(
            waiters.next_batch().is_some() && waiters.next_batch().is_some(),
            "and not for ever"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_in_between_cost_no_other_kind_its_turn() {
        let mut waiters = Waiters::none();
        waiters.queues.apart.begin(Instant::now());
        waiters.add("r", release(), false, 0);
        for (round, other) in [Class::Polls, Class::Releases].into_iter().enumerate() {
            waiters.add(&format!("p{round}"), look(), false, 0);
            waiters.add(&format!("h{round}"), heartbeat(), false, 0);
            waiters.gather().await;
            let sent = [(); 2].map(|()| {
                let (class, _) = waiters.next_batch().unwrap();
                waiters.arrived(unpaid(class), true);
                class
            });
            assert_eq!(sent, [Class::Heartbeats, other], "round {round}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_met_the_limit_travels_beside_the_others_in_growing_batches() {
        let mut waiters = Waiters::none();
        for n in 0..10 {
            waiters.add(&format!("isolated-{n}"), release(), false, 1);
        }
        waiters.add("isolated-x", release(), false, 5);
        waiters.add("trusted", release(), false, 0);
        assert_eq!(waiters.next_batch().unwrap().1, ["trusted"]);
        assert_eq!(waiters.next_batch().unwrap().1, ["isolated-0"], "alone at first");
        assert_eq!(waiters.next_batch().unwrap().1, ["isolated-1"], "and the next beside it");
        assert_eq!(waiters.next_batch(), None);
        waiters.arrived(paid(Class::Releases, true), true);
        waiters.arrived(paid(Class::Releases, true), true);
        assert_eq!(
            waiters.next_batch().unwrap().1.len(),
            4,
            "more of them after each that arrived"
        );
        waiters.arrived(paid(Class::Releases, true), false);
        assert_eq!(
            waiters.next_batch().unwrap().1,
            ["isolated-6"],
            "and alone again after a failure"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_are_bounded_but_go_along_with_others_for_nothing() {
        let mut waiters = Waiters::none();
        let mut repeats = 0;
        for n in 0..100 {
            waiters.add(&format!("repeat-{n}"), look(), true, 0);
            if waiters.next_batch().is_some() {
                repeats += 1;
                waiters.arrived(paid(Class::Polls, false), false);
            }
        }
        assert!((1..=4).contains(&repeats), "{repeats}");
        waiters.add("fresh", look(), false, 0);
        tokio::time::advance(POLLS_GATHERING_MAX).await;
        let (_, together) = waiters.next_batch().unwrap();
        assert_eq!(together.len(), 100 - repeats + 1);
        waiters.add("later", look(), true, 0);
        assert_eq!(waiters.next_batch(), None);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(waiters.next_batch().is_some(), "a second or two later it may");
    }

    #[tokio::test(start_paused = true)]
    async fn readers_begin_together_and_apart_from_changes_of_the_writers_rows() {
        let holder = || spindle_protocol::Holder { lease: LIMIT, info: None };
        let writer = || Writer::term("r", Nonce { instance: 1, attempt: 1 });
        let begin_read = || {
            let vacant = Box::new(["gate", "write"].map(|key| (key.to_string(), None)));
            let (writer, holder) = (writer(), holder());
            OpKind::Change(Change::BeginRead { vacant, seen: None, writer, holder })
        };
        for row in ["gate", "write"] {
            let mut waiters = Waiters::none();
            waiters.add("reader-1", begin_read(), false, 0);
            waiters.add(row, begin(), false, 0);
            waiters.add("reader-2", begin_read(), false, 0);
            assert_eq!(waiters.next_batch().unwrap().1, ["reader-1", "reader-2"]);
            assert_eq!(waiters.next_batch().unwrap().1, [row]);
            waiters.add(row, begin(), false, 0);
            waiters.add("reader-3", begin_read(), false, 0);
            assert_eq!(waiters.next_batch().unwrap().1, [row]);
            assert_eq!(waiters.next_batch().unwrap().1, ["reader-3"]);
        }
        let begin_write = || {
            let gate = ("gate".to_string(), TermId { token: Timestamp(1), writer: writer() });
            let heartbeat = Timestamp(1);
            let row = spindle_protocol::Row {
                heartbeat,
                token: heartbeat,
                writer: writer(),
                lease: None,
            };
            let readers = vec![("reader-1".to_string(), row)];
            let begin = Box::new(Change::Insert { writer: writer(), holder: holder() });
            OpKind::Change(Change::BeginWrite { gate, readers, begin })
        };
        for other in ["gate", "reader-1"] {
            let mut waiters = Waiters::none();
            waiters.add("write", begin_write(), false, 0);
            waiters.add(other, begin(), false, 0);
            assert_eq!(waiters.next_batch().unwrap().1, ["write"]);
            waiters.add("write", begin_write(), false, 0);
            assert_eq!(waiters.next_batch().unwrap().1, [other]);
            assert_eq!(waiters.next_batch().unwrap().1, ["write"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_carries_an_act_that_was_dropped() {
        let mut waiters = Waiters::none();
        waiters.add("a", heartbeat(), false, 0);
        waiters.add("b", heartbeat(), false, 0);
        waiters.answers.remove(0);
        waiters.gather().await;
        assert_eq!(waiters.next_batch().unwrap().1, ["b"]);
    }
}
