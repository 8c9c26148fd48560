//! The log, as somebody reads it at night.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use spindle::health::Role;
use spindle::{CancellationToken, Term, TermEnd};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{sleep, timeout};
use tracing::Level;
use tracing::subscriber::{Interest, set_default};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::log::Log;
use crate::many::{Locks, names};
use crate::world::{Contender, EVENTUALLY, LEASE, LOCK, NOW, World, cells, until};

#[tokio::test(start_paused = true)]
async fn a_term_is_said_to_be_over_before_its_release_is_sent() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    world.elect("a").await.stop().await;
    let details = log.details();
    let first = |what: &str, of: &str| {
        details.iter().position(|line| line.says(what) && line.says(of)).expect("it is logged")
    };
    assert!(first("term ends", "id=a") < first("request", "act=release"), "{details:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_beginning_of_a_term_says_how_it_came_about_from_whom_and_after_what_vacancy() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let a = world.elect("a").await;
    let first = log.the("term begins");
    assert!(first.says(&format!("token={}", a.lock.has_lock().unwrap())), "{first:?}");
    assert!(first.says("lock=job id=a") && first.says("how=first"), "{first:?}");

    let b = world.contend("b");
    sleep(LEASE).await;
    a.stop().await;
    b.holds().await;
    let released = log.the("how=released");
    assert!(released.says("id=b") && released.says("previous=a"), "{released:?}");
    assert!(released.says("vacancy="), "{released:?}");

    let c = world.contend("c");
    sleep(LEASE).await;
    assert!(b.lock.resign().to("c").await.unwrap());
    c.holds().await;
    assert!(log.the("how=handed_over").says("previous=b"));
    b.stop().await;

    let evicted = world.contend("d");
    sleep(LEASE).await;
    world.table().evict(LOCK).await.unwrap();
    c.holds_no_more().await;
    c.stop().await;
    evicted.holds().await;
    assert!(log.the("how=evicted").says("previous=c"));

    world.crash(&evicted).await;
    let last = world.elect("e").await;
    let expired = log.the("how=expired");
    assert!(expired.says("previous=d") && expired.says("id=e"), "{expired:?}");

    let seizer = world.contend("f");
    sleep(LEASE).await;
    world.table().evict(LOCK).to("f").by("alice").await.unwrap();
    seizer.holds().await;
    let seized = log.the("how=seized");
    assert!(seized.says("previous=e") && seized.says("id=f"), "{seized:?}");
    last.stop().await;
    seizer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_removed_is_logged_with_what_it_said_of_an_eviction() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let a = world.elect("a").await;
    let table = world.table();
    table.evict(LOCK).by("alice").reason("bad deploy").await.unwrap();
    a.stop().await;
    sleep(LEASE * 2).await;
    assert!(table.remove(LOCK).await.unwrap());
    let removed = log.the("the row was removed");
    assert!(removed.level == Level::INFO && removed.says("lock=job"), "{removed:?}");
    assert!(removed.says("alice") && removed.says("bad deploy"), "{removed:?}");
    // Where there is no row, there is nothing to tell.
    assert!(!table.remove(LOCK).await.unwrap());
    log.the("the row was removed");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_says_what_happened_to_the_row_and_a_loss_is_a_warning() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let a = world.elect("a").await;
    a.stop().await;
    assert_eq!(log.the("term ends").level, Level::INFO);
    let released = log.the("lock released");
    assert!(released.says("act=release") && released.says("id=a"), "{released:?}");

    let b = world.elect("b").await;
    world.delete_row(LOCK).await;
    b.holds_no_more().await;
    let gone = log.the("term ends unexpectedly");
    assert!(gone.level == Level::WARN && gone.says("row=is gone"), "{gone:?}");
    assert!(gone.says("lease=10s") && gone.says("cure=`spindle history`"), "{gone:?}");

    b.holds().await;
    let outage = world.spanner.inject(Fault::any().effect(Effect::Stall));
    b.holds_no_more().await;
    let lost = log.saying("OutOfContact");
    let levels: Vec<Level> = lost.iter().map(|line| line.level).collect();
    assert_eq!(levels, [Level::INFO, Level::WARN], "of this lock, and of the table: {lost:#?}");
    for says in ["until its lease has run out", "unrenewed_for=8"] {
        assert!(lost.iter().all(|line| line.says(says)), "{says}: {lost:#?}");
    }
    outage.remove();

    b.holds().await;
    b.stop().await;
    let c = Contender::run(world.lock("c").lease(LEASE * 20));
    c.holds().await;
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    c.stop().await;
    assert_eq!(log.the("no answer: the lock is free when").level, Level::WARN);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_one_line_then_one_a_minute_and_one_when_it_is_over() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let (log, _guard) = Log::capture();
    let outage = world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    sleep(Duration::from_secs(200)).await;
    let failed = log.saying("requests fail locks=");
    assert_eq!(failed.len(), 4, "at 0, 60, 120 and 180 s: {failed:#?}");
    assert!(failed.iter().all(|line| line.level == Level::WARN), "{failed:#?}");
    for says in ["act=heartbeat", "locks=1 count=1 ", "lease=10s", "cure=`spindle doctor`"] {
        assert!(failed[0].says(says), "{says}: {failed:#?}");
    }
    assert!(failed[1].says("act=observe") && failed[1].says("lasting=6"), "{failed:#?}");

    outage.remove();
    a.holds().await;
    log.the("requests fail no more");
    let lines = log.lines().len();
    sleep(LEASE * 10).await;
    assert_eq!(log.lines().len(), lines, "a healthy term says nothing");
}

