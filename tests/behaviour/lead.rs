//! A task that runs while its instance leads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle::health::{Failing, Role};
use spindle::{
    CancellationToken, Error, FencingToken, HighWaterMark, Lead, Spindle, TaskResult, Term,
    TermChange, TermEnd,
};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use crate::log::Log;
use crate::stalls::Suspendable;
use crate::threads::{Blocking, on_real_threads};
use crate::world::{DATABASE, EVENTUALLY, LEASE, LOCK, TABLE, World, spindle, timed, until};

/// Leads in a task of its own.
fn lead<R, F, Fut>(lock: &Spindle, cancel: &CancellationToken, work: F) -> Leading<R::Value>
where
    F: FnMut(Term) -> Fut + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: TaskResult<Value: Send> + 'static,
{
    lead_with(|lead| lead, lock, cancel, work)
}

fn lead_with<R, F, Fut>(
    choices: impl FnOnce(Lead<R::Value>) -> Lead<R::Value>,
    lock: &Spindle,
    cancel: &CancellationToken,
    work: F,
) -> Leading<R::Value>
where
    F: FnMut(Term) -> Fut + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: TaskResult<Value: Send> + 'static,
{
    Leading(tokio::spawn(choices(lock.lead(cancel.clone(), work))))
}

struct Leading<T>(JoinHandle<spindle::Result<Option<T>>>);

impl<T> Leading<T> {
    /// Waits for its end.
    async fn ends(self) -> spindle::Result<Option<T>> {
        timeout(EVENTUALLY, self.0).await.unwrap().unwrap()
    }
}

/// Counts how many tasks run at once, and says when one begins.
#[derive(Clone)]
struct Tally {
    running: Arc<AtomicUsize>,
    began: mpsc::UnboundedSender<FencingToken>,
}

/// The tokens of the tasks, as they begin.
struct Beginnings(mpsc::UnboundedReceiver<FencingToken>);

impl Beginnings {
    async fn next(&mut self) -> FencingToken {
        timeout(EVENTUALLY, self.0.recv()).await.unwrap().unwrap()
    }
}

struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tally {
    fn new() -> (Tally, Beginnings) {
        let (began, beginnings) = mpsc::unbounded_channel();
        (Tally { running: Arc::default(), began }, Beginnings(beginnings))
    }

    fn begin(&self, term: &Term) -> Working {
        assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "two tasks at once");
        self.began.send(term.token()).unwrap();
        Working(Arc::clone(&self.running))
    }

    /// A task that is deaf to its cancellation.
    async fn deaf(self, term: Term) {
        let _working = self.begin(&term);
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_resigns_and_its_result_is_returned() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let leading = lock.lead(CancellationToken::new(), |term| async move {
        sleep(LEASE * 3).await;
        assert!(!term.is_cancelled());
        Ok::<_, Error>("done")
    });
    assert_eq!(timeout(EVENTUALLY, leading).await.unwrap().unwrap(), Some("done"));
    assert!(world.is_released());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_asks_for_the_lock_that_it_leads_under_is_refused_at_once() {
    let world = World::start().await;
    let (lock, beside) = (spindle(&world, "a"), world.table().lock("another").build().unwrap());
    let (own, cancel) = (lock.clone(), CancellationToken::new());
    let leading = lead(&lock, &cancel, move |term| {
        let (own, beside) = (own.clone(), beside.clone());
        async move {
            let asked = Instant::now();
            for refused in [own.acquire().await, own.acquire().within(LEASE).await] {
                let refused = refused.unwrap_err();
                assert!(refused.is_config(), "{refused}");
                let told = "`acquire` inside of the task of `lead` asks for what that task has";
                assert!(refused.to_string().contains(told), "{refused}");
            }
            let inner = own.lead(CancellationToken::new(), |_| async {});
            let refused = timeout(LEASE, inner).await.expect("it waits for itself").unwrap_err();
            assert!(refused.is_config() && refused.to_string().contains("`lead` inside"));
            assert_eq!(asked.elapsed(), Duration::ZERO);
            let _other = beside.acquire().within(LEASE).await.unwrap();
            let waits = tokio::spawn(async move { own.acquire().await.unwrap().token() });
            sleep(LEASE).await;
            assert!(
                !waits.is_finished() && !term.is_cancelled(),
                "it waits for the end of this task"
            );
            Ok::<_, Error>((term.token(), waits))
        }
    });
    let (led, waits) = leading.ends().await.unwrap().unwrap();
    assert!(timeout(EVENTUALLY, waits).await.unwrap().unwrap() > led);
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_term_is_over_is_refused_too_since_its_own_end_is_waited_for() {
    let world = World::start().await;
    let (lock, table) = (spindle(&world, "a"), world.table());
    let (own, (tell, mut told)) = (lock.clone(), mpsc::unbounded_channel());
    let _leading = lead(&lock, &CancellationToken::new(), move |term| {
        let (own, table, tell) = (own.clone(), table.clone(), tell.clone());
        async move {
            table.evict(LOCK).await.unwrap();
            term.cancelled().await;
            let asked = Instant::now();
            let inner = own.lead(CancellationToken::new(), |_| async {}).await.unwrap_err();
            let guard = own.acquire().await.unwrap_err();
            tell.send((inner, guard, asked.elapsed())).unwrap();
        }
    });
    let heard = timeout(LEASE, told.recv()).await.expect("it waits for itself");
    let (inner, guard, took) = heard.unwrap();
    assert!(inner.is_config() && guard.is_config(), "{inner}; {guard}");
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_the_task_first_and_releases_after_it_has_ended() {
    let world = World::start().await;
    let lock = world.lock("a").stop_limit(LEASE * 4).build().unwrap();
    let cancel = CancellationToken::new();
    let (tally, mut began) = Tally::new();
    let holder = lock.clone();
    let leading = lead(&lock, &cancel, move |term| {
        let (tally, holder) = (tally.clone(), holder.clone());
        async move {
            let _working = tally.begin(&term);
            term.cancelled().await;
            // Longer than the lease, so that only heartbeats can keep the lock.
            sleep(LEASE * 2).await;
            Ok::<_, Error>(holder.has_lock() == Some(term.token()))
        }
    });
    began.next().await;
    cancel.cancel();
    assert_eq!(leading.ends().await.unwrap(), Some(true), "it held for as long as it worked");
    assert!(world.is_released());
}

/// The process may end as soon as `lead` has.
#[tokio::test(start_paused = true)]
async fn cancelling_an_attempt_that_is_at_spanner_waits_until_what_it_won_is_released() {
    let world = World::start().await;
    let lock = world.lock("a").build().unwrap();
    let commit = Fault::on(Rpc::Commit).effect(Effect::Delay(Duration::from_millis(500)));
    let slow = world.spanner.inject(commit);
    let cancel = CancellationToken::new();
    let leading = lead(&lock, &cancel, |term| async move { term.cancelled().await });
    until("its attempt is at Spanner", || (slow.hits() > 0).then_some(())).await;
    slow.remove();
    cancel.cancel();
    leading.ends().await.unwrap();
    let left = world.table().inspect(LOCK).await.unwrap();
    assert!(!left.is_held() && left.token.is_some(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_at_the_moment_of_the_begin_waits_until_what_it_won_is_released() {
    let world = World::start().await;
    let lock = world.lock("a").build().unwrap();
    let cancel = CancellationToken::new();
    // It hears of the term before `lead` does.
    let (mut watch, ends) = (lock.watch(), cancel.clone());
    let watching = tokio::spawn(async move {
        while !matches!(watch.next().await, Some(TermChange::Gained(_)) | None) {}
        ends.cancel();
    });
    let leading = lead(&lock, &cancel, |term| async move { term.cancelled().await });
    leading.ends().await.unwrap();
    assert!(world.row(LOCK).is_some() && world.is_released());
    watching.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ignores_its_cancellation_is_aborted_and_the_log_says_so() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let cancel = CancellationToken::new();
    let (tally, mut began) = Tally::new();
    let running = Arc::clone(&tally.running);
    let leading = lead(&lock, &cancel, move |term| tally.clone().deaf(term));
    began.next().await;
    cancel.cancel();
    let (led, waited) = timed(leading.ends()).await;
    assert_eq!(led.unwrap(), None);
    assert!(waited >= Duration::from_secs(5) && waited < LEASE, "the stop limit: {waited:?}");
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert!(world.is_released());
    let aborted = log.the("did not, and is aborted");
    assert!(aborted.level == Level::WARN && aborted.says("why=Cancelled"), "{aborted:?}");
    assert!(aborted.says("lock=job id=a token="), "{aborted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_stops_the_task_before_the_lease_is_over_and_the_next_term_starts_another() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let cancel = CancellationToken::new();
    let (tally, mut began) = Tally::new();
    let running = Arc::clone(&tally.running);
    let leading = lead(&lock, &cancel, move |term| tally.clone().deaf(term));
    let first = began.next().await;
    let term = lock.term().unwrap();
    let outage = world.spanner.inject(Fault::any().effect(Effect::Stall));
    timeout(EVENTUALLY, term.cancelled()).await.unwrap();
    until("it is aborted", || (running.load(Ordering::SeqCst) == 0).then_some(())).await;
    assert!(!term.remaining().is_zero(), "before the lease is over");
    outage.remove();
    let second = began.next().await;
    assert!(second > first);
    cancel.cancel();
    leading.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_result_under_a_lost_term_is_dropped_and_the_instance_contends_again() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let terms = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&terms);
    let leading = lead(&lock, &CancellationToken::new(), move |term| {
        let term_number = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            if term_number == 0 {
                term.cancelled().await;
            }
            Ok::<_, Error>(term_number)
        }
    });
    until("it leads", || (terms.load(Ordering::SeqCst) == 1).then_some(())).await;
    world.delete_row(LOCK).await;
    assert_eq!(leading.ends().await.unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_releases_and_is_reported() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let leading = lock.lead(CancellationToken::new(), |_| async move {
        sleep(LEASE).await;
        if LEASE > Duration::ZERO {
            panic!("out of paper");
        }
    });
    let error = timeout(EVENTUALLY, leading).await.unwrap().unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("out of paper"), "{error}");
    assert!(world.is_released());
    // Also one before there is a task.
    let leading = lock.lead(CancellationToken::new(), |term: Term| {
        assert!(term.is_cancelled(), "not even started");
        async {}
    });
    let error = timeout(EVENTUALLY, leading).await.unwrap().unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("not even started"), "{error}");
    sleep(Duration::from_secs(1)).await;
    assert!(world.is_released());
}

#[tokio::test(start_paused = true)]
async fn resigning_waits_for_the_task_and_another_leads_then() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let cancel = CancellationToken::new();
    let (tally, mut began) = Tally::new();
    // The tally counts both: no two of them ever work at once.
    let work = move |term: Term| {
        let working = tally.begin(&term);
        async move {
            let _working = working;
            term.cancelled().await;
            sleep(Duration::from_secs(2)).await;
        }
    };
    let leading_a = lead(&a, &cancel, work.clone());
    let first = began.next().await;
    let leading_b = lead(&b, &cancel, work);
    sleep(LEASE).await;
    let (resigned, waited) = timed(a.resign().to("b")).await;
    assert!(resigned.unwrap() && waited >= Duration::from_secs(2), "{waited:?}");
    let second = began.next().await;
    assert!(second > first && b.has_lock() == Some(second));
    cancel.cancel();
    for leading in [leading_a, leading_b] {
        leading.ends().await.unwrap();
    }
}

/// A task that stops no sooner than it may.
fn stops_when_told(gate: &CancellationToken, tally: &Tally) -> impl FnMut(Term) -> Slow + use<> {
    let (gate, tally) = (gate.clone(), tally.clone());
    move |term: Term| {
        let (gate, working) = (gate.clone(), tally.begin(&term));
        Box::pin(async move {
            let _working = working;
            term.cancelled().await;
            gate.cancelled().await;
        })
    }
}

type Slow = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[tokio::test(start_paused = true)]
async fn a_later_resignation_without_a_successor_leaves_the_one_that_was_named() {
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let (tally, mut began) = Tally::new();
    let gate = CancellationToken::new();
    let leading = lead(&lock, &cancel, stops_when_told(&gate, &tally));
    began.next().await;
    let (named, unnamed) = (lock.clone(), lock.clone());
    let named = tokio::spawn(named.resign().to("b"));
    sleep(Duration::from_millis(10)).await;
    let unnamed = tokio::spawn(unnamed.resign());
    sleep(Duration::from_millis(10)).await;
    gate.cancel();
    assert!(named.await.unwrap().unwrap() && unnamed.await.unwrap().unwrap());
    assert_eq!(world.row(LOCK).unwrap().writer.as_deref(), Some(">b"));
    cancel.cancel();
    leading.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resignation_from_a_term_that_was_lost_is_not_carried_out_on_the_next() {
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let (tally, mut began) = Tally::new();
    let gate = CancellationToken::new();
    let leading = lead(&lock, &cancel, stops_when_told(&gate, &tally));
    let first = began.next().await;
    let resigning = lock.clone();
    let resigning = tokio::spawn(resigning.resign().to("b"));
    sleep(Duration::from_millis(10)).await;
    world.table().evict(LOCK).await.unwrap();
    let resigned = timeout(EVENTUALLY, resigning).await.expect("it is answered");
    assert!(!resigned.unwrap().unwrap(), "nobody resigned from that term");
    gate.cancel();
    assert!(began.next().await > first);
    cancel.cancel();
    leading.ends().await.unwrap();
    assert_eq!(world.row(LOCK).unwrap().writer.as_deref(), Some(""), "free for all");
}

#[tokio::test(start_paused = true)]
async fn a_task_under_a_watchdog_is_stopped_when_its_term_is_lost() {
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let (tally, mut began) = Tally::new();
    let choices = |lead: Lead<_>| lead.watchdog(LEASE * 100);
    let leading = lead_with(choices, &lock, &cancel, move |term: Term| tally.clone().deaf(term));
    began.next().await;
    world.table().evict(LOCK).at_once().await.unwrap();
    let (_, waited) = timed(began.next()).await;
    assert!(waited < LEASE * 3, "{waited:?}");
    cancel.cancel();
    leading.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigned_leaves_the_lock_to_others_for_a_lease() {
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let (tally, mut began) = Tally::new();
    let leading = lead(&lock, &cancel, move |term: Term| {
        let working = tally.begin(&term);
        async move {
            let _working = working;
            term.cancelled().await;
        }
    });
    began.next().await;
    assert!(lock.resign().await.unwrap());
    let (_, waited) = timed(began.next()).await;
    assert!(waited >= LEASE - Duration::from_millis(100) && waited < LEASE * 2, "{waited:?}");
    cancel.cancel();
    leading.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_resignations_neither_is_answered_while_the_task_still_works() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let cancel = CancellationToken::new();
    let leading = lead(&lock, &cancel, |term: Term| async move {
        term.cancelled().await;
        sleep(Duration::from_secs(2)).await;
    });
    until("it leads", || lock.has_lock()).await;
    let resign = || {
        let lock = lock.clone();
        tokio::spawn(async move { (lock.resign().await.unwrap(), lock.has_lock()) })
    };
    for resigned in [resign(), resign()] {
        let answer = timeout(EVENTUALLY, resigned).await.unwrap().unwrap();
        assert_eq!(answer, (true, None), "once it is released");
    }
    cancel.cancel();
    leading.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leading_and_waiting_outlast_a_refusal() {
    for what in [Fault::any(), Fault::on(Rpc::Commit)] {
        let world = World::start().await;
        let refusal = world.spanner.inject(what.effect(Effect::Fail(Code::PermissionDenied)));
        let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
        let leading = lead(&a, &CancellationToken::new(), |_| sleep(LEASE));
        let waiting = b.clone();
        let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap().release().await });
        sleep(LEASE * 3).await;
        for lock in [&a, &b] {
            let trouble = lock.health().trouble.expect("it says so");
            assert!(trouble.error.is_denied(), "{trouble:?}");
        }
        let refused = b.acquire().within(LEASE).await.unwrap_err();
        assert!(refused.is_not_acquired(), "{refused}");
        assert!(refused.to_string().contains("refused by spanner"), "the cause: {refused}");
        refusal.remove();
        leading.ends().await.unwrap();
        timeout(EVENTUALLY, waiting).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn leading_waits_for_a_table_that_is_made_later() {
    let world = World::with_table("").await;
    let lock = spindle(&world, "a");
    let leading = lead(&lock, &CancellationToken::new(), |_| sleep(LEASE));
    sleep(LEASE * 6).await;
    let trouble = lock.health().trouble.expect("it says so");
    assert!(trouble.error.is_schema(), "{trouble:?}");
    // By now it asks at its slowest.
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 30).await;
    let asked = requests.total();
    assert!((20..=60).contains(&asked), "about one each 10 s: {:?}", requests.each());
    world.spanner.drop_database(DATABASE);
    world.spanner.create_database(DATABASE, TABLE).await.unwrap();
    let (led, waited) = timed(leading.ends()).await;
    led.unwrap();
    assert!(waited <= LEASE + Duration::from_secs(75), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_task_gives_the_lock_to_others_and_the_pauses_grow() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let (began, mut beginnings) = mpsc::unbounded_channel();
    let choices = |lead: Lead<_>| lead.pauses(LEASE, LEASE * 8);
    let tries = Arc::new(AtomicUsize::new(0));
    let leading = lead_with(choices, &lock, &CancellationToken::new(), move |_| {
        let (tried, began) = (tries.fetch_add(1, Ordering::SeqCst), began.clone());
        async move {
            began.send(Instant::now()).unwrap();
            if tried < 4 { Err("out of paper") } else { Ok(tried) }
        }
    });
    let mut at = Vec::new();
    for tried in 0..5 {
        at.push(timeout(EVENTUALLY, beginnings.recv()).await.unwrap().unwrap());
        if tried == 0 {
            let trouble = until("it says so", || lock.health().trouble).await;
            assert!(trouble.error.to_string().contains("out of paper"), "{trouble:?}");
            let health = lock.health();
            assert!(health.role == Role::StandsBy && !health.is_ready(), "{health:?}");
            // Another may hold in the pause.
            spindle(&world, "b").acquire().await.unwrap().release().await;
        }
    }
    let pauses: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, expected) in pauses.iter().zip([1, 2, 4, 8]) {
        assert!(*pause >= LEASE * expected / 4 * 3, "{pauses:?}");
        assert!(*pause <= LEASE * (expected + 1), "{pauses:?}");
    }
    assert_eq!(leading.ends().await.unwrap(), Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_task_that_another_holder_ends_is_not_said_of_requests() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let lock = spindle(&world, "a");
    let choices = |lead: Lead<_>| lead.pauses(LEASE, LEASE);
    let _leading = lead_with(choices, &lock, &CancellationToken::new(), |_| async {
        Err::<(), _>("out of paper")
    });
    until("its task has failed", || lock.health().trouble).await;
    let b = world.elect("b").await;
    until("it is no trouble any more", || lock.health().is_ready().then_some(())).await;
    assert!(log.saying("fail no more").is_empty(), "{:#?}", log.lines());
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_reports_no_progress_is_stopped_and_one_that_does_is_left_alone() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let (log, _guard) = Log::capture();
    let (tally, mut began) = Tally::new();
    let choices = |lead: Lead<_>| lead.pauses(Duration::from_secs(1), LEASE).watchdog(LEASE * 2);
    let mut terms = 0;
    let leading = lead_with(choices, &lock, &CancellationToken::new(), move |term: Term| {
        terms += 1;
        let (hangs, working) = (terms == 1, tally.begin(&term));
        async move {
            let _working = working;
            for _ in 0..10 {
                if hangs {
                    std::future::pending::<()>().await;
                }
                sleep(LEASE).await;
                term.progress();
            }
            Ok::<_, Error>(term.is_cancelled())
        }
    });
    let hanging = began.next().await;
    let trouble = until("it says so", || lock.health().trouble).await;
    assert!(trouble.error.to_string().contains("no progress"), "{trouble:?}");
    assert_eq!((trouble.what, lock.health().is_ready()), (Failing::Task, false));
    let stuck = log.the("a task is stuck");
    assert!(stuck.says(&format!("token={hanging}")), "{stuck:?}");
    assert_eq!(leading.ends().await.unwrap(), Some(false));
    log.the("a task is stuck");
}

#[tokio::test(start_paused = true)]
async fn options_that_cannot_work_are_refused() {
    let world = World::start().await;
    let second = Duration::from_secs(1);
    let lead = || {
        let work = |_| async { Ok::<(), Error>(()) };
        spindle(&world, "a").lead(CancellationToken::new(), work)
    };
    for lead in [
        lead().pauses(Duration::ZERO, second),
        lead().pauses(second * 2, second),
        lead().pauses(second, Duration::MAX),
        lead().watchdog(Duration::ZERO),
        lead().watchdog(Duration::MAX),
    ] {
        let refused = lead.await.unwrap_err();
        assert!(refused.is_config(), "{refused}");
    }
}

/// Virtual time stands still while the loop is busy, so no stop limit would ever end it.
#[tokio::test(start_paused = true)]
async fn a_busy_loop_that_asks_whether_its_term_is_cancelled_ends_when_it_is_told_to() {
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let (tally, mut began) = Tally::new();
    let holder = lock.clone();
    let leading = lead(&lock, &cancel, move |term: Term| {
        let (working, holder) = (tally.begin(&term), holder.clone());
        async move {
            let _working = working;
            let mut turns = 0;
            while !term.is_cancelled() {
                turns += 1;
                assert!(turns < 1_000_000, "it was never told to stop");
                tokio::task::yield_now().await;
            }
            // It is only told to stop: the lock is still held.
            Ok::<_, Error>(holder.verify().await? == term.token())
        }
    });
    began.next().await;
    cancel.cancel();
    assert_eq!(leading.0.await.unwrap().unwrap(), Some(true));
}

/// A task whose term is over returns what `wrap` makes of the refusal, and leads again at once.
async fn leads_again_after<E>(wrap: fn(Error) -> E)
where
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let (tally, mut began) = Tally::new();
    let choices = |lead: Lead<_>| lead.pauses(LEASE * 100, LEASE * 100).end_on_error();
    let client = world.client().await;
    let sessions = || world.spanner.requests().sessions();
    let before = sessions();
    let (evicted, refused) = (CancellationToken::new(), CancellationToken::new());
    let (may_write, is_refused) = (evicted.clone(), refused.clone());
    let leading = lead_with(choices, &lock, &cancel, move |term: Term| {
        let (working, client) = (tally.begin(&term), client.clone());
        let (may_write, is_refused) = (may_write.clone(), is_refused.clone());
        async move {
            let _working = working;
            may_write.cancelled().await;
            while !term.is_cancelled() {
                let written = term.fence().write(&client, []).await;
                written.inspect_err(|_| is_refused.cancel()).map_err(wrap)?;
                sleep(Duration::from_millis(50)).await;
            }
            Ok::<(), E>(())
        }
    });
    let first = began.next().await;
    // No heartbeat is answered meanwhile, so the task learns it before the loop does.
    let session = sessions().into_iter().find(|session| !before.contains(session)).unwrap();
    let stalled = world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    world.table().evict(LOCK).await.unwrap();
    evicted.cancel();
    timeout(EVENTUALLY, refused.cancelled()).await.unwrap();
    stalled.remove();
    let (second, waited) = timed(began.next()).await;
    assert!(second > first && waited < LEASE * 3, "{waited:?}");
    assert!(lock.health().is_ready(), "{:?}", lock.health());
    cancel.cancel();
    assert_eq!(leading.ends().await.unwrap(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_says_that_the_term_is_over_is_a_loss_and_no_failure_of_the_task() {
    leads_again_after(std::io::Error::other).await;
    leads_again_after(std::convert::identity).await;
    leads_again_after(Box::<dyn std::error::Error + Send + Sync>::from).await;
    leads_again_after(anyhow::Error::from).await;
    leads_again_after(|refused| anyhow::Error::from(refused).context("bill")).await;
    leads_again_after(eyre::Report::from).await;
    leads_again_after(|refused| eyre::Report::from(refused).wrap_err("bill")).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_says_so_of_a_term_that_goes_on_is_a_failure_and_pauses() {
    let world = World::start().await;
    let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
    let begun = Arc::new(AtomicUsize::new(0));
    // A system that was restored from elsewhere, and will refuse every token of this table.
    let mark = Arc::new(HighWaterMark::starting_at(FencingToken::from_nanoseconds(u64::MAX)));
    let counted = Arc::clone(&begun);
    let leading = lead(&lock, &cancel, move |term: Term| {
        assert!(counted.fetch_add(1, Ordering::SeqCst) < 20, "no pauses");
        let mark = Arc::clone(&mark);
        async move { mark.admit(term.token()) }
    });
    sleep(Duration::from_secs(60)).await;
    let begun = begun.load(Ordering::SeqCst);
    assert!((3..=7).contains(&begun), "{begun} tasks in a minute");
    let trouble = lock.health().trouble.expect("it says so");
    assert!(trouble.what == Failing::Task && !lock.health().is_ready(), "{trouble:?}");
    cancel.cancel();
    assert_eq!(leading.ends().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lead_that_ended_by_itself_shows_in_health_and_log_until_the_lock_is_wanted_again() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let lock = spindle(&world, "a");
    let ways = ["its task returned", "out of paper", "out of ink"];
    for (way, says) in ways.into_iter().enumerate() {
        let work = move |_| async move {
            match way {
                0 => Ok(()),
                1 => Err(std::io::Error::other("out of paper")),
                _ => panic!("out of ink"),
            }
        };
        let led = lock.lead(CancellationToken::new(), work).end_on_error().await;
        assert_eq!(led.is_ok(), way == 0, "{led:?}");
        if let Err(error) = led
            && way == 1
        {
            assert!(
                error.is_task_failure() && error.cause::<std::io::Error>().is_some(),
                "{error}"
            );
        }
        let health = until("it is idle", || Some(lock.health()).filter(|it| it.role == Role::Idle));
        let health = health.await;
        assert!(!health.is_ready() && health.is_alive(), "{health:?}");
        let trouble = health.trouble.unwrap();
        assert!(trouble.what == Failing::Task, "{trouble:?}");
        assert!(trouble.error.to_string().contains(says), "{trouble:?}");
        assert_eq!(log.saying("lead has ended by itself").len(), way + 1);
    }
    let guard = lock.acquire().await.unwrap();
    assert!(lock.health().is_ready(), "{:?}", lock.health());
    guard.release().await;
    until("it is idle and ready", || Some(lock.health()).filter(|it| it.is_ready())).await;

    let cancel = CancellationToken::new();
    let work = |term: Term| async move { term.cancelled().await };
    let (led, ()) = tokio::join!(lock.lead(cancel.clone(), work), async {
        until("it leads", || lock.has_lock()).await;
        cancel.cancel();
    });
    assert_eq!(led.unwrap(), Some(()));
    until("it is idle and ready", || Some(lock.health()).filter(|it| it.is_ready())).await;
    assert_eq!(log.saying("lead has ended by itself").len(), ways.len());
}

#[tokio::test(start_paused = true)]
async fn an_error_after_cancellation_is_returned_unless_it_only_says_that_the_term_is_over() {
    let world = World::start().await;
    for fails in [true, false] {
        let (lock, cancel) = (spindle(&world, "a"), CancellationToken::new());
        let work = move |term: Term| async move {
            term.cancelled().await;
            if fails { Err("out of paper".into()) } else { over(&term) }
        };
        let (led, ()) = tokio::join!(lock.lead(cancel.clone(), work), async {
            until("it leads", || lock.has_lock()).await;
            cancel.cancel();
        });
        match led {
            Err(error) => assert!(fails && error.is_task_failure(), "{error}"),
            Ok(led) => assert!(!fails && led.is_none()),
        }
        assert!(world.is_released());
    }
}

/// An error that says that the term is over.
fn over(term: &Term) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let later = FencingToken::from_nanoseconds(term.token().as_nanoseconds() + 1);
    Ok(HighWaterMark::starting_at(later).admit(term.token())?)
}

/// As short as a term lives through on a machine that has ten times as much to do as it can.
const SHORT_LEASE: Duration = Duration::from_secs(3);

/// An instance by the system's clock whose tasks are aborted soon.
fn in_real_time(world: &World, id: &str) -> Spindle {
    let lock = world.table().lock(LOCK).id(id).lease(SHORT_LEASE);
    lock.stop_limit(Duration::from_millis(100)).build().unwrap()
}

/// Another instance takes the lock once the lease is over, and frees it again.
async fn another_holds_meanwhile(world: &World) {
    let other = in_real_time(world, "b");
    timeout(EVENTUALLY, other.acquire()).await.unwrap().unwrap().release().await;
    // Longer than a poll interval: from here on the lock is free for a second task.
    sleep(SHORT_LEASE).await;
}

#[test]
fn no_second_task_starts_beside_one_that_blocks_after_its_term_was_lost() {
    on_real_threads(async {
        let world = World::start().await;
        let (lock, cancel) = (in_real_time(&world, "a"), CancellationToken::new());
        let (task, let_go) = Blocking::new();
        let blocking = task.clone();
        let leading = lead(&lock, &cancel, move |term| blocking.clone().work(term));
        until("it blocks", || (task.begun() == 1).then_some(())).await;
        world.delete_row(LOCK).await;
        until("it knows", || lock.has_lock().is_none().then_some(())).await;
        another_holds_meanwhile(&world).await;
        assert_eq!((task.begun(), lock.has_lock()), (1, None));
        let trouble = until("it says so", || lock.health().trouble).await;
        assert!(trouble.error.to_string().contains("still runs"), "{trouble:?}");
        assert!(trouble.what == Failing::Task && !lock.health().is_ready(), "{trouble:?}");
        let_go.send(()).unwrap();
        until("the next one starts", || (task.begun() == 2).then_some(())).await;
        cancel.cancel();
        // A busy machine may abort it for not having stopped in time.
        let ended = leading.ends().await;
        assert!(ended.as_ref().err().is_none_or(Error::is_unstoppable), "{ended:?}");
    });
}

#[test]
fn a_later_lead_starts_no_task_beside_one_that_an_earlier_one_could_not_stop() {
    on_real_threads(async {
        let world = World::start().await;
        let lock = in_real_time(&world, "a");
        let (task, let_go) = Blocking::new();
        let blocking = task.clone();
        let work = move |term| blocking.clone().work(term);
        let cancel = CancellationToken::new();
        let first = lead(&lock, &cancel, work.clone());
        until("it blocks", || (task.begun() == 1).then_some(())).await;
        cancel.cancel();
        let error = first.ends().await.unwrap_err();
        assert!(error.is_unstoppable(), "{error}");
        let cancel = CancellationToken::new();
        let second = lead(&lock, &cancel, work);
        another_holds_meanwhile(&world).await;
        assert_eq!((task.begun(), lock.has_lock()), (1, None));
        let trouble = until("it says so", || lock.health().trouble).await;
        assert!(trouble.error.to_string().contains("still runs"), "{trouble:?}");
        let_go.send(()).unwrap();
        until("the next one starts", || (task.begun() == 2).then_some(())).await;
        cancel.cancel();
        // A busy machine may abort it for not having stopped in time.
        let ended = second.ends().await;
        assert!(ended.as_ref().err().is_none_or(Error::is_unstoppable), "{ended:?}");
    });
}

#[test]
fn a_task_that_blocks_its_thread_keeps_its_lease_until_that_runs_out() {
    on_real_threads(async {
        let world = World::start().await;
        let (lock, cancel) = (in_real_time(&world, "a"), CancellationToken::new());
        let (task, let_go) = Blocking::new();
        let seen = Arc::new(Mutex::new(None::<Term>));
        let (blocking, given) = (task.clone(), Arc::clone(&seen));
        let leading = lead(&lock, &cancel, move |term: Term| {
            *given.lock().unwrap() = Some(term.clone());
            blocking.clone().work(term)
        });
        until("it blocks", || (task.begun() == 1).then_some(())).await;
        cancel.cancel();
        // It doesn't wait for the blocked one.
        let error = leading.ends().await.unwrap_err();
        assert!(error.is_unstoppable(), "{error}");
        assert_eq!((lock.has_lock(), task.begun()), (None, 1));
        let term = seen.lock().unwrap().take().unwrap();
        // On a machine that stood still for a lease it is out of contact, or expired, before.
        let ended = term.ended().unwrap();
        let is_left =
            matches!(ended, TermEnd::Lapsed | TermEnd::OutOfContact { .. } | TermEnd::Expired);
        assert!(is_left, "nothing was released: {ended:?}");
        assert!(!world.is_released(), "nothing is handed over while it works");
        another_holds_meanwhile(&world).await;
        let_go.send(()).unwrap();
    });
}

/// After a suspension nothing of the lease is left for the abort.
#[test]
fn a_task_that_is_aborted_once_its_lease_is_over_is_not_taken_for_one_that_blocks() {
    on_real_threads(async {
        let world = World::start().await;
        let (machine, clock) = Suspendable::new();
        let lock = world.table().lock(LOCK).lease(SHORT_LEASE).clock(clock).build().unwrap();
        let (tally, mut beginnings) = Tally::new();
        let cancel = CancellationToken::new();
        let leading = lead(&lock, &cancel, move |term| {
            let working = tally.begin(&term);
            async move {
                let _working = working;
                for _ in 0..1_000 {
                    // Work between two awaits.
                    std::thread::sleep(Duration::from_millis(50));
                    yield_now().await;
                }
            }
        });
        beginnings.next().await;
        machine.suspend(SHORT_LEASE * 2);
        beginnings.next().await;
        let health = lock.health();
        assert!(health.trouble.is_none(), "{health:?}");
        cancel.cancel();
        leading.ends().await.unwrap();
    });
}
