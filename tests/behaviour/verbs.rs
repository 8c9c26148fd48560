//! Calls for anyone with the database, without an instance.

use std::time::Duration;

use spindle::operate::{Cause, LockList};
use spindle::{Database, Holding, LockState, LockTable, TermEnd};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{sleep, timeout};

use crate::takeover::of_peer;
use crate::world::{Contender, EVENTUALLY, LEASE, LOCK, PAST, World, order, pair, timed, until};

async fn listed(mut locks: LockList) -> Vec<LockState> {
    let mut found = Vec::new();
    while let Some(lock) = locks.next().await.unwrap() {
        found.push(lock);
    }
    found
}

#[tokio::test(start_paused = true)]
async fn inspect_says_who_holds_and_why_nobody_does() {
    let world = World::start().await;
    let table = world.table();
    let never = table.inspect(LOCK).await.unwrap();
    assert_eq!((never.holding, never.token), (Holding::NeverHeld, None));

    let a = Contender::run(world.lock("a").info("10.0.0.7"));
    let token = a.holds().await;
    sleep(LEASE).await;
    let held = table.inspect(LOCK).await.unwrap();
    assert!(matches!(&held.holding, Holding::Held { id, .. } if id == "a"), "{held:?}");
    assert_eq!((held.token, held.lease), (Some(token), Some(LEASE)));
    assert_eq!(held.since(), Some(token.to_datetime()));
    assert!(held.read_at > token.to_datetime());
    assert_eq!(held.info.as_deref(), Some("10.0.0.7"));
    assert!(held.heartbeat_age.unwrap() <= LEASE / 2, "{held:?}");

    a.stop().await;
    let released = table.inspect(LOCK).await.unwrap();
    assert_eq!((&released.holding, released.heartbeat_age), (&Holding::Released, None));
    assert!(released.token > held.token);

    let b = world.elect("b").await;
    world.crash(&b).await;
    sleep(LEASE * 2).await;
    let expired = table.inspect(LOCK).await.unwrap();
    assert!(matches!(&expired.holding, Holding::Expired { id, .. } if id == "b"), "{expired:?}");
    assert!(expired.heartbeat_age.unwrap() >= LEASE);
    assert_eq!(table.inspect(LOCK).await.unwrap().holder(), None);
}

