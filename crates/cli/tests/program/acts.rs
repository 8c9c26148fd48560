//! The commands that change something: `init`, `evict`, `seize`, `resign-to`, `rm`.

use std::time::Duration;

use spindle::{Database, Holding, LockTable};

use crate::world::{DATABASE, FOUR_COLUMNS, World, until};

/// Longer than a busy machine stands still; a holder hears of its eviction within half of it.
const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn nothing_is_changed_that_nobody_confirmed() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    let token = held.lock.has_lock().unwrap();
    let acts: [&[&str]; 4] = [
        &["evict", "billing"],
        &["seize", "billing"],
        &["resign-to", "billing", "b"],
        &["rm", "billing"],
    ];
    for act in acts {
        world.run(act).await.ends(6).complains("--yes");
    }
    assert_eq!(held.lock.verify().await.unwrap(), token);
}

#[tokio::test]
async fn an_evicted_holder_is_named_and_learns_of_it() {
    let world = World::start().await;
    // It hears of it with its next heartbeat.
    let held = world.hold("billing", "node-1", LEASE / 3).await;
    let token = held.lock.has_lock().unwrap();
    let evict = ["evict", "billing", "--yes", "--by", "alice", "--reason", "bad deploy"];
    world.run(&evict).await.ends(0).says("node-1").says(&token.to_string());
    world.run(&["show", "billing"]).await.says("evicted by alice: bad deploy");
    world.run(&["history", "billing"]).await.says("evicted by alice: bad deploy");
    until("the holder hears of it", async || held.lock.has_lock() != Some(token)).await;
    assert!(world.json(&["evict", "billing", "--yes"]).await["deposed"].is_null());
}

#[tokio::test]
async fn a_reason_that_is_too_long_is_not_repeated_whole() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let reason = "x".repeat(9_000);
    let ran = world.run(&["evict", "billing", "--yes", "--by", "a", "--reason", &reason]).await;
    assert!(ran.err.len() < 500, "{}", ran.err.len());
    ran.ends(2).complains("of 9014 bytes").complains("more than 1000 bytes");
    assert!(world.is_held("billing").await);
}

#[tokio::test]
async fn a_lock_can_be_seized_for_one_contender() {
    let world = World::start().await;
    let a = world.hold("billing", "node-1", LEASE).await;
    let b = world.table.lock("billing").id("node-2").lease(LEASE).build().unwrap();
    let _running = b.run(spindle::CancellationToken::new());
    let why = ["--by", "alice", "--reason", "node-1 hangs"];
    world.run(&[&["resign-to", "billing", "node-2", "--yes"], &why[..]].concat()).await.ends(0);
    until("node-2 holds", async || b.has_lock().is_some()).await;
    world.run(&["history", "billing"]).await.says("seized by alice: node-1 hangs");
    world.run(&["seize", "billing", "--yes"]).await.says("node-2");
    a.release().await;
}

#[tokio::test]
async fn no_act_hits_another_term_than_the_one_that_was_named() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    let token = held.lock.has_lock().unwrap();
    for act in [&["evict", "billing"][..], &["seize", "billing"], &["resign-to", "billing", "b"]] {
        for (option, other) in [("--if-holder", "node-2"), ("--if-token", "42")] {
            let ran = world.run(&[act, &["--yes", option, other]].concat()).await.ends(1);
            ran.complains(&format!("held by `node-1` under token {token}, not")).complains(other);
        }
    }
    assert_eq!(held.lock.verify().await.unwrap(), token);
    let meant = ["--if-holder", "node-1", "--if-token", &token.to_string()];
    world.run(&[&["seize", "billing", "--yes"], &meant[..]].concat()).await.ends(0).says("node-1");
}

#[tokio::test]
async fn init_makes_a_table_that_works_and_says_so_when_it_was_there() {
    let world = World::with("").await;
    let admin = world.emulator.rest_endpoint();
    let init = ["init", "--table", "jobs", "--admin-endpoint", &admin];
    world.run(&init).await.ends(0).says("`jobs`: made");
    let jobs = LockTable::new(Database::at(world.emulator.endpoint(), DATABASE), "jobs");
    jobs.check().await.unwrap();
    world.run(&init).await.says("was there already");
}

#[tokio::test]
async fn init_adds_the_columns_that_an_old_table_lacks() {
    let world = World::with(FOUR_COLUMNS).await;
    let alter = "ALTER TABLE locktable ADD COLUMN lease_ms INT64";
    world.run(&["doctor"]).await.ends(1).says("no column `lease_ms`").says(alter);
    // Each command ends at once, with the code of a table that is wrong.
    for command in [&["ls"][..], &["show", "billing"], &["evict", "billing", "--yes"]] {
        world.run(command).await.ends(4).complains(alter).complains("`spindle init`");
    }
    world.run(&["run", "billing", "--", "true"]).await.ends(125).complains(alter);
    let admin = world.emulator.rest_endpoint();
    world
        .run(&["init", "--admin-endpoint", &admin])
        .await
        .says("added lease_ms, info, displaced, next");
    let held = world.hold("billing", "node-1", LEASE).await;
    assert_eq!(world.table.inspect("billing").await.unwrap().lease, Some(LEASE));
    held.release().await;
}

#[tokio::test]
async fn the_statements_that_ddl_prints_make_a_table_of_the_name_that_was_asked_for() {
    let world = World::with("").await;
    let ran = world.run(&["ddl", "--table", "jobs"]).await;
    assert!(ran.out.ends_with(")\n"), "a whole line: {ran:?}");
    world.emulator.create_database("projects/p/instances/i/databases/e", &ran.out).await.unwrap();
    let elsewhere = "projects/p/instances/i/databases/e";
    let jobs = LockTable::new(Database::at(world.emulator.endpoint(), elsewhere), "jobs");
    jobs.check().await.unwrap();
    let upgrade = world.run(&["ddl", "--upgrade", "--table", "jobs"]).await.out;
    assert!(upgrade.contains("ALTER TABLE jobs ADD COLUMN lease_ms"), "{upgrade}");
    assert!(world.run(&["ddl", "--postgresql"]).await.out.contains("SPANNER.COMMIT_TIMESTAMP"));
}

#[tokio::test]
async fn a_row_is_removed_once_nobody_holds_and_not_before() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    world.run(&["rm", "billing", "--yes"]).await.ends(1).complains("spindle evict");
    held.lock.verify().await.unwrap();
    held.release().await;
    world.run(&["rm", "billing", "--yes"]).await.ends(0);
    assert_eq!(world.table.inspect("billing").await.unwrap().holding, Holding::NeverHeld);
    world.run(&["rm", "billing", "--yes"]).await.says("there is no row");
}
