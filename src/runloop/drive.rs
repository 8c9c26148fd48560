//! The loop: the only task that acts, and the only owner of the protocol's state.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::{FutureExt as _, StreamExt as _};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use spindle_protocol::{
    Act, Announcement, Answer, Decision, EndReason, Event, Instance, Moment, Observation,
    Rejection, Succession, Wake,
};
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::report::Report;
use super::row::{LockRow, UnderWay};
use super::waiters::{End, Heard, Leaving, Released, WaitMode, Waiter, Waiters};
use crate::error::{Error, Outcome, ReleaseOutcome, TermEnd, panic_message};
use crate::settings::Settings;
use crate::term::{Published, Warnings};
use crate::token::FencingToken;

/// How many times in a lease a holder reads the clock even if no timer is due. Timers stand still
/// while a machine is suspended.
const TICKS_PER_LEASE: u32 = 10;

/// A loop that has something to do reports once a lease that it runs. It counts as stalled when it
/// is late by another lease; both within these bounds.
const OVERDUE_MIN: Duration = Duration::from_secs(1);
const OVERDUE_MAX: Duration = Duration::from_secs(10);

/// When a loop wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// For as long as it runs.
    Always,
    /// While a waiter waits for it or has it.
    OfWaiters,
}

/// A handle's request to the loop.
pub(crate) enum Command {
    /// Give the lock to this one, in turn.
    Waiter(Waiter),
    /// Give up the term; answered with whether there was one, once it is released.
    Resign { next: Succession, done: oneshot::Sender<bool> },
    /// Measure anew: a `lead` is over.
    Measure,
    /// Drop `done` once what callers that are gone have left is over: an attempt, a term, a release.
    Settle { done: oneshot::Sender<()> },
}

pub(crate) struct Driver<R> {
    row: R,
    instance: Instance,
    settings: Arc<Settings>,
    published: Arc<Published>,
    /// A lock has no command at most times, and a channel of this kind costs no more than that.
    commands: mpsc::UnboundedReceiver<Command>,
    resigned: Vec<oneshot::Sender<bool>>,
    settling: Vec<oneshot::Sender<()>>,
    demand: Demand,
    waiters: Waiters,
    /// A resignation that the holder was asked to carry out.
    asked: Option<Resignation>,
    /// True if the instance was told that the lock is wanted.
    wanted: bool,
    /// True if somebody has asked for a poll since the instance was last told to poll.
    is_poll_due: bool,
    /// True if the term is to end for a higher rank that waits.
    yields: bool,
    /// The release of the last term, until it is over.
    leaving: Option<Leaving>,
    /// About until when the row protects the last term.
    held_until: Moment,
    last_term_end: TermEnd,
    /// Set when the loop has ended as it was told to.
    finished: bool,
    report: Report,
}

/// Returns by how much a loop with such a lease may be late.
pub(crate) fn overdue_limit(lease: Duration) -> Duration {
    lease.clamp(OVERDUE_MIN, OVERDUE_MAX)
}

/// The loop's way on after a turn.
enum Pass {
    Ends,
    /// Tells the instance at once.
    Tells(Event),
    /// Sleeps so long, for ever where only an answer or a command can come.
    Naps {
        nap: Option<Duration>,
        /// True if it wakes for [`Event::Early`].
        is_early: bool,
    },
}

struct Resignation {
    next: Succession,
    done: Vec<oneshot::Sender<bool>>,
}

impl<R: LockRow> Driver<R> {
    pub(crate) fn new(
        row: R,
        settings: Arc<Settings>,
        published: Arc<Published>,
        warnings: Arc<Warnings>,
        commands: mpsc::UnboundedReceiver<Command>,
        seed: u64,
    ) -> Driver<R> {
        let mut random = SmallRng::seed_from_u64(seed);
        let timing = settings.timing.clone();
        let now = settings.clock.now();
        let nonce = random.random();
        let instance = Instance::new(&settings.id, nonce, timing, now);
        let instance = instance.standing(settings.standing);
        Driver {
            report: Report::new(&settings, &published, warnings, nonce),
            row,
            instance,
            settings,
            published,
            commands,
            resigned: Vec::new(),
            settling: Vec::new(),
            demand: Demand::Always,
            waiters: Waiters::default(),
            asked: None,
            wanted: true,
            is_poll_due: false,
            yields: false,
            leaving: None,
            held_until: now,
            last_term_end: TermEnd::Abandoned,
            finished: false,
        }
    }

    /// Wants the lock as `demand` says.
    pub(crate) fn for_demand(mut self, demand: Demand) -> Driver<R> {
        self.demand = demand;
        self
    }

