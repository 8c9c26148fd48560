//! `run`: the lock is held while the command runs, and the command doesn't outlive the lease.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::{Instant, timeout};

use crate::world::{TIME_LIMIT, World, until};

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), signal).unwrap();
}

async fn code(child: &mut Child) -> Option<i32> {
    timeout(TIME_LIMIT, child.wait()).await.unwrap().unwrap().code()
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
    let output = timeout(TIME_LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ready\ntold\n");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("term ends unexpectedly") && log.contains("Superseded"), "{log}");
}

#[tokio::test]
async fn a_command_is_stopped_though_nobody_reads_what_is_said_of_it() {
    let world = World::start().await;
    // Its background process fills the standard error stream, and waits for a reader. The command ignores
    // SIGTERM, which is sent before anything is said.
    let script = "trap '' TERM; head -c 1000000 /dev/zero >&2 & echo $$; exec sleep 600";
    let arguments = ["run", "--lease", "4s", "job", "--", "sh", "-c", script];
    let mut child = world.program(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
    let process = line.parse().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.table.seize("job").await.unwrap();
    until("it is stopped", async || !is_alive(process)).await;
    // Now somebody reads, and the program can end.
    let output = timeout(TIME_LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(124));
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
    world.emulator.inject(Fault::any().effect(Effect::Stall));
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
    let cooldown = world.run(&["show", "nightly"]).await;
    assert!(cooldown.out.contains("state       cooldown"), "{cooldown:?}");
}

#[tokio::test]
async fn a_scheduled_command_is_stopped_when_its_time_is_over() {
    let world = World::start().await;
    let job = ["run", "--once", "1s..2s", "nightly", "--", "sleep", "600"];
    let began = Instant::now();
    let ran = world.run(&job).await;
    assert_eq!(ran.code, Some(124), "{ran:?}");
    assert!(began.elapsed() < TIME_LIMIT / 2);
}

/// A run that a signal of a shell's `kill` ends, and how it ended.
async fn ended_by(mut child: Child, which: Signal) -> (Option<i32>, Duration) {
    let told = Instant::now();
    signal(&child, which);
    (code(&mut child).await, told.elapsed())
}

#[tokio::test]
async fn a_signal_ends_a_run_that_still_connects() {
    for form in
        [&["run", "job", "--", "true"][..], &["run", "--once", "30s..60s", "job", "--", "true"]]
    {
        let world = World::start().await;
        let silence = world.emulator.inject(Fault::any().effect(Effect::Stall));
        let child = world.program(form).spawn().unwrap();
        until("it has asked", async || silence.hits() > 0).await;
        assert_eq!(ended_by(child, Signal::SIGTERM).await.0, Some(143), "{form:?}");
    }
}

/// The begin is applied, and its answer comes after the run was told to end.
#[tokio::test]
async fn a_signal_before_the_command_starts_ends_the_run_and_leaves_the_lock_free() {
    for form in [&["--lease", "60s"][..], &["--try"], &["--once", "30s..60s"]] {
        let world = World::start().await;
        let late = Fault::on(Rpc::Commit).times(1);
        let late = late.effect(Effect::DelayReply(Duration::from_secs(2)));
        let late = world.emulator.inject(late);
        let mut arguments = vec!["run"];
        arguments.extend_from_slice(form);
        arguments.extend_from_slice(&["job", "--", "echo", "started"]);
        let child = world.program(&arguments).spawn().unwrap();
        until("it begins", async || late.hits() > 0).await;
        signal(&child, Signal::SIGTERM);
        let output = timeout(TIME_LIMIT, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(143), "{form:?}: {output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{form:?}");
        assert!(!is_held(&world, "job").await, "{form:?}: held by a process that is gone");
    }
}

#[tokio::test]
async fn a_run_whose_wait_is_over_releases_what_its_last_attempt_took() {
    let world = World::start().await;
    let late = Fault::on(Rpc::Commit).times(1);
    let late = late.effect(Effect::DelayReply(Duration::from_secs(3)));
    world.emulator.inject(late);
    let ran = world.run(&["run", "--wait", "1s", "--lease", "60s", "job", "--", "true"]).await;
    assert_eq!(ran.code, Some(75), "{ran:?}");
    assert!(!is_held(&world, "job").await, "held by a process that is gone");
}

#[tokio::test]
async fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let world = World::start().await;
    let held = world.hold("job", "node-1", Duration::from_secs(30)).await;
    let command = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.1; done";
    let program = world.program(&["run", "job", "--", "sh", "-c", command]);
    let mut nohup =
        crate::world::under("sh", &["-c", "trap '' HUP INT QUIT; exec \"$0\" \"$@\""], program);
    let requests = world.emulator.requests().total();
    let mut child = nohup.spawn().unwrap();
    until("it waits", async || world.emulator.requests().total() > requests + 5).await;
    let ignored = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
    ignored.iter().for_each(|which| signal(&child, *which));
    held.release().await;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line.as_deref(), Some("ready"), "the wait went on");
    ignored.iter().for_each(|which| signal(&child, *which));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ended_by(child, Signal::SIGTERM).await.0, Some(42), "the command got none of them");
}

#[tokio::test]
async fn a_scheduled_command_with_a_short_time_runs_though_answers_are_slow() {
    let world = World::start().await;
    let slow = Effect::DelayReply(Duration::from_millis(60));
    world.emulator.inject(Fault::any().effect(slow));
    let ran = world.run(&["run", "--once", "1s..1m", "nightly", "--", "echo", "ran"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ran\n"), "{ran:?}");
}

#[tokio::test]
async fn a_scheduled_command_that_comes_too_late_was_never_started_and_says_so() {
    let world = World::start().await;
    let slow = Effect::DelayReply(Duration::from_millis(60));
    world.emulator.inject(Fault::any().effect(slow));
    let job = ["run", "--once", "30s..1m", "--start-limit", "20ms", "nightly", "--", "echo", "ran"];
    let ran = world.run(&job).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(75), ""), "{ran:?}");
    assert!(ran.err.contains("never started") && ran.err.contains("--start-limit"), "{ran:?}");
    assert!(!is_held(&world, "nightly").await);
}

/// The process that a command left behind, after the end of the command.
async fn left_behind(world: &World, options: &[&str]) -> i32 {
    let script = "trap '' TERM; sleep 600 >/dev/null 2>&1 & echo $!";
    let mut arguments = vec!["run"];
    arguments.extend_from_slice(options);
    arguments.extend_from_slice(&["job", "--", "sh", "-c", script]);
    let ran = world.run(&arguments).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.out.trim().parse().unwrap()
}

#[tokio::test]
async fn background_processes_of_a_command_live_on_unless_its_group_is_to_end() {
    let world = World::start().await;
    let lives = left_behind(&world, &[]).await;
    assert!(is_alive(lives));
    kill(Pid::from_raw(lives), Signal::SIGKILL).unwrap();
    let ended = left_behind(&world, &["--end-group"]).await;
    until("it is dead", async || !is_alive(ended)).await;
    assert!(!is_held(&world, "job").await);
}

#[tokio::test]
async fn a_run_that_can_say_nothing_any_more_stops_its_command_and_ends_as_it_should() {
    let world = World::start().await;
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let arguments = ["run", "--lease", "2s", "job", "--", "sh", "-c", script];
    let mut child = world.program(&arguments).spawn().unwrap();
    drop(child.stderr.take());
    until("the lock is held", async || is_held(&world, "job").await).await;
    world.table.seize("job").await.unwrap();
    assert_eq!(code(&mut child).await, Some(124));
}
