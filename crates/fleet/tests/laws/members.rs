//! Members of a group: who is there, as anyone sees it.

use std::time::Duration;

use spindle::{CancellationToken, LockTable, RunHandle};
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::{Builder, Member};
use spindle_fleet::{Members, RwLock, Semaphore};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::log::Log;
use crate::world::{EVENTUALLY, LEASE, NOW, World, cells, timed, until};

struct Joined {
    member: Member,
    cancel: CancellationToken,
    running: RunHandle,
}

async fn join(world: &World, id: &str) -> Joined {
    Joined::run(world.member(id).info(format!("http://{id}"))).await
}

impl Joined {
    async fn run(builder: Builder<Member>) -> Joined {
        let joins = Joined::start(builder);
        joins.is_live().await;
        joins
    }

    fn start(builder: Builder<Member>) -> Joined {
        let (member, cancel) = (builder.build().unwrap(), CancellationToken::new());
        let running = member.run(cancel.clone());
        Joined { member, cancel, running }
    }

    async fn is_live(&self) {
        until("it is a member", || self.member.token()).await;
    }

    async fn leave(self) {
        self.cancel.cancel();
        timeout(EVENTUALLY, self.running).await.expect("it leaves").unwrap();
    }
}

async fn ids(table: &LockTable) -> Vec<String> {
    Members::new(table, "orders")
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|member| member.id)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn members_are_seen_while_they_live_and_leave_no_row() {
    let world = World::start().await;
    let table = world.table();
    let (a, b) = (join(&world, "a").await, join(&world, "b").await);
    let members = a.member.members().await.unwrap();
    let said: Vec<_> = members.iter().map(|it| (&*it.id, it.info.as_deref())).collect();
    assert_eq!(said, [("a", Some("http://a")), ("b", Some("http://b"))]);
    assert_eq!(Some(members[0].token), a.member.token());
    sleep(LEASE * 3).await;
    assert_eq!(ids(&table).await, ["a", "b"], "they are renewed");

    b.leave().await;
    assert_eq!(ids(&table).await, ["a"]);
    a.leave().await;
    assert_eq!(world.names(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_crashed_is_shown_until_its_lease_is_over_and_watching_joins_nothing() {
    let world = World::start().await;
    let (_a, _b) = (join(&world, "a").await, join(&world, "b").await);
    let mut watch = Members::new(&world.table(), "orders");
    assert_eq!(watch.next().await.unwrap().len(), 2);
    // From here on Spanner hears nothing of either.
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let (left, took) = timed(watch.next()).await;
    assert!(left.unwrap().len() < 2);
    assert!((LEASE / 2..=LEASE + Duration::from_secs(2)).contains(&took), "{took:?}");
    assert_eq!(world.names().len(), 2, "nothing was written by watching");
}

/// By its own lease, be that shorter than the default or longer, and also where the table has no room
/// for it.
#[tokio::test(start_paused = true)]
async fn a_member_is_shown_for_its_own_lease() {
    let second = Duration::from_secs(1);
    let world = World::start().await;
    let _brief = Joined::run(world.member("a").lease(second)).await;
    let mut watch = Members::new(&world.table(), "orders");
    assert_eq!(watch.next().await.unwrap().len(), 1);
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let (left, took) = timed(watch.next()).await;
    assert!(left.unwrap().is_empty() && took <= second * 3, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn watching_costs_one_read_a_poll_however_many_members_there_are() {
    let world = World::start().await;
    let table = world.table();
    let row = |n| {
        let (name, writer) =
            (format!("spindle:member:orders/m{n}"), format!("m{n}#000000000000feed-1"));
        let held =
            [("heartbeat", NOW), ("token", NOW), ("writer", &writer), ("lease_ms", "600000")];
        cells(&name, &held)
    };
    world.write_all((0..50).map(row)).await;
    assert_eq!(ids(&table).await.len(), 50);
    let requests = world.spanner.requests();
    requests.reset();
    let mut watch = Members::new(&table, "orders");
    watch.next().await.unwrap();
    let waiting = timeout(Duration::from_secs(10), watch.next());
    assert!(waiting.await.is_err(), "nothing changes");
    assert!((10..=11).contains(&requests.total()), "{:?}", requests.each());
}

#[tokio::test(start_paused = true)]
async fn of_two_with_one_id_one_is_a_member_at_a_time() {
    let world = World::start().await;
    let first = join(&world, "a").await;
    let second = Joined::start(world.member("a"));
    sleep(LEASE * 3).await;
    assert!(first.member.token().is_some() && second.member.token().is_none());
    first.leave().await;
    second.is_live().await;
    assert_eq!(ids(&world.table()).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_with_one_id_the_second_says_so_after_a_lease_in_log_and_health() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let first = join(&world, "a").await;
    let second = Joined::start(world.member("a"));
    sleep(LEASE / 2).await;
    assert!(second.member.health().trouble.is_none(), "it may be a former life that dies");
    sleep(LEASE * 5).await;
    let told = log.the("two instances have the same id");
    assert!(told.level == Level::WARN && told.says("group `orders`: id `a`"), "{told:?}");
    let health = second.member.health();
    assert!(!health.is_ready() && health.is_alive(), "{health:?}");
    let trouble = health.trouble.unwrap().error.to_string();
    assert!(trouble.contains("another live member has this id"), "{trouble}");
    assert!(first.member.health().is_ready(), "{:?}", first.member.health());
    first.leave().await;
    second.is_live().await;
    assert!(second.member.health().is_ready(), "{:?}", second.member.health());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_under_its_id_before_its_lease_is_over_warns_of_nobody() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let (crashed, session) = world.known(|| Joined::start(world.member("a"))).await;
    crashed.is_live().await;
    world.cut_off(&session);
    let back = join(&world, "a").await;
    sleep(LEASE * 3).await;
    assert_eq!(log.saying("the same id").len(), 0, "{:#?}", log.lines());
    assert!(back.member.health().is_ready(), "{:?}", back.member.health());
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_member_that_is_long_gone_is_deleted_by_another() {
    let world = World::start().await;
    let lost = join(&world, "a").await;
    let key = "spindle:member:orders/a".to_string();
    // Its process ends without a word.
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    drop(lost);
    sleep(LEASE * 2).await;
    world.spanner.clear_faults();
    assert!(world.names().contains(&key));
    let _other = join(&world, "b").await;
    sleep(Duration::from_secs(1_200)).await;
    assert_eq!(world.names(), ["spindle:member:orders/b"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_says_first_of_what_the_rows_could_not_be_read() {
    let world = World::start().await;
    let table = world.table();
    assert!(Members::new(&table, "orders").list().await.unwrap().is_empty());
    world.spanner.inject(Fault::on(Rpc::StreamingRead));
    let error = Members::new(&table, "orders").list().await.unwrap_err().to_string();
    assert!(error.starts_with("group `orders`: read its rows"), "{error}");
    let permits = Semaphore::new(&table, "uploads", 5).build().unwrap();
    let error = permits.available().await.unwrap_err().to_string();
    assert!(error.starts_with("semaphore `uploads`: read its rows"), "{error}");
    let catalogue = RwLock::new(&table, "catalogue").build().unwrap();
    let error = catalogue.try_write().await.unwrap_err().to_string();
    assert!(error.starts_with("readers and writers' lock `catalogue`: read its rows"), "{error}");
    let error = table.list().next().await.unwrap_err().to_string();
    assert!(error.starts_with("table `locktable`: read its rows"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_no_watch_can_have_is_refused() {
    let world = World::start().await;
    for interval in [Duration::ZERO, Duration::from_secs(86_401), Duration::MAX] {
        let mut watch = Members::new(&world.table(), "orders").interval(interval);
        let refused = watch.next().await.unwrap_err();
        assert!(refused.is_config() && refused.to_string().contains("interval"), "{refused}");
        assert!(watch.list().await.unwrap().is_empty(), "a single look needs none");
    }
}

#[tokio::test]
async fn names_that_reach_into_another_key_are_refused() {
    let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    let refused = |builder: Builder<Member>| {
        let error = builder.build().unwrap_err();
        assert!(error.is_config(), "{error}");
        error.to_string()
    };
    assert!(refused(Member::new(&table, "a/b")).contains("group \"a/b\""));
    assert!(refused(Member::new(&table, "")).contains("group"));
    assert!(refused(Member::new(&table, "a").id("x/y")).contains("member id \"x/y\""));
    assert!(refused(Member::new(&table, "a").id("x\ny")).contains("member id"));
    assert!(refused(Member::new(&table, "a").id("x_1795000000123456000")).contains("reserved"));
    let reserved = table.lock("spindle:member:a/b").build().unwrap_err();
    assert!(reserved.is_config() && reserved.to_string().contains("reserved"), "{reserved}");
}
