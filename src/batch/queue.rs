//! First-in-first-out queues, one for each kind of request, by priority: which request goes next, and which
//! acts go along.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::request::{BYTES_MAX, Batch, Class, Op, OpKind, ROWS_MAX, Reply};
use crate::budget::{Bucket, Budget, Payment, READ, TRANSACTION};

/// So many requests of each kind are on their way at the most.
const IN_FLIGHT_MAX: usize = 8;
/// So many of them have acts that repeat what failed.
const REPEATS_IN_FLIGHT_MAX: usize = 4;
/// Heartbeats that are late keep polls and begins back for so many times their patience.
const HELD_BACK: u32 = 3;
/// They do so no longer than those of the default lease: others of the table may have a short one.
const HELD_BACK_MAX: Duration = Duration::from_millis(1_500);
/// The longest time that heartbeats gather before they leave. Tasks that wake at one tick run one
/// after another, beside the batcher's.
pub(super) const GATHERING_MAX: Duration = Duration::from_millis(5);
/// The longest time that several polls gather, unless one of them is somebody's first look.
pub(super) const POLLS_GATHERING_MAX: Duration = Duration::from_millis(25);
/// An act gathers for no more than this part of its patience.
const GATHERINGS: u32 = 8;
/// Requests of heartbeats in parts that may fail at once, and the time until another one may. So many single a
/// row out in one go: the parts of a request, and those of the one that failed among the first.
const PARTS_IN_VAIN: u32 = 64;
const PART_AGAIN: Duration = Duration::from_millis(333);

/// The time, and the same without that in which this process stood still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) at: Instant,
    pub(super) awake: Instant,
}

/// All that waits.
#[derive(Debug)]
pub(super) struct Queues {
    queues: [Queue; Class::ALL.len()],
    payers: Payers,
    /// Until when nobody polls and no term begins, because heartbeats were late.
    late_until: Instant,
}

/// The payers of what may be in vain.
#[derive(Debug)]
struct Payers {
    table: Arc<Budget>,
    /// Of heartbeats in parts, which I8 excepts.
    parts: Bucket,
}

/// The acts that wait for one kind of request.
#[derive(Debug)]
struct Queue {
    class: Class,
    /// Each with when it came, by the time in which this process was awake.
    fresh: VecDeque<(Instant, Arc<Op>)>,
    /// Those that repeat what failed. Heartbeats among them go with the others (I8).
    repeats: VecDeque<(Instant, Arc<Op>)>,
    /// Those that go together once more, each not before its time.
    parts: VecDeque<(Instant, Batch)>,
    /// True if somebody among the fresh looks for the first time.
    is_hurried: bool,
    in_flight: usize,
    repeats_in_flight: usize,
    /// Slow start: so many acts that repeat what failed go in one request.
    repeats_max: usize,
}

impl Payers {
    /// Pays for a request that may be in vain, if there is enough.
    fn pay(&mut self, class: Class, now: Instant) -> Option<Payment> {
        match class {
            Class::Heartbeats => self.parts.pay(1, now),
            Class::Polls => self.table.requests.pay(READ),
            Class::Releases | Class::Begins => self.table.requests.pay(TRANSACTION),
        }
    }

    fn refund(&mut self, class: Class, payment: Payment, now: Instant) {
        match class {
            Class::Heartbeats => self.parts.refund(payment, now),
            _ => self.table.requests.refund(payment),
        }
    }
}

impl Queues {
    pub(super) fn new(table: Arc<Budget>, now: Instant) -> Queues {
        let parts = Bucket::new(PARTS_IN_VAIN, PART_AGAIN);
        let payers = Payers { table, parts };
        Queues { queues: Class::ALL.map(Queue::new), payers, late_until: now }
    }

    pub(super) fn add(&mut self, op: Arc<Op>, awake: Instant) {
        self.of(op.kind.class()).add(op, awake);
    }

    /// Sends this batch once more, and not before `not_before`. It goes before the others: the row that
    /// failed one batch is found before it fails more.
    pub(super) fn add_part(&mut self, not_before: Instant, part: Batch) {
        self.of(part.class).parts.push_front((not_before, part));
    }

