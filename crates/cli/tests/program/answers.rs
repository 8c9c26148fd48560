//! A request that can't work is answered within seconds, with an exit code and a cure.

use std::time::Duration;

use spindle::Holding;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::Instant;

use crate::world::{DATABASE, TIME_LIMIT, World, bare, finish, reserved};

#[tokio::test]
async fn without_a_database_the_program_says_how_to_name_one() {
    finish(bare(&["ls"])).await.ends(2).complains("SPINDLE_DATABASE").complains("demo");

    let ran = finish(bare(&["ls", "--database", "mydb"])).await;
    ran.ends(2).complains("`mydb`").complains("projects/PROJECT");
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_named_with_their_cure() {
    let mut command = bare(&["ls", "--database", DATABASE]);
    command.env("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json");
    let ran = finish(command).await;
    ran.ends(3)
        .complains("gcloud auth application-default login")
        .complains("SPANNER_EMULATOR_HOST");
}

#[tokio::test]
async fn a_reader_that_is_gone_ends_the_program_with_a_code_that_the_help_lists() {
    let world = World::start().await;
    world.write(&[("a", None)]).await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = world.program(&["ls"]);
    command.stdout(writer);
    let ended = tokio::time::timeout(TIME_LIMIT, command.status()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(141));
    finish(bare(&["--help"])).await.ends(0).says("\n  141  ");
}

#[tokio::test]
async fn a_missing_database_and_a_missing_table_are_told_apart() {
    let world = World::with("").await;
    world.run(&["ls"]).await.ends(4).complains("`locktable`").complains("spindle init");

    let elsewhere = "projects/p/instances/i/databases/other";
    let ran = world.run(&["ls", "--database", elsewhere]).await;
    ran.ends(7).complains(elsewhere).complains("databases create");
}

#[tokio::test]
async fn a_name_that_no_lock_can_have_is_a_mistake_of_the_command_line() {
    let world = World::start().await;
    for name in ["job_1795000000123456000", ""] {
        world.run(&["show", name]).await.ends(2);
    }
    world.run(&["shwo", "a"]).await.ends(2);
    world.run(&["watch", "--interval", "5"]).await.ends(2);
    let long = world.run(&["run", "--wait", "366d", "job", "--", "true"]).await;
    long.ends(2).complains("at most a year");
}

#[tokio::test]
async fn a_server_that_never_answers_costs_seconds() {
    // Accepts connections, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut command = bare(&["ls", "--database", DATABASE]);
    command.env("SPANNER_EMULATOR_HOST", &address);
    let began = Instant::now();
    finish(command).await.ends(3).complains("no answer within 5s").complains(&address);
    assert!(began.elapsed() < TIME_LIMIT / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn nothing_that_listens_is_said_to_be_so() {
    let (_reserved, address) = reserved();
    let address = address.to_string();
    let mut command = bare(&["ls", "--database", DATABASE]);
    command.env("SPANNER_EMULATOR_HOST", &address);
    finish(command).await.ends(3).complains(&address);
}

#[tokio::test]
async fn completions_and_the_manual_name_every_command_and_the_manual_makes_its_directory() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = finish(bare(&["completions", shell])).await.ends(0);
        assert!(ran.out.contains("resign-to") && ran.out.contains("doctor"), "{shell}");
        assert!(!ran.out.contains("become"), "{shell}: a hidden command");
    }
    let ran = finish(bare(&["man"])).await;
    assert!(ran.out.contains(".TH spindle 1") && ran.out.contains("Exit codes"), "{}", ran.out);
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("manual/new");
    // Nothing is there unless an earlier run of this test left it.
    let _ = std::fs::remove_dir_all(&directory);
    finish(bare(&["man", "--into", directory.to_str().unwrap()])).await.ends(0);
    let page = std::fs::read_to_string(directory.join("spindle-run.1")).unwrap();
    assert!(page.contains("SPINDLE_TOKEN") && page.contains("SIGSTOP"), "{page}");
    assert!(std::fs::read_to_string(directory.join("spindle-ls.1")).unwrap().contains("List"));
    let below_a_file = directory.join("spindle-ls.1/pages");
    let ran = finish(bare(&["man", "--into", below_a_file.to_str().unwrap()])).await;
    ran.ends(9).complains("spindle-ls.1/pages");
}

#[tokio::test]
async fn a_command_line_that_cannot_work_is_told_in_the_form_of_the_output() {
    for (line, error, cure) in [
        (
            &["ls", "--sort", "name", "-o", "json"][..],
            "unexpected argument '--sort' found",
            "--sort-by",
        ),
        (&["-o", "json", "shwo"], "unrecognized subcommand 'shwo'", "'show'"),
        (&["show", "-ojsonl"], "the following required arguments", "Usage: spindle show"),
        (&["-o=json"], "no command is named", "--help"),
        (&["watch", "--interval", "5", "--output=json"], "write for example 500ms", "--help"),
    ] {
        let ran = finish(bare(line)).await.ends(2).says_only("");
        let told: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert!(told["error"].as_str().unwrap().contains(error), "{line:?}: {told}");
        assert!(told["cure"].as_str().unwrap().contains(cure), "{line:?}: {told}");
        assert_eq!(told["exit_code"], 2, "{line:?}");
    }
    finish(bare(&["shwo", "-o", "yaml"])).await.ends(2).complains("exit_code: 2");
    finish(bare(&["shwo", "-o", "name"])).await.ends(2).complains("error: unrecognized");
    finish(bare(&["ls", "-o", "json", "--help"])).await.ends(0).says("Usage: spindle ls");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let world = World::start().await;
    let mut watch = world.program(&["watch", "--interval", "100ms"]).spawn().unwrap();
    drop(watch.stdout.take());
    let held = world.hold("billing", "a", Duration::from_secs(10)).await;
    let status = tokio::time::timeout(TIME_LIMIT, watch.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(141));
    held.release().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_answer_that_cannot_be_written_is_none() {
    let world = World::start().await;
    let held = world.hold("billing", "a", Duration::from_secs(10)).await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let who = world.program(&["who", "billing"]).stdout(full).spawn().unwrap();
    let who = tokio::time::timeout(TIME_LIMIT, who.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(who.status.code(), Some(9), "1 would say that nobody holds");
    let said = String::from_utf8(who.stderr).unwrap();
    assert!(said.contains("cure: see that the output can be written"), "{said}");
    held.release().await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let help = bare(&["--help"]).stdout(full).status();
    assert_eq!(tokio::time::timeout(TIME_LIMIT, help).await.unwrap().unwrap().code(), Some(9));
}

#[tokio::test]
async fn no_command_gets_the_help() {
    let ran = finish(bare(&[])).await.ends(2).complains("Commands:");
    assert!(!ran.err.contains("\n  contend "), "{ran:?}");
}

#[tokio::test]
async fn a_refusal_names_the_role_and_a_wrong_table_how_to_name_another() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let refused = Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::PermissionDenied));
    let refused = world.emulator.inject(refused);
    for command in [&["ls"][..], &["seize", "billing", "--yes"], &["show", "billing"]] {
        let ran = world.run(command).await.ends(8).complains("roles/spanner.databaseUser");
        assert!(!ran.err.contains("gcloud auth"), "{ran:?}");
    }
    refused.remove();

    let orders = "CREATE TABLE orders (id STRING(MAX) NOT NULL) PRIMARY KEY (id)";
    let world = World::with(orders).await;
    for command in [&["ls", "-t", "orders"][..], &["init", "-t", "orders"], &["ls"]] {
        world.run(command).await.ends(4).complains("cure: name the lock table by -t");
    }
    let wrong = "CREATE TABLE locktable (name STRING(MAX) NOT NULL, heartbeat STRING(MAX), \
                 token STRING(MAX), writer STRING(MAX)) PRIMARY KEY (name)";
    let world = World::with(wrong).await;
    world.run(&["init"]).await.ends(4).complains("ALTER TABLE").complains("ddl update");
}

