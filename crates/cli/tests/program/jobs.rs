//! Scheduled commands: `run` with a slot, `jobs` and `job`.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::Instant;

use crate::world::{Running, World, until};

/// A slot that has just come, by Spanner's clock.
pub async fn slot(world: &World) -> String {
    let now = world.table.inspect("nothing").await.unwrap().read_at;
    now.to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
}

/// Longer than a busy machine stands still.
const LEASE: Duration = Duration::from_secs(60);

fn run<'a>(slot: &'a str, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    run_by("60s", slot, options, command)
}

fn run_by<'a>(
    lease: &'a str,
    slot: &'a str,
    options: &[&'a str],
    command: &[&'a str],
) -> Vec<&'a str> {
    let quick = ["run", "nightly", "--slot", slot, "--retry-pause", "1ms", "--lease", lease];
    [&quick, options, &["--"], command].concat()
}

#[tokio::test]
async fn a_slot_is_run_on_one_node_and_skipped_by_those_that_come_later() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let job = run(&slot, &["--id", "node-1"], &["echo", "ran"]);
    world.run(&job).await.ends(0).says_only("ran\n");
    let late = world.run(&job).await;
    late.ends(0).says_only("").complains("skipped").complains("is done: start 1 of 3, by node-1");
    let older = run("2026-01-01T00:00:00Z", &[], &["echo", "ran"]);
    world.run(&older).await.ends(0).says_only("").complains("superseded");
    let listed = world.run(&["jobs"]).await;
    listed.ends(0).says("nightly").says("done").says("1 of 3").says("node-1");
    let json = world.run(&["jobs", "-o", "jsonl"]).await;
    json.ends(0).says("\"job\":\"nightly\"").says("\"state\":\"done\"").says("\"took_ms\":");
    let told = [&*job, &[]].concat();
    let told = [&told[..1], &["--skipped-exit-code", "42"], &told[1..]].concat();
    world.run(&told).await.ends(42).says_only("").complains("skipped");
    let ran = format!("slot {}Z is done: start 1 of 3", &slot[..26]);
    world.run(&["history", "nightly"]).await.ends(0).says("released").says(&ran);
    let json = world.run(&["history", "nightly", "-o", "jsonl"]).await.ends(0);
    json.says("\"slot\":{\"time\":\"").says("\"state\":\"done\"");
    world.run(&["ls"]).await.ends(0);
    world.run(&["job", "slots", "nightly"]).await.ends(0).says("done");
    world.run(&["job", "slots", "weekly"]).await.ends(1);
    world.run(&["job", "rm", "--yes", "nightly"]).await.ends(0).says("forgotten");
    world.run(&["job", "rm", "--yes", "nightly"]).await.ends(1).says("no record");
    world.run(&job).await.ends(0).says_only("ran\n");
}

#[tokio::test]
async fn a_command_that_fails_is_tried_again_and_its_own_code_tells_that_the_slot_failed() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let job = run(&slot, &["--attempts", "2"], &["sh", "-c", "echo tried; exit 7"]);
    world.run(&job).await.ends(7).says_only("tried\ntried\n").complains("is failed: start 2 of 2");
    let elsewhere = world.run(&job).await;
    elsewhere.ends(122).says_only("").complains("is failed");
    world.run(&["jobs"]).await.ends(0).says("failed").says("2 of 2");
}

#[tokio::test]
async fn a_command_that_takes_longer_than_at_most_is_stopped() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let at_most = ["--attempts", "1", "--at-most", "500ms"];
    let job = run_by("2s", &slot, &at_most, &["sleep", "600"]);
    let began = Instant::now();
    world.run(&job).await.ends(124).complains("the command gets SIGTERM");
    assert!(began.elapsed() < Duration::from_secs(30));
    let deaf = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"];
    let slot = self::slot(&world).await;
    let job = run_by("2s", &slot, &at_most, &deaf);
    world.run(&job).await.ends(124);
}

#[tokio::test]
async fn a_node_that_waits_runs_the_slot_of_one_that_was_killed() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let mut dies = world.spawn(&run(&slot, &[], &["sh", "-c", "echo started; exec sleep 600"]));
    assert_eq!(dies.line().await, "started");
    world.run(&run(&slot, &["--skip-if-running"], &["true"])).await.ends(0).complains("is running");
    let requests = world.emulator.requests().total();
    let waits = world.spawn(&run(&slot, &[], &["echo", "healed"]));
    until("it waits", async || world.emulator.requests().total() > requests + 5).await;
    dies.signal(Signal::SIGKILL);
    assert_eq!(dies.code().await, None);
    world.emulator.advance(LEASE);
    waits.end().await.ends(0).says_only("healed\n");
    world.run(&["jobs"]).await.says("done").says("2 of 3");
}

#[tokio::test]
async fn a_signal_goes_to_the_command_whose_code_it_ends_with_and_the_slot_stays_open() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.1; done";
    let mut run_it = world.spawn(&run(&slot, &[], &["sh", "-c", script]));
    assert_eq!(run_it.line().await, "ready");
    run_it.signal(Signal::SIGTERM);
    assert_eq!(run_it.code().await, Some(42));
    world.run(&["jobs"]).await.says("open").says("1 of 3");
    world.run(&run(&slot, &[], &["echo", "ran"])).await.ends(0).says_only("ran\n");
}

/// A script that goes on by the code takes the slot for done, but another node runs it once more.
#[tokio::test]
async fn a_command_that_a_signal_ended_well_and_whose_end_is_not_recorded_has_a_code_of_its_own() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let mut run_it = world.spawn(&run_by("20s", &slot, &[], &["sh", "-c", script]));
    assert_eq!(run_it.line().await, "ready");
    world.emulator.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    run_it.signal(Signal::SIGTERM);
    run_it.end().await.ends(123).complains("the end of its run is not recorded");
}

#[tokio::test]
async fn a_command_that_failed_and_whose_end_is_not_recorded_keeps_its_code_after_a_signal() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let script = "echo ready; read line; exit 3";
    let mut program = world.program(&run(&slot, &[], &["sh", "-c", script]));
    program.stdin(Stdio::piped());
    let mut run_it = Running::start(program);
    assert_eq!(run_it.line().await, "ready");
    let stalled = world.emulator.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    run_it.told("end").await;
    until("its end is to be recorded", async || stalled.hits() > 0).await;
    run_it.signal(Signal::SIGTERM);
    run_it.end().await.ends(3).complains("the end of its run is not recorded");
}

#[tokio::test]
async fn a_signal_that_comes_before_the_command_is_not_kept_for_it() {
    let world = World::start().await;
    let soon = world.table.inspect("nothing").await.unwrap().read_at + Duration::from_secs(3);
    let soon = soon.to_rfc3339();
    let waits = world.spawn(&run(&soon, &["--attempts", "1"], &["echo", "ran"]));
    until("it waits", async || world.emulator.requests().total() > 5).await;
    waits.signal(Signal::SIGUSR1);
    waits.end().await.ends(0).says_only("ran\n");
}
