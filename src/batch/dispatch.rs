//! The only task that sends. It decides what leaves when, and what to do if no answer comes.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rand::RngExt as _;
use rand::rngs::SmallRng;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::budget::Budget;
use super::flow::{Flow, Pending, Step};
use super::op::{Class, Op};
use super::queues::Queues;
use super::request::{Reply, Response, panicked, send};
use super::store::{CommitOutcome, Store, TakeOver};
use super::together::Batch;
use super::waiting::GATHERING_MAX;
use crate::error::{Error, Outcome, Result, panic_message};

/// The number of parts in which a batch is sent again that failed, or whose answer is slow. Two rounds
/// find one row among a thousand, well within the lease, at the price of three failures.
const PARTS: usize = 32;
/// The longest delay of a part. By then, others that wanted the same rows at the same time are out of
/// step.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// The first delay of a request that was aborted; it doubles up to [`PAUSE_MAX`].
const ABORTED_PAUSE: Duration = Duration::from_millis(2);
/// How often a request is sent again as it was, after its read was aborted or after its commit was.
/// One row in trouble aborts the commit of all.
const READS_MAX: u32 = 60;
const COMMITS_MAX: u32 = 2;
/// The part of their patience for which heartbeats wait, before they go in parts, where requests go
/// one at a time.
const SLOW_APART: u32 = 3;
/// So many of the last transactions that were answered tell how fast the server is.
const ANSWERS: usize = 8;
/// The most turns that the batcher leaves to those who woke at the same moment and have acts to add.
const TURNS_MAX: usize = 16;

pub(crate) struct Dispatcher {
    store: Arc<dyn Store>,
    inbox: mpsc::UnboundedReceiver<Arc<Op>>,
    budget: Arc<Budget>,
    queues: Queues,
    in_flight: BTreeMap<u64, InFlight>,
    responses: FuturesUnordered<BoxFuture<'static, (u64, Response)>>,
    flow: Flow,
    /// The fresh flow that is begun.
    opening: Option<BoxFuture<'static, Result<TakeOver>>>,
    sent: u64,
    /// How long the last transactions took that were answered.
    took: VecDeque<Duration>,
    random: SmallRng,
}

/// A request on its way.
struct InFlight {
    batch: Arc<Batch>,
    sent: Instant,
    /// True if another request was on its way at the same time.
    was_beside_others: bool,
    parts: Parts,
    /// The number of its flow.
    flow: u64,
    /// True once its flow was given up: its acts go once more, or were answered.
    is_given_up: bool,
}

/// The acts of a slow request, which go in parts besides.
#[derive(Clone, Copy)]
enum Parts {
    Never,
    /// From then on.
    From(Instant),
    /// They are on their way.
    Sent,
}

