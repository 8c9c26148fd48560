//! `ls`, `show`, `who`, `watch` and `doctor`.

use std::time::Duration;

use serde_json::Value;
use spindle_emulator::engine::{Mutation, WriteKind};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::world::{DATABASE, TIME_LIMIT, World, until};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn ls_shows_each_lock_with_its_holder_in_every_form() {
    let world = World::start().await;
    let billing = world.hold("billing", "node-1", LEASE).await;
    world.hold("mail", "node-2", LEASE).await.release().await;

    let table = world.run(&["ls"]).await;
    assert_eq!(table.code, Some(0), "{table:?}");
    let lines: Vec<_> = table.out.lines().collect();
    assert!(lines[0].starts_with("LOCK"), "{table:?}");
    assert!(lines[1].starts_with("billing  node-1  held"), "{table:?}");
    assert!(lines[2].starts_with("mail     -       released"), "{table:?}");
    assert!(!table.out.contains('\x1b'), "no colour goes into a pipe: {table:?}");

    let json: Value = serde_json::from_str(&world.run(&["ls", "-o", "json"]).await.out).unwrap();
    assert_eq!(json[0]["holder"], "node-1");
    let token = billing.lock.has_lock().unwrap().to_string();
    assert_eq!(json[0]["token"], Value::String(token));
    assert_eq!((&json[0]["lease_ms"], &json[0]["info"]), (&30_000.into(), &"10.0.0.7".into()));
    assert_eq!((&json[1]["state"], &json[1]["holder"]), (&"released".into(), &Value::Null));

    let lines = world.run(&["ls", "ma", "-o", "jsonl"]).await.out;
    assert_eq!(lines.lines().count(), 1);
    let line: Value = serde_json::from_str(lines.trim()).unwrap();
    assert_eq!(line["name"], "mail");
}

#[tokio::test]
async fn who_is_one_word_or_an_exit_code() {
    let world = World::start().await;
    let vacant = world.run(&["who", "billing"]).await;
    assert_eq!((vacant.code, vacant.out.as_str()), (Some(1), ""));
    let _held = world.hold("billing", "node-1", LEASE).await;
    let held = world.run(&["who", "billing"]).await;
    assert_eq!((held.code, held.out.as_str()), (Some(0), "node-1\n"));
}

#[tokio::test]
async fn show_says_what_keeps_the_next_contender_out() {
    let world = World::start().await;
    let never = world.run(&["show", "billing"]).await;
    assert!(never.out.contains("never held") && never.out.contains("at once"), "{never:?}");
    let held = world.hold("billing", "node-1", LEASE).await;
    let shown = world.run(&["show", "billing"]).await;
    assert!(shown.out.contains("holder      node-1"), "{shown:?}");
    assert!(shown.out.contains("lease       30s"), "{shown:?}");
    assert!(shown.out.contains("waits until no heartbeat has come"), "{shown:?}");
    held.lock.resign_to("node-2").await.unwrap();
    let promised = world.run(&["show", "billing"]).await;
    assert!(promised.out.contains("reserved for node-2"), "{promised:?}");
    assert!(promised.out.contains("unless it is `node-2`"), "{promised:?}");
}

