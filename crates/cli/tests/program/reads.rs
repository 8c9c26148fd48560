//! `ls`, `show`, `who`, `watch` and `doctor`.

use std::time::Duration;

use serde_json::Value;
use spindle_emulator::engine::{Code, Mutation, Timestamp, WriteKind};
use spindle_emulator::{Effect, Fault, Restart, Rpc};

use crate::world::{DATABASE, World, bare, finish, stall_a_poll, until};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn ls_shows_each_lock_with_its_holder_in_every_form() {
    let world = World::start().await;
    let billing = world.hold("billing", "node-1", LEASE).await;
    world.hold("mail", "node-2", LEASE).await.release().await;

    let table = world.run(&["ls"]).await.ends(0);
    let lines: Vec<_> = table.out.lines().collect();
    assert!(lines[0].starts_with("LOCK"), "{table:?}");
    assert!(lines[1].starts_with("billing  node-1  held"), "{table:?}");
    assert!(lines[2].starts_with("mail     -       released"), "{table:?}");
    assert!(!table.out.contains('\x1b'), "no colour goes into a pipe: {table:?}");

    let json = world.json(&["ls"]).await;
    assert_eq!(json[0]["holder"], "node-1");
    let token = billing.lock.has_lock().unwrap().to_string();
    assert_eq!(json[0]["token"], Value::String(token));
    assert_eq!((&json[0]["lease_ms"], &json[0]["info"]), (&30_000.into(), &"10.0.0.7".into()));
    assert_eq!((&json[1]["state"], &json[1]["holder"]), (&"released".into(), &Value::Null));

    let lines = world.run(&["ls", "ma", "-o", "jsonl"]).await.out;
    assert_eq!(lines.lines().count(), 1);
    let line: Value = serde_json::from_str(lines.trim()).unwrap();
    assert_eq!(line["name"], "mail");

    let wide = world.run(&["ls", "-o", "wide"]).await.says("TOKEN  ");
    assert!(wide.out.contains(&billing.lock.has_lock().unwrap().to_string()), "{wide:?}");
    world.run(&["ls", "-o", "name"]).await.says_only("billing\nmail\n");
    world.run(&["show", "mail", "-o", "name"]).await.says_only("mail\n");
    let yaml = world.run(&["ls", "-o", "yaml"]).await.says("- name: billing\n");
    yaml.says("  holder: node-1\n").says("  state: released\n");
}

#[tokio::test]
async fn ls_takes_one_state_and_sorts_and_a_lease_that_ran_out_has_a_last_holder() {
    let world = World::start().await;
    world.write(&[("a", Some("node-2")), ("b", Some("node-1")), ("c", None)]).await;
    world.run(&["ls", "--sort-by", "holder", "-o", "name"]).await.says_only("b\na\nc\n");
    world.run(&["ls", "--state", "released", "-o", "name"]).await.says_only("c\n");
    world.run(&["ls", "--state", "held", "--sort-by", "name", "-o", "jsonl"]).await.says("node-1");
    world.run(&["ls", "--state", "evicted"]).await.complains("and is evicted");
    world.run(&["ls", "--state", "broken"]).await.ends(2).complains("never_held");

    world.emulator.advance(LEASE * 10);
    let expired = world.json(&["show", "b"]).await;
    assert_eq!((&expired["holder"], &expired["last_holder"]), (&Value::Null, &"node-1".into()));
    world.run(&["show", "b"]).await.says("last holder node-1");
}

