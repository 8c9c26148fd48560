//! The life of one claim: the lock is held for a client as long as that one is known to live.
//!
//! A client that lets go has its lock released at once. One that is merely gone, or silent, may
//! still work: its lock is not released, and the lease runs out. Where the client asks for it, its lock is
//! released once the kernel says that its process is gone.

use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use serde::Serialize;
use spindle::job::{JobOutcome, JobRun, Skip};
use spindle::operate::ExitedInstance;
use spindle::{Guard, ReleaseOutcome, Result, Spindle, Term, TermEnd};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::claims::{Claimed, HAD_NO_TERM, Released};
use super::event::{Ended, Told, Waiting, event, lost_by};
use super::exits::Client;
use super::job_call::{JobCall, Running, Start};

/// Holds, or contends, for one client.
pub struct Holder {
    claimed: Claimed,
    /// The longest silence of the client.
    heartbeat_timeout: Duration,
    events: Option<mpsc::Sender<Event>>,
    /// True once the client has left too many events unread.
    is_deaf: bool,
    /// The client whose exit releases, if it wants that.
    client: Option<Client>,
}

/// Why a claim ends.
enum Over {
    /// The client let go, and waits to hear how that went.
    LetGo(Released),
    /// Its connection has ended, or it doesn't read.
    Gone,
    /// Its process has ended; its connection may be a child's.
    Exited,
    /// It was not heard for longer than its heartbeat timeout.
    Silent,
    /// The agent ends.
    Ending,
}

impl Over {
    fn reason(&self) -> &'static str {
        match self {
            Over::LetGo(_) => "released",
            Over::Gone => "gone",
            Over::Exited => "exited",
            Over::Silent => "silent",
            Over::Ending => "ending",
        }
    }

    /// Ends a claim under which nothing is held.
    fn without_term(self) -> &'static str {
        let reason = self.reason();
        if let Over::LetGo(released) = self {
            // A client that waits no more needs no answer; nor do those below.
            let _ = released.send(HAD_NO_TERM);
        }
        reason
    }
}

impl Holder {
    /// Holds for a client that is told by `events`, and heard at least each `heartbeat_timeout`.
    pub fn new(
        claimed: Claimed,
        heartbeat_timeout: Duration,
        events: Option<mpsc::Sender<Event>>,
    ) -> Holder {
        Holder { claimed, heartbeat_timeout, events, is_deaf: false, client: None }
    }

    /// Releases once this client is gone, if there is one.
    pub fn of(self, client: Option<Client>) -> Holder {
        Holder { client, ..self }
    }

    /// Contends until the client lets go or is gone; after a loss it contends again.
    pub async fn contend(mut self, lock: Spindle) {
        self.waits(lock.id());
        let ending = self.claimed.claims.ending.clone();
        let reason = loop {
            let acquired = tokio::select! {
                biased;
                over = self.over() => break over.without_term(),
                () = ending.cancelled() => break Over::Ending.without_term(),
                acquired = lock.acquire() => acquired,
            };
            match acquired {
                Ok(guard) => {
                    if let Some(reason) = self.hold(guard).await {
                        break reason;
                    }
                }
                Err(error) => return self.ended("failed", Some(error.to_string())),
            }
        };
        self.ended(reason, None);
    }

    /// Holds for one term.
    pub async fn hold_once(mut self, guard: Guard) {
        let term = Term::clone(&guard);
        let reason = self.hold(guard).await.unwrap_or_else(|| lost_by(&term));
        self.ended(reason, None);
    }

