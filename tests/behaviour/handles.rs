//! Handles: cloned, dropped in every order, cancelled early, run twice.

use std::time::Duration;

use spindle::health::Role;
use spindle::job::Slot;
use spindle::{CancellationToken, Database, LockTable, Spindle, TermChange, TermEnd};
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::{Member, RwLock, Semaphore};
use tokio::time::{sleep, timeout};

use crate::threads::at_once;
use crate::world::{Contender, DATABASE, EVENTUALLY, LEASE, LOCK, World, lock_of, until};

fn assert_send_sync<T: Send + Sync + 'static>() {}
fn assert_send<T: Send>(_: T) {}

#[test]
fn handles_go_anywhere() {
    assert_send_sync::<Spindle>();
    assert_send_sync::<LockTable>();
    assert_send_sync::<spindle::Term>();
    assert_send_sync::<spindle::TermWatch>();
    assert_send_sync::<spindle::RunHandle>();
    assert_send_sync::<spindle::Fence>();
    assert_send_sync::<spindle::Error>();
    fn futures(lock: &Spindle, table: &LockTable, watch: &mut spindle::TermWatch) {
        assert_send(lock.verify());
        assert_send(lock.resign());
        assert_send(lock.inspect());
        assert_send(lock.run(CancellationToken::new()));
        assert_send(table.check());
        assert_send(table.inspect(LOCK));
        assert_send(watch.next());
    }
    let _ = futures;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_never_started_has_nothing_to_resign_from() {
    let lock = lock_of(&LockTable::new(DATABASE, "locktable"), LOCK).build().unwrap();
    for _ in 0..2 {
        for resign in [lock.resign(), lock.resign().to("b")] {
            let resigned = timeout(EVENTUALLY, resign).await;
            assert!(!resigned.expect("it answers").unwrap());
        }
    }
}

async fn released(world: &World) {
    let released = until("it is released", || world.is_released().then_some(()));
    timeout(LEASE / 2, released).await.expect("it is not left to expire");
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_that_goes_releases_the_lock_whatever_the_order() {
    for order in 0..6 {
        let world = World::start().await;
        let Contender { lock, cancel, running } = world.elect("a").await;
        let clone = lock.clone();
        let mut parts: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(lock), Box::new(running), Box::new(clone)];
        let first = parts.remove(order % 3);
        let second = parts.remove(order / 3);
        drop(first);
        drop(second);
        sleep(LEASE).await;
        drop(parts);
        released(&world).await;
        drop(cancel);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_what_run_returned_lets_the_loop_go_on() {
    let world = World::start().await;
    let Contender { lock, cancel, running } = world.elect("a").await;
    let token = lock.has_lock();
    drop(running);
    sleep(LEASE * 3).await;
    assert_eq!(lock.has_lock(), token);
    cancel.cancel();
    until("it has ended", || (lock.health().role == Role::Ended).then_some(())).await;
    released(&world).await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_before_the_first_round_ends_at_once_and_writes_nothing() {
    let world = World::start().await;
    let lock = world.lock("a").build().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    timeout(EVENTUALLY, lock.run(cancel)).await.unwrap().unwrap();
    assert_eq!(world.row(LOCK), None);
    assert_eq!((lock.has_lock(), lock.health().role), (None, Role::Ended));
}

#[tokio::test(start_paused = true)]
async fn cancelling_at_any_moment_leaves_no_lock_held() {
    for milliseconds in 0..40 {
        let world = World::start().await;
        let slow = Effect::Delay(Duration::from_millis(10));
        world.spanner.inject(Fault::on(Rpc::Commit).effect(slow));
        let a = world.contend("a");
        sleep(Duration::from_millis(milliseconds)).await;
        a.stop().await;
        let state = world.table().inspect(LOCK).await.unwrap();
        assert_eq!(state.holder(), None, "cancelled after {milliseconds} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn running_twice_is_refused_and_disturbs_nothing() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let again = a.lock.run(CancellationToken::new()).await.unwrap_err();
    assert!(again.is_config(), "{again}");
    assert!(a.lock.has_lock().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_the_arguments_of_new_is_what_run_resolves_to() {
    let world = World::start().await;
    let given = Database::from(world.client().await);
    for (database, table, name) in [
        (given.clone(), "no table", "job"),
        (given.clone(), "locktable", ""),
        (given.clone(), "locktable", "job_1234567890123456789"),
        (DATABASE.into(), "no table", "job"),
        ("d".into(), "locktable", "job"),
        (Database::at("localhost:9010", DATABASE), "locktable", "job"),
    ] {
        let lock = Spindle::new(database, table, name);
        assert_eq!(lock.has_lock(), None);
        let health = lock.health();
        assert!(!health.is_ready() && !health.is_started() && !health.is_alive(), "{health:?}");
        let refused = lock.run(CancellationToken::new()).await.unwrap_err();
        assert!(refused.is_config());
        assert_eq!(health.trouble.unwrap().error.to_string(), refused.to_string());
        assert!(lock.inspect().await.unwrap_err().is_config());
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_and_a_client_lead_to_the_same_lock() {
    let world = World::start().await;
    let own = Database::at(world.spanner.endpoint(), DATABASE);
    let client = world.client().await;
    for database in [own, Database::from(&client), Database::from(client)] {
        let lock = Spindle::new(database, "locktable", "job");
        let running = lock.run(CancellationToken::new());
        until("it holds", || lock.has_lock()).await;
        drop(lock);
        timeout(EVENTUALLY, running).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn no_task_is_left_when_the_handles_are_gone() {
    let world = World::start().await;
    let table = world.table();
    table.check().await.unwrap();
    // The server's work for the check ends.
    sleep(LEASE).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let contenders: Vec<_> =
        (0..20).map(|n| Contender::run(lock_of(&table, format!("lock-{n}")))).collect();
    for contender in &contenders {
        contender.holds().await;
    }
    assert!(alive() >= before + 20);
    drop(contenders);
    until("their tasks have ended", || (alive() <= before).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_alternates_gain_and_loss_however_slow_its_reader() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let mut prompt = a.lock.watch();
    let mut slow = a.lock.watch();
    let Some(TermChange::Gained(first)) = slow.next().await else { panic!("it holds") };
    let mut last = None;
    for _ in 0..3 {
        let Some(TermChange::Gained(term)) = prompt.next().await else { panic!("no gain") };
        assert!(last < Some(term.token()));
        last = Some(term.token());
        assert!(a.lock.resign().await.unwrap());
        assert_eq!(a.lock.has_lock(), None);
        let Some(TermChange::Lost(lost)) = prompt.next().await else { panic!("no loss") };
        assert_eq!((lost.token(), lost.ended()), (term.token(), Some(&TermEnd::LetGo)));
        a.holds().await;
    }
    let Some(TermChange::Lost(lost)) = slow.next().await else { panic!("no loss") };
    assert_eq!(lost.token(), first.token());
    let Some(TermChange::Gained(now)) = slow.next().await else { panic!("no gain") };
    assert_eq!(Some(now.token()), a.lock.has_lock(), "the terms in between are skipped whole");
    let lock = a.lock.clone();
    a.stop().await;
    assert!(matches!(slow.next().await, Some(TermChange::Lost(_))));
    for mut watch in [slow, lock.watch()] {
        let next = timeout(EVENTUALLY, watch.next()).await.expect("the loop has ended");
        assert!(next.is_none(), "{next:?}");
    }
}

#[test]
fn outside_of_a_runtime_run_and_acquire_are_refused_and_can_be_called_again_inside() {
    let table = LockTable::new(DATABASE, "locktable");
    let lock = table.lock(LOCK).build().unwrap();
    let uploads = Semaphore::new(&table, "uploads", 1).build().unwrap();
    let catalogue = RwLock::new(&table, "catalogue").build().unwrap();
    let shards = Member::new(&table, "orders").build().unwrap().shards("partitions", 1);
    let never = CancellationToken::new;
    for refused in [
        at_once(lock.acquire()).unwrap_err(),
        at_once(lock.acquire().within(LEASE)).unwrap_err(),
        at_once(lock.try_acquire()).unwrap_err(),
        at_once(lock.lead(never(), |_| async {})).unwrap_err(),
        at_once(table.lock(LOCK).run_once(Slot::every(LEASE), |_| async {})).unwrap_err(),
        at_once(uploads.acquire()).unwrap_err(),
        at_once(uploads.acquire().within(LEASE)).unwrap_err(),
        at_once(uploads.try_acquire()).unwrap_err(),
        at_once(catalogue.read()).unwrap_err(),
        at_once(catalogue.try_read()).unwrap_err(),
        at_once(catalogue.write()).unwrap_err(),
        at_once(catalogue.try_write()).unwrap_err(),
        at_once(shards.run(never(), |_| async {})).unwrap_err(),
        at_once(table.inspect(LOCK)).unwrap_err(),
    ] {
        assert!(refused.is_config() && refused.to_string().contains("runtime"), "{refused}");
    }
    let refused = lock.run(CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let error = refused.await.unwrap_err();
        assert!(error.is_config() && error.to_string().contains("runtime"), "{error}");
        let cancel = CancellationToken::new();
        cancel.cancel();
        lock.run(cancel).await.unwrap();
    });
}
