//! The server is gone, for a while or with all its data.

use std::time::Duration;

use spindle::{TermEnd, health::Role};
use spindle_emulator::Restart;
use tokio::time::{sleep, timeout};

use crate::world::{
    Contender, DATABASE, EVENTUALLY, LEASE, LOCK, TABLE, World, lock_of, pair, timed, until,
};

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_costs_nothing() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let token = a.lock.has_lock();
    for _ in 0..5 {
        world.spanner.pause().await;
        sleep(LEASE / 4).await;
        world.spanner.resume().await.unwrap();
        sleep(LEASE).await;
        assert_eq!(a.lock.has_lock(), token);
    }
    assert!(a.lock.health().is_ready(), "{:?}", a.lock.health());
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_lease_ends_the_term_before_it_can_begin_elsewhere() {
    let (world, a, b) = pair().await;
    let term = a.lock.term().unwrap();
    world.spanner.pause().await;
    let ((), until_cancelled) = timed(term.cancelled()).await;
    assert!(until_cancelled < LEASE);
    assert!(term.remaining() > Duration::ZERO, "there is time left to stop");
    assert_eq!(a.lock.has_lock(), None);
    assert!(matches!(term.ended(), Some(TermEnd::OutOfContact { .. })));
    sleep(LEASE * 3).await;
    let health = a.lock.health();
    assert_eq!(health.role, Role::StandsBy);
    let trouble = health.trouble.expect("it says that it is out of contact");
    assert!(trouble.lasting > LEASE * 2, "{trouble:?}");

    world.spanner.resume().await.unwrap();
    let next = until("someone holds", || a.lock.has_lock().or(b.lock.has_lock())).await;
    assert!(next > term.token());
    until("it is well again", || a.lock.health().is_ready().then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_its_rows_begins_a_new_term_with_a_greater_token() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let first = a.lock.term().unwrap();
    world.spanner.restart(Restart::lose_rows().lose_sessions()).await.unwrap();
    timeout(EVENTUALLY, first.cancelled()).await.unwrap();
    let second = a.holds().await;
    assert!(second > first.token());
    assert_eq!(world.row(LOCK).unwrap().token, Some(i128::from(second.as_nanoseconds())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restarted_empty_is_used_again_once_the_table_is_back() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let first = a.lock.term().unwrap();
    world.spanner.restart(Restart::lose_databases()).await.unwrap();
    timeout(EVENTUALLY, first.cancelled()).await.unwrap();
    assert!(first.remaining() > Duration::ZERO);
    sleep(LEASE * 2).await;
    assert!(!a.lock.health().is_ready());
    world.spanner.create_database(DATABASE, TABLE).await.unwrap();
    assert!(a.holds().await > first.token());
    assert!(a.lock.health().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_ones_own_survives_the_loss_of_its_session() {
    let world = World::start().await;
    let (a, operator) = (world.elect("a").await, world.table());
    operator.check().await.unwrap();
    let token = a.lock.has_lock();
    world.spanner.restart(Restart::keep().lose_sessions()).await.unwrap();
    // Its connection is closed; the next one has no session.
    assert!(operator.inspect(LOCK).await.unwrap_err().is_retryable());
    let lost = operator.inspect(LOCK).await.unwrap_err();
    assert!(lost.is_session_lost() && lost.to_string().contains("the next call"), "{lost}");
    assert!(lost.is_retryable(), "{lost}");
    operator.inspect(LOCK).await.unwrap();
    sleep(LEASE * 5).await;
    assert_eq!(a.lock.has_lock(), token, "a new session is made within the lease");
    assert!(a.lock.health().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_given_stays_without_session_and_health_calls_for_a_restart() {
    let world = World::start().await;
    let table = spindle::LockTable::new(world.client().await, "locktable");
    let a = Contender::run(lock_of(&table, LOCK));
    a.holds().await;
    world.spanner.restart(Restart::keep().lose_sessions()).await.unwrap();
    let error = until("it says so", || {
        a.lock.health().trouble.map(|trouble| trouble.error).filter(spindle::Error::is_session_lost)
    })
    .await;
    assert!(error.to_string().contains("session"), "{error}");
    let lost = table.check().await.unwrap_err();
    assert!(lost.is_session_lost() && !lost.is_retryable(), "{lost}");
    a.holds_no_more().await;
    let is_dead = || (!a.lock.health().is_alive()).then(|| a.lock.health().trouble);
    let trouble = until("it is dead", is_dead).await.unwrap();
    assert!(trouble.error.to_string().contains("its session is gone"), "{}", trouble.error);
}
