//! A request that can't work is answered within seconds, with an exit code and a cure.

use std::time::Duration;

use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use tokio::time::Instant;

use crate::world::{DATABASE, TIME_LIMIT, World, bare, finish};

#[tokio::test]
async fn without_a_database_the_program_says_how_to_name_one() {
    let ran = finish(bare(&["ls"])).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("SPINDLE_DATABASE") && ran.err.contains("demo"), "{ran:?}");

    let ran = finish(bare(&["ls", "--database", "mydb"])).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("`mydb`") && ran.err.contains("projects/PROJECT"), "{ran:?}");
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_named_with_their_cure() {
    let mut command = bare(&["ls", "--database", DATABASE]);
    command.env("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json");
    let ran = finish(command).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains("gcloud auth application-default login"), "{ran:?}");
    assert!(ran.err.contains("SPANNER_EMULATOR_HOST"), "{ran:?}");
}

#[tokio::test]
async fn a_missing_database_and_a_missing_table_are_told_apart() {
    let world = World::with("").await;
    let ran = world.run(&["ls"]).await;
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains("`locktable`") && ran.err.contains("spindle init"), "{ran:?}");

    let elsewhere = "projects/p/instances/i/databases/other";
    let ran = world.run(&["ls", "--database", elsewhere]).await;
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains(elsewhere) && ran.err.contains("databases create"), "{ran:?}");
}

#[tokio::test]
async fn a_name_that_no_lock_can_have_is_a_mistake_of_the_command_line() {
    let world = World::start().await;
    for name in ["job_1795000000123456000", ""] {
        let ran = world.run(&["show", name]).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    assert_eq!(world.run(&["shwo", "a"]).await.code, Some(2));
    assert_eq!(world.run(&["watch", "--interval", "5"]).await.code, Some(2));
}

#[tokio::test]
async fn a_server_that_never_answers_costs_seconds() {
    // Accepts connections, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut command = bare(&["ls", "--database", DATABASE]);
    command.env("SPANNER_EMULATOR_HOST", &address);
    let began = Instant::now();
    let ran = finish(command).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains("no answer within 5s") && ran.err.contains(&address), "{ran:?}");
    assert!(began.elapsed() < TIME_LIMIT / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn nothing_that_listens_is_said_to_be_so() {
    let emulator = Emulator::start().await.unwrap();
    let address = emulator.address().to_string();
    emulator.stop().await;
    let mut command = bare(&["ls", "--database", DATABASE]);
    command.env("SPANNER_EMULATOR_HOST", &address);
    let ran = finish(command).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains(&address), "{ran:?}");
}

#[tokio::test]
async fn completions_and_the_manual_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = finish(bare(&["completions", shell])).await;
        assert_eq!(ran.code, Some(0), "{shell}: {ran:?}");
        assert!(ran.out.contains("resign-to") && ran.out.contains("doctor"), "{shell}");
    }
    let ran = finish(bare(&["man"])).await;
    assert!(ran.out.contains(".TH spindle 1") && ran.out.contains("Exit codes"), "{}", ran.out);
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("manual");
    std::fs::create_dir_all(&directory).unwrap();
    let ran = finish(bare(&["man", "--into", directory.to_str().unwrap()])).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let page = std::fs::read_to_string(directory.join("spindle-run.1")).unwrap();
    assert!(page.contains("SPINDLE_TOKEN") && page.contains("SIGSTOP"), "{page}");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let world = World::start().await;
    let mut child = world.program(&["watch", "--interval", "100ms"]).spawn().unwrap();
    drop(child.stdout.take());
    let held = world.hold("billing", "a", Duration::from_secs(10)).await;
    let status = tokio::time::timeout(TIME_LIMIT, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(141));
    held.release().await;
}

#[tokio::test]
async fn no_command_gets_the_help_and_a_manual_makes_its_directory() {
    let world = World::start().await;
    let ran = world.run(&[]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("Commands:") && !ran.err.contains("\n  contend "), "{ran:?}");
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("manual/new");
    // Nothing is there unless an earlier run of this test left it.
    let _ = std::fs::remove_dir_all(&directory);
    let ran = world.run(&["man", "--into", directory.to_str().unwrap()]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(std::fs::read_to_string(directory.join("spindle-ls.1")).unwrap().contains("List"));
}

#[tokio::test]
async fn a_refusal_names_the_role_and_a_wrong_table_how_to_name_another() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let refused = Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::PermissionDenied));
    let refused = world.emulator.inject(refused);
    for command in [&["ls"][..], &["seize", "billing", "--yes"], &["show", "billing"]] {
        let ran = world.run(command).await;
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert!(ran.err.contains("roles/spanner.databaseUser"), "{ran:?}");
        assert!(!ran.err.contains("gcloud auth"), "{ran:?}");
    }
    refused.remove();

    let orders = "CREATE TABLE orders (id STRING(MAX) NOT NULL) PRIMARY KEY (id)";
    let world = World::with(orders).await;
    for command in [&["ls", "-t", "orders"][..], &["init", "-t", "orders"], &["ls"]] {
        let ran = world.run(command).await;
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.err.contains("cure: name the lock table by -t"), "{ran:?}");
    }
    let wrong = "CREATE TABLE locktable (name STRING(MAX) NOT NULL, heartbeat STRING(MAX), \
                 token STRING(MAX), writer STRING(MAX)) PRIMARY KEY (name)";
    let world = World::with(wrong).await;
    let ran = world.run(&["init"]).await;
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.err.contains("ALTER TABLE") && ran.err.contains("ddl update"), "{ran:?}");
}

#[tokio::test]
async fn the_same_cause_has_the_same_code_and_each_error_its_cure() {
    let world = World::start().await;
    for command in [
        &["show", "biling"][..],
        &["history", "biling"],
        &["who", "biling"],
        &["evict", "biling", "--yes"],
        &["seize", "biling", "--yes"],
        &["rm", "biling", "--yes"],
    ] {
        let ran = world.run(command).await;
        assert_eq!(ran.code, Some(1), "{command:?}: {ran:?}");
    }
    let ran = world.run(&["show", "job_1795000000123456000"]).await;
    assert!(ran.err.contains("cure: "), "{ran:?}");
    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)));
    let ran = world.run(&["ls"]).await;
    assert!(ran.code == Some(3) && ran.err.contains("cure: "), "{ran:?}");
}

#[tokio::test]
async fn the_reason_of_an_eviction_is_printed_when_its_row_is_removed() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let evicted = ["evict", "billing", "--by", "alice", "--reason", "bad deploy", "--yes"];
    assert_eq!(world.run(&evicted).await.code, Some(0));
    world.emulator.advance(Duration::from_secs(400));
    let ran = world.run(&["rm", "billing", "--yes"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("`evicted by alice: bad deploy`"), "{ran:?}");
}