    /// Holds until the term is lost, or until this says why the claim is over.
    async fn hold(&mut self, guard: Guard) -> Option<&'static str> {
        let term = Term::clone(&guard);
        let mut is_told = false;
        loop {
            // Before the deadline is read, so that no later one is missed.
            let renewed = guard.renewed();
            if is_told {
                self.tell("renewed", &Told::renewed(&term));
            } else {
                self.gained(&term);
            }
            is_told = true;
            tokio::select! {
                biased;
                () = guard.cancelled() => {
                    self.lost(&term);
                    return None;
                }
                over = self.over() => {
                    self.claimed.claim.set_term(None);
                    return Some(self.give_up(guard, over).await);
                }
                () = renewed => {}
            }
        }
    }

    /// Releases if the client let go; otherwise nobody knows whether it works, so the lease runs out.
    async fn give_up(&self, guard: Guard, over: Over) -> &'static str {
        let reason = over.reason();
        let Over::LetGo(released) = over else {
            self.lapse(guard, over).await;
            return reason;
        };
        let outcome = match guard.release().await {
            ReleaseOutcome::Released => "released",
            ReleaseOutcome::Unacknowledged { .. } => "unacknowledged",
            _ => HAD_NO_TERM,
        };
        self.claimed.claims.counted(|counts| counts.released += 1);
        let _ = released.send(outcome);
        reason
    }

    /// Renews no more. If the kernel says in time that the client is gone, what it held is released after all.
    async fn lapse(&self, guard: Guard, over: Over) {
        let (term, claims) = (Term::clone(&guard), Arc::clone(&self.claimed.claims));
        let is_seen = matches!(over, Over::Gone | Over::Exited) && !self.is_deaf;
        let client = self.client.clone().filter(|_| is_seen);
        if client.is_none() {
            say_lapses(&term, over.reason());
        }
        // Until then nobody can take the lock: the lease counts from a heartbeat that was sent before.
        claims.lapses(&self.claimed.secret, &term, None);
        guard.lapse().await;
        let Some(client) = client else {
            claims.counted(|counts| counts.lapsed += 1);
            return;
        };
        let events = self.events.clone();
        tokio::spawn(async move {
            let instance = ExitedInstance::holder_of(&term);
            if !client.is_gone(&claims, events, instance).await {
                say_lapses(&term, over.reason());
                claims.counted(|counts| counts.lapsed += 1);
            }
        });
    }

    /// Runs a slot of a job under this id: the client works from each `gained` until it lets go or is told
    /// `lost`.
    pub async fn run_once(mut self, call: JobCall, id: String) {
        self.waits(&id);
        let JobCall { mut running, mut begun, cancel } = call;
        let ending = self.claimed.claims.ending.clone();
        let outcome = loop {
            let start = tokio::select! {
                biased;
                Some(start) = begun.recv() => start,
                over = self.over() => return self.ended(over.without_term(), None),
                () = ending.cancelled() => return self.ended(Over::Ending.without_term(), None),
                outcome = &mut running => break outcome,
            };
            let withdrawn = self.withdrawn();
            let over = if withdrawn.is_some() { withdrawn } else { self.works(&start.run).await };
            let Some(over) = over else {
                // A client that took too long may work until the deadline that it was told. Then others run the slot,
                // or this client once more.
                if !start.run.remaining().is_zero() {
                    self.lapse_run(&start.run, "at_most");
                }
                drop(start.end);
                continue;
            };
            self.claimed.claim.set_term(None);
            cancel.cancel();
            return self.end_run(start, over, running).await;
        };
        let (reason, detail) = match outcome {
            Ok(it @ JobOutcome::Skipped { .. }) => ("skipped", Some(it.to_string())),
            Ok(it @ JobOutcome::Failed { .. }) => ("failed", Some(it.to_string())),
            Ok(_) => ("released", None),
            Err(error) => ("failed", Some(error.to_string())),
        };
        self.ended(reason, detail);
    }

    /// Returns the order of a client that has let go of what it takes for a wait. It is told of no start then, and
    /// nobody runs this one.
    fn withdrawn(&mut self) -> Option<Over> {
        let released = self.claimed.orders.try_recv().ok()?;
        self.claimed.claim.fails();
        Some(Over::LetGo(released))
    }

    /// Tells of one start, until its term is lost, or until this says why the claim is over.
    async fn works(&mut self, run: &JobRun) -> Option<Over> {
        let mut is_told = false;
        loop {
            // Before the deadline is read, so that no later one is missed.
            let renewed = run.renewed();
            if is_told {
                self.tell("renewed", &Told::renewed(run));
            } else {
                self.gained(run);
            }
            is_told = true;
            tokio::select! {
                biased;
                () = run.cancelled() => {
                    self.lost(run);
                    return None;
                }
                over = self.over() => return Some(over),
                () = renewed => {}
            }
        }
    }

    /// Renews a run no more. Until its lease is over, its client may let go.
    fn lapse_run(&self, run: &JobRun, reason: &str) {
        say_lapses(run, reason);
        let claims = &self.claimed.claims;
        claims.lapses(&self.claimed.secret, run, Some(run.clone()));
        claims.counted(|counts| counts.lapsed += 1);
        run.lapse();
    }

    /// Ends a start, and with it the call. Nobody knows whether a client that is gone or silent still works:
    /// its lease runs out, and then others run the slot.
    async fn end_run(mut self, start: Start, over: Over, running: Running) {
        let reason = over.reason();
        let Over::LetGo(released) = over else {
            self.lapse_run(&start.run, reason);
            drop(start.end);
            // It fails, as the client's silence has already told.
            let _ = running.await;
            return self.ended(reason, None);
        };
        let has_failed = self.claimed.claim.has_failed();
        // A run that was stopped meanwhile says so below.
        let _ = start.end.send(!has_failed);
        let Recorded { told, reason, detail } = Recorded::of(running.await, has_failed, &start.run);
        self.claimed.claims.counted(|counts| counts.released += 1);
        // A client that waits no more needs no answer.
        let _ = released.send(told);
        self.ended(reason, detail);
    }

    /// Waits until the claim is over. Cancellation safe.
    async fn over(&mut self) -> Over {
        let Holder {
            claimed: Claimed { claims, orders, heard, .. },
            heartbeat_timeout,
            events,
            is_deaf,
            client,
        } = self;
        if *is_deaf {
            return Over::Gone;
        }
        let gone = async {
            match events {
                Some(events) => events.closed().await,
                None => std::future::pending().await,
            }
        };
        let exited = async {
            match client {
                Some(client) => client.exit.exited().await,
                None => std::future::pending().await,
            }
        };
        let silent = async {
            loop {
                let due = *heard.borrow_and_update() + *heartbeat_timeout;
                if due <= Instant::now() {
                    return;
                }
                sleep_until(due).await;
            }
        };
        tokio::select! {
            biased;
            Some(released) = orders.recv() => Over::LetGo(released),
            () = gone => Over::Gone,
            () = exited => Over::Exited,
            () = silent => Over::Silent,
            () = claims.over.cancelled() => Over::Ending,
        }
    }

    fn waits(&mut self, id: &str) {
        let (lock, claim) = (self.claimed.claim.lock.clone(), self.claimed.secret.clone());
        self.tell("waiting", &Waiting { lock: &lock, claim: &claim, id });
    }

    fn gained(&mut self, term: &Term) {
        self.claimed.claim.set_term(Some(term.clone()));
        self.claimed.claims.counted(|counts| counts.gained += 1);
        let claim = self.claimed.secret.clone();
        self.tell("gained", &Told::gained(&claim, term));
    }

    fn lost(&mut self, term: &Term) {
        self.claimed.claim.set_term(None);
        self.claimed.claims.counted(|counts| counts.lost += 1);
        self.tell("lost", &Told::lost(term));
    }

    fn ended(&mut self, reason: &str, detail: Option<String>) {
        let lock = self.claimed.claim.lock.clone();
        self.tell("ended", &Ended { lock: &lock, reason, detail });
    }

    fn tell(&mut self, name: &str, data: &impl Serialize) {
        if let Some(events) = &self.events {
            self.is_deaf |= events.try_send(event(name, data)).is_err();
        }
    }
}

