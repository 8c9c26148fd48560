//! Loops that stall: on runtimes that are blocked, not driven or gone, in real time on threads, and
//! on machines that are suspended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle::health::{Failing, Role};
use spindle::simulation::{ClockId, Machine};
use spindle::testing::Clock;
use spindle::{CancellationToken, ReleaseOutcome, RunHandle, Spindle};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::runtime::Runtime;

use crate::world::{Contender, LOCK, TABLE, World, driven_runtime, runtime, timed, until};

const LEASE: Duration = Duration::from_secs(2);

/// Starts the loop on a runtime, without waiting for its end.
fn run_on(service: &Runtime, lock: &Spindle) -> RunHandle {
    let _entered = service.enter();
    lock.run(CancellationToken::new())
}

#[test]
fn a_blocked_runtime_loses_its_locks_and_none_of_a_runtime_beside_it_and_has_lock_says_so() {
    let (elsewhere, world) = World::elsewhere(TABLE);
    let (service, beside, table) = (driven_runtime(), driven_runtime(), world.table());
    let lock = table.lock(LOCK).lease(LEASE).build().unwrap();
    // Its lease leaves a busy machine its time; what is asked for is that it is renewed.
    let unharmed = table.lock("beside").lease(LEASE * 15).heartbeat_interval(LEASE / 10);
    let unharmed = unharmed.build().unwrap();
    let running = run_on(&service, &lock);
    let cancel = CancellationToken::new();
    let unharmed_running = {
        let _entered = beside.enter();
        unharmed.run(cancel.clone())
    };
    let first = elsewhere.block_on(until("it holds", || lock.has_lock()));
    let of_unharmed = elsewhere.block_on(until("it holds", || unharmed.has_lock()));

    let (unblock, wait) = std::sync::mpsc::channel::<()>();
    service.spawn(async move {
        // No service should do this, and some do.
        let _ = wait.recv();
    });
    let is_over = || lock.has_lock().is_none().then_some(());
    elsewhere.block_on(until("the lease is over", is_over));
    // Another process takes over while this one is blocked.
    let other = world.table().lock(LOCK).lease(LEASE).build().unwrap();
    let other_running = run_on(&elsewhere, &other);
    assert!(elsewhere.block_on(until("the other holds", || other.has_lock())) > first);
    let renewed = || world.row("beside").and_then(|row| row.heartbeat);
    let before = renewed();
    elsewhere.block_on(until("the other is renewed", || (renewed() > before).then_some(())));
    assert_eq!((lock.has_lock(), unharmed.has_lock()), (None, Some(of_unharmed)));
    unblock.send(()).unwrap();
    cancel.cancel();
    service.block_on(unharmed_running).unwrap();
    assert_eq!(unharmed.has_lock(), None);
    drop((running, other_running));
}

#[test]
fn a_loop_that_nothing_drives_or_that_is_gone_shows_as_stalled() {
    let (elsewhere, world) = World::elsewhere(TABLE);
    let service = runtime();
    let lock = world.table().lock(LOCK).lease(LEASE).build().unwrap();
    drop(run_on(&service, &lock));
    assert!(!lock.health().is_ready(), "nobody has answered yet");
    let is_overdue = || (!lock.health().is_alive()).then_some(());
    elsewhere.block_on(until("it is overdue", is_overdue));
    let trouble = lock.health().trouble.unwrap();
    assert_eq!(trouble.what, Failing::Loop, "{trouble:?}");
    // Driven again, it is well.
    let is_well = || Some(lock.health()).filter(|it| it.is_ready() && it.is_alive());
    service.block_on(until("it is well", is_well));
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
    /// Returns one, and its clock for a lock.
    pub fn new() -> (Arc<Suspendable>, Clock) {
        let origin = tokio::time::Instant::now();
        let machine = Arc::new(Suspendable { origin, suspended: Mutex::default() });
        (Arc::clone(&machine), spindle::simulation::clock(machine))
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
    let (machine, clock) = Suspendable::new();
    let long = Duration::from_secs(100);
    let lock = world.table().lock(LOCK).lease(long).clock(clock);
    let a = Contender::run(lock);
    a.holds().await;
    let term = a.lock.term().unwrap();
    // Suspended right after the term began: the next heartbeat is 50 s of running away.
    machine.suspend(long * 2);
    assert_eq!(a.lock.has_lock(), None, "it knows at once");
    let (_, waited) = timed(term.cancelled()).await;
    assert!(waited <= long / 10 + Duration::from_secs(1), "a tick: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_wakes_after_its_lease_has_nothing_to_resign_from() {
    let world = World::start().await;
    let (machine, clock) = Suspendable::new();
    let lock = world.table().lock(LOCK).lease(LEASE).clock(clock);
    let a = Contender::run(lock);
    a.holds().await;
    machine.suspend(LEASE * 2);
    assert!(!a.lock.resign().await.unwrap(), "its term was over before it asked");
}

#[test]
fn a_release_whose_loop_is_gone_before_the_answer_is_not_acknowledged() {
    let (elsewhere, world) = World::elsewhere(TABLE);
    let service = driven_runtime();
    let lock = world.table().lock(LOCK).lease(LEASE * 15).build().unwrap();
    let guard = service.block_on(lock.acquire()).unwrap();
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let releasing = elsewhere.spawn(guard.release());
    let is_told = || lock.has_lock().is_none().then_some(());
    elsewhere.block_on(until("it has let go", is_told));
    drop(service);
    let release = elsewhere.block_on(releasing).unwrap();
    let ReleaseOutcome::Unacknowledged { held_for, .. } = release else { panic!("{release:?}") };
    assert!(held_for > LEASE && held_for <= LEASE * 15, "{held_for:?}");
}