/// As `docs/benchmarks.md` tells it: what they hold, how often they heartbeat, is as by default.
#[tokio::test(start_paused = true)]
async fn five_hundred_locks_that_lose_spanner_are_a_few_warnings_and_each_says_what_became_of_it() {
    const LOCKS: usize = 500;
    let world = World::start().await;
    let locks = Locks::holding(&world.table(), names(LOCKS)).await;
    sleep(LEASE * 2).await;
    let (log, _guard) = Log::capture();
    let outage = world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    sleep(Duration::from_secs(80)).await;
    outage.remove();
    locks.until_so_many_held(LOCKS).await;
    sleep(LEASE * 2).await;

    let lines = log.lines();
    let so_many = |level| lines.iter().filter(|line| line.level == level).count();
    let (warnings, infos) = (so_many(Level::WARN), so_many(Level::INFO));
    println!("{LOCKS} locks without Spanner for 80 s: {warnings} warnings, {infos} lines of INFO");
    let failing = log.saying("requests fail locks=");
    assert_eq!(failing.len(), 2, "{failing:#?}");
    assert!(failing.iter().all(|line| line.says("locks=500 ")), "{failing:#?}");
    let lost = log.saying("term ends unexpectedly");
    assert!(lost.len() == 1 && lost[0].says("locks=500 "), "{lost:#?}");
    assert_eq!(warnings, 3, "{:#?}", lines.iter().filter(|line| line.level == Level::WARN));
    assert!(log.the("requests fail no more").says("locks=500 "));
    let is_said = |text: String| lines.iter().any(|line| line.says(&text));
    for name in names(LOCKS) {
        assert!(is_said(format!("term ends lock={name} ")), "{name}");
        assert!(is_said(format!("term begins lock={name} ")), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lines_of_a_task_that_leads_have_its_lock_id_and_token() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let lock = world.lock("a").build().unwrap();
    let task = async |term: Term| {
        tracing::info!(target: "spindle_user", "works");
        Ok::<_, String>(term.token())
    };
    let token = lock.lead(CancellationToken::new(), task).await.unwrap().unwrap();
    let works = log.the("works");
    assert!(works.says(&format!("term{{lock=job id=a token={token}}}")), "{works:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_another_implementation_is_reported_once() {
    let world = World::start().await;
    let peer = cells(LOCK, &[("heartbeat", NOW), ("token", NOW), ("writer", "go-node")]);
    let (log, _guard) = Log::capture();
    world.write(peer).await;
    let a = world.contend("a");
    sleep(LEASE / 2).await;
    let reported = log.the("another implementation");
    assert!(reported.level == Level::WARN && reported.says("holder=go-node"), "{reported:?}");
    a.holds().await;
    a.stop().await;
    log.the("another implementation");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_last_handle_says_that_it_ends_the_loop() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let (log, _guard) = Log::capture();
    drop(a);
    let dropped = || (!log.saying("last handle was dropped").is_empty()).then_some(());
    until("it says so", dropped).await;
    assert_eq!(log.the("last handle was dropped").level, Level::WARN);
}

#[test]
fn a_runtime_that_goes_before_the_release_is_not_said_to_have_released() {
    let (log, _guard) = Log::capture();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let (term, handle) = runtime.block_on(async {
        let world = World::start().await;
        let lock = world.lock("a").build().unwrap();
        drop(lock.run(CancellationToken::new()));
        until("it holds", || lock.has_lock()).await;
        // As `main` returns: nothing was cancelled, nothing awaited.
        (lock.term().unwrap(), lock)
    });
    drop(runtime);
    assert_eq!(term.ended(), Some(&TermEnd::Abandoned));
    assert!(!handle.health().is_alive() && !handle.health().is_ready());
    let gone = log.the("the loop is gone");
    assert!(gone.level == Level::WARN && gone.says("lease has run out"), "{gone:?}");
    assert!(log.saying("Released").is_empty() && log.saying("released").is_empty());
}

#[test]
fn a_service_that_is_done_with_its_lock_ends_without_a_warning() {
    let (log, _guard) = Log::capture();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let handle = runtime.block_on(async {
        let world = World::start().await;
        let lock = world.lock("a").build().unwrap();
        lock.acquire().await.unwrap().release().await;
        // Somebody else holds, so that a caller waits, and gives up in the end.
        let row = [("heartbeat", NOW), ("token", NOW), ("writer", "b#0123456789abcdef-1")];
        world.write(cells(LOCK, &row)).await;
        assert!(timeout(LEASE / 2, lock.acquire()).await.is_err());
        lock
    });
    // As `main` returns after its last `lead`.
    drop(runtime);
    assert_eq!(handle.health().role, Role::Ended);
    assert!(log.lines().iter().all(|line| line.level == Level::INFO), "{:#?}", log.lines());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_costs_its_lines_and_not_the_lock() {
    struct Angry;
    impl<S: tracing::Subscriber> Layer<S> for Angry {
        fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
            metadata.target().starts_with("spindle::")
        }
        fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
            panic!("the log is full");
        }
        fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
            Interest::sometimes()
        }
    }
    let world = World::start().await;
    let _guard = set_default(Registry::default().with(Angry));
    let a = world.elect("a").await;
    let token = a.lock.has_lock();
    world.spanner.inject(Fault::on(Rpc::Commit).times(1));
    sleep(LEASE * 3).await;
    assert!(token.is_some() && a.lock.has_lock() == token);
    timeout(EVENTUALLY, a.stop()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_metrics_recorder_that_panics_costs_its_numbers_and_not_the_lock() {
    struct Angry;
    impl Recorder for Angry {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
            panic!("no more texts");
        }
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
            panic!("no more texts");
        }
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
            panic!("no more texts");
        }
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            panic!("no more counters");
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            panic!("no more gauges");
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            panic!("no more histograms");
        }
    }
    let _recorder = metrics::set_default_local_recorder(&Angry);
    let world = World::start().await;
    let a = world.elect("a").await;
    let token = a.lock.has_lock();
    world.spanner.inject(Fault::on(Rpc::Commit).times(1));
    sleep(LEASE * 3).await;
    assert!(token.is_some() && a.lock.has_lock() == token);
    assert_eq!(a.lock.verify().await.ok(), token);
    timeout(EVENTUALLY, a.stop()).await.unwrap();
    assert!(world.is_released(), "the release has left, too");
}

