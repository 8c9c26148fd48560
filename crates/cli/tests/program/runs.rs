//! `run`: the lock is held while the command runs, and the command doesn't outlive the lease.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::Instant;

use crate::world::{Running, TIME_LIMIT, World, finish, under, until};

pub fn is_alive(process: i32) -> bool {
    kill(Pid::from_raw(process), None).is_ok()
        // One that nobody has waited for yet is dead all the same.
        && !std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|stat| stat.contains(") Z "))
}

async fn held(world: &World) {
    until("the lock is held", async || world.is_held("job").await).await;
}

#[tokio::test]
async fn the_command_has_name_and_token_and_its_exit_code_is_passed_on() {
    let world = World::start().await;
    let script = "echo $SPINDLE_LOCK $SPINDLE_TOKEN; exit 7";
    let ran = world.run(&["run", "backup", "--", "sh", "-c", script]).await.ends(7);
    let (name, token) = ran.out.trim().split_once(' ').unwrap();
    assert_eq!(name, "backup");
    let state = world.table.inspect("backup").await.unwrap();
    assert!(token.parse::<spindle::FencingToken>().unwrap() < state.token.unwrap());
    assert!(!state.is_held(), "it was released: {state:?}");
}

#[tokio::test]
async fn the_environment_names_the_process_and_a_name_that_cannot_be_is_refused() {
    let world = World::start().await;
    let run = |id: &str| {
        let mut program = world.program(&["run", "backup", "--", "true"]);
        program.env("SPINDLE_ID", id);
        finish(program)
    };
    run("pod-7").await.ends(0);
    world.run(&["history", "backup"]).await.says("pod-7");
    run(">pod").await.ends(125).complains("lock `backup`: id \">pod\"").complains("SPINDLE_ID");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_leaves_the_lock_free() {
    let world = World::start().await;
    world.run(&["run", "backup", "--", "no-such-command-here"]).await.ends(127);
    world.run(&["run", "backup", "--", "/etc/passwd"]).await.ends(126);
    assert!(!world.is_held("backup").await);
}

#[tokio::test]
async fn who_finds_the_lock_held_gives_up_as_told() {
    let world = World::start().await;
    let held = world.hold("backup", "node-1", Duration::from_secs(30)).await;
    world.run(&["run", "--try", "backup", "--", "true"]).await.ends(75).complains("node-1");
    world.run(&["run", "--wait", "300ms", "backup", "--", "true"]).await.ends(75);
    held.release().await;
    world.run(&["run", "--wait", "30s", "backup", "--", "true"]).await.ends(0);
}

#[tokio::test]
async fn what_makes_a_run_impossible_is_told_apart_from_the_commands_own_failure() {
    let world = World::with("").await;
    world.run(&["run", "backup", "--", "true"]).await.ends(125).complains("spindle init");
}

#[tokio::test]
async fn a_signal_reaches_the_command_and_its_answer_comes_back() {
    let world = World::start().await;
    let script = "trap 'exit 42' TERM; while :; do sleep 0.1; done";
    let mut run = world.spawn(&["run", "job", "--", "sh", "-c", script]);
    held(&world).await;
    // The trap may not be set yet: a shell that is killed says so as well.
    run.signal(Signal::SIGTERM);
    assert!(matches!(run.code().await, Some(42 | 143)));
    until("the lock is free", async || !world.is_held("job").await).await;
}

#[tokio::test]
async fn a_signal_while_it_waits_ends_the_wait() {
    let world = World::start().await;
    let _held = world.hold("job", "node-1", Duration::from_secs(30)).await;
    let requests = world.emulator.requests().total();
    let run = world.spawn(&["run", "job", "--", "true"]);
    until("it has asked", async || world.emulator.requests().total() > requests + 5).await;
    run.signal(Signal::SIGTERM);
    run.end().await.ends(143);
}

#[tokio::test]
async fn a_command_is_told_to_stop_once_its_lock_is_seized() {
    let world = World::start().await;
    let script = "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    // It hears of it by its next heartbeat, and of nothing else before on a machine that stands still.
    let mut run = world.spawn(&["run", "--lease", "10s", "job", "--", "sh", "-c", script]);
    assert_eq!(run.line().await, "ready");
    world.table.evict("job").at_once().await.unwrap();
    let ended = run.end().await.ends(124).says_only("told\n");
    ended.complains("term ends unexpectedly").complains("Superseded");
}

#[tokio::test]
async fn a_command_is_stopped_though_nobody_reads_what_is_said_of_it() {
    let world = World::start().await;
    // Its background process fills the standard error stream, and waits for a reader. The command ignores
    // SIGTERM, which is sent before anything is said.
    let script = "trap '' TERM; head -c 1000000 /dev/zero >&2 & echo $$; exec sleep 600";
    let mut run = world.spawn(&["run", "--lease", "4s", "job", "--", "sh", "-c", script]);
    let process = run.line().await.parse().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    world.table.evict("job").at_once().await.unwrap();
    until("it is stopped", async || !is_alive(process)).await;
    // Now somebody reads, and the program can end.
    run.end().await.ends(124);
}

#[tokio::test]
async fn a_command_that_will_not_stop_is_killed_with_its_children_before_the_lease_ends() {
    let world = World::start().await;
    // It ignores the request to stop, and so does what it starts.
    let script = "trap '' TERM; sleep 600 & echo $!; echo $$; wait; sleep 600";
    let mut run = world.spawn(&["run", "--lease", "4s", "job", "--", "sh", "-c", script]);
    let processes: [i32; 2] =
        [run.line().await, run.line().await].map(|process| process.parse().unwrap());
    assert!(processes.iter().all(|process| is_alive(*process)));
    // From now on no heartbeat arrives: the lease runs out.
    let cut_off = Instant::now();
    world.emulator.inject(Fault::any().effect(Effect::Stall));
    assert_eq!(run.code().await, Some(124));
    // The program waits for its release, but no longer than the lease.
    assert!(cut_off.elapsed() < TIME_LIMIT / 2, "{:?}", cut_off.elapsed());
    until("both are dead", async || !processes.iter().any(|process| is_alive(*process))).await;
}

#[tokio::test]
async fn a_signal_ends_a_run_that_still_connects() {
    for form in [&["run", "job", "--", "true"][..], &["run", "--every", "1s", "job", "--", "true"]]
    {
        let world = World::start().await;
        let silence = world.emulator.inject(Fault::any().effect(Effect::Stall));
        let run = world.spawn(form);
        until("it has asked", async || silence.hits() > 0).await;
        run.signal(Signal::SIGTERM);
        run.end().await.ends(143);
    }
}

/// The begin is applied, and its answer comes after the run was told to end.
#[tokio::test]
async fn a_signal_before_the_command_starts_ends_the_run_and_leaves_the_lock_free() {
    for form in [&["--lease", "60s"][..], &["--try"], &["--every", "1s"]] {
        let world = World::start().await;
        let late = Fault::on(Rpc::Commit).times(1);
        let late = late.effect(Effect::DelayReply(Duration::from_secs(2)));
        let late = world.emulator.inject(late);
        let run = world.spawn(&[&["run"], form, &["job", "--", "echo", "started"]].concat());
        until("it begins", async || late.hits() > 0).await;
        run.signal(Signal::SIGTERM);
        run.end().await.ends(143).says_only("");
        assert!(!world.is_held("job").await, "{form:?}: held by a process that is gone");
    }
}

#[tokio::test]
async fn a_run_whose_wait_is_over_releases_what_its_last_attempt_took() {
    let world = World::start().await;
    let late = Fault::on(Rpc::Commit).times(1);
    let late = late.effect(Effect::DelayReply(Duration::from_secs(3)));
    world.emulator.inject(late);
    world.run(&["run", "--wait", "1s", "--lease", "60s", "job", "--", "true"]).await.ends(75);
    assert!(!world.is_held("job").await, "held by a process that is gone");
}

#[tokio::test]
async fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let world = World::start().await;
    let held = world.hold("job", "node-1", Duration::from_secs(30)).await;
    let command = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.1; done";
    let program = world.program(&["run", "job", "--", "sh", "-c", command]);
    let nohup = under("sh", &["-c", "trap '' HUP INT QUIT; exec \"$0\" \"$@\""], program);
    let requests = world.emulator.requests().total();
    let mut run = Running::start(nohup);
    until("it waits", async || world.emulator.requests().total() > requests + 5).await;
    let ignored = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
    ignored.iter().for_each(|which| run.signal(*which));
    held.release().await;
    assert_eq!(run.line().await, "ready", "the wait went on");
    ignored.iter().for_each(|which| run.signal(*which));
    tokio::time::sleep(Duration::from_millis(300)).await;
    run.signal(Signal::SIGTERM);
    assert_eq!(run.code().await, Some(42), "the command got none of them");
}

/// The process that a command left behind, after the end of the command.
async fn left_behind(world: &World, options: &[&str]) -> i32 {
    let script = "trap '' TERM; sleep 600 >/dev/null 2>&1 & echo $!";
    let run = [&["run"], options, &["job", "--", "sh", "-c", script]].concat();
    world.ok(&run).await.trim().parse().unwrap()
}

#[tokio::test]
async fn background_processes_of_a_command_live_on_unless_its_group_is_to_end() {
    let world = World::start().await;
    let lives = left_behind(&world, &[]).await;
    assert!(is_alive(lives));
    kill(Pid::from_raw(lives), Signal::SIGKILL).unwrap();
    let ended = left_behind(&world, &["--end-group"]).await;
    until("it is dead", async || !is_alive(ended)).await;
    assert!(!world.is_held("job").await);
}

#[tokio::test]
async fn a_run_that_can_say_nothing_any_more_stops_its_command_and_ends_as_it_should() {
    let world = World::start().await;
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let mut run = world.spawn(&["run", "--lease", "2s", "job", "--", "sh", "-c", script]);
    drop(run.child.stderr.take());
    held(&world).await;
    world.table.evict("job").at_once().await.unwrap();
    assert_eq!(run.code().await, Some(124));
}
