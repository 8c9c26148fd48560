//! Requests whose outcome nobody knows: the reply is lost, or the request applied late.

use std::time::Duration;

use spindle_emulator::{Effect, Fault, FaultHandle, Rpc};
use tokio::time::{sleep, timeout};

use crate::world::{Contender, EVENTUALLY, LEASE, LOCK, LOST, World, pair, timed, until};

/// Sets the outcome of the next commit to the lock's row.
fn next_commit(world: &World, effect: Effect) -> FaultHandle {
    let commit = Fault::on(Rpc::Commit).table("locktable").key(LOCK).times(1);
    world.spanner.inject(commit.effect(effect))
}

#[tokio::test(start_paused = true)]
async fn an_insert_whose_reply_is_lost_is_found_to_be_ours() {
    for effect in LOST {
        let world = World::start().await;
        let lost = next_commit(&world, effect);
        let (a, waited) = timed(world.elect("a")).await;
        assert_eq!(lost.hits(), 1);
        assert!(waited < LEASE, "{effect:?}: it waited out its own lease: {waited:?}");
        assert_eq!(a.lock.verify().await.unwrap(), a.lock.has_lock().unwrap());
        let row = world.row(LOCK).unwrap();
        assert!(row.writer.unwrap().ends_with("-1"), "{effect:?}: it took more than one attempt");
    }
}

#[tokio::test(start_paused = true)]
async fn a_takeover_whose_reply_is_lost_is_found_to_be_ours() {
    for effect in LOST {
        let world = World::start().await;
        let a = world.elect("a").await;
        let first = a.lock.has_lock().unwrap();
        a.stop().await;
        let lost = next_commit(&world, effect);
        let (b, waited) = timed(world.elect("b")).await;
        assert_eq!(lost.hits(), 1);
        assert!(waited < LEASE, "{effect:?}: {waited:?}");
        assert!(b.lock.verify().await.unwrap() > first);
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_whose_reply_is_lost_costs_nothing() {
    for effect in LOST {
        let world = World::start().await;
        let a = world.elect("a").await;
        let token = a.lock.has_lock();
        for _ in 0..3 {
            let lost = next_commit(&world, effect);
            sleep(LEASE).await;
            assert_eq!(lost.hits(), 1);
            assert_eq!(a.lock.has_lock(), token, "{effect:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_is_lost_releases() {
    for effect in LOST {
        let (world, a, b) = pair().await;
        let lost = next_commit(&world, effect);
        let (_, waited) = timed(async {
            a.stop().await;
            b.holds().await
        })
        .await;
        assert_eq!(lost.hits(), 1);
        assert!(waited < LEASE, "{effect:?}: {waited:?}");
    }
}

/// So short that a commit that comes three of them later finds its transaction still open.
const SHORT: Duration = Duration::from_secs(2);

/// A holder and one that stands by, with the session of the first.
async fn short_pair() -> (World, Contender, Contender, String) {
    let world = World::start().await;
    let contend = |id| Contender::run(world.lock(id).lease(SHORT));
    let a = contend("a");
    a.holds().await;
    let b = contend("b");
    sleep(SHORT).await;
    let session = world.holders_session().await;
    (world, a, b, session)
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_applied_late_does_not_touch_the_next_term() {
    let (world, a, b, session) = short_pair().await;
    let late = next_commit(&world, Effect::ApplyLate { after: SHORT * 3 });
    until("a heartbeat is under way", || (late.hits() > 0).then_some(())).await;
    world.cut_off(&session);
    b.holds().await;
    assert_eq!(a.lock.has_lock(), None);
    // From here on nobody else writes the row.
    world.crash(&b).await;
    let row = world.row(LOCK);
    sleep(SHORT * 4).await;
    assert_eq!(world.row(LOCK), row);
}

#[tokio::test(start_paused = true)]
async fn a_release_applied_late_does_not_touch_the_next_term() {
    let (world, a, b, session) = short_pair().await;
    let late = next_commit(&world, Effect::ApplyLate { after: SHORT * 3 });
    a.cancel.cancel();
    until("the release is under way", || (late.hits() > 0).then_some(())).await;
    world.cut_off(&session);
    timeout(EVENTUALLY, a.running).await.expect("releasing is bounded").unwrap();
    let token = b.holds().await;
    sleep(SHORT * 4).await;
    assert_eq!(b.lock.has_lock(), Some(token));
    assert_eq!(b.lock.verify().await.unwrap(), token);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_applied_late_costs_time_and_never_safety() {
    for takeover in [false, true] {
        let world = World::start().await;
        if takeover {
            world.elect("z").await.stop().await;
        }
        let late = next_commit(&world, Effect::ApplyLate { after: LEASE / 2 });
        let (a, b) = (world.contend("a"), world.contend("b"));
        let mut last = None;
        let mut terms = 0;
        for _ in 0..4_000 {
            sleep(Duration::from_millis(10)).await;
            let held: Vec<_> = [&a, &b].iter().filter_map(|it| it.lock.has_lock()).collect();
            assert!(held.len() <= 1, "two hold at once: {held:?}");
            if let Some(&token) = held.first()
                && last != Some(token)
            {
                assert!(last < Some(token), "tokens increase");
                last = Some(token);
                terms += 1;
            }
        }
        assert_eq!(late.hits(), 1);
        assert!((1..=2).contains(&terms), "{terms} terms");
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_transactions_are_tried_again() {
    let world = World::start().await;
    let aborts = Fault::on(Rpc::Commit).table("locktable").probability(0.5, 7);
    world.spanner.inject(aborts.effect(Effect::Abort));
    let a = Contender::run(world.lock("a"));
    let token = a.holds().await;
    sleep(LEASE * 10).await;
    assert_eq!(a.lock.has_lock(), Some(token));
}

#[tokio::test(start_paused = true)]
async fn a_term_whose_begin_was_acknowledged_late_ends_in_time_all_the_same() {
    let world = World::start().await;
    // The commit is applied at once; its reply takes nearly all the time that it may.
    let begin = next_commit(&world, Effect::DelayReply(LEASE / 4));
    let a = world.contend("a");
    until("its begin is applied", || (begin.hits() > 0).then_some(())).await;
    let session = world.committing().remove(0);
    let b = Contender::run(world.lock("b").poll_interval(Duration::from_millis(50)));
    let token = a.holds().await;
    // Nothing of the holder arrives any more, before it has sent a heartbeat.
    world.cut_off(&session);
    let takeover = async {
        while b.is_standby() {
            sleep(Duration::from_millis(5)).await;
            assert!(a.is_standby() || b.is_standby(), "two hold at once");
        }
    };
    timeout(EVENTUALLY, takeover).await.expect("the other takes over");
    assert!(b.lock.has_lock() > Some(token));
}
