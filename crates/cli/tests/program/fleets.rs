//! The rows of fleets, as what they are: members, shards, permits, readers and writers.

use std::time::Duration;

use serde_json::Value;
use spindle::{CancellationToken, Database, LockTable};
use spindle_fleet::{Member, RwLock, Semaphore};
use tokio::time::timeout;

use crate::agent::agent;
use crate::big_table;
use crate::http::Server;
use crate::world::{DATABASE, TIME_LIMIT, World, until};

const SHARDS: usize = 8;

/// Longer than any machine stands still.
const LEASE: Duration = Duration::from_secs(120);

/// A fleet of one member with eight shards, a permit that is used, and a lock that somebody reads
/// while somebody waits to write.
pub async fn fleet(world: &World) -> (CancellationToken, spindle_fleet::Permit) {
    let cancel = CancellationToken::new();
    let member =
        Member::new(&world.table, "orders").id("node-1").lease(LEASE).info("http://10.0.0.7");
    let member = member.build().unwrap();
    tokio::spawn(member.run(cancel.clone()));
    let (shards, end) = (member.shards("emails", SHARDS), cancel.clone());
    let task = |shard: spindle_fleet::Shard| async move { shard.cancelled().await };
    tokio::spawn(async move { shards.run(end, task).await });
    let semaphore = Semaphore::new(&world.table, "api", 3).lease(LEASE).build().unwrap();
    let permit = semaphore.acquire().await.unwrap();
    let now = world.emulator.clock().now();
    let row = |name, id| big_table::held_row(now, name, id, None);
    world.apply(&[row("spindle:rw:jobs", "node-2"), row("spindle:rw:jobs/node-3", "node-3")]).await;
    world.write(&[("billing", Some("node-1"))]).await;
    until("all shards are held", async || {
        let ran = world.run(&["ls", "spindle:shard:"]).await;
        ran.out.matches(" held ").count() == SHARDS
    })
    .await;
    (cancel, permit)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fleet_is_one_line_of_ls_and_a_command_shows_its_rows() {
    let world = World::start().await;
    let _fleet = fleet(&world).await;
    let ls = world.ok(&["ls"]).await;
    // The head, the lock, members, who shares, shards, permits, readers and writers.
    assert_eq!(ls.lines().count(), 7, "{ls}");
    let line = ls.lines().find(|line| line.starts_with("spindle:shard:orders/emails ")).unwrap();
    assert!(line.contains("node-1") && line.contains("8 of 8 held"), "{ls}");
    assert!(line.ends_with("spindle shards orders/emails"), "{ls}");
    assert_eq!(world.ok(&["ls", "--all"]).await.lines().count(), 1 + 1 + 1 + 1 + 8 + 1 + 2);
    assert_eq!(world.ok(&["ls", "spindle:permit:"]).await.lines().count(), 2);
    let json = world.json(&["ls"]).await;
    let fleets: Vec<&Value> = json.as_array().unwrap().iter().map(|row| &row["fleet"]).collect();
    assert_eq!(fleets.len(), 14, "JSON has each row: {json}");
    assert_eq!((fleets[0], fleets[1]), (&Value::Null, &"spindle:member:orders".into()));

    for members in [world.ok(&["members"]).await, world.ok(&["members", "orders"]).await] {
        let line = members.lines().nth(1).unwrap();
        assert!(line.starts_with("orders  node-1  "), "{members}");
        assert!(line.ends_with("http://10.0.0.7"), "{members}");
    }
    let shards = world.ok(&["shards", "orders/emails"]).await;
    assert_eq!(shards.lines().nth(1), Some("node-1  1       8      0-7"), "{shards}");
    assert!(world.ok(&["shards"]).await.contains("8 of 8 held"));
    let permits = world.run(&["permits", "api"]).await.complains("1 used");
    assert_eq!(permits.ends(0).out.lines().count(), 2);
    let readers = world.ok(&["readers", "jobs"]).await;
    let lines: Vec<&str> = readers.lines().collect();
    assert!(lines[1].starts_with("gate    -       node-2  waiting"), "{readers}");
    assert!(lines[2].starts_with("reader  node-3  node-3  held"), "{readers}");
    // An evicted reader may read on until its lease has run out.
    world.ok(&["evict", "spindle:rw:jobs/node-3", "--yes"]).await;
    let readers = world.ok(&["readers", "jobs"]).await;
    assert!(readers.lines().nth(1).unwrap().contains("node-2  waiting"), "{readers}");
    assert!(readers.lines().nth(2).unwrap().contains("evicted"), "{readers}");

    for half in ["emails", "orders"] {
        let ran = world.run(&["shards", half]).await;
        ran.ends(2).complains("GROUP/NAME").complains("`spindle shards`");
    }
    for nothing in [["members", "x"], ["shards", "x/y"], ["permits", "x"], ["readers", "job"]] {
        world.run(&nothing).await.ends(1).complains("spindle ls spindle:");
    }
}

/// All members have left, so that nobody carries the moves out meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_is_moved_to_another_count_and_shards_shows_the_move() {
    let world = World::start().await;
    let (cancel, _permit) = fleet(&world).await;
    cancel.cancel();
    until("all shards are given up", async || {
        !world.run(&["ls", "spindle:shard:"]).await.out.contains(" held ")
    })
    .await;
    let resize =
        async |to: &str| world.run(&["shards", "orders/emails", "--yes", "--resize", to]).await;
    let same = resize("8").await.ends(0).out;
    assert!(same.contains("`orders/emails`: the group shares 8"), "{same}");
    let moved = resize("12").await.ends(0).out;
    assert!(moved.contains("12, once those of 8 are given up"), "{moved}");
    let ran = world.run(&["shards", "orders/emails"]).await;
    let shown = ran.complains("12, once those of 8 are given up");
    assert!(shown.ends(0).out.contains("the move waits until all shards are given up"));
    resize("9").await.ends(1).complains("9 asked for, but the group shares 12");
    resize("0").await.ends(2);
    let ran = world.run(&["shards", "x/y", "--yes", "--resize", "4"]).await;
    ran.ends(1).complains("no member has shared them yet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_while_anybody_reads_and_writes_then() {
    let world = World::start().await;
    // A process does not write where it reads: each has a table of its own, as processes have.
    let process = |id| {
        let endpoint = world.emulator.endpoint();
        let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
        RwLock::new(&table, "jobs").id(id).lease(LEASE).build().unwrap()
    };
    let (reader, writer) = (process("node-3"), process("node-2"));
    let readers = async || world.json(&["readers", "jobs"]).await;
    let reading = reader.read().await.unwrap();
    let alone = readers().await;
    assert_eq!(alone.as_array().unwrap().len(), 1, "{alone}");
    assert_eq!((&alone[0]["role"], &alone[0]["state"]), (&"reader".into(), &"held".into()));
    assert_eq!(alone[0]["holder"], "node-3");

    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    until("the writer waits", async || readers().await[0]["role"] == "gate").await;
    let both = readers().await;
    assert_eq!(both.as_array().unwrap().len(), 2, "{both}");
    assert_eq!((&both[0]["holder"], &both[0]["state"]), (&"node-2".into(), &"waiting".into()));
    assert_eq!(both[0]["next"], "waits until no reader is left (1 now), and writes then");
    assert_eq!((&both[1]["role"], &both[1]["state"]), (&"reader".into(), &"held".into()));
    let table = world.ok(&["readers", "jobs"]).await;
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][..4], ["gate", "-", "node-2", "waiting"], "{table}");
    assert_eq!([lines[2][0], lines[2][2], lines[2][3]], ["reader", "node-3", "held"], "{table}");
    assert!(lines[2][1].starts_with("node-3-"), "the row's name has a nonce: {table}");
    // No command takes it for a holder.
    let gate = "spindle:rw:jobs";
    world.run(&["who", gate]).await.ends(1).says_only("");
    let told = agent(&world, &[]).await.json(&format!("/v1/leader?lock={gate}")).await;
    assert_eq!(told["state"], "waiting", "{told}");
    let shown = world.ok(&["show", gate]).await;
    assert!(shown.contains("state       waiting\ncontender   node-2\n"), "{shown}");
    assert!(shown.contains("next        waits until no reader is left (1 now)"), "{shown}");
    let ls = world.ok(&["ls"]).await;
    assert!(ls.contains("spindle:rw:jobs  node-3  1 of 2 held, 1 waiting  "), "{ls}");
    let json_lines = world.ok(&["ls", "-o", "jsonl"]).await;
    assert!(json_lines.starts_with(r#"{"name":"spindle:rw:jobs","#), "{json_lines}");
    assert!(json_lines.lines().next().unwrap().contains(r#""state":"waiting""#), "{json_lines}");

    let _ = reading.release().await;
    let guard = timeout(TIME_LIMIT, writing).await.unwrap().unwrap();
    let both = readers().await;
    assert_eq!(both.as_array().unwrap().len(), 2, "a reader's row goes with it: {both}");
    for (at, role) in ["gate", "writer"].into_iter().enumerate() {
        let shown = (&both[at]["role"], &both[at]["holder"], &both[at]["state"]);
        assert_eq!(shown, (&role.into(), &"node-2".into(), &"held".into()));
    }
    assert_eq!(world.ok(&["who", gate]).await, "node-2\n");
    let _ = guard.release().await;
    let released = readers().await;
    assert_eq!((&released[0]["role"], &released[0]["state"]), (&"gate".into(), &"released".into()));
}

#[tokio::test]
async fn a_table_without_fleets_is_said_to_have_none() {
    let world = World::start().await;
    for (command, what) in [
        ("members", "live members"),
        ("shards", "shards"),
        ("permits", "permits"),
        ("readers", "readers and writers"),
    ] {
        let ran = world.run(&[command]).await.ends(0).says_only("");
        assert_eq!(ran.err, format!("no {what} in table `locktable`\n"));
        assert_eq!(world.ok(&[command, "-o", "json"]).await.trim(), "[]");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_is_one_series_of_each_metric_and_its_value_is_how_many_are_held() {
    let world = World::start().await;
    let _fleet = fleet(&world).await;
    let server = Server::start(&world, &[]).await;
    let scraped = server.get("/metrics").await.body;
    for (fleet, held) in
        [("shard:orders/emails", SHARDS), ("member:orders", 1), ("permit:api", 1), ("rw:jobs", 1)]
    {
        let line = format!("spindle_table_lock_held{{lock=\"spindle:{fleet}\"}} {held}\n");
        assert!(scraped.contains(&line), "{line}: {scraped}");
    }
    let series =
        scraped.lines().filter(|line| line.starts_with("spindle_table_lock_held{")).count();
    assert_eq!(series, 6, "the lock, and five fleets: {scraped}");
}