    /// Runs until cancelled, or until the last handle is gone, and the lock is released.
    ///
    /// Boxed, since a future keeps room for its argument twice, and a process may run thousands.
    pub(crate) async fn run(mut self: Box<Self>, cancel: CancellationToken) {
        let mut under_way: Option<UnderWay> = None;
        let mut stopping = false;
        let mut event = self.demanded().unwrap_or(Event::Wake);
        loop {
            let (nap, is_early) = match self.turn(event, stopping, &mut under_way) {
                Pass::Ends => return,
                Pass::Tells(demanded) => {
                    event = demanded;
                    continue;
                }
                Pass::Naps { nap, is_early } => (nap, is_early),
            };
            event = tokio::select! {
                biased;
                outcome = answer(&mut under_way, &self.settings.name, self.report.act()) => self.answered(outcome),
                () = cancel.cancelled(), if !stopping => {
                    stopping = true;
                    Event::Stop
                }
                command = self.commands.next(), if !stopping => match command {
                    Some(command) => self.obey(command),
                    None => match self.heard_already() {
                        Some(event) => event,
                        None => {
                            stopping = true;
                            self.report.log.last_handle_gone(self.demand == Demand::Always);
                            Event::Stop
                        }
                    },
                },
                heard = self.waiters.next(), if !stopping => self.hear(heard),
                () = sleep_for(nap) => if is_early { Event::Early } else { Event::Wake },
            };
        }
    }

    /// Decides, starts what was decided, and notifies waiters.
    ///
    /// Apart from the loop, whose future keeps only what outlasts the nap.
    fn turn(&mut self, event: Event, stopping: bool, under_way: &mut Option<UnderWay>) -> Pass {
        let now = self.settings.clock.now();
        let contends = self.wanted || self.published.health_record().is_led();
        self.report.turns(now, contends);
        let Decision { announce, act, wake, early } = self.decide(now, event);
        if let Some(announcement) = announce {
            self.announce(announcement);
        }
        if let Some(act) = act {
            *under_way = Some(self.start(act, now));
        }
        if !self.instance.is_releasing() {
            self.answer_resignations(true);
        }
        self.serve(now);
        if self.instance.has_ended() {
            self.finished = true;
            return Pass::Ends;
        }
        if !stopping && let Some(demanded) = self.demanded() {
            return Pass::Tells(demanded);
        }
        let (nap, is_early) = self.nap(wake, early, under_way.is_some());
        let (nap, is_early) = match self.report.log.turns(now) {
            Some(due) if nap.is_none_or(|nap| due < nap) => (Some(due), false),
            _ => (nap, is_early),
        };
        let overdue = overdue_limit(self.settings.timing.lease);
        self.report.sleeps_until(nap.map(|nap| now + nap), overdue);
        Pass::Naps { nap, is_early }
    }

    /// Has the protocol decide; the simulation sees that it keeps its contract.
    fn decide(&mut self, now: Moment, event: Event) -> Decision {
        #[cfg(feature = "__simulation")]
        let (before, happened) = (self.instance.clone(), event.clone());
        let decision = self.instance.decide(now, event);
        #[cfg(feature = "__simulation")]
        super::contract::note(self.instance.broken_rule(&before, now, &happened, &decision));
        decision
    }