impl Dispatcher {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        inbox: mpsc::UnboundedReceiver<Arc<Op>>,
        budget: Arc<Budget>,
        random: SmallRng,
    ) -> Dispatcher {
        let flow = Flow::new(store.channels(), Instant::now());
        Dispatcher {
            flow,
            opening: None,
            store,
            inbox,
            queues: Queues::new(Arc::clone(&budget), Instant::now()),
            budget,
            in_flight: BTreeMap::new(),
            responses: FuturesUnordered::new(),
            sent: 0,
            took: VecDeque::new(),
            random,
        }
    }

    /// Runs until the last handle is gone: then nobody waits for an answer any more.
    pub(crate) async fn run(mut self) {
        let budget = Arc::clone(&self.budget);
        loop {
            let now = Instant::now();
            let mut refunded = std::pin::pin!(budget.refunded());
            refunded.as_mut().enable();
            self.take_in();
            self.mind_flow(now);
            self.part_late(now);
            while let Some(batch) = self.queues.next_batch(now) {
                self.send(batch, now);
            }
            let next = self.next(now);
            tokio::select! {
                biased;
                // First, since they are few, and acts may come without end.
                Some((request, back)) = self.responses.next() => self.arrived(request, back),
                Some(opened) = OptionFuture::from(self.opening.as_mut()) => self.opened(opened),
                op = self.inbox.recv() => match op {
                    Some(op) => {
                        self.queues.add(op);
                        self.collect().await;
                    }
                    None => return,
                },
                () = at(next) => {}
                () = refunded, if self.queues.is_waiting() => {}
            }
        }
    }

    /// Takes in what is handed over at this moment; it waits for nobody. Where many thousands run,
    /// a turn of all of them takes long, and what came first would be late.
    async fn collect(&mut self) {
        let since = Instant::now();
        for _ in 0..TURNS_MAX {
            if !self.take_in() || since.elapsed() >= GATHERING_MAX {
                return;
            }
            yield_now().await;
        }
    }

    /// Queues what was handed over; true if there was anything.
    fn take_in(&mut self) -> bool {
        let mut is_any = false;
        while let Ok(op) = self.inbox.try_recv() {
            self.queues.add(op);
            is_any = true;
        }
        is_any
    }

    fn send(&mut self, batch: Batch, now: Instant) {
        let (limit, batch) = (batch.limit(now), Arc::new(batch));
        let ops = &batch.ops;
        ops.iter().for_each(|op| op.leaves(ops.len() == 1));
        let is_parted = batch.class == Class::Heartbeats && ops.len() > 1;
        // Where requests go one at a time, the server is slow and no row holds it up.
        let patience = shortest(ops) * if self.queues.is_apart(now) { SLOW_APART } else { 1 };
        // A server that is slow is so for all, a row for its own request.
        let quickest = self.took.iter().min().copied().unwrap_or_default();
        let slow_from = now + patience.max(quickest * 2);
        let parts = if is_parted { Parts::From(slow_from) } else { Parts::Never };
        let (store, sent_batch) = (Arc::clone(&self.store), Arc::clone(&batch));
        self.sent += 1;
        let request = self.sent;
        self.responses.push(Box::pin(async move {
            // A panic in it, such as a log subscriber's, must not cost all the others their
            // batcher.
            let sending = AssertUnwindSafe(send(&*store, &sent_batch, limit));
            let (back, ops) = (sending.catch_unwind().await, &sent_batch.ops);
            (request, back.unwrap_or_else(|panic| panicked(ops, &panic_message(&*panic))))
        }));
        let was_beside_others = !self.in_flight.is_empty();
        self.in_flight.values_mut().for_each(|other| other.was_beside_others = true);
        let (flow, is_given_up) = (self.flow.number(), false);
        let in_flight = InFlight { batch, sent: now, was_beside_others, parts, flow, is_given_up };
        self.in_flight.insert(request, in_flight);
    }

    fn arrived(&mut self, request: u64, back: Response) {
        let Some(request) = self.in_flight.remove(&request) else { return };
        let (batch, is_elsewhere) = (&request.batch, request.is_elsewhere());
        self.heard(&request, back.reply);
        if batch.class != Class::Polls && back.reply != Reply::Silence {
            self.took.truncate(ANSWERS - 1);
            self.took.push_front(request.sent.elapsed());
        }
        if !is_elsewhere {
            self.queues.arrived(batch, request.sent, back.reply);
            if self.repeats_whole(&request, back.commit) {
                return;
            }
        }
        let mut again = Vec::new();
        for (op, outcome) in batch.ops.iter().zip(back.outcomes) {
            match outcome {
                // Its acts are under way again: they are answered by what becomes of those.
                Some(outcome) if is_elsewhere && outcome.error.is_some() => {}
                None if is_elsewhere => {}
                Some(outcome) => op.answer(outcome),
                None => {
                    op.returns();
                    again.push(Arc::clone(op));
                }
            }
        }
        let is_late = self.queues.late_until(Instant::now()).is_some();
        // Where late heartbeats come to nothing, no row holds them up: their instances come again.
        if batch.class != Class::Heartbeats || back.reply != Reply::Silence || !is_late {
            self.part(batch.class, &again);
        }
    }

    fn heard(&mut self, request: &InFlight, reply: Reply) {
        let now = Instant::now();
        if reply == Reply::Silence {
            self.flow.unanswered(&request.pending(), now);
            return;
        }
        self.flow.heard(request.flow, now);
        if !request.may_wait_for_a_fence() {
            self.flow.took(now.saturating_duration_since(request.sent), now);
        }
    }

    /// Begins a fresh flow if the one in use is suspect, and gives it up if that is heard again.
    fn mind_flow(&mut self, now: Instant) {
        if let Some(at) = self.store.heard_at() {
            self.flow.heard(self.flow.number(), at);
        }
        match self.flow.step(&self.pending(), now) {
            Step::Wait => {}
            Step::Open(limit) => self.opening = Some(self.store.open_flow(limit)),
            Step::Close => self.opening = None,
        }
    }

    /// Has a fresh flow that is ready take over, unless the one in use was heard meanwhile.
    fn opened(&mut self, opened: Result<TakeOver>) {
        self.opening = None;
        let Ok(take_over) = opened else { return self.flow.failed() };
        let (now, pending) = (Instant::now(), self.pending());
        let on_it = self.in_flight.iter().filter(|(_, request)| !request.is_elsewhere());
        let silent = on_it.filter(|(_, request)| self.flow.is_given_up(&request.pending(), now));
        let silent: Vec<u64> = silent.map(|(id, _)| *id).collect();
        let Some(silent_for) = self.flow.takes_over(&pending, now) else { return };
        take_over(silent_for);
        for (id, request) in &mut self.in_flight {
            if silent.contains(id) {
                request.is_given_up = true;
                self.queues.given_up(&request.batch);
                again_or_unknown(&mut self.queues, &request.batch, now);
            } else if !request.is_elsewhere() {
                request.flow = self.flow.number();
            }
        }
    }

    fn pending(&self) -> Vec<Pending> {
        let pending = self.in_flight.values().filter(|request| !request.is_elsewhere());
        pending.map(InFlight::pending).collect()
    }

    /// Sends a request once more as it was, if that may help and can be paid for.
    fn repeats_whole(&mut self, request: &InFlight, commit: CommitOutcome) -> bool {
        let Batch { class, ref ops, is_alone, repeats, .. } = *request.batch;
        let (is_worth_it, only_read) = match commit {
            CommitOutcome::Aborted { at_read: true } => (repeats < READS_MAX, true),
            CommitOutcome::Aborted { at_read: false } => (repeats < COMMITS_MAX, false),
            // A poll is one read.
            CommitOutcome::Gone => (request.was_beside_others && !is_alone, class == Class::Polls),
            _ => return false,
        };
        let (now, is_gone) = (Instant::now(), commit == CommitOutcome::Gone);
        let pause = if is_gone {
            Duration::ZERO
        } else {
            // Others in the way are out of step by then, and a dead one is soon found out.
            let longest = (ABORTED_PAUSE * 2_u32.saturating_pow(repeats.min(8))).min(PAUSE_MAX);
            ABORTED_PAUSE + longest.saturating_sub(ABORTED_PAUSE).mul_f64(self.random.random())
        };
        let is_late = ops.iter().all(|op| now + pause >= op.deadline);
        if !is_worth_it || is_late {
            return false;
        }
        let payment = self.queues.pay_repeat(class, only_read, now);
        if payment.is_none() {
            return false;
        }
        ops.iter().for_each(|op| op.returns());
        let again = Batch::new(class, ops.clone(), payment);
        let again = Batch { is_alone: is_gone, repeats: repeats + 1, ..again };
        self.queues.add_part(now + pause, again);
        true
    }

    /// Sends acts again that failed together, in parts.
    fn part(&mut self, class: Class, again: &[Arc<Op>]) {
        for part in again.chunks(again.len().div_ceil(PARTS).max(1)) {
            let pause = match class {
                Class::Heartbeats | Class::Polls => Duration::ZERO,
                Class::Releases | Class::Begins => PAUSE_MAX.mul_f64(self.random.random()),
            };
            let part = Batch::new(class, part.to_vec(), None);
            self.queues.add_part(Instant::now() + pause, part);
        }
    }

    /// Sends heartbeats again, in smaller batches, if their request is slow. One row that waits for
    /// a lock makes all the others in its request wait. A repeat is harmless (I4).
    ///
    /// A large one and two others at a time: where more are slow it is the server that is, and more
    /// requests would make it slower.
    fn part_late(&mut self, now: Instant) {
        while let Some((late_from, request)) = self.next_late()
            && late_from <= now
            && let Some(request) = self.in_flight.get_mut(&request)
        {
            // No single row keeps all of them waiting.
            if let Some(until) = self.queues.late_until(now) {
                request.parts = Parts::From(until);
                continue;
            }
            request.parts = Parts::Sent;
            let Batch { class, ops, .. } = &*request.batch;
            self.queues.arrived(&request.batch, request.sent, Reply::Silence);
            for part in ops.chunks(ops.len().div_ceil(PARTS)) {
                self.queues.add_part(now, Batch::new(*class, part.to_vec(), None));
            }
        }
    }

    /// Returns the request that is late first of those that may go in parts, and from when it is. Where
    /// nothing was heard since it left, no row holds it up; on a fresh flow something was.
    fn next_late(&self) -> Option<(Instant, u64)> {
        let (large, others): (Vec<_>, Vec<_>) = self
            .in_flight
            .values()
            .filter(|request| request.was_parted())
            .partition(|request| request.is_large());
        let may = |request: &InFlight| {
            if request.is_large() { large.is_empty() } else { others.len() < 2 }
        };
        let is_heard = |request: &InFlight| {
            request.batch.after_silence || self.flow.is_heard_since(request.sent)
        };
        let late = self.in_flight.iter().filter(|(_, request)| may(request) && is_heard(request));
        let late = late.filter_map(|(id, request)| match request.parts {
            Parts::From(late_from) => Some((late_from, *id)),
            Parts::Never | Parts::Sent => None,
        });
        late.min()
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        let late = self.next_late().map(|(late_from, _)| late_from);
        let suspect = self.flow.next(&self.pending());
        late.into_iter().chain(suspect).chain(self.queues.next(now)).min()
    }
}