    /// Returns true if each of so many parts of heartbeats can be paid for, besides those that wait.
    pub(super) fn can_pay(&mut self, parts: usize, now: Instant) -> bool {
        let heartbeats = &self.queues[Class::Heartbeats as usize];
        let unpaid = heartbeats.parts.iter().filter(|(_, part)| part.payment.is_none()).count();
        self.payers.parts.has(unpaid + parts, now)
    }

    /// Pays for sending a request once more, if there is enough: for all of it, or for the one read
    /// with which it ended.
    pub(super) fn pay_repeat(
        &mut self,
        class: Class,
        only_read: bool,
        now: Instant,
    ) -> Option<Payment> {
        let is_read = only_read && class != Class::Heartbeats;
        self.payers.pay(if is_read { Class::Polls } else { class }, now)
    }

    /// Returns the next request that may leave now.
    pub(super) fn next_batch(&mut self, now: Now) -> Option<Batch> {
        self.mind_lateness(now);
        let is_late = self.is_late(now.at);
        let mut is_urgent_waiting = false;
        for queue in &mut self.queues {
            queue.drop_useless(now.at);
            if is_late && matches!(queue.class, Class::Polls | Class::Begins) {
                continue;
            }
            // One of each kind leaves beside what waits before it, so that none starves.
            let room = if is_urgent_waiting { 1 } else { IN_FLIGHT_MAX };
            if let Some(batch) = queue.next_batch(room, now.at, &mut self.payers) {
                return Some(batch);
            }
            is_urgent_waiting |= !queue.is_empty() && !queue.is_gathering(now.at);
        }
        None
    }

    /// Returns the acts that wait to leave.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<Op>> {
        self.queues.iter().flat_map(|queue| {
            let alone = queue.fresh.iter().chain(&queue.repeats).map(|(_, op)| op);
            alone.chain(queue.parts.iter().flat_map(|(_, batch)| &batch.ops))
        })
    }

    /// Returns true if something is held back.
    pub(super) fn is_waiting(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Returns the patience of the next heartbeat that waits to leave.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.queues[Class::Heartbeats as usize].fresh.front().map(|(_, op)| op.patience)
    }

    /// Returns when the next request that is held back may leave.
    pub(super) fn next(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_waiting() {
            return None;
        }
        let Payers { table, parts } = &mut self.payers;
        let paid = [table.requests.refilled_at(), parts.refilled_at(now)];
        let resumes = self.is_late(now).then_some(self.late_until);
        let queues = self.queues.iter().flat_map(|queue| {
            let parts = queue.parts.iter().map(|(not_before, _)| *not_before);
            parts.chain(queue.gathers_until())
        });
        queues.chain(paid.into_iter().flatten()).chain(resumes).filter(|at| *at > now).min()
    }

    /// Notes that a request is no longer on its way, which took so long, as far as this process was awake;
    /// without a reply where nobody waits for it any more.
    pub(super) fn ended(
        &mut self,
        batch: &Batch,
        reply: Option<Reply>,
        took: Duration,
        now: Instant,
    ) {
        let is_done = reply == Some(Reply::Answered);
        if let Some(payment) = batch.payment.filter(|_| is_done) {
            self.payers.refund(batch.class, payment, now);
        } else if is_done && batch.class == Class::Heartbeats && took >= batch.patience {
            // A part may be late for its row.
            self.are_late(now, batch.patience);
        }
        self.of(batch.class).ended(batch, reply);
    }

    /// Returns true while polls and begins are held back, because heartbeats were late.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        now < self.late_until
    }

    /// Heartbeats are late that wait for longer than their patience, because the server answers those before
    /// them so slowly. The time in which this process stood still is no sign of that.
    fn mind_lateness(&mut self, now: Now) {
        let Some((came, op)) = self.queues[Class::Heartbeats as usize].fresh.front() else {
            return;
        };
        let patience = op.patience;
        if now.awake.saturating_duration_since(*came) >= patience {
            self.are_late(now.at, patience);
        }
    }

    fn are_late(&mut self, now: Instant, patience: Duration) {
        self.late_until = self.late_until.max(now + (patience * HELD_BACK).min(HELD_BACK_MAX));
    }

    fn of(&mut self, class: Class) -> &mut Queue {
        &mut self.queues[class as usize]
    }
}

