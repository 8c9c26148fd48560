//! The program on Google's own emulator, in the dialect of the database that the environment names.
//! `tests/any_spanner/on_google` starts them.

use std::process::Stdio;

use nix::sys::signal::Signal;
use spindle::LockTable;
use tokio::process::{ChildStdin, Command};

use crate::world::{PROGRAM, Ran, Running, finish, until};

fn database() -> String {
    std::env::var("SPINDLE_TEST_DATABASE").expect("run by `on_google`")
}

/// The program on a table, with the environment of the test.
fn program(table: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["--database", &database(), "--table", table]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn ran(table: &str, arguments: &[&str]) -> Ran {
    finish(program(table, arguments)).await.ends(0)
}

/// Holds a lock until its standard input is dropped or it is told to stop; its command says that it
/// works.
fn holder(table: &str, id: &str) -> (Running, ChildStdin) {
    let run = ["run", "job", "--id", id, "--lease", "2s", "--", "sh", "-c"];
    let mut command = program(table, &run);
    command.arg("echo works && exec cat").stdin(Stdio::piped()).stderr(Stdio::inherit());
    let mut running = Running::start(command);
    let input = running.child.stdin.take().unwrap();
    (running, input)
}

async fn leader(table: &LockTable) -> Option<String> {
    let state = table.inspect("job").await.unwrap();
    state.is_held().then(|| state.holder().map(str::to_string)).flatten()
}

async fn led_by(table: &LockTable, id: &str) {
    until(&format!("{id} leads"), async || leader(table).await.as_deref() == Some(id)).await;
}

/// Waits until its command works. Before, the row may name it while it doesn't know yet that it leads,
/// and stopped then, it would contend again.
async fn works(running: &mut Running) {
    assert_eq!(running.line().await, "works");
}

#[tokio::test]
#[ignore = "needs Google's emulator"]
async fn every_command_works_on_a_table_that_it_made() {
    let (name, locks) = ("commands", LockTable::new(database(), "commands"));
    assert!(ran(name, &["init"]).await.out.contains("made, and fit"));
    assert!(ran(name, &["init"]).await.out.contains("was there already"));
    assert!(!ran(name, &["doctor"]).await.out.contains("bad "));
    let done = ran(name, &["run", "job", "--", "echo", "done"]).await;
    assert_eq!(done.out, "done\n");
    let (mut a, _a) = holder(name, "a");
    led_by(&locks, "a").await;
    let listed = ran(name, &["ls"]).await;
    assert!(listed.out.contains("job"), "{listed:?}");
    ran(name, &["evict", "job", "--yes"]).await;
    until("a is deposed", async || leader(&locks).await.is_none()).await;
    a.child.kill().await.unwrap();
    let _b = holder(name, "b");
    led_by(&locks, "b").await;
    ran(name, &["seize", "job", "--yes"]).await;
    let told = ran(name, &["history", "job"]).await;
    assert!(told.out.contains("evicted") && told.out.contains("seized"), "{told:?}");
}

#[tokio::test]
#[ignore = "needs Google's emulator"]
async fn of_three_processes_one_leads_after_each_is_killed_stopped_or_told_to_end() {
    let (name, locks) = ("processes", LockTable::new(database(), "processes"));
    ran(name, &["init"]).await;
    let (mut killed, _killed) = holder(name, "killed");
    led_by(&locks, "killed").await;
    works(&mut killed).await;
    let (mut stopped, _stopped) = holder(name, "stopped");
    killed.child.kill().await.unwrap();
    led_by(&locks, "stopped").await;
    works(&mut stopped).await;
    let (mut ended, _ended) = holder(name, "ended");
    stopped.signal(Signal::SIGSTOP);
    led_by(&locks, "ended").await;
    // It finds itself deposed when it wakes, and ends its command.
    stopped.signal(Signal::SIGCONT);
    assert_ne!(stopped.code().await, Some(0));
    assert_eq!(leader(&locks).await.as_deref(), Some("ended"));
    ended.signal(Signal::SIGTERM);
    ended.code().await;
    // It let go, or its lease is over where another transaction was in the way of its release.
    until("nobody leads", async || leader(&locks).await.is_none()).await;
}
