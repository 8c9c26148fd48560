//! Dropping any future at any await is safe.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use spindle::{CancellationToken, LockTable, Spindle};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, LOCK, World, lock_of, until};

/// Far more polls than any of these futures has awaits.
const POLLS_MAX: usize = 200;

/// A future that is dropped when it has been polled so many times without being ready.
struct DroppedAfter<F> {
    polls: usize,
    inner: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for DroppedAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let left = self.polls;
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if left > 0
            && let Poll::Ready(output) = inner.as_mut().poll(context)
        {
            return Poll::Ready(Some(output));
        }
        if left <= 1 {
            self.inner = None;
            return Poll::Ready(None);
        }
        self.polls -= 1;
        Poll::Pending
    }
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits until nobody holds by the row and no task is left; a release has its limit for that.
async fn settled(world: &World, tasks: usize, what: &str) {
    let is_clean = || {
        let is_free = world.row(LOCK).is_none_or(|row| {
            row.heartbeat == Some(0) || row.writer.is_none_or(|by| by.is_empty())
        });
        (is_free && alive() <= tasks).then_some(())
    };
    if timeout(Duration::from_secs(5), until("it is settled", is_clean)).await.is_err() {
        panic!("{what}: {} tasks for {tasks} and {:?}", alive(), world.row(LOCK));
    }
}

/// A world in which a drop can come while a request is under way, and how many tasks are alive in it.
async fn slow() -> (World, LockTable, usize) {
    let world = World::start().await;
    let table = world.table();
    // The connection is kept by the table, so that its tasks are there from the start.
    table.check().await.unwrap();
    let slow = Effect::Delay(Duration::from_millis(10));
    world.spanner.inject(Fault::on(Rpc::Commit).effect(slow));
    sleep(Duration::from_secs(1)).await;
    let tasks = alive();
    (world, table, tasks)
}

/// Drops `act` after 0, 1, 2, … polls, until it completes; gives how many polls that took.
async fn drop_at_each<F: Future>(what: &str, act: impl Fn(Spindle) -> F) -> usize {
    let (world, table, tasks) = slow().await;
    for polls in 0..POLLS_MAX {
        let inner = Some(Box::pin(act(lock(&table))));
        let dropped = timeout(EVENTUALLY, DroppedAfter { polls, inner });
        let completed = dropped.await.unwrap_or_else(|_| panic!("{what}: hangs")).is_some();
        settled(&world, tasks, &format!("{what}, dropped after {polls} polls")).await;
        if completed {
            return polls;
        }
    }
    panic!("{what}: not complete after {POLLS_MAX} polls");
}

fn lock(table: &LockTable) -> Spindle {
    lock_of(table, LOCK).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn dropping_any_way_to_hold_at_any_await_leaves_no_lock_held_and_no_task() {
    let completed = [
        drop_at_each("acquire", |lock| async move { drop(lock.acquire().await.unwrap()) }).await,
        drop_at_each("acquire_within", |lock| async move {
            drop(lock.acquire().within(LEASE).await.unwrap());
        })
        .await,
        drop_at_each("try_acquire", |lock| async move {
            let Some(guard) = lock.try_acquire().await.unwrap() else { panic!("nobody holds") };
            drop(guard);
        })
        .await,
        drop_at_each("release", |lock| async move {
            let guard = lock.acquire().await.unwrap();
            tokio::task::yield_now().await;
            guard.release().await;
        })
        .await,
        drop_at_each("resign", |lock| async move {
            let _guard = lock.acquire().await.unwrap();
            lock.resign().await.unwrap();
        })
        .await,
        drop_at_each("resign to", |lock| async move {
            let _guard = lock.acquire().await.unwrap();
            lock.resign().to("b").await.unwrap();
        })
        .await,
        drop_at_each("lead", |lock| async move {
            let cancel = CancellationToken::new();
            let work = |_| sleep(Duration::from_millis(5));
            lock.lead(cancel, work).await.unwrap();
        })
        .await,
        drop_at_each("run", |lock| async move {
            let cancel = CancellationToken::new();
            let running = lock.run(cancel.clone());
            tokio::task::yield_now().await;
            cancel.cancel();
            running.await.unwrap();
        })
        .await,
    ];
    assert!(completed.iter().all(|polls| *polls > 1), "each has an await: {completed:?}");
}

/// A task of their own awaits for `lead` and `run_once`, so there the drop comes at each
/// millisecond instead.
#[tokio::test(start_paused = true)]
async fn dropping_what_runs_a_task_at_any_moment_leaves_no_lock_held_and_no_task() {
    let (world, table, tasks) = slow().await;
    let (mut finished, mut dropped) = (0, 0);
    let begun = table.inspect(LOCK).await.unwrap().read_at - Duration::from_secs(600);
    for milliseconds in 0..60 {
        let limit = Duration::from_millis(milliseconds);
        let work = |_| sleep(Duration::from_millis(10));
        let led = timeout(limit, lock(&table).lead(CancellationToken::new(), work)).await;
        settled(&world, tasks, &format!("lead, dropped after {limit:?}")).await;

        world.delete_row(LOCK).await;
        let node = lock_of(&table, LOCK);
        let slot = begun + Duration::from_secs(milliseconds);
        let ran = timeout(limit, node.run_once(slot, |_| sleep(Duration::from_millis(10)))).await;
        settled(&world, tasks, &format!("run_once, dropped after {limit:?}")).await;
        world.delete_row(LOCK).await;
        for ended in [led.is_ok(), ran.is_ok()] {
            *if ended { &mut finished } else { &mut dropped } += 1;
        }
    }
    assert!(finished > 5 && dropped > 20, "{finished} finished, {dropped} dropped");
}