impl Queue {
    fn new(class: Class) -> Queue {
        Queue {
            class,
            fresh: VecDeque::new(),
            repeats: VecDeque::new(),
            parts: VecDeque::new(),
            is_hurried: false,
            in_flight: 0,
            repeats_in_flight: 0,
            repeats_max: 1,
        }
    }

    fn add(&mut self, op: Arc<Op>, awake: Instant) {
        if op.is_repeat && self.class != Class::Heartbeats {
            return self.repeats.push_back((awake, op));
        }
        self.is_hurried |= matches!(op.kind, OpKind::Observe { is_first: true });
        self.fresh.push_back((awake, op));
    }

    fn ended(&mut self, batch: &Batch, reply: Option<Reply>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if batch.is_repeat {
            self.repeats_in_flight = self.repeats_in_flight.saturating_sub(1);
            self.repeats_max = match reply {
                Some(Reply::Answered) => (self.repeats_max * 2).min(ROWS_MAX),
                _ => 1,
            };
        }
    }

    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.repeats.is_empty() && self.parts.is_empty()
    }

    /// Returns true if more acts may still come that are due at the same tick as those that wait.
    fn is_gathering(&self, now: Instant) -> bool {
        let waiting = || self.fresh.iter().chain(&self.repeats).map(|(_, op)| op);
        let is_full = || fills_a_request(waiting());
        self.gathers_until().is_some_and(|at| now < at) && !is_full()
    }

    /// The first act that came sets the moment, so none waits for another one twice.
    fn gathers_until(&self) -> Option<Instant> {
        let longest = match self.class {
            Class::Heartbeats => GATHERING_MAX,
            // One by itself has nobody to wait for. Who looks for the first time wants the lock now.
            Class::Polls if self.fresh.len() + self.repeats.len() > 1 && !self.is_hurried => {
                POLLS_GATHERING_MAX
            }
            _ => return None,
        };
        let fronts = [self.fresh.front(), self.repeats.front()].into_iter().flatten();
        let until = |(_, op): &(_, Arc<Op>)| op.asked + longest.min(op.patience / GATHERINGS);
        fronts.map(until).min()
    }

    /// Drops the next acts as long as sending them is of no use any more.
    fn drop_useless(&mut self, now: Instant) {
        for queue in [&mut self.fresh, &mut self.repeats] {
            while queue.front().is_some_and(|(_, op)| !op.is_of_use(now)) {
                queue.pop_front();
            }
        }
        self.parts.retain_mut(|(_, part)| {
            part.ops.retain(|op| op.is_of_use(now));
            !part.ops.is_empty()
        });
    }

    /// Returns the next batch: a part whose time has come, or those that repeat nothing, or those that
    /// do.
    fn next_batch(&mut self, room: usize, now: Instant, payers: &mut Payers) -> Option<Batch> {
        if self.in_flight >= room {
            return None;
        }
        let batch = match self.next_part(now, payers) {
            Some(part) => part,
            None if self.is_gathering(now) => return None,
            None if self.fresh.is_empty() => self.next_repeats(now, payers)?,
            None => self.next_fresh(now)?,
        };
        self.in_flight += 1;
        Some(batch)
    }

    fn next_part(&mut self, now: Instant, payers: &mut Payers) -> Option<Batch> {
        let ready = self.parts.iter().position(|(not_before, _)| *not_before <= now)?;
        let paid = self.parts[ready].1.payment;
        let payment = paid.or_else(|| payers.pay(self.class, now))?;
        let (_, part) = self.parts.remove(ready)?;
        Some(Batch { payment: Some(payment), ..part })
    }

    /// Polls that repeat what failed go along for nothing: a read is as good for all.
    fn next_fresh(&mut self, now: Instant) -> Option<Batch> {
        let mut chosen = Chosen::new(self.class);
        chosen.take(&mut self.fresh, ROWS_MAX, now);
        if self.class == Class::Polls {
            chosen.take(&mut self.repeats, ROWS_MAX, now);
        }
        self.is_hurried &= !self.fresh.is_empty();
        chosen.batch()
    }

    /// Acts that change rows and have failed go in requests of their own: one of their rows may be the reason. One
    /// goes in the first, and twice as many after each that brought answers.
    fn next_repeats(&mut self, now: Instant, payers: &mut Payers) -> Option<Batch> {
        if self.repeats_in_flight >= REPEATS_IN_FLIGHT_MAX || self.repeats.is_empty() {
            return None;
        }
        let payment = Some(payers.pay(self.class, now)?);
        let max = if self.class == Class::Polls { ROWS_MAX } else { self.repeats_max };
        let mut chosen = Chosen::new(self.class);
        chosen.take(&mut self.repeats, max, now);
        // None is left if their callers, on other threads, have dropped all of them just now.
        let batch = chosen.batch()?;
        self.repeats_in_flight += 1;
        Some(Batch { is_repeat: true, payment, ..batch })
    }
}

