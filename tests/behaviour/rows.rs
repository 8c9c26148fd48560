//! The rows left in the table (I8), and their removal.

use spindle::Holding;
use tokio::time::sleep;

use crate::takeover::of_peer;
use crate::world::{Contender, LEASE, LOCK, PAST, World, cells, timed, until};

#[tokio::test(start_paused = true)]
async fn a_hundred_terms_of_no_time_leave_no_row_beside_the_locks() {
    let world = World::start().await;
    let lock = world.lock("a").build().unwrap();
    for _ in 0..100 {
        lock.acquire().await.unwrap().release().await;
    }
    assert_eq!(world.names(), [LOCK]);
}

#[tokio::test(start_paused = true)]
async fn two_that_take_turns_leave_no_row_beside_the_locks() {
    let world = World::start().await;
    let locks = ["a", "b"].map(|id| world.lock(id).build().unwrap());
    for turn in 0..20 {
        let Some(guard) = locks[turn % 2].try_acquire().await.unwrap() else {
            panic!("nobody else holds in turn {turn}")
        };
        guard.release().await;
    }
    assert_eq!(world.names(), [LOCK]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_has_one_takeover_row_however_many_crash_and_none_once_it_is_released() {
    let world = World::start().await;
    for crashes in 0..5 {
        let a = world.elect("a").await;
        let rows = world.names();
        assert_eq!(rows.len(), 1 + usize::from(crashes > 0), "after {crashes} crashes: {rows:?}");
        world.crash(&a).await;
        a.cancel.cancel();
    }
    let b = world.elect("b").await;
    b.stop().await;
    assert_eq!(world.names(), [LOCK]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_leaves_its_mark() {
    let world = World::start().await;
    let table = world.table();
    let a = Contender::run(world.lock("a").info("10.0.0.7"));
    a.holds().await;
    let evicted = table.evict(LOCK).by("alice").reason("bad deploy").await.unwrap().unwrap();
    assert_eq!((&*evicted.holder, evicted.info.as_deref()), ("a", Some("10.0.0.7")));
    assert!(evicted.heartbeat >= evicted.token.to_datetime(), "{evicted:?}");
    let state = table.inspect(LOCK).await.unwrap();
    assert_eq!(state.info.as_deref(), Some("evicted by alice: bad deploy"));
    assert_eq!(state.holding, Holding::Evicted);
}

#[tokio::test(start_paused = true)]
async fn marks_that_cannot_work_are_refused() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let table = world.table();
    assert!(table.evict(LOCK).reason("two\nlines").await.unwrap_err().is_config());
    assert!(table.evict(LOCK).at_once().by("x".repeat(2_000)).await.unwrap_err().is_config());
    assert!(a.lock.verify().await.is_ok());
    table.evict(LOCK).at_once().by("bob").await.unwrap();
    let info = table.inspect(LOCK).await.unwrap().info;
    assert_eq!(info.as_deref(), Some("seized by bob"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_can_have_is_not_waited_for_for_ever() {
    let world = World::start().await;
    let epoch = "1970-01-01T00:00:00Z";
    for (heartbeat, writer) in [(PAST, "a#000000000000000a-1"), (epoch, ">"), (epoch, ">b")] {
        let lease_ms = i64::MAX.to_string();
        let odd = [("heartbeat", heartbeat), ("writer", writer), ("lease_ms", &lease_ms)];
        world.write(cells(LOCK, &[&odd[..], &[("token", PAST)]].concat())).await;
        let a = world.contend("a");
        let (_, waited) = timed(a.holds()).await;
        assert!(waited <= LEASE, "{writer}: {waited:?}");
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_vacant_lock_is_removed_with_its_takeovers() {
    let world = World::start().await;
    let table = world.table();
    assert!(!table.remove(LOCK).await.unwrap(), "there is none yet");
    let a = world.elect("a").await;
    world.crash(&a).await;
    let b = Contender::run(world.lock("b"));
    b.holds().await;
    let refused = table.remove(LOCK).await.unwrap_err();
    assert!(refused.is_not_vacant() && !refused.is_retryable(), "{refused:?}");
    assert!(refused.to_string().contains("lock `job`: not vacant"), "{refused}");
    let token = b.lock.has_lock().unwrap();
    world.crash(&b).await;
    b.cancel.cancel();
    sleep(LEASE * 2).await;
    let others = [
        ("job_1", Some(PAST)),
        // A lock row of another implementation that looks like a takeover row.
        ("job_1500000000000000000", Some(PAST)),
        ("job_17", None),
        // The takeover row of a lock whose name begins alike.
        ("job_1_1500000000000000000", None),
        ("jobs", Some(PAST)),
    ];
    world.write_all(others.map(|(name, heartbeat)| of_peer(name, heartbeat, PAST))).await;
    // As a peer leaves it, of a token that no term displaces any more.
    world.write(of_peer("job_1400000000000000000", None, PAST)).await;
    assert!(table.remove(LOCK).await.unwrap());
    assert_eq!(world.names(), others.map(|(name, _)| name));
    let c = world.elect("c").await;
    assert!(c.lock.has_lock().unwrap() > token, "tokens go on");
}

#[tokio::test(start_paused = true)]
async fn what_a_row_that_was_deleted_by_hand_leaves_goes_by_a_removal() {
    let world = World::start().await;
    let a = world.elect("a").await;
    world.crash(&a).await;
    a.cancel.cancel();
    let b = world.elect("b").await;
    world.crash(&b).await;
    b.cancel.cancel();
    world.delete_row(LOCK).await;
    assert_eq!(world.names().len(), 1, "the takeover row");
    let table = world.table();
    assert!(!table.remove(LOCK).await.unwrap(), "it had no row");
    assert_eq!(world.names(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_evicted_lock_is_removed_only_after_its_lease() {
    let world = World::start().await;
    let a = world.elect("a").await;
    world.crash(&a).await;
    let table = world.table();
    table.evict(LOCK).await.unwrap().unwrap();
    assert!(table.remove(LOCK).await.unwrap_err().is_not_vacant());
    until("it believes no more", || a.lock.has_lock().is_none().then_some(())).await;
    sleep(LEASE).await;
    assert!(table.remove(LOCK).await.unwrap());
}