#[tokio::test]
async fn wait_ends_once_the_lock_is_as_it_was_asked_for_or_its_time_is_over() {
    let world = World::start().await;
    world.run(&["wait", "job", "--for", "free"]).await.ends(0).says("never held");
    let mut held = world.spawn(&["wait", "job", "--for", "held", "-o", "name"]);
    let mut meant = world.spawn(&["wait", "job", "--for", "holder=node-2", "-o", "name"]);
    let first = world.hold("job", "node-1", LEASE).await;
    assert_eq!(held.line().await, "job");
    held.end().await.ends(0);
    let late = world.run(&["wait", "job", "--for", "free", "--timeout", "1ms"]).await.ends(1);
    late.complains("--timeout 1ms is over");
    first.release().await;
    let _second = world.hold("job", "node-2", LEASE).await;
    assert_eq!(meant.line().await, "job");
    meant.end().await.ends(0);
    world.run(&["wait", "job", "--for", "gone"]).await.ends(2).complains("held, free or holder=ID");
}

#[tokio::test]
async fn a_wait_outlives_a_spanner_that_has_answered_once() {
    let world = World::start().await;
    world.write(&[("job", Some("node-1"))]).await;
    let fails = Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)).times(1);
    world.emulator.inject(fails.clone());
    world.run(&["wait", "job", "--for", "free"]).await.ends(3);
    let reads = || world.emulator.requests().get(Rpc::StreamingRead);
    let before = reads();
    let outage = world.emulator.inject(fails.skip(2).times(u64::MAX));
    let mut wait = world.spawn(&["wait", "job", "--for", "free", "-o", "json"]);
    let told: Value = serde_json::from_str(&wait.complaint().await).unwrap();
    assert_eq!(told["exit_code"], 3, "{told}");
    until("it has looked twice more", async || reads() >= before + 5).await;
    world.write(&[("job", None)]).await;
    world.emulator.restart(Restart::keep().lose_sessions()).await.unwrap();
    outage.remove();
    let ended = wait.end().await.ends(0).says("released");
    assert_eq!(ended.err, "", "one complaint a minute");
}

#[tokio::test]
async fn a_wait_for_a_writer_ends_once_the_last_reader_has_gone() {
    let world = World::start().await;
    let (gate, reader) = ("spindle:rw:jobs", "spindle:rw:jobs/node-3");
    world.write(&[(gate, Some("node-2")), (reader, Some("node-3"))]).await;
    let reads = || world.emulator.requests().get(Rpc::StreamingRead);
    let before = reads();
    let wait = world.spawn(&["wait", gate, "--for", "held"]);
    until("it has looked at both", async || reads() >= before + 3).await;
    world.write(&[(reader, None)]).await;
    wait.end().await.ends(0).says("held");
}

#[tokio::test]
async fn a_failure_is_told_in_the_form_of_the_output_and_within_its_time() {
    let world = World::start().await;
    for form in ["json", "jsonl"] {
        let failed = world.run(&["evict", "nobodys", "--yes", "-o", form]).await.ends(1);
        let told: Value = serde_json::from_str(&failed.err).unwrap();
        assert!(told["error"].as_str().unwrap().contains("it has no row"), "{told}");
        assert!(told["cure"].is_string() && told["exit_code"] == 1, "{told}");
    }
    let failed = world.run(&["evict", "nobodys", "--yes", "-o", "yaml"]).await.ends(1);
    failed.complains("exit_code: 1");
    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    world.run(&["ls", "--timeout", "200ms"]).await.ends(3).complains("--timeout 200ms is over");
    world.run(&["watch", "--timeout", "1s"]).await.ends(2).complains("until it is stopped");
}

#[tokio::test]
async fn the_help_of_a_command_has_its_own_options_first_and_says_what_a_name_is() {
    let help = finish(bare(&["evict", "--help"])).await.ends(0).says("Name of the lock");
    let at = |text: &str| help.out.find(text).unwrap_or_else(|| panic!("{text}: {}", help.out));
    assert!(at("\nOptions:") < at("--if-holder") && at("--if-holder") < at("\nGlobal options:"));
    assert!(at("\nGlobal options:") < at("--database"));
}

#[tokio::test]
async fn who_is_one_word_or_an_exit_code() {
    let world = World::start().await;
    world.run(&["who", "billing"]).await.ends(1).says_only("");
    let _held = world.hold("billing", "node-1", LEASE).await;
    world.run(&["who", "billing"]).await.ends(0).says_only("node-1\n");
}