impl InFlight {
    /// Returns true if its acts are under way in parts besides.
    fn was_parted(&self) -> bool {
        matches!(self.parts, Parts::Sent)
    }

    fn is_large(&self) -> bool {
        self.batch.ops.len() > PARTS
    }

    /// Returns true if what becomes of its acts is told by other requests.
    fn is_elsewhere(&self) -> bool {
        self.was_parted() || self.is_given_up
    }

    fn may_wait_for_a_fence(&self) -> bool {
        !matches!(self.batch.class, Class::Heartbeats | Class::Polls)
    }

    fn pending(&self) -> Pending {
        Pending {
            flow: self.flow,
            sent: self.sent,
            patience: shortest(&self.batch.ops),
            is_patient: self.batch.after_silence || self.may_wait_for_a_fence(),
            is_heartbeat: self.batch.class == Class::Heartbeats,
        }
    }
}

/// Sends heartbeats and reads once more whose flow was given up: a repeat is harmless (I4). Nobody
/// knows what became of other acts, which their instances find out by a read.
fn again_or_unknown(queues: &mut Queues, batch: &Batch, now: Instant) {
    let Batch { class, ref ops, .. } = *batch;
    if matches!(class, Class::Heartbeats | Class::Polls) {
        let again = Batch::new(class, ops.clone(), None);
        return queues.add_part(now, Batch { after_silence: true, ..again });
    }
    for op in ops {
        let error = Error::unknown(format!("lock `{}`: hear what became of a request", op.lock));
        op.answer(Outcome::failed(op.without_answer(), error));
    }
}

