//! The demonstration is what a newcomer sees first.

use nix::sys::signal::Signal;

use crate::world::{Running, bare, finish, reserved, until};

/// The commands that do not end by themselves, or soon.
const LASTING: [&str; 3] = ["watch", "serve", "run"];

#[tokio::test]
async fn the_demonstration_needs_nothing_and_ends_with_all_that_it_started() {
    let (_reserved, address) = reserved();
    let port = address.port().to_string();
    let mut demo = bare(&["demo", "--port", &port, "--kill-every", "2s"]);
    demo.env("PATH", "/nonexistent");
    let mut demo = Running::start(demo);
    let mut said: Vec<String> = Vec::new();
    while !said.iter().any(|line| line.contains("spindle run")) {
        said.push(demo.line().await);
    }
    let after = |begins: &str| {
        said.iter().find_map(|line| line.strip_prefix(begins)).unwrap_or_else(|| panic!("{said:?}"))
    };
    let host = after("  export SPANNER_EMULATOR_HOST=");
    let database = after("  export SPINDLE_DATABASE=");
    let again = bare(&["demo", "--port", &port]);
    finish(again).await.ends(2).complains("another port with --port");
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

    while !demo.line().await.contains("is killed") {}
    demo.signal(Signal::SIGINT);
    demo.end().await.ends(0);
    // Nothing listens any more.
    run(&["ls"]).await.ends(3);
}