#[tokio::test]
async fn watch_prints_each_change_as_a_line_into_a_pipe() {
    let world = World::start().await;
    let mut child = world.program(&["watch", "--interval", "100ms"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = async || timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
    let held = world.hold("billing", "node-1", LEASE).await;
    assert!(line().await.contains("billing: held by node-1, token "));
    held.release().await;
    assert!(line().await.contains("billing: released"));
    // And no line where nothing has changed.
    let _mail = world.hold("mail", "node-2", LEASE).await;
    assert!(line().await.contains("mail: held by node-2"));
}

#[tokio::test]
async fn doctor_finds_nothing_wrong_with_a_healthy_table() {
    let world = World::start().await;
    let _held = world.hold("billing", "node-1", LEASE).await;
    let ran = world.run(&["doctor"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for subject in ["database", "table", "latency", "clock", "heartbeats", "holders"] {
        assert!(ran.out.contains(subject), "{subject}: {ran:?}");
    }
    assert!(!ran.out.contains("bad"), "{ran:?}");
}

#[tokio::test]
async fn doctor_says_what_is_wrong_and_how_to_cure_it() {
    let world = World::with("").await;
    let ran = world.run(&["doctor"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("bad") && ran.out.contains("spindle init"), "{ran:?}");

    let world = World::start().await;
    let database = world.emulator.database(DATABASE).unwrap();
    let row = |name: &str, writer: &str| {
        let now = world.emulator.clock().now();
        let cells = [("name", name.into()), ("writer", writer.into()), ("token", now.into())];
        Mutation::write(WriteKind::Insert, "locktable", cells)
    };
    database
        .apply(&[
            row("go", "10.0.0.7"),
            row("x_1500000000000000000", "a"),
            row("y_1500000000000000000", "a"),
        ])
        .await
        .unwrap();
    let ran = world.run(&["doctor"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("others hold `go`"), "{ran:?}");
    assert!(ran.out.contains("there are 2") && ran.out.contains("spindle sweep"), "{ran:?}");
}

#[tokio::test]
async fn history_tells_each_term_and_draws_them() {
    let world = World::start().await;
    world.hold("billing", "node-1", LEASE).await.release().await;
    let _held = world.hold("billing", "node-2", LEASE).await;
    let ran = world.run(&["history", "billing", "-o", "json"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json[0]["holder"], &json[0]["cause"]), (&"node-2".into(), &Value::Null));
    assert_eq!((&json[1]["holder"], &json[1]["cause"]), (&"node-1".into(), &"released".into()));
    assert!(json[0]["vacancy_ms"].is_u64() && json[1]["vacancy_ms"].is_null(), "{json}");
    assert!(ran.err.contains("no row"), "{ran:?}");
    let none = world.run(&["history", "nothing"]).await;
    assert_eq!((none.code, none.out.as_str()), (Some(1), ""), "{none:?}");
    assert!(none.err.contains("lock `nothing`: no term is known"), "{none:?}");

    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("billing.svg");
    let ran = world.run(&["history", "billing", "--svg", file.to_str().unwrap()]).await;
    assert!(ran.out.contains("node-1") && ran.out.contains("released"), "{ran:?}");
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("node-2"), "{svg}");
    let ran = world.run(&["history", "billing", "--svg", "/nonexistent/billing.svg"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("cure: choose a file"), "{ran:?}");
}

#[tokio::test]
async fn a_watch_ends_on_ctrl_c_though_a_poll_is_under_way() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let mut child = world.program(&["watch", "--interval", "100ms"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().is_some());
    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    let before = world.emulator.requests().get(Rpc::StreamingRead);
    until("a poll is under way", async || {
        world.emulator.requests().get(Rpc::StreamingRead) > before
    })
    .await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = timeout(TIME_LIMIT, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_heartbeat_is_late_once_half_a_lease_and_an_attempt_are_over() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    // Of a lease of 300 s.
    world.emulator.advance(Duration::from_secs(165));
    let ran = world.run(&["doctor"]).await;
    assert!(ran.out.contains("no heartbeat is late"), "{ran:?}");
    world.emulator.advance(Duration::from_secs(60));
    let ran = world.run(&["doctor"]).await;
    assert!(ran.code == Some(1) && ran.out.contains("late: `billing`"), "{ran:?}");
}

#[tokio::test]
async fn show_says_that_a_name_may_be_mistyped() {
    let world = World::start().await;
    let ran = world.run(&["show", "biling"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("no row") && ran.err.contains("spindle ls"), "{ran:?}");
}

#[tokio::test]
async fn show_names_seize_where_a_dead_holder_has_a_long_lease() {
    let world = World::start().await;
    // Of five minutes.
    world.write(&[("billing", Some("node-1"))]).await;
    let ran = world.run(&["show", "billing"]).await;
    assert!(ran.out.contains("if the holder is dead, `spindle seize`"), "{ran:?}");
    world.emulator.advance(Duration::from_secs(290));
    let ran = world.run(&["show", "billing"]).await;
    assert!(ran.out.contains("not before") && !ran.out.contains("seize"), "{ran:?}");
}

#[tokio::test]
async fn the_history_of_a_four_column_table_is_told() {
    let four = "CREATE TABLE locktable (name STRING(MAX) NOT NULL, \
                heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true), \
                token TIMESTAMP OPTIONS (allow_commit_timestamp=true), \
                writer STRING(MAX)) PRIMARY KEY (name);";
    let world = World::with(four).await;
    let held = world.table.lock("billing").id("node-1").build().unwrap();
    drop(held.acquire().await.unwrap());
    let ran = world.run(&["history", "billing"]).await;
    assert!(ran.code == Some(0) && ran.out.contains("node-1"), "{ran:?}");
}