/// The end of a run that its client told, as far as it is recorded.
struct Recorded {
    /// The answer to the client.
    told: &'static str,
    /// Why its stream ends.
    reason: &'static str,
    detail: Option<String>,
}

impl Recorded {
    fn of(ended: Result<JobOutcome<()>>, has_failed: bool, run: &JobRun) -> Recorded {
        let reason = if has_failed { "failed" } else { "released" };
        match ended {
            Ok(JobOutcome::Ran(())) => Recorded { told: "released", reason, detail: None },
            Err(error) if has_failed && error.is_task_failure() => {
                Recorded { told: "released", reason, detail: None }
            }
            Ok(JobOutcome::Failed { record, .. }) => {
                Recorded { told: "released", reason, detail: Some(record.to_string()) }
            }
            // The call ends after a release that nobody acknowledged.
            Ok(JobOutcome::Skipped { why: Skip::Cancelled, .. })
                if matches!(run.ended(), Some(TermEnd::LetGo)) =>
            {
                let detail = Some("nobody knows whether its end is recorded".to_string());
                Recorded { told: "unacknowledged", reason: "unacknowledged", detail }
            }
            Ok(other) => Recorded::not(other.to_string()),
            Err(error) => Recorded::not(error.to_string()),
        }
    }

    /// The term was over before, and the slot is another's to run.
    fn not(why: String) -> Recorded {
        Recorded { told: HAD_NO_TERM, reason: "failed", detail: Some(why) }
    }
}