#[tokio::test]
async fn show_says_what_keeps_the_next_contender_out() {
    let world = World::start().await;
    world.run(&["show", "billing"]).await.says("never held").says("at once");
    let held = world.hold("billing", "node-1", LEASE).await;
    let ran = world.run(&["show", "billing"]).await;
    ran.says("holder      node-1")
        .says("lease       30s")
        .says("waits until no heartbeat has come");
    held.lock.resign().to("node-2").await.unwrap();
    world.run(&["show", "billing"]).await.says("reserved for node-2").says("unless it is `node-2`");
}

#[tokio::test]
async fn show_says_who_waits_first_in_line_and_for_how_long() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    // As a contender of no rank writes that has waited for a minute and a half.
    let began = held.lock.has_lock().unwrap().as_nanoseconds();
    let place = format!("0 {} node-2#000000000000feed", began - 90_000_000_000);
    let cells = [("name", "billing".into()), ("next", place.as_str().into())];
    world.apply(&[Mutation::write(WriteKind::Update, "locktable", cells)]).await;
    world.run(&["show", "billing"]).await.says("in line     node-2 (for 1m");
    assert_eq!(world.json(&["show", "billing"]).await["next_in_line"], "node-2");
}

#[tokio::test]
async fn watch_prints_each_change_as_a_line_into_a_pipe() {
    let world = World::start().await;
    let mut watch = world.spawn(&["watch", "--interval", "100ms"]);
    let held = world.hold("billing", "node-1", LEASE).await;
    assert!(watch.line().await.contains("billing: held by node-1, token "));
    held.release().await;
    assert!(watch.line().await.contains("billing: released"));
    // And no line where nothing has changed.
    let _mail = world.hold("mail", "node-2", LEASE).await;
    assert!(watch.line().await.contains("mail: held by node-2"));
}

#[tokio::test]
async fn a_watch_tells_an_error_in_its_form_and_outlives_its_session() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let mut watch = world.spawn(&["watch", "--interval", "100ms", "-o", "json"]);
    watch.line().await;
    let fails = Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)).times(1);
    world.emulator.inject(fails);
    let told: Value = serde_json::from_str(&watch.complaint().await).unwrap();
    assert_eq!(told["exit_code"], 3, "{told}");
    world.emulator.restart(Restart::keep().lose_sessions()).await.unwrap();
    world.write(&[("billing", Some("node-2"))]).await;
    watch.says("node-2").await;
}

#[tokio::test]
async fn doctor_finds_nothing_wrong_with_a_healthy_table() {
    let world = World::start().await;
    let _held = world.hold("billing", "node-1", LEASE).await;
    let ran = world.run(&["doctor"]).await.ends(0);
    for subject in ["database", "table", "latency", "clock", "heartbeats", "holders"] {
        assert!(ran.out.contains(subject), "{subject}: {ran:?}");
    }
    assert!(!ran.out.contains("bad"), "{ran:?}");
}

#[tokio::test]
async fn doctor_says_what_is_wrong_and_how_to_cure_it() {
    let world = World::with("").await;
    world.run(&["doctor"]).await.ends(1).says("bad").says("spindle init");

    let world = World::start().await;
    let database = world.emulator.database(DATABASE).unwrap();
    let row = |name: &str, writer: &str| {
        let now = world.emulator.clock().now();
        let cells = [("name", name.into()), ("writer", writer.into()), ("token", now.into())];
        Mutation::write(WriteKind::Insert, "locktable", cells)
    };
    let displaced = Timestamp::from_nanos(1_500_000_000_000_000_000).unwrap();
    let cells = [("name", "z".into()), ("writer", "".into()), ("displaced", displaced.into())];
    database
        .apply(&[
            row("go", "10.0.0.7"),
            row("x_1500000000000000000", "a"),
            row("y_1500000000000000000", "a"),
            // Its lock names it.
            Mutation::write(WriteKind::Insert, "locktable", cells),
            row("z_1500000000000000000", "a"),
        ])
        .await
        .unwrap();
    let ran = world.run(&["doctor"]).await;
    ran.ends(1)
        .says("others hold `go`")
        .says("`x_1500000000000000000`, `y_1500000000000000000`\n")
        .says("spindle rm");
}