    /// Returns what the instance has to be told of the demand for the lock.
    fn demanded(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.yields) {
            return self.resign(Succession::Anyone, None);
        }
        let wanted = self.demand == Demand::Always || self.waiters.are_any();
        // Once for each that asks: what fails after that, the instance repeats at its own pace.
        let poll = self.is_poll_due && self.instance.is_standing_by();
        if wanted == self.wanted && !poll {
            return None;
        }
        self.is_poll_due &= !poll;
        self.wanted = wanted;
        self.published.health_record().wants(wanted);
        Some(Event::Contend(wanted))
    }

    /// Gives those who wait for the lock what there is to give.
    fn serve(&mut self, now: Moment) {
        if self.instance.term().is_some() && self.demand == Demand::OfWaiters {
            if let Some(term) = self.published.term() {
                self.waiters.grant(&term);
            }
            self.waiters.refuse_tries();
            // They are answered: no poll of theirs is to come before those of others, once it lets go.
            self.is_poll_due = false;
        } else if self.instance.is_standing_by() {
            self.waiters.settle(now);
        }
        if !self.instance.is_releasing() {
            let leaving = self.leaving.take();
            let token = leaving.as_ref().map(|leaving| leaving.token);
            let released = leaving.map_or_else(
                || {
                    let end = self.last_term_end.clone();
                    Released::not_acknowledged(ReleaseOutcome::EndedBefore(end))
                },
                |leaving| leaving.outcome(self.held_until.since(now)),
            );
            if let Some(token) = token {
                self.report.log.released(token, &released.outcome);
            }
            self.waiters.release_ended(|| released);
        }
        if !self.settling.is_empty() && self.is_settled() {
            self.settling.clear();
        }
    }

    /// True if neither an attempt nor a release is under way, and who holds or waits is still there.
    fn is_settled(&self) -> bool {
        let is_ours = self.instance.term().is_none() || self.waiters.is_held();
        let is_under_way = self.instance.is_attempting() || self.instance.is_releasing();
        is_ours && !is_under_way && !self.waiters.has_any_left()
    }

    /// Returns what a caller did before the command that was just taken: how it lets go counts.
    fn heard_already(&mut self) -> Option<Event> {
        let heard = unconstrained(self.waiters.next()).now_or_never();
        heard.map(|heard| self.hear(heard))
    }

    fn hear(&mut self, heard: Heard) -> Event {
        let Heard::LetGo(end) = heard else { return Event::Wake };
        let next = match end {
            Some(End::Lapse) => return Event::Lapse,
            Some(End::Release { next, done }) => {
                self.waiters.releasing(done);
                next
            }
            None => Succession::Anyone,
        };
        if let Some(Resignation { next, done }) = self.asked.take() {
            // Nobody asked one that yields to a higher rank: it keeps away for a poll and no longer.
            if done.is_empty() {
                return Event::LetGo { next };
            }
            self.resigned.extend(done);
            return Event::Resign { next };
        }
        if next != Succession::Anyone || self.waiters.is_any_waiting() {
            return Event::LetGo { next };
        }
        self.wanted = false;
        self.published.health_record().wants(false);
        Event::Contend(false)
    }

    fn start(&mut self, act: Act, now: Moment) -> UnderWay {
        self.report.sends(&act, now);
        if matches!(act, Act::Observe) {
            self.waiters.poll_begins(now);
        }
        self.row.carry_out(act, self.instance.attempt_limit(now))
    }

    fn answered(&mut self, outcome: Outcome) -> Event {
        let Outcome { answer, error, is_seized, next } = outcome;
        let now = self.settings.clock.now();
        // It is a hint: no failure of it is told to those who wait.
        if self.report.is_mark() {
            self.report.marked(&answer, error.as_ref(), now);
            return Event::Answer(answer);
        }
        if let Answer::Observed(observation) = &answer {
            self.published.observed(observation);
        }
        if let Some(place) = next.filter(|place| self.instance.yields_to(now, place)) {
            self.yields = true;
            self.report.log.yields_to(&place);
        }
        let is_releasing = self.instance.is_releasing();
        match &mut self.leaving {
            Some(leaving) if is_releasing => leaving.answered(&answer),
            _ if is_releasing || self.instance.term().is_some() => {}
            _ => self.tell_waiters(&answer, error.as_ref()),
        }
        self.report.answered(&answer, error.as_ref(), is_seized, now);
        Event::Answer(answer)
    }

    /// Tells those who wait what an instance without a term was answered.
    fn tell_waiters(&mut self, answer: &Answer, error: Option<&Error>) {
        if let Answer::Rejected(Rejection::Changed(Some(winner))) = answer {
            self.published.lost_race_to(winner);
        }
        if let Some(error) = error.filter(|_| self.report.is_write()) {
            self.waiters.attempt_failed(error);
        }
        let is_free = self.is_free(answer);
        self.waiters.answered(answer, error, is_free);
    }

    /// True if a poll shows a lock that this instance may take.
    fn is_free(&self, answer: &Answer) -> bool {
        let Answer::Observed(Observation { row, read_at, .. }) = answer else { return false };
        let Settings { id, timing, .. } = &*self.settings;
        row.as_ref().is_none_or(|row| {
            self.instance.is_promised(row) || row.vacant_from(id, timing.lease) <= *read_at
        })
    }

    fn obey(&mut self, command: Command) -> Event {
        let (next, done) = match command {
            Command::Waiter(waiter) => {
                self.is_poll_due |= matches!(waiter.mode, WaitMode::Tries { .. });
                self.waiters.add(waiter);
                return Event::Wake;
            }
            Command::Resign { next, done } => (next, done),
            Command::Measure => return Event::Wake,
            Command::Settle { done } => {
                self.settling.push(done);
                return self.heard_already().unwrap_or(Event::Wake);
            }
        };
        if self.instance.term().is_none() {
            // Nobody waits for the answer any more if it can't be delivered.
            let _ = done.send(false);
            return Event::Wake;
        }
        self.resign(next, Some(done)).unwrap_or(Event::Wake)
    }

    /// Has the term end, at once or once its work has ended; nothing if it has to be waited for.
    fn resign(&mut self, next: Succession, done: Option<oneshot::Sender<bool>>) -> Option<Event> {
        if self.waiters.ask_to_go() {
            // The term goes on until its work has ended; who asks later waits for the same end.
            let first = Resignation { next: Succession::Anyone, done: Vec::new() };
            let asked = self.asked.get_or_insert(first);
            asked.done.extend(done);
            if next != Succession::Anyone {
                asked.next = next;
            }
            return None;
        }
        let Some(done) = done else { return Some(Event::LetGo { next }) };
        self.resigned.push(done);
        Some(Event::Resign { next })
    }

    fn answer_resignations(&mut self, has_resigned: bool) {
        for done in self.resigned.drain(..) {
            // Nobody waits for the answer any more if it can't be delivered.
            let _ = done.send(has_resigned);
        }
    }

    fn announce(&mut self, announcement: Announcement) {
        match announcement {
            Announcement::Began { token, writer, valid_until } => {
                // First the news, then the log: a writer of logs may block.
                self.published.began(FencingToken::from_timestamp(token), writer, valid_until);
                self.held_until = valid_until + self.settings.timing.clock_drift_margin;
                self.report.began(token);
            }
            Announcement::Extended { valid_until } => {
                self.published.extended(valid_until);
                self.held_until = valid_until + self.settings.timing.clock_drift_margin;
            }
            Announcement::Ended { token, reason } => {
                let token = FencingToken::from_timestamp(token);
                if reason != EndReason::Released {
                    // It was over before it could be given up.
                    self.answer_resignations(false);
                }
                let end = self.report.end_of(reason);
                self.published.ended(end.clone());
                self.waiters.term_ended();
                // Dropped unanswered: the term is gone, and nobody resigned from it.
                self.asked = None;
                self.leaving = self.instance.is_releasing().then(|| Leaving::new(token));
                self.report.ended(token, &end, self.held_until);
                self.last_term_end = end;
            }
        }
    }

    /// Returns how long to sleep, for ever where only a command can come; and true if it wakes for
    /// [`Event::Early`].
    fn nap(
        &self,
        wake: Option<Wake>,
        early: Option<Wake>,
        is_busy: bool,
    ) -> (Option<Duration>, bool) {
        let lease = self.settings.timing.lease;
        let tick = if self.instance.term().is_some() {
            lease / TICKS_PER_LEASE
        } else {
            overdue_limit(lease)
        };
        let Some(wake) = wake else { return (is_busy.then_some(tick), false) };
        let now: Moment = self.settings.clock.now();
        // In step with the other locks of this process, so that what is due shares a request.
        let latest = |wake: Wake| (wake.at + wake.spread).since(now);
        let ticks = self.row.ticks();
        let ticks = if self.instance.term().is_some() { ticks } else { ticks.of_all() };
        let nap = ticks.before(latest(wake), wake.spread);
        let early = early.map(|early| ticks.next(latest(early), early.spread));
        let early = early.filter(|early| *early <= nap);
        let nap = early.unwrap_or(nap);
        if tick < nap { (Some(tick), false) } else { (Some(nap), early.is_some()) }
    }
}

