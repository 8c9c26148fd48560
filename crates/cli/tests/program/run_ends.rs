//! `run`, when something ends it: its command never goes on without the lock.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle_emulator::{Effect, Fault, Rpc};

use crate::runs::is_alive;
use crate::world::{DATABASE, PROGRAM, Running, World, under, until};

/// A run whose command has begun, and the command's process.
async fn begun(world: &World, script: &str) -> (Running, i32) {
    let script = format!("echo $$; {script}");
    let program = world.program(&["run", "--lease", "60s", "job", "--", "sh", "-c", &script]);
    // A run leaves signals ignored that its starter ignores, and `nohup` starts these tests so.
    let mut run = Running::start(under("env", &["--default-signal"], program));
    let command = run.line().await.parse().unwrap();
    (run, command)
}

/// Sends a signal by its number, also one that has no name.
fn send(run: &Running, number: i32) {
    let process = run.child.id().unwrap().to_string();
    let sent = Command::new("sh").args(["-c", &format!("kill -{number} {process}")]).status();
    assert!(sent.unwrap().success());
}

async fn free(world: &World) {
    until("the lock is free", async || !world.is_held("job").await).await;
}

#[tokio::test]
async fn every_signal_that_ends_a_program_reaches_the_command_and_frees_the_lock() {
    use Signal::*;
    let world = World::start().await;
    let named = [
        SIGHUP, SIGINT, SIGQUIT, SIGTRAP, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT,
        SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSYS,
    ];
    for signal in named {
        let (mut run, command) = begun(&world, "exec sleep 600").await;
        run.signal(signal);
        assert_eq!(run.code().await, Some(128 + signal as i32), "{signal}");
        assert!(!is_alive(command), "{signal}");
        free(&world).await;
    }
    // Those that have no name become SIGTERM.
    for number in [nix::libc::SIGRTMIN(), nix::libc::SIGRTMAX()] {
        let (mut run, command) = begun(&world, "exec sleep 600").await;
        send(&run, number);
        assert_eq!(run.code().await, Some(128 + Signal::SIGTERM as i32), "{number}");
        assert!(!is_alive(command), "{number}");
        free(&world).await;
    }
}

#[tokio::test]
async fn every_signal_but_the_users_own_ends_a_run_that_waits() {
    let world = World::start().await;
    let _held = world.hold("job", "node-1", Duration::from_secs(600)).await;
    for number in [Signal::SIGALRM as i32, Signal::SIGABRT as i32, nix::libc::SIGRTMIN()] {
        let requests = world.emulator.requests().total();
        let run = world.spawn(&["run", "job", "--", "true"]);
        until("it has asked", async || world.emulator.requests().total() > requests + 5).await;
        run.signal(Signal::SIGUSR1);
        send(&run, number);
        run.end().await.ends(128 + number);
    }
}

#[tokio::test]
async fn the_command_of_a_run_that_is_killed_ends_with_it() {
    let world = World::start().await;
    for (lock, form) in [("a", ["--lease", "60s"]), ("b", ["--every", "1s"])] {
        let script = "echo $$; exec sleep 600";
        let run = [&["run"], &form[..], &[lock, "--", "sh", "-c", script]].concat();
        let mut run = world.spawn(&run);
        let command = run.line().await.parse().unwrap();
        // Threads of the runtime that idle don't take the command with them.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_alive(command) && run.child.try_wait().unwrap().is_none());
        run.signal(Signal::SIGKILL);
        assert_eq!(run.code().await, None);
        until("the command is dead", async || !is_alive(command)).await;
    }
    // A fault of the program itself, which none can handle.
    let (mut run, command) = begun(&world, "exec sleep 600").await;
    run.signal(Signal::SIGILL);
    assert_eq!(run.code().await, None);
    until("the command is dead", async || !is_alive(command)).await;
}

#[tokio::test]
async fn a_command_sees_nothing_of_how_it_was_started() {
    let world = World::start().await;
    let script = "echo $0 $1; cat /proc/$$/comm; ps -o pgid= -p $$ | tr -d ' '; echo $$";
    let said = world.ok(&["run", "job", "--", "sh", "-c", script, "name", "--help"]).await;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!((lines[0], lines[1]), ("name --help", "sh"));
    assert_eq!(lines[2], lines[3], "it leads a process group of its own");
}

/// Becomes the program, as a process that orphans come to, as they do to pid 1. Not a test of its own.
#[test]
#[ignore = "the test below starts it"]
fn becomes_the_parent_of_orphans() {
    let Ok(arguments) = std::env::var("SPINDLE_TEST_ARGUMENTS") else { return };
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    panic!("{}", Command::new(PROGRAM).args(arguments.split('|')).exec());
}

#[tokio::test]
async fn orphans_that_come_to_a_run_leave_no_zombies() {
    let world = World::start().await;
    // Each orphan outlives its parent, and says its own process.
    let script = "for i in 1 2 3 4; do (sh -c 'echo $$; exec sleep 0.2' &); done; read line";
    let arguments = ["run", "job", "--", "sh", "-c", script].join("|");
    let mut starter = tokio::process::Command::new(std::env::current_exe().unwrap());
    starter
        .args(["--ignored", "--exact", "--nocapture", "run_ends::becomes_the_parent_of_orphans"])
        .env("SPANNER_EMULATOR_HOST", world.emulator.address().to_string())
        .env("SPINDLE_DATABASE", DATABASE)
        .env("SPINDLE_TEST_ARGUMENTS", arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut run = Running::start(starter);
    let mut orphans = Vec::new();
    while orphans.len() < 4 {
        // The test harness speaks first, and may begin the line.
        orphans.extend(run.line().await.split(' ').next_back().unwrap().parse::<i32>());
    }
    let is_there = |process: &i32| kill(Pid::from_raw(*process), None).is_ok();
    until("none is left, not even a zombie", async || !orphans.iter().any(is_there)).await;
    assert!(run.child.try_wait().unwrap().is_none(), "the command still runs");
    drop(run.child.stdin.take());
    run.code().await;
}

/// A script may go on only if the lock is free.
#[tokio::test]
async fn a_command_that_ended_well_under_a_lock_that_stays_held_has_a_code_of_its_own() {
    let world = World::start().await;
    let end = std::env::temp_dir().join(format!("spindle-run-end-{}", std::process::id()));
    // Nothing is there unless a run of this test was killed.
    let _ = std::fs::remove_file(&end);
    let start = |lock: &str, code: i32| {
        let script =
            format!("echo; until [ -e {} ]; do sleep 0.1; done; exit {code}", end.display());
        world.spawn(&["run", "--lease", "8s", lock, "--", "sh", "-c", &script])
    };
    let (mut well, mut badly) = (start("well", 0), start("badly", 3));
    for run in [&mut well, &mut badly] {
        run.line().await;
    }
    world.emulator.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    std::fs::write(&end, "").unwrap();
    let held = "was not released: others see it as held for";
    well.end().await.ends(123).complains(held);
    badly.end().await.ends(3).complains(held);
    std::fs::remove_file(&end).unwrap();
}