#[tokio::test(start_paused = true)]
async fn names_and_ids_that_cannot_be_are_refused_before_anything_is_sent() {
    let world = World::start().await;
    let table = world.table();
    let requests = world.spanner.requests();
    requests.reset();
    for name in ["", "job_1795000000123456000"] {
        assert!(table.inspect(name).await.unwrap_err().is_config());
        assert!(table.evict(name).await.unwrap_err().is_config());
        assert!(table.evict(name).at_once().await.unwrap_err().is_config());
        assert!(table.evict(name).to("a").await.unwrap_err().is_config());
        assert!(table.observe(name).next().await.unwrap_err().is_config());
    }
    for id in ["", ">a", "a\nb"] {
        assert!(table.evict(LOCK).to(id).await.unwrap_err().is_config());
    }
    for interval in [Duration::ZERO, Duration::MAX] {
        let odd = table.observe(LOCK).interval(interval).next().await;
        assert!(odd.unwrap_err().is_config());
    }
    let nowhere =
        LockTable::new(Database::at(world.spanner.endpoint(), "projects/p"), "lock table");
    assert!(nowhere.list().next().await.unwrap_err().is_config());
    assert_eq!(requests.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_every_lock_once_and_no_takeover_row() {
    let world = World::start().await;
    // More than two pages, the second of them nothing but takeover rows.
    let a = world.elect("a").await;
    let locks: Vec<_> = (0..130).map(|n| format!("a_lock-{n:03}")).collect();
    let takeovers = (0..150).map(|n| format!("a_lock-129_1500000000000000{n:03}"));
    world.write_all(locks.iter().map(|name| of_peer(name, Some(PAST), PAST))).await;
    world.write_all(takeovers.map(|key| of_peer(&key, None, PAST))).await;
    // They only look like takeover rows, or only lack a heartbeat.
    let odd = [of_peer("job_1500000000000000000", Some(PAST), PAST), of_peer("job_17", None, PAST)];
    world.write_all(odd).await;
    let mut expected = locks;
    expected.extend([LOCK, "job_1500000000000000000", "job_17"].map(String::from));
    expected.sort();
    let table = world.table();
    let found = listed(table.list()).await;
    let names: Vec<_> = found.iter().map(|lock| lock.name.clone()).collect();
    assert_eq!(names, expected);
    let held: Vec<_> = found.iter().filter(|lock| lock.is_held()).collect();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].name.as_str(), held[0].token), (LOCK, a.lock.has_lock()));
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_a_prefix_shows_the_locks_that_begin_so_and_no_others() {
    let world = World::start().await;
    let shards: Vec<_> = (0..230).map(|n| format!("shard-{n:03}")).collect();
    let others = ["shard", "shard.", "shar", "shard,z", "tshard-1"].map(String::from);
    let all = shards.iter().chain(&others);
    world.write_all(all.map(|name| of_peer(name, Some(PAST), PAST))).await;
    let table = world.table();
    let names = async |prefix: &str| {
        let locks = listed(table.list().prefix(prefix)).await;
        locks.into_iter().map(|lock| lock.name).collect::<Vec<_>>()
    };
    assert_eq!(names("shard-").await, shards);
    assert_eq!(names("shard-22").await, shards[220..]);
    assert_eq!(names("shard.").await, ["shard."]);
    assert_eq!(names("zebra").await, [""; 0]);
    assert_eq!(names("").await.len(), 235);
    let reads = world.spanner.requests().get(Rpc::StreamingRead);
    let mut one_page = world.table().list().page_rows(1_000);
    while one_page.next().await.unwrap().is_some() {}
    assert_eq!(world.spanner.requests().get(Rpc::StreamingRead), reads + 1);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_failed_or_was_dropped_goes_on_where_it_was() {
    let world = World::start().await;
    let all: Vec<_> = (0..150).map(|n| format!("lock-{n:03}")).collect();
    world.write_all(all.iter().map(|name| of_peer(name, Some(PAST), PAST))).await;
    let table = world.table();
    let mut locks = table.list();
    let mut names = Vec::new();
    for _ in 0..100 {
        names.push(locks.next().await.unwrap().unwrap().name);
    }
    let outage = world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    assert!(timeout(Duration::from_secs(1), locks.next()).await.is_err(), "dropped");
    assert!(locks.next().await.unwrap_err().is_retryable());
    outage.remove();
    while let Some(lock) = locks.next().await.unwrap() {
        names.push(lock.name);
    }
    assert_eq!(names, all);
    assert!(locks.next().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_terms_and_vacancy_in_time() {
    let world = World::start().await;
    let mut observer = world.table().observe(LOCK);
    assert_eq!(observer.next().await.unwrap().holding, Holding::NeverHeld);
    let a = world.elect("a").await;
    let (held, late) = timed(observer.next()).await;
    assert_eq!(held.unwrap().token, a.lock.has_lock());
    assert!(late <= Duration::from_millis(1_050), "{late:?}");
    // Dropped in the middle, again and again, it misses nothing.
    for _ in 0..50 {
        let quiet = timeout(Duration::from_millis(70), observer.next()).await;
        assert!(quiet.is_err(), "nothing has changed: {quiet:?}");
    }
    world.crash(&a).await;
    let last = world.row(LOCK).unwrap().heartbeat.unwrap();
    let vacant = observer.next().await.unwrap();
    assert!(matches!(vacant.holding, Holding::Expired { .. }), "{vacant:?}");
    let age = vacant.heartbeat_age.unwrap();
    assert!(age >= LEASE && age <= LEASE + Duration::from_millis(50), "{age:?} since {last}");
    let b = world.elect("b").await;
    assert_eq!(observer.next().await.unwrap().token, b.lock.has_lock());
    b.stop().await;
    assert_eq!(observer.next().await.unwrap().holding, Holding::Released);
}

#[tokio::test(start_paused = true)]
async fn an_observer_tells_a_change_beside_events_that_come_faster_than_an_answer() {
    let world = World::start().await;
    let table = world.table();
    table.check().await.unwrap();
    let slow = Effect::Delay(Duration::from_millis(50));
    world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(slow));
    let requests = world.spanner.requests();
    requests.reset();
    let mut observer = table.observe(LOCK);
    let telling = async {
        loop {
            tokio::select! {
                state = observer.next() => return state.unwrap(),
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
    };
    let told = timeout(LEASE, telling).await.expect("it is told");
    assert_eq!(told.holding, Holding::NeverHeld);
    assert_eq!(requests.get(Rpc::StreamingRead), 1);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_no_observer_waits_for_holds_back_no_new_client() {
    let world = World::start().await;
    let table = world.table();
    table.check().await.unwrap();
    world.spanner.swallow_connections().await;
    let mut observer = table.observe(LOCK);
    let dropped = timeout(Duration::from_secs(1), observer.next()).await;
    assert!(dropped.is_err(), "nothing answers");
    let limit = Duration::from_secs(5);
    sleep(limit).await;
    table.inspect(LOCK).await.expect("the poll has had its time, and the next a new client");
    drop(observer);
}

#[tokio::test(start_paused = true)]
async fn an_observer_tells_nothing_that_a_poll_saw_long_ago() {
    let world = World::start().await;
    let table = world.table();
    table.check().await.unwrap();
    let slow = Effect::Delay(Duration::from_millis(50));
    let slow = world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(slow));
    let mut observer = table.observe(LOCK);
    assert!(timeout(Duration::from_millis(10), observer.next()).await.is_err());
    // It ends meanwhile, and sees that nobody holds.
    sleep(Duration::from_secs(1)).await;
    slow.remove();
    let holder = world.elect("a").await;
    sleep(LEASE).await;
    let told = observer.next().await.unwrap();
    assert_eq!(told.token, holder.lock.has_lock(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_observer_goes_on_after_an_outage() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let mut observer = world.table().observe(LOCK);
    assert!(observer.next().await.unwrap().is_held());
    let outage = world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    assert!(observer.next().await.unwrap_err().is_retryable());
    outage.remove();
    a.stop().await;
    assert!(!observer.next().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holders_validity_runs_out_before_anyone_takes_over() {
    let (world, a, b) = pair().await;
    let term = a.lock.term().unwrap();
    let fence = term.fence();
    // It can't hear of its eviction: it believes in its lock until its validity has run out.
    world.crash(&a).await;
    let before = world.row(LOCK).unwrap();
    let table = world.table();
    let evicted = table.evict(LOCK).await.unwrap().unwrap();
    assert_eq!((&*evicted.holder, evicted.token), ("a", term.token()));
    assert!(matches!(evicted.cause, Some(Cause::Evicted { by: None, reason: None, .. })));
    let after = world.row(LOCK).unwrap();
    assert_eq!(after.heartbeat, before.heartbeat, "contenders still wait it out");
    assert!(after.token > before.token);
    assert_eq!(table.inspect(LOCK).await.unwrap().holding, Holding::Evicted);
    assert_eq!(table.inspect(LOCK).await.unwrap().holder(), None);
    let client = world.client().await;
    assert!(fence.write(&client, [order("evicted")]).await.unwrap_err().is_fenced());
    // Nothing is left to evict.
    assert_eq!(table.evict(LOCK).await.unwrap(), None);

    let next = until("the next holds", || {
        let holds = b.lock.has_lock();
        assert!(holds.is_none() || a.lock.has_lock().is_none(), "two hold at once");
        holds
    })
    .await;
    let end = evicted.end.unwrap();
    assert!(next.to_datetime() > end && end > evicted.token.to_datetime());
    let waited = i128::from(next.as_nanoseconds()) - before.heartbeat.unwrap();
    assert!(waited >= i128::try_from(LEASE.as_nanos()).unwrap(), "{waited} ns");
    assert!(waited <= i128::try_from((LEASE + LEASE / 10).as_nanos()).unwrap(), "{waited} ns");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holder_learns_of_it_by_its_next_heartbeat() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let term = a.lock.term().unwrap();
    let evicted = world.table().evict(LOCK).await.unwrap().unwrap();
    let (told, waited) = timed(timeout(EVENTUALLY, term.cancelled())).await;
    told.unwrap();
    assert!(waited <= LEASE / 2, "{waited:?}");
    assert!(
        matches!(term.ended(), Some(TermEnd::Superseded { by: Some(by), holder: None, .. })
            if Some(by.to_datetime()) == evicted.end),
        "{:?}",
        term.ended()
    );
}

#[tokio::test(start_paused = true)]
async fn a_seized_lock_is_taken_at_once_and_the_old_holders_fenced_write_is_refused() {
    let (world, a, b) = pair().await;
    let term = a.lock.term().unwrap();
    world.crash(&a).await;
    let client = world.client().await;
    let table = world.table();
    let (next, waited) = timed(async {
        let seized = table.evict(LOCK).at_once().await.unwrap().unwrap();
        assert_eq!((&*seized.holder, seized.token), ("a", term.token()));
        assert!(term.fence().write(&client, [order("seized")]).await.unwrap_err().is_fenced());
        let next = b.holds().await;
        assert!(next.to_datetime() > seized.end.unwrap());
        next
    })
    .await;
    assert!(waited <= Duration::from_millis(1_050), "within a poll interval: {waited:?}");
    assert!(a.lock.has_lock().is_some(), "the old holder doesn't know yet: only fences help");
    let late = term.fence().write(&client, [order("late")]).await.unwrap_err();
    assert!(late.is_fenced() && late.to_string().contains(&next.to_string()), "{late}");
    b.lock.term().unwrap().fence().write(&client, [order("next")]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_promised_for_as_long_as_its_contender_has_first_refusal() {
    let world = World::start().await;
    let table = world.table();
    table.evict(LOCK).to("nobody").await.unwrap();
    let holding = async || table.inspect(LOCK).await.unwrap().holding;
    sleep(Duration::from_millis(9_900)).await;
    assert!(matches!(holding().await, Holding::Promised { to, .. } if to == "nobody"));
    sleep(Duration::from_millis(200)).await;
    assert_eq!(holding().await, Holding::Released, "anyone may take it");
}

#[tokio::test(start_paused = true)]
async fn a_lock_seized_for_a_contender_is_that_contenders() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let others: Vec<_> = ["b", "c", "d", "e"].map(|id| world.contend(id)).into();
    let chosen = world.contend("chosen");
    sleep(LEASE).await;
    let table = world.table();
    for _ in 0..5 {
        let deposed = table.evict(LOCK).to("chosen").await.unwrap().unwrap().holder;
        let holding = table.inspect(LOCK).await.unwrap().holding;
        assert!(matches!(&holding, Holding::Promised { to, .. } if to == "chosen"));
        let (token, waited) = timed(chosen.holds()).await;
        assert!(waited <= Duration::from_millis(1_050), "{waited:?}");
        // The one that was deposed may not know yet.
        let mut idle = others.iter().chain([&a]).filter(|other| other.lock.id() != deposed);
        assert!(idle.all(Contender::is_standby));
        sleep(LEASE).await;
        assert_eq!(table.inspect(LOCK).await.unwrap().token, Some(token));
        assert!(chosen.lock.resign().await.unwrap());
        let anyone = others.iter().chain([&a]);
        until("another holds", || anyone.clone().find_map(|contender| contender.lock.has_lock()))
            .await;
        // By now the chosen one contends again.
        sleep(LEASE * 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_promise_to_nobody_there_is_over_after_its_grace() {
    let world = World::start().await;
    let table = world.table();
    // On a lock without a row, too.
    assert_eq!(table.evict(LOCK).to("nobody-there").await.unwrap(), None);
    let b = world.contend("b");
    let (_, waited) = timed(b.holds()).await;
    assert!(waited >= LEASE - Duration::from_millis(50), "{waited:?}");
    assert!(waited <= LEASE + Duration::from_millis(1_050), "{waited:?}");
    // And ends at once when the lock is seized for anyone.
    b.stop().await;
    table.evict(LOCK).to("nobody-there").await.unwrap();
    table.evict(LOCK).at_once().await.unwrap();
    let c = world.contend("c");
    let (_, waited) = timed(c.holds()).await;
    assert!(waited <= Duration::from_millis(100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_seizure_that_others_overtake_each_time_is_an_error_that_may_be_repeated() {
    let world = World::start().await;
    let table = world.table();
    let others =
        Fault::on(Rpc::Commit).table("locktable").effect(Effect::Fail(Code::AlreadyExists));
    let others = world.spanner.inject(others);
    let (overtaken, took) = timed(table.evict(LOCK).to("b").into_future()).await;
    let overtaken = overtaken.expect_err("nothing was done");
    assert!(overtaken.is_retryable(), "{overtaken}");
    assert!(overtaken.to_string().contains("others made its row"), "{overtaken}");
    assert!((4..7).contains(&took.as_secs()), "{took:?}");
    others.remove();
    table.evict(LOCK).to("b").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn seizing_ends_the_wait_after_an_eviction() {
    let world = World::start().await;
    let a = world.elect("a").await;
    world.crash(&a).await;
    let b = world.contend("b");
    let table = world.table();
    assert!(table.evict(LOCK).await.unwrap().is_some());
    assert_eq!(table.evict(LOCK).at_once().await.unwrap(), None, "the row named no one");
    let (_, waited) = timed(b.holds()).await;
    assert!(waited <= Duration::from_millis(1_050), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn another_term_than_the_one_that_is_meant_is_left_alone_by_every_eviction() {
    let (world, a, b) = pair().await;
    let table = world.table();
    let (before, meant) = (a.lock.has_lock().unwrap(), table.evict(LOCK).if_holder("a"));
    // The lock changes hands between the look and the act.
    a.stop().await;
    let token = b.holds().await;
    let row = world.row(LOCK);
    for act in [
        meant.clone(),
        table.evict(LOCK).if_token(before),
        meant.clone().at_once(),
        meant.clone().to("c"),
        meant.if_token(before),
        table.evict(LOCK).if_holder("b").if_token(before).at_once(),
        table.evict(LOCK).if_holder("a").if_token(token),
    ] {
        let refused = act.await.unwrap_err();
        assert!(refused.is_other_term() && !refused.is_retryable(), "{refused}");
        let says = format!("lock `{LOCK}`: held by `b` under token {token}, not ");
        assert!(refused.to_string().starts_with(&says), "{refused}");
        assert!(refused.to_string().ends_with("; nothing was done"), "{refused}");
    }
    assert_eq!(world.row(LOCK).map(|row| row.token), row.map(|row| row.token));
    let both = table.evict(LOCK).if_holder("a").if_token(before).await.unwrap_err().to_string();
    assert!(both.contains(&format!("not by `a` under token {before};")), "{both}");

    let evicted =
        table.evict(LOCK).if_holder("b").if_token(token).at_once().await.unwrap().unwrap();
    assert_eq!((&*evicted.holder, evicted.token), ("b", token));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_holds_is_nobodys_term() {
    let world = World::start().await;
    let table = world.table();
    let text = |refused: spindle::Error| refused.to_string();
    let never_held = table.evict(LOCK).if_holder("a").to("b").await.map_err(text);
    let says =
        format!("lock `{LOCK}`: held by nobody, without a row, not by `a`; nothing was done");
    assert_eq!(never_held.unwrap_err(), says);
    let a = world.elect("a").await;
    a.stop().await;
    let token = table.inspect(LOCK).await.unwrap().token.unwrap();
    let released = table.evict(LOCK).if_holder("a").await.map_err(text);
    assert!(
        released.unwrap_err().contains(&format!("held by nobody under token {token}, not by `a`"))
    );
    // The token of a release is as good as any other.
    assert_eq!(table.evict(LOCK).if_token(token).to("b").await.unwrap(), None);
    let holding = table.inspect(LOCK).await.unwrap().holding;
    assert!(matches!(holding, Holding::Promised { to, .. } if to == "b"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_an_eviction_is_said_to_be_unknown() {
    let world = World::start().await;
    let a = world.elect("a").await;
    world.crash(&a).await;
    let table = world.table();
    let fault = Fault::on(Rpc::Commit).table("locktable").effect(Effect::LoseReply);
    let lost = world.spanner.inject(fault);
    // The crashed holder's requests are stalled before they get here.
    let unknown = table.evict(LOCK).await.unwrap_err();
    lost.remove();
    assert!(unknown.is_outcome_unknown(), "{unknown}");
    assert_eq!(table.inspect(LOCK).await.unwrap().holding, Holding::Evicted);
}

#[tokio::test(start_paused = true)]
async fn no_call_ends_because_another_transaction_aborted_it() {
    let world = World::start().await;
    let abort = || {
        let fault = Fault::on(Rpc::Commit).table("locktable").times(2).effect(Effect::Abort);
        world.spanner.inject(fault)
    };
    let table = world.table();
    let reads = Fault::on(Rpc::StreamingRead).table("locktable");
    let aborted = world.spanner.inject(reads.clone().times(6).effect(Effect::Abort));
    table.check().await.unwrap();
    assert_eq!(aborted.hits(), 6);
    // Without an end it is told, after the limit of a request.
    let aborted = world.spanner.inject(reads.effect(Effect::Abort));
    let (checked, took) = timed(table.check()).await;
    let told = checked.unwrap_err().to_string();
    assert!(told.contains("ABORTED"), "{told}");
    assert!(took >= Duration::from_secs(5), "after {took:?}");
    aborted.remove();

    world.elect("a").await.stop().await;
    world.write(of_peer("gone_1500000000000000000", None, "2019-01-01T00:00:00Z")).await;
    let aborted = abort();
    assert!(!table.remove("gone").await.unwrap());
    assert_eq!((aborted.hits(), world.names()), (2, vec![LOCK.to_string()]));
    let aborted = abort();
    assert!(table.remove(LOCK).await.unwrap());
    assert_eq!(aborted.hits(), 2);
}