#[tokio::test]
async fn doctor_names_a_lease_that_is_too_short_though_nobody_can_hold_the_lock_for_that() {
    let world = World::start().await;
    let database = world.emulator.database(DATABASE).unwrap();
    let now = world.emulator.clock().now();
    let cells = [
        ("name", "billing".into()),
        ("heartbeat", now.into()),
        ("token", now.into()),
        ("writer", "node-1#0123456789abcdef-1".into()),
        ("lease_ms", 100.into()),
    ];
    database.apply(&[Mutation::write(WriteKind::Insert, "locktable", cells)]).await.unwrap();
    world.emulator.advance(Duration::from_secs(1));
    let ran = world.run(&["doctor"]).await;
    ran.says("ran out on `billing`").says("short for this latency: `billing`");
}

#[tokio::test]
async fn history_tells_each_term_and_draws_them() {
    let world = World::start().await;
    world.hold("billing", "node-1", LEASE).await.release().await;
    let _held = world.hold("billing", "node-2", LEASE).await;
    let ran = world.run(&["history", "billing", "-o", "json"]).await.ends(0);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json[0]["holder"], &json[0]["cause"]), (&"node-2".into(), &Value::Null));
    assert_eq!((&json[1]["holder"], &json[1]["cause"]), (&"node-1".into(), &"released".into()));
    assert!(json[0]["vacancy_ms"].is_u64() && json[1]["vacancy_ms"].is_null(), "{json}");
    assert!(ran.err.contains("no row"), "{ran:?}");
    let ran = world.run(&["history", "nothing"]).await;
    ran.ends(1).says_only("").complains("lock `nothing`: no term is known");

    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("billing.svg");
    let ran = world.run(&["history", "billing", "--svg", file.to_str().unwrap()]).await;
    ran.says("node-1").says("released");
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("node-2"), "{svg}");
    let ran = world.run(&["history", "billing", "--svg", "/nonexistent/billing.svg"]).await;
    ran.ends(9).says("node-1").complains("cure: choose a file");
}

#[tokio::test]
async fn a_watch_ends_on_ctrl_c_though_a_poll_is_under_way() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let mut watch = world.spawn(&["watch", "--interval", "100ms"]);
    watch.line().await;
    stall_a_poll(&world.emulator).await;
    watch.signal(nix::sys::signal::Signal::SIGINT);
    watch.end().await.ends(0);
}

#[tokio::test]
async fn a_heartbeat_is_late_once_half_a_lease_and_an_attempt_are_over() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    world.emulator.advance(Duration::from_secs(1));
    world.beat(&["billing"]).await;
    // Of a lease of 300 s.
    world.emulator.advance(Duration::from_secs(165));
    world.run(&["doctor"]).await.says("no heartbeat is late");
    world.emulator.advance(Duration::from_secs(60));
    world.run(&["doctor"]).await.ends(1).says("late: `billing`\n");
}

#[tokio::test]
async fn show_names_seize_where_a_dead_holder_has_a_long_lease() {
    let world = World::start().await;
    // Of five minutes.
    world.write(&[("billing", Some("node-1"))]).await;
    world.run(&["show", "billing"]).await.says("if the holder is dead, `spindle seize`");
    world.emulator.advance(Duration::from_secs(290));
    let ran = world.run(&["show", "billing"]).await;
    assert!(ran.out.contains("not before") && !ran.out.contains("seize"), "{ran:?}");
    world.emulator.advance(Duration::from_secs(20));
    // A contender may have a longer lease. The row does not tell it.
    world.run(&["show", "billing"]).await.says("at once, or when its own longer lease is over");
}