#[tokio::test]
async fn the_same_cause_has_the_same_code_and_each_error_its_cure() {
    let world = World::start().await;
    // A name that no row has is mistyped more often than meant.
    for (command, said) in [
        (&["show", "biling"][..], "no row"),
        (&["history", "biling"], "no term is known"),
        (&["who", "biling"], ""),
        (&["evict", "biling", "--yes"], "no row"),
        (&["seize", "biling", "--yes"], "no row"),
        (&["resign-to", "biling", "node-1", "--yes"], "no row"),
        (&["rm", "biling", "--yes"], "no row"),
    ] {
        let ran = world.run(command).await.ends(1);
        let all = ran.out + &ran.err;
        let names = if said.is_empty() { "" } else { "spindle ls" };
        assert!(all.contains(said) && all.contains(names), "{command:?}: {all}");
    }
    assert_eq!(world.table.inspect("biling").await.unwrap().holding, Holding::NeverHeld);
    world.run(&["show", "job_1795000000123456000"]).await.complains("cure: ");
    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)));
    world.run(&["ls"]).await.ends(3).complains("something listens on");
    world.emulator.clear_faults();
    // Of whoever answers, nobody says that nothing listens.
    for rpc in [Rpc::StreamingRead, Rpc::CreateSession] {
        let full = Fault::on(rpc).effect(Effect::Fail(Code::ResourceExhausted));
        let full = world.emulator.inject(full);
        let ran = world.run(&["ls"]).await.ends(3).complains("cure: the connection works");
        assert!(full.hits() > 0 && !ran.err.contains("listens"), "{ran:?}");
        full.remove();
    }
    // The program or the server may notice first that the time is up.
    for slow in [Effect::Fail(Code::DeadlineExceeded), Effect::Stall] {
        let slow = world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(slow));
        let ran = world.run(&["show", "billing"]).await.ends(3).complains("measures how slow");
        assert!(!ran.err.contains("listens"), "{ran:?}");
        slow.remove();
    }
}

#[tokio::test]
async fn the_reason_of_an_eviction_is_printed_when_its_row_is_removed() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let evicted = ["evict", "billing", "--by", "alice", "--reason", "bad deploy", "--yes"];
    world.run(&evicted).await.ends(0);
    world.emulator.advance(Duration::from_secs(400));
    world.run(&["rm", "billing", "--yes"]).await.ends(0).says("`evicted by alice: bad deploy`");
}