/// Logs why a lease runs out: the library knows only that it does.
fn say_lapses(term: &Term, reason: &str) {
    let (lock, token) = (term.lock(), term.token());
    tracing::warn!(lock, %token, reason, "the client did not let go: its lease runs out");
}

#[cfg(test)]
mod tests {
    use spindle::job::SlotState;
    use spindle::{Database, Ddl, LockTable};
    use spindle_emulator::Emulator;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::agent::claims::{Claims, Heard, Wanted};

    #[tokio::test]
    async fn a_client_that_leaves_too_many_events_unread_is_taken_for_gone() {
        let table = LockTable::new(Database::at("http://127.0.0.1:1", "d"), "locktable");
        let claims = Arc::new(Claims::new(table, 1));
        let (sender, mut unread) = mpsc::channel(2);
        let wanted = Wanted {
            lock: "a",
            instance: None,
            events: Some(&sender),
            secret: None,
            heard: &Heard::default(),
        };
        let claimed = claims.claim(wanted).unwrap();
        let mut holder = Holder::new(claimed, Duration::from_secs(3600), Some(sender));
        for _ in 0..2 {
            holder.waits("id");
            let ended = timeout(Duration::ZERO, holder.over()).await;
            assert!(ended.is_err(), "it may still read");
        }
        holder.waits("id");
        let gone = timeout(Duration::from_secs(60), holder.over()).await;
        assert!(matches!(gone, Ok(Over::Gone)));
        drop(unread.recv().await.unwrap());
        assert!(matches!(holder.over().await, Over::Gone), "it has missed one for good");
        drop(holder);
        assert!(claims.all().is_empty());
    }

    const LIMIT: Duration = Duration::from_secs(60);

    async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let waiting = async {
            while !is_so() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("never so: {what}"));
    }

    #[tokio::test]
    async fn a_start_whose_client_let_go_before_it_was_told_is_one_that_failed() {
        let emulator = Emulator::start().await.unwrap();
        let database = "projects/p/instances/i/databases/d";
        emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await.unwrap();
        let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
        let claims = Arc::new(Claims::new(table.clone(), 1));
        let (sender, mut events) = mpsc::channel(64);
        let claimed = claims
            .claim(Wanted {
                lock: "nightly",
                instance: None,
                events: Some(&sender),
                secret: None,
                heard: &Heard::default(),
            })
            .unwrap();
        let slot = table.inspect("nightly").await.unwrap().read_at;
        let mut call = JobCall::begin(table.lock("nightly").job(), slot.into()).await.unwrap();
        // Its start has begun, and the client lets go of what it takes for a wait: the holder sees both at once.
        tokio::select! {
            outcome = &mut call.running => panic!("{outcome:?}"),
            () = until("it has begun", || call.begun.len() == 1) => {}
        }
        let secret = claimed.secret.clone();
        let letting_go = tokio::spawn({
            let (claims, secret) = (Arc::clone(&claims), secret.clone());
            async move { claims.let_go(&secret, true).await }
        });
        until("it lets go", || claimed.orders.len() == 1).await;
        let holder = Holder::new(claimed, LIMIT, Some(sender));
        timeout(LIMIT, holder.run_once(call, "id".to_string())).await.unwrap();
        assert!(letting_go.await.unwrap().is_ok());
        let mut told = String::new();
        while let Some(event) = events.recv().await {
            told.push_str(&format!("{event:?}"));
        }
        assert!(!told.contains("gained") && told.contains("failed"), "{told}");
        let last = table.job("nightly").await.unwrap().unwrap().last.unwrap();
        assert_eq!((last.state, last.starts), (SlotState::Open, 1), "nobody ran it");
    }
}
