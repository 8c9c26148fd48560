//! An actor: the only task that sends. It decides what leaves when, and what to do if no answer comes.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::flow::{Flow, Pending, Step};
use super::queue::{GATHERING_MAX, Now, Queues};
use super::request::{Batch, Class, Op, Reply, Response, panicked, send};
use super::{CommitOutcome, Store, TakeOver};
use crate::budget::Budget;
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
/// So many of the last transactions that were answered tell how fast the server is.
const ANSWERS: usize = 8;
/// The most turns that the batcher leaves to those who woke at the same moment and have acts to add.
const TURNS_MAX: usize = 16;
/// While heartbeats are under way the batcher wakes so often in their patience, to notice if this process
/// stands still.
const WAKES: u32 = 4;

pub(super) struct Actor {
    store: Arc<dyn Store>,
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
    wakeful: Wakeful,
    random: SmallRng,
}

/// The time in which this process was awake. It stood still for as long as a timer rang late.
#[derive(Debug, Default)]
struct Wakeful {
    stood_still: Duration,
    rings_at: Option<Instant>,
}

/// A request on its way.
struct InFlight {
    batch: Arc<Batch>,
    sent: Instant,
    /// By the time in which this process was awake.
    sent_awake: Instant,
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

/// Runs a batcher until the last handle is gone: then nobody waits for an answer any more. One that panics is
/// replaced, and whoever waited for it hears so.
pub(super) async fn run(
    store: Arc<dyn Store>,
    mut inbox: mpsc::UnboundedReceiver<Arc<Op>>,
    budget: Arc<Budget>,
    mut random: SmallRng,
) {
    loop {
        let choices = SmallRng::seed_from_u64(random.random());
        let actor = Actor::new(Arc::clone(&store), Arc::clone(&budget), choices);
        let running = AssertUnwindSafe(actor.run(&mut inbox)).catch_unwind();
        let Err(panic) = running.await else { return };
        let panic = panic_message(&*panic);
        // The log may be why.
        let said = || tracing::error!(%panic, "the batcher panicked, and another takes its place");
        let _ = std::panic::catch_unwind(AssertUnwindSafe(said));
    }
}

impl Actor {
    fn new(store: Arc<dyn Store>, budget: Arc<Budget>, random: SmallRng) -> Actor {
        let now = Instant::now();
        Actor {
            flow: Flow::new(store.channels(), now),
            opening: None,
            store,
            queues: Queues::new(Arc::clone(&budget), now),
            budget,
            in_flight: BTreeMap::new(),
            responses: FuturesUnordered::new(),
            sent: 0,
            took: VecDeque::new(),
            wakeful: Wakeful::default(),
            random,
        }
    }

