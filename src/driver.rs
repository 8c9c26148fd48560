//! The loop: the only task that acts, and the only owner of the protocol's state.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use spindle_protocol::{
    Act, Announcement, Answer, Change, Decision, Event, Holder, Instance, Moment, Rejection,
    Succession, Wake,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::claims::{Claim, Claims, End, Heard, Occupied, Parting, Patience};
use crate::columns::Need;
use crate::config::Settings;
use crate::status::{Loss, Published};
use crate::table::{Outcome, Table};
use crate::token::FencingToken;

/// How many times in a lease a holder looks at the clock even if no timer is due: timers stand
/// still while a machine is suspended.
const TICKS_PER_LEASE: u32 = 10;

/// What carries out the protocol's acts.
pub(crate) trait LockRow: Send + Sync + 'static {
    /// Carries out one act, sent once, in not much more than `limit`.
    fn carry_out(&self, act: Act, limit: Duration) -> impl Future<Output = Outcome> + Send;
}

/// One lock's row on Spanner.
pub(crate) struct SpannerRow {
    pub(crate) table: Arc<Table>,
    pub(crate) lock: Arc<str>,
    pub(crate) holder: Holder,
    /// What the next release leaves in the row, besides the successor.
    pub(crate) parting_info: Arc<Mutex<Option<String>>>,
    pub(crate) told: Told,
    /// Whether the last look read the row's lease.
    pub(crate) saw_lease: AtomicBool,
}

impl LockRow for SpannerRow {
    async fn carry_out(&self, act: Act, limit: Duration) -> Outcome {
        let Self { table, lock, holder, parting_info, told, .. } = self;
        let info = parting_info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(mut change) = act.change(holder, info.as_deref()) else {
            return match act {
                Act::Sweep { before } => table.sweep(lock, before, limit).await,
                _ => self.observe(limit).await,
            };
        };
        if matches!(change, Change::Takeover { .. })
            && let Err(outcome) = self.confirm(limit).await
        {
            return outcome;
        }
        let tells = table.optional.known();
        match &mut change {
            // Known before the answer is: an attempt whose outcome is unknown may have been ours.
            Change::Insert { .. } | Change::Takeover { .. } => told.set(tells),
            Change::Heartbeat { holder: said, .. } if told.get() != tells => {
                *said = Some(holder.clone());
            }
            _ => {}
        }
        let is_heartbeat = matches!(change, Change::Heartbeat { .. });
        let outcome = table.carry_out(lock, change, limit).await;
        if is_heartbeat && matches!(outcome.answer, Answer::Applied { .. }) {
            told.set(tells);
        }
        outcome
    }
}

impl SpannerRow {
    async fn observe(&self, limit: Duration) -> Outcome {
        let before = self.table.optional.has_lease();
        let outcome = self.table.observe(&self.lock, limit).await;
        let after = self.table.optional.has_lease();
        self.saw_lease.store(before && after, Ordering::Relaxed);
        outcome
    }

    /// Refuses to take over from a row whose lease was not read although there may be one (I1).
    async fn confirm(&self, limit: Duration) -> Result<(), Outcome> {
        let ready = self.table.ready(Need::Begin, limit).await;
        ready.map_err(|error| Outcome::failed(Answer::NotApplied, error))?;
        if self.table.optional.has_lease() && !self.saw_lease.load(Ordering::Relaxed) {
            let answer = Answer::Rejected(Rejection::Changed(None));
            return Err(Outcome { answer, error: None });
        }
        Ok(())
    }
}

/// Which optional columns the row of the present term was written with.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<(bool, bool)>);

impl Told {
    fn set(&self, columns: (bool, bool)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = columns;
    }

    fn get(&self) -> (bool, bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the loop wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// For as long as it runs.
    Always,
    /// While a claim waits for it or has it.
    Claimed,
}

/// What a handle asks of the loop.
pub(crate) enum Command {
    /// Give the lock to this one, in turn.
    Claim(Claim),
    /// Give up the term; answered with whether there was one, once it is released.
    Resign { next: Succession, done: oneshot::Sender<bool> },
}

pub(crate) struct Driver<R> {
    row: Arc<R>,
    instance: Instance,
    settings: Settings,
    published: Arc<Published>,
    commands: mpsc::Receiver<Command>,
    random: SmallRng,
    resigned: Option<oneshot::Sender<bool>>,
    demand: Demand,
    claims: Claims,
    parting_info: Arc<Mutex<Option<String>>>,
    /// A resignation that whoever has the lock was asked to carry out.
    asked: Option<Resignation>,
    /// Whether the instance was told that the lock is wanted.
    wanted: bool,
    /// Whether somebody has asked for a look since the instance was last told to look.
    is_look_due: bool,
}

struct Resignation {
    next: Succession,
    done: oneshot::Sender<bool>,
}

type UnderWay = Pin<Box<dyn Future<Output = Outcome> + Send>>;

impl<R: LockRow> Driver<R> {
    pub(crate) fn new(
        row: R,
        settings: Settings,
        published: Arc<Published>,
        commands: mpsc::Receiver<Command>,
        seed: u64,
    ) -> Driver<R> {
        let mut random = SmallRng::seed_from_u64(seed);
        let timing = settings.timing.clone();
        let now = settings.clock.now();
        let instance = Instance::new(&settings.id, random.random(), timing, now);
        Driver {
            row: Arc::new(row),
            instance,
            settings,
            published,
            commands,
            random,
            resigned: None,
            demand: Demand::Always,
            claims: Claims::default(),
            parting_info: Arc::default(),
            asked: None,
            wanted: true,
            is_look_due: false,
        }
    }

