//! The names of locks where a shell completes one.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use spindle_emulator::{Effect, Fault, Rpc};
use tokio::process::Command;

use crate::terminal::Terminal;
use crate::world::{DATABASE, PROGRAM, World, bare, finish, takes_less_than, until};

async fn world() -> World {
    let world = World::start().await;
    let names = ["billing", "bi$(touch made)", "mail", "my lock", "spindle:permit:uploads/0"];
    world.write(&names.map(|name| (name, Some("node-1")))).await;
    world.write(&[("spindle:shard:orders/emails/0", None), ("\u{9b}2J", None)]).await;
    world
}

#[tokio::test]
async fn names_are_offered_by_their_beginning_and_nothing_is_said_of_a_failure() {
    let world = world().await;
    let offered = async |line: &str| {
        let words = line.split('|').collect::<Vec<_>>();
        world.ok(&[&["complete-name", "--"], &*words].concat()).await
    };
    assert_eq!(offered("spindle|show|").await, "bi$(touch made)\nbilling\nmail\nmy lock\n");
    assert_eq!(offered("spindle|evict|-y|bil").await, "billing\n");
    assert_eq!(offered("spindle|show|spindle:per").await, "spindle:permit:uploads/0\n");
    assert_eq!(offered("spindle|permits|").await, "uploads\n");
    assert_eq!(offered("spindle|shards|or").await, "orders/emails\n");
    for nothing in ["spindle|show|x", "spindle|sh", "spindle|show|-", "spindle|show|-t|none|b"] {
        assert_eq!(offered(nothing).await, "", "{nothing}");
    }
    let mut other = bare(&["complete-name", "--", "spindle", "-d", DATABASE, "who", "m"]);
    other.env("SPANNER_EMULATOR_HOST", world.emulator.address().to_string());
    finish(other).await.ends(0).says_only("mail\nmy lock\n");

    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    takes_less_than(Duration::from_secs(5), async || {
        let ran = world.run(&["complete-name", "--", "spindle", "show", ""]).await.ends(0);
        assert_eq!(ran.says_only("").err, "");
    })
    .await;
}

/// A shell with the completions, in a directory without files that it might offer.
async fn shell(world: &World, shell: &str, arguments: &[&str], setup: &str) -> Terminal {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("completions-{shell}"));
    std::fs::create_dir_all(&directory).unwrap();
    let mut terminal = Terminal::with(world, 100, shell, arguments);
    let bin = Path::new(PROGRAM).parent().unwrap().display();
    let place = directory.display();
    terminal.types(format!("cd {place}; PATH={bin}:$PATH; PS1='> '; {setup}; clear\n"));
    has_prompt(&terminal, "").await;
    terminal
}

/// Waits until this is all that was said, and another line can be typed.
async fn has_prompt(terminal: &Terminal, said: &str) {
    let expected = format!("{said}>");
    // A completed word has a space after it.
    let lines = || terminal.contents().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    until(&expected, async || lines().trim_end() == expected).await;
}

async fn completes_by_tab(mut terminal: Terminal) {
    let mut said = String::new();
    for (typed, line, answer) in [
        ("who bil\t", "who billing", "node-1"),
        ("who my\t", "who my\\ lock", "node-1"),
        ("who spindle:per\t", "who spindle:permit:uploads/0", "node-1"),
        ("who bi\\$\t", "who bi\\$\\(touch\\ made\\)", "node-1"),
        ("compl\t-V 2>/dev/null; ls -A", "completions -V 2>/dev/null; ls -A", ""),
    ] {
        terminal.types(format!("spindle {typed}\n"));
        said += &format!("> spindle {line}\n");
        said += answer;
        said += if answer.is_empty() { "" } else { "\n" };
        has_prompt(&terminal, &said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tab_in_bash_completes_a_name_and_quotes_it() {
    let world = world().await;
    let setup = "source <(spindle completions bash)";
    completes_by_tab(shell(&world, "bash", &["--norc", "--noprofile"], setup).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs zsh: .ci/run page"]
async fn a_tab_in_zsh_completes_a_name_and_quotes_it() {
    let world = world().await;
    let setup = "autoload -U compinit; compinit -D -u; source <(spindle completions zsh)";
    completes_by_tab(shell(&world, "zsh", &["-f"], setup).await).await;
}

#[tokio::test]
#[ignore = "needs fish: .ci/run page"]
async fn fish_offers_the_names_and_no_files_beside_them() {
    let world = world().await;
    let offered = async |line: &str| {
        let script = "$argv[1] completions fish | source; complete -C \"$argv[2]\"";
        let line = line.replacen("spindle", PROGRAM, 1);
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", script, PROGRAM, &line]);
        fish.env("SPANNER_EMULATOR_HOST", world.emulator.address().to_string());
        fish.env("SPINDLE_DATABASE", DATABASE).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(fish).await.ends(0).out
    };
    assert_eq!(offered("spindle show bil").await, "billing\n");
    assert_eq!(offered("spindle show ").await, "bi$(touch made)\nbilling\nmail\nmy lock\n");
    assert!(offered("spindle doc").await.starts_with("doctor\t"));
}
