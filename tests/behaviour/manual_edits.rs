//! Manual edits: the row is deleted or edited, ids are shared.

use std::time::Duration;

use chrono::SecondsFormat;
use spindle::{FencingToken, TermEnd};
use tokio::time::{sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, LOCK, NOW, World, cells, pair, timed, travelled, until};

#[tokio::test(start_paused = true)]
async fn a_row_deleted_while_held_is_noticed_by_the_next_heartbeat() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let term = a.lock.term().unwrap();
    world.delete_row(LOCK).await;
    assert!(a.lock.verify().await.unwrap_err().is_fenced());
    let (noticed, waited) = timed(timeout(EVENTUALLY, term.cancelled())).await;
    noticed.unwrap();
    assert!(waited <= LEASE / 2, "{waited:?}");
    assert!(
        matches!(term.ended(), Some(TermEnd::Superseded { by: None, .. })),
        "{:?}",
        term.ended()
    );
    assert!(a.holds().await > term.token(), "the next term's token is greater all the same");
}

#[tokio::test(start_paused = true)]
async fn a_token_changed_while_held_ends_the_term_and_protects_its_holder_until_the_lease_is_over()
{
    let (world, a, b) = pair().await;
    let term = a.lock.term().unwrap();
    world.write(cells(LOCK, &[("token", NOW)])).await;
    let edited = world.row(LOCK).unwrap();

    let (noticed, waited) = timed(timeout(EVENTUALLY, term.cancelled())).await;
    noticed.unwrap();
    assert!(waited <= LEASE / 2, "by the next heartbeat: {waited:?}");
    let seen = FencingToken::from_nanoseconds(edited.token.unwrap().try_into().unwrap());
    assert!(matches!(term.ended(), Some(TermEnd::Superseded { by: Some(by), .. }) if *by == seen));
    let next = until("someone holds", || a.lock.has_lock().or(b.lock.has_lock())).await;
    assert!(next > seen);
}

#[tokio::test(start_paused = true)]
async fn a_token_set_back_to_an_older_one_revives_nobody() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let old = a.lock.term().unwrap();
    a.stop().await;
    let b = world.elect("b").await;
    let current = b.lock.term().unwrap();
    // The row is b's, with a's token: a's fence must not match it, nor b's go on as if nothing was.
    let token = old.token().to_datetime().to_rfc3339_opts(SecondsFormat::Nanos, true);
    world.write(cells(LOCK, &[("token", &token)])).await;
    let written = travelled(&old.fence()).write(&world.client().await, []).await;
    assert!(written.as_ref().is_err_and(spindle::Error::is_fenced), "{written:?}");
    timeout(EVENTUALLY, current.cancelled()).await.unwrap();
    assert!(b.holds().await > current.token());
}

#[tokio::test(start_paused = true)]
async fn two_instances_with_one_id_hold_one_at_a_time() {
    let world = World::start().await;
    let (a, twin) = (world.contend("same"), world.contend("same"));
    for _ in 0..1_000 {
        let held = [&a, &twin].iter().filter(|it| it.lock.has_lock().is_some()).count();
        assert!(held <= 1);
        sleep(Duration::from_millis(20)).await;
    }
    let (holder, other) = if a.is_standby() { (&twin, &a) } else { (&a, &twin) };
    world.crash(holder).await;
    let (_, waited) = timed(other.holds()).await;
    assert!(waited > LEASE / 2, "an id is no proof, so it waits out the lease: {waited:?}");
}