    /// Wants the lock only while somebody claims it; `parting_info` is what its row reads.
    pub(crate) fn on_demand(mut self, parting_info: Arc<Mutex<Option<String>>>) -> Driver<R> {
        self.demand = Demand::Claimed;
        self.parting_info = parting_info;
        self
    }

    /// Runs until cancelled, or until the last handle is gone, and the lock is released.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        // Also when this future is dropped, with its runtime or by a panic.
        let _end = LoopEnd(Arc::clone(&self.published));
        self.published.ran();
        let mut under_way: Option<UnderWay> = None;
        let mut stopping = false;
        let mut event = self.demanded().unwrap_or(Event::Wake);
        loop {
            let now = self.settings.clock.now();
            let Decision { announce, act, wake } = self.instance.decide(now, event);
            if let Some(announcement) = announce {
                self.announce(announcement);
            }
            if let Some(act) = act {
                under_way = Some(self.start(act, now));
            }
            self.answer_resignation();
            if self.instance.has_ended() {
                return;
            }
            self.serve(now);
            if !stopping && let Some(demanded) = self.demanded() {
                event = demanded;
                continue;
            }
            let nap = self.nap(wake);
            event = tokio::select! {
                biased;
                outcome = answer(&mut under_way) => self.answered(outcome),
                () = cancel.cancelled(), if !stopping => {
                    stopping = true;
                    Event::Stop
                }
                command = self.commands.recv(), if !stopping => match command {
                    Some(command) => self.obey(command),
                    None => {
                        stopping = true;
                        Event::Stop
                    }
                },
                heard = self.claims.next(), if !stopping => self.hear(heard),
                () = sleep_for(nap) => Event::Wake,
            };
        }
    }

    /// What the instance has to be told of who wants the lock.
    fn demanded(&mut self) -> Option<Event> {
        let wanted = self.demand == Demand::Always || self.claims.are_any();
        // Once for each that asks: what fails after that, the instance repeats at its own pace.
        let look = self.is_look_due && self.instance.is_standing_by();
        if wanted == self.wanted && !look {
            return None;
        }
        self.is_look_due &= !look;
        self.wanted = wanted;
        self.published.rests(!wanted);
        Some(Event::Contend(wanted))
    }

    /// Gives those who claim the lock what there is to give.
    fn serve(&mut self, now: Moment) {
        if let Some((token, _)) = self.instance.term()
            && self.demand == Demand::Claimed
        {
            if let Some(term) = self.published.term() {
                self.claims.grant(&term);
            }
            self.claims.refuse_lookers(&Occupied {
                holder: Some(self.settings.id.to_string()),
                reserved_for: None,
                token: FencingToken::from_timestamp(token),
            });
        } else if self.instance.is_standing_by() {
            self.claims.settle(self.settings.timing.lease, now);
        }
        if !self.instance.is_releasing() {
            self.claims.release_ended();
        }
    }

    fn hear(&mut self, heard: Heard) -> Event {
        let Heard::LetGo(end) = heard else { return Event::Wake };
        let parting = match end {
            Some(End::Lapse) => return Event::Lapse,
            Some(End::Release { parting, done }) => {
                self.claims.releasing(done);
                parting
            }
            None => Parting::default(),
        };
        let Parting { next, info } = parting;
        *self.parting_info.lock().unwrap_or_else(PoisonError::into_inner) = info;
        if let Some(Resignation { next, done }) = self.asked.take() {
            self.resigned = Some(done);
            return Event::Resign { next };
        }
        if next != Succession::Anyone {
            return Event::Resign { next };
        }
        if self.claims.is_any_waiting() {
            return Event::LetGo;
        }
        self.wanted = false;
        self.published.rests(true);
        Event::Contend(false)
    }