    /// Runs until the last handle is gone.
    async fn run(mut self, inbox: &mut mpsc::UnboundedReceiver<Arc<Op>>) {
        let budget = Arc::clone(&self.budget);
        loop {
            let now = self.wakeful.now();
            let mut refunded = std::pin::pin!(budget.requests.refunded());
            refunded.as_mut().enable();
            self.take_in(inbox, now);
            self.mind_flow(now.at);
            self.part_late(now.at);
            while let Some(batch) = self.queues.next_batch(now) {
                self.send(batch, now);
            }
            let next = self.next(now.at);
            self.wakeful.rings_at = next;
            tokio::select! {
                biased;
                // First, since they are few, and acts may come without end.
                Some((request, back)) = self.responses.next() => self.arrived(request, back),
                Some(opened) = OptionFuture::from(self.opening.as_mut()) => self.opened(opened),
                op = inbox.recv() => match op {
                    Some(op) => {
                        let now = self.wakeful.now();
                        self.queues.add(op, now.awake);
                        self.collect(inbox, now).await;
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
    async fn collect(&mut self, inbox: &mut mpsc::UnboundedReceiver<Arc<Op>>, now: Now) {
        let since = Instant::now();
        for _ in 0..TURNS_MAX {
            if !self.take_in(inbox, now) || since.elapsed() >= GATHERING_MAX {
                return;
            }
            yield_now().await;
        }
    }

    /// Queues what was handed over; true if there was anything.
    fn take_in(&mut self, inbox: &mut mpsc::UnboundedReceiver<Arc<Op>>, now: Now) -> bool {
        let mut is_any = false;
        while let Ok(op) = inbox.try_recv() {
            self.queues.add(op, now.awake);
            is_any = true;
        }
        is_any
    }

    fn send(&mut self, mut batch: Batch, Now { at: now, awake }: Now) {
        batch.ops.retain(|op| op.leaves());
        if batch.ops.is_empty() {
            return self.queues.ended(&batch, None, Duration::ZERO, now);
        }
        let (limit, batch) = (batch.limit(now), Arc::new(batch));
        // A server that is slow is so for all, a row for its own request.
        let quickest = self.took.iter().min().copied().unwrap_or_default();
        let slow_from = now + batch.patience.max(quickest * 2);
        let is_parted = batch.class == Class::Heartbeats && batch.ops.len() > 1;
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
        let (flow, is_given_up) = (self.flow.number(), false);
        let in_flight = InFlight { batch, sent: now, sent_awake: awake, parts, flow, is_given_up };
        self.in_flight.insert(request, in_flight);
    }

    fn arrived(&mut self, request: u64, back: Response) {
        let Some(request) = self.in_flight.remove(&request) else { return };
        let (batch, is_elsewhere) = (&request.batch, request.is_elsewhere());
        let Now { at: now, awake } = self.wakeful.now();
        self.heard(&request, back.reply, now);
        if !is_elsewhere {
            let took = awake.saturating_duration_since(request.sent_awake);
            self.queues.ended(batch, Some(back.reply), took, now);
            if self.repeats_whole(batch, back.commit, now) {
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
                None => again.push(Arc::clone(op)),
            }
        }
        match back.rest {
            Some(rest) if self.is_the_servers(batch.class, back.reply, again.len(), now) => {
                again.iter().for_each(|op| op.answer(rest.clone()));
            }
            _ => self.part(batch.class, &again),
        }
    }

    /// Returns true if no row is why heartbeats came to nothing: they are late, or so many requests fail
    /// that parts can't be paid for. Their instances come again, and go together once the server is back.
    fn is_the_servers(&mut self, class: Class, reply: Reply, acts: usize, now: Instant) -> bool {
        let is_late = reply == Reply::Silence && self.queues.is_late(now);
        class == Class::Heartbeats && (is_late || !self.queues.can_pay(parts(acts).1, now))
    }

    fn heard(&mut self, request: &InFlight, reply: Reply, now: Instant) {
        if reply == Reply::Silence {
            self.flow.unanswered(&request.pending(), now);
            return;
        }
        self.flow.heard(request.flow, now);
        let took = now.saturating_duration_since(request.sent);
        if !request.may_wait_for_a_fence() {
            self.flow.took(took, now);
        }
        if request.batch.class != Class::Polls {
            self.took.truncate(ANSWERS - 1);
            self.took.push_front(took);
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
                self.queues.ended(&request.batch, None, Duration::ZERO, now);
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

    /// Sends a request that was aborted once more as it was, if that may help and can be paid for.
    fn repeats_whole(&mut self, batch: &Batch, commit: CommitOutcome, now: Instant) -> bool {
        let CommitOutcome::Aborted { at_read } = commit else { return false };
        let Batch { class, ref ops, aborts, .. } = *batch;
        // Others in the way are out of step by then, and a dead one is soon found out.
        let longest = (ABORTED_PAUSE * 2_u32.saturating_pow(aborts.min(8))).min(PAUSE_MAX);
        let beyond = longest.saturating_sub(ABORTED_PAUSE).mul_f64(self.random.random());
        let again_at = now + ABORTED_PAUSE + beyond;
        let aborts_max = if at_read { READS_MAX } else { COMMITS_MAX };
        if aborts >= aborts_max || ops.iter().all(|op| again_at >= op.deadline) {
            return false;
        }
        let payment = self.queues.pay_repeat(class, at_read, now);
        if payment.is_none() {
            return false;
        }
        let again = Batch::new(class, ops.clone());
        self.queues.add_part(again_at, Batch { payment, aborts: aborts + 1, ..again });
        true
    }

    /// Sends acts again that failed together, in parts.
    fn part(&mut self, class: Class, again: &[Arc<Op>]) {
        for part in again.chunks(parts(again.len()).0) {
            let pause = match class {
                Class::Heartbeats | Class::Polls => Duration::ZERO,
                Class::Releases | Class::Begins => PAUSE_MAX.mul_f64(self.random.random()),
            };
            let part = Batch::new(class, part.to_vec());
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
            if self.queues.is_late(now) {
                request.parts = Parts::From(now + request.batch.patience);
                continue;
            }
            request.parts = Parts::Sent;
            let Batch { class, ops, .. } = &*request.batch;
            self.queues.ended(&request.batch, None, Duration::ZERO, now);
            for part in ops.chunks(parts(ops.len()).0) {
                self.queues.add_part(now, Batch::new(*class, part.to_vec()));
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

    fn next(&mut self, now: Instant) -> Option<Instant> {
        let late = self.next_late().map(|(late_from, _)| late_from);
        let suspect = self.flow.next(&self.pending());
        let is_beating = |request: &&InFlight| request.batch.class == Class::Heartbeats;
        let in_flight = self.in_flight.values().filter(is_beating).map(|it| it.batch.patience);
        let patience = in_flight.chain(self.queues.patience()).min();
        let pulse = patience.map(|patience| now + patience / WAKES);
        late.into_iter().chain(suspect).chain(pulse).chain(self.queues.next(now)).min()
    }
}

impl Wakeful {
    /// Notes how late the timer rang, and returns the time.
    fn now(&mut self) -> Now {
        let at = Instant::now();
        if let Some(rings_at) = self.rings_at.take() {
            self.stood_still += at.saturating_duration_since(rings_at);
        }
        Now { at, awake: at.checked_sub(self.stood_still).unwrap_or(at) }
    }
}

/// Tells the callers of all acts that it had taken in, also after a panic and when the runtime shuts
/// down.
impl Drop for Actor {
    fn drop(&mut self) {
        let on_their_way = self.in_flight.values().flat_map(|request| &request.batch.ops);
        on_their_way.chain(self.queues.waiting()).for_each(|op| op.lost());
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
            patience: self.batch.patience,
            is_patient: self.batch.after_silence || self.may_wait_for_a_fence(),
            is_heartbeat: self.batch.class == Class::Heartbeats,
        }
    }
}

/// Returns how many acts go in each part of so many, and the number of parts.
fn parts(acts: usize) -> (usize, usize) {
    let each = acts.div_ceil(PARTS).max(1);
    (each, acts.div_ceil(each))
}

/// Sends heartbeats and reads once more whose flow was given up: a repeat is harmless (I4). Nobody
/// knows what became of other acts, which their instances find out by a read.
fn again_or_unknown(queues: &mut Queues, batch: &Batch, now: Instant) {
    let Batch { class, ref ops, .. } = *batch;
    if matches!(class, Class::Heartbeats | Class::Polls) {
        let again = Batch::new(class, ops.clone());
        return queues.add_part(now, Batch { after_silence: true, ..again });
    }
    for op in ops {
        let error = Error::unknown(format!("lock `{}`: hear what became of a request", op.lock));
        op.answer(Outcome::failed(op.without_answer(), error));
    }
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

    use spindle_protocol::{Answer, Change, Nonce, TermId, Timestamp, Writer};
    use tokio::time::sleep;

    use super::*;
    use crate::batch::request::OpKind;
    use crate::batch::tests::Reads;
    use crate::batch::{Batchers, Channels, Columns, Snapshot, Verdict};
    use crate::budget::Budget;

    const SECOND: Duration = Duration::from_secs(1);

    /// Its first transaction fails after a second, each other one is applied after two.
    #[derive(Debug, Default)]
    struct FirstFails(AtomicUsize);

    impl Store for FirstFails {
        fn check_runtime(&self, _: &str) -> Result<()> {
            Ok(())
        }

        fn rows(
            &self,
            _: Vec<Arc<str>>,
            _: Vec<(String, String)>,
            _: Columns,
            _: Duration,
        ) -> BoxFuture<'_, Result<Snapshot>> {
            std::future::pending().boxed()
        }

        fn transact(
            &self,
            changes: Vec<(Arc<str>, Change)>,
            limit: Duration,
        ) -> BoxFuture<'_, Verdict> {
            let is_first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                sleep(SECOND).await;
                if is_first {
                    return Verdict::failed(&changes, Error::timed_out("write", limit));
                }
                sleep(SECOND).await;
                let (refused, commit) =
                    (vec![None; changes.len()], CommitOutcome::Applied { at: Timestamp(1) });
                Verdict { refused, found: Vec::new(), commit, error: None }
            }
            .boxed()
        }

        fn channels(&self) -> Channels {
            Channels::One
        }

        fn heard_at(&self) -> Option<Instant> {
            Some(Instant::now())
        }

        fn open_flow(&self, _: Duration) -> BoxFuture<'static, Result<TakeOver>> {
            std::future::pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_a_request_says_nothing_of_acts_that_are_under_way_in_parts() {
        let store = Arc::new(FirstFails::default());
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let as_store = Arc::clone(&store) as Arc<dyn Store>;
        let handles = ["a", "b"].map(|lock| batchers.handle(&as_store, lock.into(), 1));
        let beats = handles.each_ref().map(|handle| {
            let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
            let term = TermId { token: Timestamp(1), writer };
            let beat = OpKind::Change(Change::Heartbeat { term, looks: false });
            handle.send(beat, SECOND * 5, SECOND / 2)
        });
        for beat in beats {
            let answer = beat.await.answer;
            assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
        }
        assert_eq!(store.0.load(Ordering::Relaxed), 3, "both together, then each by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn an_act_is_answered_although_others_come_without_end() {
        let store = Arc::new(Reads::new(|| true)) as Arc<dyn Store>;
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
        let store = Arc::new(Reads::new(move || {
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

    #[tokio::test(start_paused = true)]
    async fn the_time_by_which_a_timer_rings_late_is_the_time_in_which_this_process_stood_still() {
        let (mut wakeful, second) = (Wakeful::default(), Duration::from_secs(1));
        let began = wakeful.now().awake;
        wakeful.rings_at = Some(Instant::now() + second);
        tokio::time::advance(second * 3).await;
        assert_eq!(wakeful.now().awake - began, second);
        tokio::time::advance(second).await;
        assert_eq!(wakeful.now().awake - began, second * 2, "no timer rang");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batcher_that_panics_is_replaced_for_the_handles_that_have_it() {
        let store = Arc::new(Reads::new(|| true));
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let as_store = Arc::clone(&store) as Arc<dyn Store>;
        let handle = batchers.handle(&as_store, "a".into(), 1);
        let limit = Duration::from_secs(3);
        let look = || handle.send(OpKind::Observe { is_first: true }, limit, limit);
        assert!(matches!(look().await.answer, Answer::Observed(_)));
        // One on its way, and one that waits to leave.
        store.is_silent.store(true, Ordering::Relaxed);
        let term = TermId { token: Timestamp(7), writer: Writer::nobody() };
        let heartbeat = OpKind::Change(Change::Heartbeat { term, looks: false });
        let heartbeat = tokio::spawn(handle.send(heartbeat, limit, limit));
        sleep(limit / 10).await;
        store.is_broken.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        let lost = look().await;
        assert!(matches!(lost.answer, Answer::NotApplied) && lost.error.is_some(), "{lost:?}");
        assert_eq!(heartbeat.await.unwrap().answer, Answer::Unknown);
        assert!(asked.elapsed() < limit / 2, "they hear so at once");
        assert!(!store.is_broken.load(Ordering::Relaxed), "it has panicked");
        assert!(matches!(look().await.answer, Answer::Observed(_)));
    }
}
