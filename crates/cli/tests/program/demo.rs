//! The demonstration is what a newcomer sees first.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::world::{TIME_LIMIT, bare, finish, until};

/// The commands that do not end by themselves, or soon.
const LASTING: [&str; 3] = ["watch", "serve", "run"];

fn port_of(said: &[String]) -> &str {
    let host = said.iter().find_map(|line| line.split_once("SPANNER_EMULATOR_HOST=")).unwrap().1;
    host.rsplit_once(':').unwrap().1
}

#[tokio::test]
async fn the_demonstration_needs_nothing_and_ends_with_all_that_it_started() {
    let mut demo = bare(&["demo", "--port", "0", "--kill-every", "2s"]);
    let mut child = demo.env("PATH", "/nonexistent").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said: Vec<String> = Vec::new();
    while !said.iter().any(|line| line.contains("spindle run")) {
        said.push(timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap());
    }
    let again = finish(bare(&["demo", "--port", port_of(&said)])).await;
    assert_eq!(again.code, Some(2), "its port is taken: {again:?}");
    assert!(again.err.contains("another port with --port"), "{again:?}");
    let after = |begins: &str| {
        said.iter().find_map(|line| line.strip_prefix(begins)).unwrap_or_else(|| panic!("{said:?}"))
    };
    let host = after("  export SPANNER_EMULATOR_HOST=");
    let database = after("  export SPINDLE_DATABASE=");
    assert!(after("  alias spindle='").ends_with("/spindle'"), "no shell finds it: {said:?}");
    let run = async |arguments: &[&str]| {
        let mut command = bare(arguments);
        command.env("SPANNER_EMULATOR_HOST", host).env("SPINDLE_DATABASE", database);
        finish(command).await
    };
    until("every lock and every shard is held", async || {
        let ls = run(&["ls"]).await.out;
        let locks = ls.lines().filter(|line| !line.starts_with("spindle:"));
        locks.filter(|line| line.contains(" held ")).count() == 7 && ls.contains("6 of 6 held")
    })
    .await;
    let commands = said.iter().filter_map(|line| line.strip_prefix("  spindle "));
    let mut tried = 0;
    for command in commands {
        let words: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
        if LASTING.contains(&words[0]) {
            continue;
        }
        // A node that was killed may be missed.
        until(command, async || run(&words).await.code == Some(0)).await;
        tried += 1;
    }
    assert_eq!(tried, 9, "{said:?}");

    let killed =
        async { while !lines.next_line().await.unwrap().unwrap().contains("is killed") {} };
    timeout(TIME_LIMIT, killed).await.unwrap();
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGINT).unwrap();
    assert!(timeout(TIME_LIMIT, child.wait()).await.unwrap().unwrap().success());
    assert_eq!(run(&["ls"]).await.code, Some(3), "nothing listens any more");
}