    fn start(&mut self, act: Act, now: Moment) -> UnderWay {
        if act == Act::Observe {
            self.claims.look_begins(now);
        }
        tracing::debug!(
            lock = &*self.settings.name,
            id = &*self.settings.id,
            act = act_name(&act),
            "round"
        );
        let limit = self.settings.timing.attempt_limit();
        let row = Arc::clone(&self.row);
        Box::pin(async move { row.carry_out(act, limit).await })
    }

    fn answered(&mut self, outcome: Outcome) -> Event {
        let Outcome { answer, error } = outcome;
        if self.instance.is_sweeping() {
            // It says nothing of who has the lock.
        } else if self.instance.is_releasing() {
            self.claims.release_answered(&answer);
        } else if self.instance.term().is_none() {
            self.claims.answered(&answer, error.as_ref());
        }
        let lock = &*self.settings.name;
        let id = &*self.settings.id;
        match &error {
            // Losing a race to another transaction is contact, and usual.
            Some(error) if error.code() != Some(Code::Aborted) => {
                let held = self.published.has_lock();
                match held {
                    Some(token) => tracing::warn!(lock, id, %token, %error, "request failed"),
                    None => tracing::warn!(lock, id, %error, "request failed"),
                }
                self.published.out_of_contact(error);
            }
            Some(error) => tracing::debug!(lock, id, %error, "aborted"),
            None => {
                tracing::debug!(lock, id, answer = answer_name(&answer), "answered");
                self.published.in_contact();
            }
        }
        Event::Answer(answer)
    }

    fn obey(&mut self, command: Command) -> Event {
        let (next, done) = match command {
            Command::Claim(claim) => {
                self.is_look_due |= claim.patience != Patience::Waits;
                self.claims.add(claim);
                return Event::Wake;
            }
            Command::Resign { next, done } => (next, done),
        };
        if self.instance.term().is_none() {
            // Nobody waits for the answer any more if it can't be delivered.
            let _ = done.send(false);
            return Event::Wake;
        }
        if self.claims.ask_to_go() {
            // The term goes on until its work has ended.
            self.asked = Some(Resignation { next, done });
            return Event::Wake;
        }
        self.resigned = Some(done);
        Event::Resign { next }
    }

    fn answer_resignation(&mut self) {
        if !self.instance.is_releasing()
            && let Some(done) = self.resigned.take()
        {
            let _ = done.send(true);
        }
    }

    fn announce(&mut self, announcement: Announcement) {
        let lock = &*self.settings.name;
        let id = &*self.settings.id;
        match announcement {
            Announcement::Began { token, writer, valid_until } => {
                let token = FencingToken::from_timestamp(token);
                tracing::info!(lock, id, %token, "term begins");
                self.published.began(token, writer, valid_until);
            }
            Announcement::Extended { valid_until } => self.published.extended(valid_until),
            Announcement::Ended { token, reason } => {
                let token = FencingToken::from_timestamp(token);
                let loss = Loss::from(reason);
                // First the news, then the log: a writer of logs may block.
                self.published.ended(loss.clone());
                self.claims.term_ended();
                // Dropped unanswered: the term is gone, and nobody resigned from it.
                self.asked = None;
                tracing::info!(lock, id, %token, ?loss, "term ends");
            }
        }
    }

    /// How long to sleep; for ever where only an answer or a command can come.
    fn nap(&mut self, wake: Option<Wake>) -> Option<Duration> {
        let Wake { at, spread } = wake?;
        let now: Moment = self.settings.clock.now();
        let late = spread.mul_f64(self.random.random());
        let nap = (at + late).since(now);
        if self.instance.term().is_some() {
            return Some(nap.min(self.settings.timing.lease / TICKS_PER_LEASE));
        }
        Some(nap)
    }
}

/// The answer to the act under way, if there is one.
async fn answer(under_way: &mut Option<UnderWay>) -> Outcome {
    match under_way {
        Some(act) => {
            let outcome = act.await;
            *under_way = None;
            outcome
        }
        None => std::future::pending().await,
    }
}

async fn sleep_for(nap: Option<Duration>) {
    match nap {
        Some(nap) => sleep(nap).await,
        None => std::future::pending().await,
    }
}

/// Says that the loop is gone when it is dropped.
struct LoopEnd(Arc<Published>);

impl Drop for LoopEnd {
    fn drop(&mut self) {
        self.0.loop_ended();
    }
}

fn act_name(act: &Act) -> &'static str {
    match act {
        Act::Observe => "observe",
        Act::Insert { .. } => "insert",
        Act::Takeover { .. } => "takeover",
        Act::Heartbeat { .. } => "heartbeat",
        Act::Release { .. } => "release",
        Act::Sweep { .. } => "sweep",
    }
}

fn answer_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Observed(_) => "observed",
        Answer::Applied { .. } => "applied",
        Answer::Swept { .. } => "swept",
        Answer::Rejected(_) => "rejected",
        Answer::NotApplied => "not applied",
        Answer::Unknown => "unknown",
    }
}