/// Returns from when on a request with these acts counts as slow.
fn shortest(ops: &[Arc<Op>]) -> Duration {
    ops.iter().map(|op| op.patience).min().unwrap_or_default()
}

async fn at(next: Option<Instant>) {
    match next {
        Some(next) => sleep_until(next).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use spindle_protocol::Answer;

    use super::*;
    use crate::batch::op::OpKind;
    use crate::batch::store::tests::Reads;
    use crate::batch::{Batchers, Budget};

    #[tokio::test(start_paused = true)]
    async fn an_act_is_answered_although_others_come_without_end() {
        let store = Arc::new(Reads(|| true)) as Arc<dyn Store>;
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let look = |lock: u32| {
            let handle = batchers.handle(&store, lock.to_string().into(), 1);
            handle.send(
                OpKind::Observe { is_first: true },
                Duration::from_secs(3),
                Duration::from_secs(3),
            )
        };
        let (first, mut others) = (tokio::spawn(look(0)), Vec::new());
        for lock in 1..10_000 {
            if first.is_finished() {
                break;
            }
            others.push(look(lock));
            yield_now().await;
        }
        assert!(others.len() < 200, "{}", others.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_panics_is_one_that_failed_and_the_batcher_goes_on() {
        let reads = AtomicUsize::new(0);
        // In its first request, as a log's subscriber may.
        let store = Arc::new(Reads(move || {
            assert!(reads.fetch_add(1, Ordering::Relaxed) > 0, "the log is full");
            true
        })) as Arc<dyn Store>;
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let handles = ["a", "b"].map(|lock| batchers.handle(&store, lock.into(), 1));
        let look = || OpKind::Observe { is_first: false };
        let limit = Duration::from_secs(3);
        let polls = handles.each_ref().map(|handle| handle.send(look(), limit, limit));
        for poll in polls {
            let outcome = poll.await;
            assert_eq!(outcome.answer, Answer::NotApplied);
            let error = outcome.error.unwrap().to_string();
            assert!(error.contains("the log is full"), "{error}");
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        for handle in &handles {
            let outcome = handle.send(look(), limit, limit).await;
            assert!(matches!(outcome.answer, Answer::Observed(_)), "{:?}", outcome.answer);
        }
    }
}
