//! `run`: the lock is held while the command runs, and the command doesn't outlive the lease.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle_emulator::Fault;
use tokio::process::Child;
use tokio::time::{Instant, timeout};

use crate::world::{PATIENCE, World, until};

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), signal).unwrap();
}

async fn code(child: &mut Child) -> Option<i32> {
    timeout(PATIENCE, child.wait()).await.unwrap().unwrap().code()
}

fn is_alive(process: i32) -> bool {
    kill(Pid::from_raw(process), None).is_ok()
        // One that nobody has waited for yet is dead all the same.
        && !std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|stat| stat.contains(") Z "))
}

async fn is_held(world: &World, name: &str) -> bool {
    world.table.inspect(name).await.unwrap().is_held()
}

#[tokio::test]
async fn the_command_has_name_and_token_and_its_exit_code_is_passed_on() {
    let world = World::start().await;
    let script = "echo $SPINDLE_LOCK $SPINDLE_TOKEN; exit 7";
    let ran = world.run(&["run", "backup", "--", "sh", "-c", script]).await;
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let (name, token) = ran.out.trim().split_once(' ').unwrap();
    assert_eq!(name, "backup");
    let state = world.table.inspect("backup").await.unwrap();
    assert!(token.parse::<spindle::FencingToken>().unwrap() < state.token.unwrap());
    assert!(!state.is_held(), "it was released: {state:?}");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_leaves_the_lock_free() {
    let world = World::start().await;
    let ran = world.run(&["run", "backup", "--", "no-such-command-here"]).await;
    assert_eq!(ran.code, Some(127), "{ran:?}");
    let ran = world.run(&["run", "backup", "--", "/etc/passwd"]).await;
    assert_eq!(ran.code, Some(126), "{ran:?}");
    assert!(!is_held(&world, "backup").await);
}

#[tokio::test]
async fn who_finds_the_lock_held_gives_up_as_told() {
    let world = World::start().await;
    let held = world.hold("backup", "node-1", Duration::from_secs(30)).await;
    let ran = world.run(&["run", "--try", "backup", "--", "true"]).await;
    assert_eq!(ran.code, Some(75), "{ran:?}");
    assert!(ran.err.contains("node-1"), "{ran:?}");
    let ran = world.run(&["run", "--wait", "300ms", "backup", "--", "true"]).await;
    assert_eq!(ran.code, Some(75), "{ran:?}");
    held.release().await;
    let ran = world.run(&["run", "--wait", "30s", "backup", "--", "true"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[tokio::test]
async fn what_makes_a_run_impossible_is_told_apart_from_the_commands_own_failure() {
    let world = World::with("").await;
    let ran = world.run(&["run", "backup", "--", "true"]).await;
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(ran.err.contains("spindle init"), "{ran:?}");
}

#[tokio::test]
async fn a_signal_reaches_the_command_and_its_answer_comes_back() {
    let world = World::start().await;
    let script = "trap 'exit 42' TERM; while :; do sleep 0.1; done";
    let mut child = world.program(&["run", "job", "--", "sh", "-c", script]).spawn().unwrap();
    until("the lock is held", async || is_held(&world, "job").await).await;
    // The trap may not be set yet: a shell that is killed says so as well.
    signal(&child, Signal::SIGTERM);
    assert!(matches!(code(&mut child).await, Some(42 | 143)));
    until("the lock is free", async || !is_held(&world, "job").await).await;
}

#[tokio::test]
async fn a_signal_while_it_waits_ends_the_wait() {
    let world = World::start().await;
    let _held = world.hold("job", "node-1", Duration::from_secs(30)).await;
    let requests = world.emulator.requests().total();
    let mut child = world.program(&["run", "job", "--", "true"]).spawn().unwrap();
    until("it has asked", async || world.emulator.requests().total() > requests + 5).await;
    signal(&child, Signal::SIGTERM);
    assert_eq!(code(&mut child).await, Some(143));
}

#[tokio::test]
async fn a_command_is_told_to_stop_once_its_lock_is_seized() {
    let world = World::start().await;
    let script = "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let arguments = ["run", "--lease", "2s", "job", "--", "sh", "-c", script];
    let child = world.program(&arguments).spawn().unwrap();
    until("the lock is held", async || is_held(&world, "job").await).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.table.seize("job").await.unwrap();
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ready\ntold\n");
}

#[tokio::test]
async fn a_command_that_will_not_stop_is_killed_with_its_children_before_the_lease_ends() {
    let world = World::start().await;
    // It ignores the request to stop, and so does what it starts.
    let script = "trap '' TERM; sleep 600 & echo $!; echo $$; wait; sleep 600";
    let lease = Duration::from_secs(4);
    let arguments = ["run", "--lease", "4s", "job", "--", "sh", "-c", script];
    let mut child = world.program(&arguments).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut pids = Vec::new();
    until("both run", async || {
        use tokio::io::AsyncReadExt as _;
        let mut bytes = [0; 64];
        let read = out.read(&mut bytes).await.unwrap();
        pids.extend_from_slice(&bytes[..read]);
        pids.iter().filter(|byte| **byte == b'\n').count() == 2
    })
    .await;
    let text = String::from_utf8(pids).unwrap();
    let processes: Vec<i32> = text.lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(processes.iter().all(|process| is_alive(*process)));
    // From now on no heartbeat arrives: the lease runs out.
    let cut_off = Instant::now();
    world.emulator.inject(Fault::any().effect(spindle_emulator::Effect::Stall));
    assert_eq!(code(&mut child).await, Some(124));
    // The program waits for its release, but no longer than the lease.
    assert!(cut_off.elapsed() < lease * 3, "{:?}", cut_off.elapsed());
    until("both are dead", async || !processes.iter().any(|process| is_alive(*process))).await;
}

#[tokio::test]
async fn a_scheduled_command_runs_on_one_node_and_the_others_are_done_at_once() {
    let world = World::start().await;
    let job = ["run", "--once", "30s..60s", "nightly", "--", "sh", "-c", "echo ran"];
    let first = world.run(&job).await;
    assert_eq!((first.code, first.out.as_str()), (Some(0), "ran\n"), "{first:?}");
    let second = world.run(&job).await;
    assert_eq!((second.code, second.out.as_str()), (Some(0), ""), "{second:?}");
    assert!(second.err.contains("skipped: finished on"), "{second:?}");
    let parked = world.run(&["show", "nightly"]).await;
    assert!(parked.out.contains("state       parked"), "{parked:?}");
}

#[tokio::test]
async fn a_scheduled_command_is_stopped_when_its_time_is_over() {
    let world = World::start().await;
    let job = ["run", "--once", "1s..2s", "nightly", "--", "sleep", "600"];
    let began = Instant::now();
    let ran = world.run(&job).await;
    assert_eq!(ran.code, Some(124), "{ran:?}");
    assert!(began.elapsed() < PATIENCE / 2);
}