/// Returns true if these acts are as many as go in one request, or more.
fn fills_a_request<'a>(ops: impl IntoIterator<Item = &'a Arc<Op>>) -> bool {
    let (mut rows, mut bytes) = (0, 0);
    ops.into_iter().any(|op| {
        (rows, bytes) = (rows + 1, bytes + op.bytes());
        // One more of its size would be too much.
        rows >= ROWS_MAX || bytes + op.bytes() > BYTES_MAX
    })
}

/// Acts that may share a request.
struct Chosen {
    class: Class,
    ops: Vec<Arc<Op>>,
    locks: HashSet<Arc<str>>,
    /// The rows of others that they may change besides: all who begin to read under one writer write
    /// the same into its rows.
    others: HashSet<String>,
    bytes: usize,
}

impl Chosen {
    fn new(class: Class) -> Chosen {
        let (locks, others) = (HashSet::new(), HashSet::new());
        Chosen { class, ops: Vec::new(), locks, others, bytes: 0 }
    }

    /// Takes the next acts, as far as there is room. One of a row that is written already stays the next:
    /// two writes of one row would have to be judged by each other.
    fn take(&mut self, queue: &mut VecDeque<(Instant, Arc<Op>)>, max: usize, now: Instant) {
        let mut twice = Vec::new();
        while let Some((_, op)) = queue.front()
            && self.has_room_for(op, max)
            && let Some((came, op)) = queue.pop_front()
        {
            if self.class != Class::Polls && self.meets(&op) {
                twice.push((came, op));
            } else if op.is_of_use(now) {
                self.add(op);
            }
        }
        twice.into_iter().rev().for_each(|it| queue.push_front(it));
    }

    fn has_room_for(&self, op: &Op, max: usize) -> bool {
        let is_short = self.ops.is_empty() || self.bytes + op.bytes() <= BYTES_MAX;
        self.ops.len() < max && is_short
    }

    fn meets(&self, op: &Op) -> bool {
        let is_taken = self.others.contains(&*op.lock) || self.locks.contains(&op.lock);
        is_taken || op.kind.others().iter().any(|other| self.locks.contains(*other))
    }

    fn add(&mut self, op: Arc<Op>) {
        self.locks.insert(Arc::clone(&op.lock));
        self.others.extend(op.kind.others().into_iter().map(str::to_string));
        self.bytes += op.bytes();
        self.ops.push(op);
    }