/// Also when the loop is dropped, with its runtime or by a panic.
impl<R> Drop for Driver<R> {
    fn drop(&mut self) {
        let held = self.published.has_lock();
        self.published.loop_ended(self.finished);
        let is_wanted = self.demand == Demand::Always || self.waiters.is_any_alive();
        // A service that is done with its lock ends so, with its runtime.
        let is_missed = is_wanted || held.is_some() || self.leaving.is_some();
        // A second panic would end the process, if the log had one.
        if !self.finished && is_missed && !std::thread::panicking() {
            self.report.log.loop_gone(held, self.leaving.as_ref().map(|leaving| leaving.token));
        }
        if let Some(leaving) = self.leaving.take() {
            let held_for = self.held_until.since(self.settings.clock.now());
            self.waiters.release_ended(|| leaving.outcome(held_for));
        }
    }
}

/// Returns the answer to the act under way, if there is one. A panic in it, such as a log
/// subscriber's, is a request that failed.
async fn answer(under_way: &mut Option<UnderWay>, lock: &str, name: &str) -> Outcome {
    let Some(act) = under_way else { return std::future::pending().await };
    let outcome = poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| act.as_mut().poll(context))).unwrap_or_else(|panic| {
            let message = format!("the request panicked: {}", panic_message(&*panic));
            let source = google_cloud_spanner::Error::io(std::io::Error::other(message));
            let error = Error::from_write(format!("lock `{lock}`: {name}"), source);
            Poll::Ready(Outcome::failed(Answer::Unknown, error))
        })
    })
    .await;
    *under_way = None;
    outcome
}

async fn sleep_for(nap: Option<Duration>) {
    match nap {
        Some(nap) => sleep(nap).await,
        None => std::future::pending().await,
    }
}
