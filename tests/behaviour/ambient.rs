//! The surroundings of the lock: runtimes that are blocked, not driven or gone, in real time on
//! threads; and machines that are suspended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle::simulation::{ClockId, Machine};
use spindle::{
    CancellationToken, LockTable, RunHandle, Spindle,
    health::{Failing, Role},
};
use spindle_emulator::Emulator;

use crate::world::{DATABASE, LOCK, OPTIONAL_COLUMNS, World};

const LEASE: Duration = Duration::from_secs(2);

/// A server on a runtime of its own, which nothing here blocks.
fn server() -> (String, tokio::runtime::Runtime, Emulator) {
    let runtime = runtime(1);
    let spanner = runtime.block_on(async {
        let spanner = Emulator::start().await.unwrap();
        spanner.create_database(DATABASE, OPTIONAL_COLUMNS).await.unwrap();
        spanner
    });
    (spanner.endpoint(), runtime, spanner)
}

fn runtime(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

/// Starts the loop on a runtime, without waiting for its end.
fn run_on(service: &tokio::runtime::Runtime, lock: &Spindle) -> RunHandle {
    let _entered = service.enter();
    lock.run(CancellationToken::new())
}

/// Waits for a condition, from outside of any runtime.
fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

#[test]
fn a_blocked_runtime_loses_the_lock_and_has_lock_says_so_at_once() {
    let (endpoint, _server, _spanner) = server();
    let service = runtime(1);
    let table = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let lock = table.lock(LOCK).lease(LEASE).build().unwrap();
    let running = run_on(&service, &lock);
    until("it holds", || lock.has_lock().is_some());
    let first = lock.has_lock().unwrap();

    let (blocked, release) = (lock.clone(), std::sync::mpsc::channel::<()>());
    let (unblock, wait) = release;
    service.spawn(async move {
        // No service should do this, and some do.
        let _ = wait.recv();
        drop(blocked);
    });
    until("the lease is over", || lock.has_lock().is_none());
    // Another process takes over while this one is blocked.
    let other_service = runtime(1);
    let other = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let other = other.lock(LOCK).lease(LEASE).build().unwrap();
    let other_running = run_on(&other_service, &other);
    until("the other holds", || other.has_lock().is_some());
    assert!(other.has_lock().unwrap() > first);
    assert_eq!(lock.has_lock(), None);
    unblock.send(()).unwrap();
    drop((running, other_running));
}

#[test]
fn with_a_thread_of_its_own_the_loop_outlives_a_blocked_runtime() {
    let (endpoint, _server, _spanner) = server();
    let service = runtime(1);
    let table = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let lock = table.lock(LOCK).lease(LEASE).own_thread().build().unwrap();
    let cancel = CancellationToken::new();
    // No runtime is needed to run it, either.
    let running = lock.run(cancel.clone());
    until("it holds", || lock.has_lock().is_some());
    let token = lock.has_lock();
    service.block_on(async { std::thread::sleep(LEASE * 2) });
    assert_eq!(lock.has_lock(), token);
    cancel.cancel();
    service.block_on(running).unwrap();
    assert_eq!(lock.has_lock(), None);
}

#[test]
fn a_given_client_cannot_serve_a_thread_of_its_own() {
    let (endpoint, _server, _spanner) = server();
    let service = runtime(1);
    let client = service.block_on(async {
        let spanner = spindle::google_cloud_spanner::client::Spanner::builder();
        let spanner = spanner.with_endpoint(endpoint).build().await.unwrap();
        spanner.database_client(DATABASE).build().await.unwrap()
    });
    let refused = LockTable::new(client, "locktable").lock(LOCK).own_thread().build().unwrap_err();
    assert!(refused.is_config(), "{refused}");
}

#[test]
fn a_loop_that_nothing_drives_or_that_is_gone_shows_as_stalled() {
    let (endpoint, _server, _spanner) = server();
    let service = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let table = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let lock = table.lock(LOCK).lease(LEASE).build().unwrap();
    drop(run_on(&service, &lock));
    assert!(!lock.health().is_ready(), "nobody has answered yet");
    until("it is overdue", || !lock.health().is_alive());
    let trouble = lock.health().trouble.unwrap();
    assert_eq!(trouble.what, Failing::Loop, "{trouble:?}");
    // Driven again, it is well.
    service.block_on(async {
        while !lock.health().is_ready() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(lock.health().is_alive());
    drop(service);
    let health = lock.health();
    assert!(!health.is_alive() && health.role == Role::Ended, "{health:?}");
}

/// A machine whose clock counts suspended time; tokio's timers don't.
#[derive(Debug)]
pub struct Suspendable {
    origin: tokio::time::Instant,
    suspended: Mutex<Duration>,
}

impl Suspendable {
    pub fn new() -> Suspendable {
        Suspendable { origin: tokio::time::Instant::now(), suspended: Mutex::default() }
    }

    pub fn suspend(&self, time: Duration) {
        *self.suspended.lock().unwrap() += time;
    }
}

impl Machine for Suspendable {
    fn read(&self, _: ClockId) -> Duration {
        let slept = *self.suspended.lock().unwrap();
        Duration::from_secs(3_600) + self.origin.elapsed() + slept
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_wakes_from_suspension_announces_its_loss_within_a_tick() {
    let world = World::start().await;
    let machine = Arc::new(Suspendable::new());
    let shared: Arc<dyn Machine> = Arc::clone(&machine) as _;
    let long = Duration::from_secs(100);
    let lock = world.table().lock(LOCK).lease(long).clock(spindle::simulation::clock(shared));
    let a = crate::world::Contender::run(lock);
    a.holds().await;
    let term = a.lock.term().unwrap();
    // Suspended right after the term began: the next heartbeat is 33 s of running away.
    machine.suspend(long * 2);
    assert_eq!(a.lock.has_lock(), None, "it knows at once");
    let (_, waited) = crate::world::timed(term.cancelled()).await;
    assert!(waited <= long / 10 + Duration::from_secs(1), "a tick: {waited:?}");
}