    fn batch(self) -> Option<Batch> {
        (!self.ops.is_empty()).then(|| Batch::new(self.class, self.ops))
    }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Change, Nonce, TermId, Timestamp, Writer};
    use tokio::sync::oneshot;
    use tokio::time::advance;

    use super::*;
    use crate::error::Outcome;

    const LIMIT: Duration = Duration::from_secs(3);
    const PATIENCE: Duration = Duration::from_millis(500);

    /// Acts that wait, and those who wait for them.
    struct Waiters {
        queues: Queues,
        answers: Vec<oneshot::Receiver<Outcome>>,
        stood_still: Duration,
    }

    fn look() -> OpKind {
        OpKind::Observe { is_first: false }
    }

    fn term() -> TermId {
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        TermId { token: Timestamp(7), writer }
    }

    fn heartbeat() -> OpKind {
        OpKind::Change(Change::Heartbeat { term: term(), looks: false })
    }

    fn release() -> OpKind {
        let next = spindle_protocol::Succession::Anyone;
        OpKind::Change(Change::Release { term: term(), next })
    }

    fn begin() -> OpKind {
        let holder = spindle_protocol::Holder { lease: LIMIT, info: None };
        OpKind::Change(Change::Insert { writer: term().writer, holder })
    }

    impl Waiters {
        fn none() -> Waiters {
            let queues = Queues::new(Arc::new(Budget::new()), Instant::now());
            Waiters { queues, answers: Vec::new(), stood_still: Duration::ZERO }
        }

        fn now(&self) -> Now {
            let at = Instant::now();
            Now { at, awake: at - self.stood_still }
        }

        fn add(&mut self, lock: &str, kind: OpKind) {
            self.add_as(lock, kind, false);
        }

        fn add_repeat(&mut self, lock: &str, kind: OpKind) {
            self.add_as(lock, kind, true);
        }

        fn add_as(&mut self, lock: &str, kind: OpKind, is_repeat: bool) {
            self.add_op(Op::new(lock.into(), kind, (LIMIT, PATIENCE), is_repeat));
        }

        fn add_op(&mut self, (op, answer): (Arc<Op>, oneshot::Receiver<Outcome>)) {
            self.queues.add(op, self.now().awake);
            self.answers.push(answer);
        }

        /// Waits until those that are due at the same tick have come.
        async fn gather(&self) {
            advance(GATHERING_MAX).await;
        }

        fn next(&mut self) -> Option<Batch> {
            self.queues.next_batch(self.now())
        }

        fn next_batch(&mut self) -> Option<(Class, Vec<String>)> {
            let batch = self.next()?;
            Some((batch.class, batch.ops.iter().map(|op| op.lock.to_string()).collect()))
        }

        fn ended(&mut self, batch: &Batch, reply: Reply) {
            self.ended_after(batch, reply, Duration::ZERO);
        }

        fn ended_after(&mut self, batch: &Batch, reply: Reply, took: Duration) {
            self.queues.ended(batch, Some(reply), took, Instant::now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_never_mix_and_heartbeats_go_first() {
        let mut waiters = Waiters::none();
        waiters.add("e", begin());
        waiters.add("a", release());
        waiters.add("b", look());
        waiters.add("d", heartbeat());
        waiters.add("c", heartbeat());
        waiters.gather().await;
        assert_eq!(waiters.next_batch(), Some((Class::Heartbeats, vec!["c".into(), "d".into()])));
        assert_eq!(waiters.next_batch(), Some((Class::Polls, vec!["b".into()])));
        assert_eq!(waiters.next_batch(), Some((Class::Releases, vec!["a".into()])));
        assert_eq!(waiters.next_batch(), Some((Class::Begins, vec!["e".into()])));
        assert_eq!(waiters.next_batch(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_has_no_more_rows_than_it_may_and_none_twice() {
        let mut waiters = Waiters::none();
        for n in 0..ROWS_MAX + 1 {
            waiters.add(&format!("{n:04}"), heartbeat());
        }
        waiters.add("0000", heartbeat());
        waiters.gather().await;
        let sizes: Vec<_> =
            std::iter::from_fn(|| waiters.next_batch()).map(|(_, b)| b.len()).collect();
        assert_eq!(sizes, [ROWS_MAX, 2]);
        let long = "n".repeat(BYTES_MAX / 8);
        for n in 0..3 {
            waiters.add(&format!("{long}{n}"), heartbeat());
        }
        waiters.gather().await;
        assert_eq!(waiters.next_batch().unwrap().1.len(), 2, "its bytes are bounded, too");
    }

    #[tokio::test(start_paused = true)]
    async fn one_row_is_written_by_one_act_of_a_request() {
        let mut waiters = Waiters::none();
        for lock in ["a", "a", "b"] {
            waiters.add(lock, release());
        }
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b"]);
        assert_eq!(waiters.next_batch().unwrap().1, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_of_one_tick_leave_together_a_moment_after_the_first() {
        let mut waiters = Waiters::none();
        waiters.add("a", heartbeat());
        waiters.add("p", look());
        assert_eq!(waiters.next_batch().unwrap().0, Class::Polls, "a poll alone waits for none");
        assert_eq!(waiters.next_batch(), None);
        let until = waiters.queues.next(Instant::now());
        assert_eq!(until, Some(Instant::now() + GATHERING_MAX));
        advance(GATHERING_MAX - Duration::from_millis(1)).await;
        waiters.add_repeat("b", heartbeat());
        assert_eq!(waiters.next_batch(), None);
        advance(Duration::from_millis(1)).await;
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b"], "the last to come delays nobody");
        for n in 0..ROWS_MAX {
            waiters.add(&format!("{n:04}"), heartbeat());
        }
        let full = waiters.next_batch().unwrap().1.len();
        assert_eq!(full, ROWS_MAX, "a full request waits for nobody");
    }

    #[tokio::test(start_paused = true)]
    async fn polls_that_a_busy_machine_wakes_apart_leave_together() {
        let mut waiters = Waiters::none();
        waiters.add("a", look());
        waiters.add("b", look());
        assert_eq!(waiters.next_batch(), None);
        advance(POLLS_GATHERING_MAX - Duration::from_millis(1)).await;
        waiters.add("c", look());
        assert_eq!(waiters.next_batch(), None);
        assert!(waiters.queues.next(Instant::now()).is_some_and(|at| at > Instant::now()));
        advance(Duration::from_millis(1)).await;
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_look_waits_for_no_other_poll_and_takes_along_those_that_do() {
        let mut waiters = Waiters::none();
        waiters.add("a", look());
        waiters.add("b", look());
        assert_eq!(waiters.next_batch(), None);
        waiters.add("c", OpKind::Observe { is_first: true });
        assert_eq!(waiters.next_batch().unwrap().1, ["a", "b", "c"]);
        waiters.add("a", look());
        waiters.add("b", look());
        assert_eq!(waiters.next_batch(), None, "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_of_a_kind_are_on_their_way_and_every_kind_keeps_a_slot_of_its_own() {
        let mut waiters = Waiters::none();
        for n in 0..20 * ROWS_MAX {
            waiters.add(&format!("{n:05}"), heartbeat());
            waiters.add(&format!("{n:05}"), begin());
        }
        waiters.add("z", look());
        waiters.add("z", release());
        let sent: Vec<_> =
            std::iter::from_fn(|| waiters.next_batch()).map(|(class, _)| class).collect();
        let of = |class| sent.iter().filter(|sent| **sent == class).count();
        assert_eq!(Class::ALL.map(of), [IN_FLIGHT_MAX, 1, 1, 1], "they go before it");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_polls_and_no_term_begins_while_the_server_answers_heartbeats_late() {
        let mut waiters = Waiters::none();
        waiters.add("h", heartbeat());
        waiters.gather().await;
        let batch = waiters.next().unwrap();
        waiters.ended_after(&batch, Reply::Answered, PATIENCE);
        waiters.add("b", begin());
        waiters.add("p", look());
        waiters.add("r", release());
        assert_eq!(waiters.next_batch().unwrap().0, Class::Releases, "a release lightens the load");
        assert_eq!(waiters.next_batch(), None);
        let resumes = Instant::now() + PATIENCE * HELD_BACK;
        assert_eq!(waiters.queues.next(Instant::now()), Some(resumes));
        advance(PATIENCE * HELD_BACK).await;
        assert_eq!(waiters.next_batch().unwrap().0, Class::Polls);
        assert_eq!(waiters.next_batch().unwrap().0, Class::Begins);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_heartbeat_of_a_long_lease_keeps_others_back_no_longer_than_a_common_one() {
        let mut waiters = Waiters::none();
        // Of a lease of five minutes.
        let patience = Duration::from_secs(15);
        waiters.add_op(Op::new("h".into(), heartbeat(), (patience * 2, patience), false));
        waiters.gather().await;
        let batch = waiters.next().unwrap();
        waiters.ended_after(&batch, Reply::Answered, patience);
        waiters.add("p", look());
        assert_eq!(waiters.next_batch(), None);
        assert_eq!(
            waiters.queues.next(Instant::now()),
            Some(Instant::now() + PATIENCE * HELD_BACK)
        );
        advance(PATIENCE * HELD_BACK).await;
        assert_eq!(waiters.next_batch().unwrap().0, Class::Polls);
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_are_late_that_wait_behind_others_for_long() {
        let mut waiters = Waiters::none();
        for n in 0..(IN_FLIGHT_MAX + 1) * ROWS_MAX {
            waiters.add(&format!("{n:05}"), heartbeat());
        }
        assert_eq!(std::iter::from_fn(|| waiters.next_batch()).count(), IN_FLIGHT_MAX);
        waiters.add("b", begin());
        advance(PATIENCE).await;
        assert_eq!(waiters.next_batch(), None);
        assert!(waiters.queues.is_late(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_of_this_process_is_not_taken_for_the_servers() {
        let mut waiters = Waiters::none();
        for n in 0..(IN_FLIGHT_MAX + 1) * ROWS_MAX {
            waiters.add(&format!("{n:05}"), heartbeat());
        }
        assert_eq!(std::iter::from_fn(|| waiters.next_batch()).count(), IN_FLIGHT_MAX);
        advance(PATIENCE * 2).await;
        waiters.stood_still = PATIENCE * 2;
        waiters.add("p", look());
        assert_eq!(waiters.next_batch().unwrap().0, Class::Polls);
        assert!(!waiters.queues.is_late(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_failed_goes_in_requests_of_its_own_that_grow_with_each_that_succeeds() {
        let mut waiters = Waiters::none();
        for n in 0..20 {
            waiters.add_repeat(&format!("failed-{n:02}"), release());
        }
        waiters.add("fresh", release());
        assert_eq!(waiters.next_batch().unwrap().1, ["fresh"]);
        let mut sizes = Vec::new();
        for reply in [Reply::Answered, Reply::Answered, Reply::Refused, Reply::Answered] {
            let repeats = waiters.next().unwrap();
            sizes.push(repeats.ops.len());
            waiters.ended(&repeats, reply);
        }
        sizes.push(waiters.next().unwrap().ops.len());
        assert_eq!(sizes, [1, 2, 4, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn acts_that_are_dropped_as_they_are_chosen_take_no_place_on_the_way() {
        let mut waiters = Waiters::none();
        for _ in 0..REPEATS_IN_FLIGHT_MAX {
            waiters.add_repeat("gone", begin());
            waiters.answers.clear();
            let (now, Queues { queues, payers, .. }) = (Instant::now(), &mut waiters.queues);
            // Another thread drops it after the look for those that are of no use.
            assert!(queues[Class::Begins as usize].next_repeats(now, payers).is_none());
            advance(Duration::from_secs(60)).await;
        }
        waiters.add_repeat("a", begin());
        assert_eq!(waiters.next_batch().unwrap().1, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn polls_that_repeat_are_bounded_but_go_along_with_others_for_nothing() {
        let mut waiters = Waiters::none();
        let mut repeats = 0;
        for n in 0..100 {
            waiters.add_repeat(&format!("repeat-{n}"), look());
            if let Some(batch) = waiters.next() {
                repeats += 1;
                waiters.ended(&batch, Reply::Refused);
            }
        }
        assert!((1..=12).contains(&repeats), "{repeats}");
        waiters.add("fresh", look());
        advance(POLLS_GATHERING_MAX).await;
        let (_, together) = waiters.next_batch().unwrap();
        assert_eq!(together.len(), 100 - repeats + 1);
        waiters.add_repeat("later", look());
        assert_eq!(waiters.next_batch(), None);
        advance(Duration::from_secs(2)).await;
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
            waiters.add("reader-1", begin_read());
            waiters.add(row, begin());
            waiters.add("reader-2", begin_read());
            assert_eq!(waiters.next_batch().unwrap().1, ["reader-1", "reader-2"]);
            assert_eq!(waiters.next_batch().unwrap().1, [row]);
            waiters.add(row, begin());
            waiters.add("reader-3", begin_read());
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
            waiters.add("write", begin_write());
            waiters.add(other, begin());
            assert_eq!(waiters.next_batch().unwrap().1, ["write"]);
            waiters.add("write", begin_write());
            assert_eq!(waiters.next_batch().unwrap().1, [other]);
            assert_eq!(waiters.next_batch().unwrap().1, ["write"]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_carries_an_act_that_was_dropped() {
        let mut waiters = Waiters::none();
        waiters.add("a", heartbeat());
        waiters.add("b", heartbeat());
        waiters.answers.remove(0);
        waiters.gather().await;
        assert_eq!(waiters.next_batch().unwrap().1, ["b"]);
    }
}