/// So it is where a transaction that stays open reads the row: it is older, so that it goes first.
#[tokio::test(start_paused = true)]
async fn a_term_that_is_lost_to_aborted_heartbeats_says_so_in_log_and_health() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let a = world.elect("a").await;
    let aborts = Fault::on(Rpc::Commit).table("locktable").effect(Effect::Abort);
    let aborted = world.spanner.inject(aborts);
    a.holds_no_more().await;
    let failed = log.the("requests fail locks=");
    assert!(failed.says("act=heartbeat") && failed.says("ABORTED"), "{failed:?}");
    sleep(LEASE * 2).await;
    let health = a.lock.health();
    assert!(!health.is_ready() && health.trouble.is_some(), "{health:?}");
    aborted.remove();
    a.holds().await;
    log.the("requests fail no more");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_lost_race_is_nothing_to_tell() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let aborts = Fault::on(Rpc::Commit).table("locktable").times(3).effect(Effect::Abort);
    let aborted = world.spanner.inject(aborts);
    let a = world.elect("a").await;
    assert_eq!(aborted.hits(), 3, "the batcher has repeated it twice");
    assert!(a.lock.health().trouble.is_none());
    a.stop().await;
    assert_eq!(log.saying("fail").len(), 0, "{:#?}", log.lines());
}
