//! `spindle agent`: locks for programs that speak HTTP.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use spindle::FencingToken;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::http::{Events, Server};
use crate::world::{TIME_LIMIT, World, until};

/// Long enough that nothing runs out in a test that doesn't wait for it.
pub const LONG: Duration = Duration::from_secs(60);
/// Short enough to be waited for, and longer than a busy machine keeps a process from its turn.
const SHORT: Duration = Duration::from_secs(20);

pub async fn agent(world: &World, arguments: &[&str]) -> Server {
    let mut command = world.program(&["agent", "--listen", "127.0.0.1:0"]);
    command.args(arguments);
    Server::started(command).await
}

pub async fn lead(agent: &Server, lock: &str, lease: Duration) -> Events {
    let lease = format!("{}ms", lease.as_millis());
    let body = json!({ "locks": [lock], "lease": lease, "heartbeat_timeout": "1h" });
    agent.stream("/v1/lead", &body).await
}

pub async fn gained(events: &mut Events) -> Value {
    events.named("gained").await
}

pub fn claim(event: &Value) -> String {
    format!("/v1/claims/{}", event["claim"].as_str().unwrap())
}

pub fn token(event: &Value) -> FencingToken {
    event["token"].as_str().unwrap().parse().unwrap()
}

pub fn boottime() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap())
}

/// The deadline of an event, by the clock that counts suspended time.
pub fn deadline(event: &Value) -> Duration {
    Duration::from_nanos(event["deadline"]["boottime_ns"].as_str().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_client_is_told_that_it_leads_under_which_token_and_until_when() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let asked = boottime();
    let mut events = lead(&agent, "billing", SHORT).await;
    let (first, waiting) = events.next().await.unwrap();
    assert_eq!((first.as_str(), waiting["lock"].as_str()), ("waiting", Some("billing")));
    let held = gained(&mut events).await;
    let state = world.table.inspect("billing").await.unwrap();
    assert_eq!((state.token, state.holder()), (Some(token(&held)), waiting["id"].as_str()));
    assert_eq!(held["fence"]["token"], held["token"]);
    let until = deadline(&held);
    assert!(until > asked && until < boottime() + SHORT, "{held}");
    let monotonic: u64 = held["deadline"]["monotonic_ns"].as_str().unwrap().parse().unwrap();
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
    assert!(Duration::from_nanos(monotonic) < now + SHORT, "{held}");
    for _ in 0..2 {
        let renewed = events.named("renewed").await;
        assert!(deadline(&renewed) > until && renewed["token"] == held["token"], "{renewed}");
    }
    world.run(&["evict", "billing", "--yes"]).await;
    let lost = events.named("lost").await;
    assert_eq!(lost["reason"], "superseded", "{lost}");
    assert!(boottime() < deadline(&lost), "there is time to stop: {lost}");
    // The evicted term is left its lease.
    world.emulator.advance(SHORT);
    assert!(token(&gained(&mut events).await) > token(&held), "it contends again");
}

#[tokio::test]
async fn a_deadline_counts_from_before_the_request_left_and_not_from_its_answer() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let late = Duration::from_secs(2);
    world.emulator.inject(Fault::on(Rpc::Commit).effect(Effect::DelayReply(late)));
    let mut events = lead(&agent, "billing", LONG).await;
    let held = gained(&mut events).await;
    let now = boottime();
    assert!(deadline(&held) <= now + LONG - late, "{now:?} {held}");
    let (status, answer) =
        agent.send("POST", &format!("{}/heartbeat", claim(&held)), &json!({})).await;
    assert_eq!(status, 200, "{answer}");
    assert!(
        answer["remaining_ms"].as_u64().unwrap() <= (LONG - late).as_millis() as u64,
        "{answer}"
    );
}

#[tokio::test]
async fn a_client_that_lets_go_frees_its_lock_at_once() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let (mut first, mut second) = (lead(&agent, "a", LONG).await, None);
    let held = gained(&mut first).await;
    let began = Instant::now();
    let events = second.insert(lead(&agent, "a", LONG).await);
    assert_eq!(events.next().await.unwrap().0, "waiting");
    let (status, answer) = agent.send("DELETE", &claim(&held), &Value::Null).await;
    assert_eq!((status, &answer), (200, &json!({ "outcome": "released" })));
    let ended = first.named("ended").await;
    assert_eq!(ended["reason"], "released");
    assert!(first.next().await.is_none(), "the stream of one lock ends with it");
    assert!(token(&gained(events).await) > token(&held), "they contend like two processes");
    assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
    let again = agent.send("DELETE", &claim(&held), &Value::Null).await;
    assert_eq!(again.0, 404, "{again:?}");
}

/// A contender gets the lock of a client that is gone once its lease is over by Spanner's clock, and not before.
async fn lapses(world: &World, agent: &Server, held: &Value) {
    until("it is noticed", async || {
        agent.get("/metrics").await.body.contains("spindle_agent_lapsed_total 1")
    })
    .await;
    let mut next = lead(agent, "a", SHORT).await;
    assert_eq!(next.next().await.unwrap().0, "waiting");
    let state = world.table.inspect("a").await.unwrap();
    assert_eq!(state.token, Some(token(held)), "nothing was released: {state:?}");
    world.emulator.advance(SHORT);
    let next = gained(&mut next).await;
    assert!(token(&next) > token(held));
    let state = world.table.inspect("a").await.unwrap();
    assert_eq!(state.token, Some(token(&next)));
}

#[tokio::test]
async fn the_lease_of_a_client_whose_connection_ends_runs_out() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let mut events = lead(&agent, "a", SHORT).await;
    let held = gained(&mut events).await;
    drop(events);
    lapses(&world, &agent, &held).await;
}

#[tokio::test]
async fn the_lease_of_a_client_that_falls_silent_runs_out() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "lock": "a", "lease": "20s", "heartbeat_timeout": "6s" });
    let (status, held) = agent.send("POST", "/v1/acquire", &body).await;
    assert_eq!(status, 200, "{held}");
    let heartbeat = format!("{}/heartbeat", claim(&held));
    for _ in 0..16 {
        sleep(Duration::from_millis(500)).await;
        let (status, kept) = agent.send("POST", &heartbeat, &json!({})).await;
        assert_eq!(
            (status, &kept["token"]),
            (200, &held["token"]),
            "longer than its heartbeat timeout"
        );
    }
    let (status, other) = agent.send("POST", "/v1/acquire", &json!({ "lock": "a" })).await;
    assert_eq!(status, 409, "{other}");
    lapses(&world, &agent, &held).await;
    assert_eq!(agent.send("POST", &heartbeat, &json!({})).await.0, 404);
}

#[tokio::test]
async fn a_stream_without_heartbeats_ends_after_a_lease() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "locks": ["a"], "lease": "20s" });
    let mut events = agent.stream("/v1/lead", &body).await;
    let held = gained(&mut events).await;
    assert_eq!(held["event"], "gained", "for readers of the data alone");
    let ended = events.named("ended").await;
    assert_eq!(ended["reason"], "silent", "a stopped process keeps its connection");
    lapses(&world, &agent, &held).await;
}

#[tokio::test]
async fn the_lock_of_one_client_is_not_anothers() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let (mut first, mut second) = (lead(&agent, "a", LONG).await, lead(&agent, "b", LONG).await);
    let (one, other) = (gained(&mut first).await, gained(&mut second).await);
    assert_ne!(one["claim"], other["claim"]);
    for guess in ["a", "", "0", &"0".repeat(32), "..", "%61", one["token"].as_str().unwrap()] {
        let path = format!("/v1/claims/{guess}");
        let refused = agent.send("DELETE", &path, &Value::Null).await;
        assert!([404, 405].contains(&refused.0), "{path}: {refused:?}");
    }
    assert_eq!(agent.send("DELETE", &claim(&other), &Value::Null).await.0, 200);
    let state = world.table.inspect("a").await.unwrap();
    assert_eq!((state.is_held(), state.token), (true, Some(token(&one))));
}

#[tokio::test]
async fn a_program_that_outlives_its_agent_stops_before_another_leads() {
    let world = World::start().await;
    let (first, second) = (agent(&world, &[]).await, agent(&world, &[]).await);
    let mut events = lead(&first, "a", SHORT).await;
    let mut held = gained(&mut events).await;
    let mut next = lead(&second, "a", SHORT).await;
    first.running.signal(Signal::SIGKILL);
    while let Some((event, data)) = events.next().await {
        assert_eq!(event, "renewed", "nothing else was told");
        held["deadline"] = data["deadline"].clone();
    }
    assert!(token(&gained(&mut next).await) > token(&held));
    assert!(boottime() >= deadline(&held), "the first has stopped by now");
}

#[tokio::test]
async fn an_agent_that_ends_gives_its_clients_time_and_releases_nothing_by_itself() {
    let world = World::start().await;
    let agent = agent(&world, &["--grace", "10s"]).await;
    let (mut first, mut second) = (lead(&agent, "a", LONG).await, lead(&agent, "b", LONG).await);
    let (one, other) = (gained(&mut first).await, gained(&mut second).await);
    agent.running.signal(Signal::SIGTERM);
    for events in [&mut first, &mut second] {
        events.named("ending").await;
    }
    let refused = agent.send("POST", "/v1/acquire", &json!({ "lock": "c" })).await;
    assert_eq!(refused.0, 503, "{refused:?}");
    assert_eq!(agent.send("DELETE", &claim(&one), &Value::Null).await.0, 200);
    let ended = second.named("ended").await;
    assert_eq!(ended["reason"], "ending");
    agent.running.end().await.ends(0);
    let state = |name: &'static str| world.table.inspect(name);
    assert!(!state("a").await.unwrap().is_held());
    assert_eq!(state("b").await.unwrap().token, Some(token(&other)), "its lease runs out");
}

#[tokio::test]
async fn an_agent_that_is_told_twice_to_end_waits_for_no_client() {
    let world = World::start().await;
    let agent = agent(&world, &["--grace", "1h"]).await;
    let mut events = lead(&agent, "a", LONG).await;
    let held = gained(&mut events).await;
    agent.running.signal(Signal::SIGTERM);
    events.named("ending").await;
    agent.running.signal(Signal::SIGTERM);
    let ended = events.named("ended").await;
    assert_eq!(ended["reason"], "ending");
    agent.running.end().await.ends(0);
    let state = world.table.inspect("a").await.unwrap();
    assert_eq!(state.token, Some(token(&held)), "its lease runs out");
}

#[tokio::test]
async fn an_agent_that_ends_keeps_nobody_waiting_for_a_lock() {
    let world = World::start().await;
    let (first, second) = (agent(&world, &[]).await, agent(&world, &["--grace", "1h"]).await);
    let mut events = lead(&first, "a", LONG).await;
    gained(&mut events).await;
    let mut standby = lead(&second, "a", LONG).await;
    assert_eq!(standby.next().await.unwrap().0, "waiting");
    let acquire = json!({ "lock": "a", "wait": "1h" });
    let asking = second.send("POST", "/v1/acquire", &acquire);
    let ending = async {
        until("both wait", async || {
            second.get("/metrics").await.body.contains("spindle_agent_claims 2")
        })
        .await;
        second.running.signal(Signal::SIGTERM);
    };
    let (refused, ()) = tokio::join!(asking, ending);
    assert_eq!(refused.0, 503, "{refused:?}");
    let ended = standby.named("ended").await;
    assert_eq!(ended["reason"], "ending");
    second.running.end().await.ends(0);
}

#[tokio::test]
async fn a_client_that_resigns_goes_on_contending() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let mut first = lead(&agent, "a", SHORT).await;
    let held = gained(&mut first).await;
    let body = json!({ "locks": ["a"], "lease": "60s", "id": "node-2" });
    let mut second = agent.stream("/v1/lead", &body).await;
    assert_eq!(second.next().await.unwrap().1["id"], "node-2");
    let resign = format!("{}/resign", claim(&held));
    let answer = agent.send("POST", &resign, &json!({ "to": "node-2" })).await;
    assert_eq!(answer, (200, json!({ "resigned": true })));
    let lost = first.named("lost").await;
    assert_eq!(lost["reason"], "let_go");
    let next = gained(&mut second).await;
    let leader = agent.json("/v1/leader?lock=a").await;
    assert_eq!((&leader["holder"], &leader["token"]), (&json!("node-2"), &next["token"]));
    let told: Vec<&str> = leader.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields_of_a_lock(), told);
    agent.send("DELETE", &claim(&next), &Value::Null).await;
    assert!(token(&gained(&mut first).await) > token(&next));
}

/// The fields that the description has for the answer about a lock, in order.
fn fields_of_a_lock() -> Vec<&'static str> {
    let page = include_str!("../../../../docs/agent.yaml");
    let (_, rest) = page.split_once("\n    Lock:\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("      "));
    let fields = lines.filter_map(|line| line.strip_prefix("        ")?.split_once(':'));
    let mut fields: Vec<_> = fields.map(|(name, _)| name).filter(|it| !it.contains(' ')).collect();
    fields.sort_unstable();
    fields
}

#[tokio::test]
async fn a_slot_is_run_by_one_client_and_skipped_by_the_next_and_by_another_after_a_failure() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let slot = world.table.inspect("nightly").await.unwrap().read_at;
    let asked = |slot: &str| json!({ "lock": "nightly", "slot": slot, "retry_pause": "100ms" });
    let body = asked(&slot.to_rfc3339());
    let mut first = agent.stream("/v1/run-once", &body).await;
    let waiting = first.next().await.unwrap();
    let begun = gained(&mut first).await;
    let held = world.table.inspect("nightly").await.unwrap();
    assert_eq!(waiting.1["id"].as_str(), held.holder(), "{waiting:?}");
    let resigned = agent.send("POST", &format!("{}/resign", claim(&begun)), &json!({})).await;
    assert_eq!(resigned.0, 400, "{resigned:?}");
    let mut waits = agent.stream("/v1/run-once", &body).await;
    let failed = format!("{}?outcome=failed", claim(&begun));
    let failed = agent.send("DELETE", &failed, &Value::Null).await;
    assert_eq!(failed, (200, json!({ "outcome": "released" })));
    assert_eq!(first.named("ended").await["reason"], "failed");
    let begun = gained(&mut waits).await;
    let done = agent.send("DELETE", &claim(&begun), &Value::Null).await;
    assert_eq!(done, (200, json!({ "outcome": "released" })));
    let mut late = agent.stream("/v1/run-once", &body).await;
    let ended = late.named("ended").await;
    assert_eq!(ended["reason"], "skipped", "{ended}");
    assert!(ended["detail"].as_str().unwrap().contains("start 2 of 3"), "{ended}");
}

#[tokio::test]
async fn a_client_that_is_gone_in_its_run_leaves_the_slot_to_another_once_its_lease_is_over() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let slot = world.table.inspect("nightly").await.unwrap().read_at.to_rfc3339();
    let body = json!({ "lock": "nightly", "slot": slot, "retry_pause": "1ms", "lease": "12s", "heartbeat_timeout": "1h" });
    let mut first = agent.stream("/v1/run-once", &body).await;
    let begun = gained(&mut first).await;
    let renewed = first.named("renewed").await;
    assert_eq!(token(&renewed), token(&begun));
    let mut waits = agent.stream("/v1/run-once", &body).await;
    drop(first);
    until("it is noticed", async || {
        agent.get("/metrics").await.body.contains("spindle_agent_lapsed_total 1")
    })
    .await;
    let state = world.table.inspect("nightly").await.unwrap();
    assert_eq!(state.token, Some(token(&begun)), "nothing was released: {state:?}");
    world.emulator.advance(Duration::from_secs(12));
    let next = gained(&mut waits).await;
    assert!(token(&next) > token(&begun));
    agent.send("DELETE", &claim(&next), &Value::Null).await;
    let job = world.table.job("nightly").await.unwrap().unwrap();
    assert_eq!(job.last.unwrap().starts, 2);
}

#[tokio::test]
async fn a_job_whose_settings_cannot_work_is_refused() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    for (field, value, named) in [
        ("slot", json!("02:00"), "02:00"),
        ("every", json!("1h"), "slot"),
        ("attempts", json!(0), "0 attempts"),
        ("at_most", json!("0s"), "at_most"),
        ("retry_pause", json!("25h"), "retry pause"),
        ("at_least", json!("30s"), "at_least"),
        ("id", json!(""), "id"),
        ("lock", json!(""), "lock"),
    ] {
        let mut body = json!({ "lock": "nightly", "slot": "2026-11-27T02:00:00Z" });
        body[field] = value;
        let (status, refused) = agent.send("POST", "/v1/run-once", &body).await;
        assert_eq!(status, 400, "{body}: {refused}");
        assert!(refused["error"].as_str().unwrap().contains(named), "{refused}");
    }
    let claims = agent.get("/metrics").await.body;
    assert!(claims.contains("spindle_agent_claims 0"), "{claims}");
    assert!(!world.is_held("nightly").await);
}

#[tokio::test]
async fn the_log_says_whose_lease_runs_out_and_why() {
    let world = World::start().await;
    let mut command = world.program(&["agent", "--listen", "127.0.0.1:0"]);
    command.stderr(Stdio::piped());
    let mut agent = Server::listening(command).await;
    let mut log = BufReader::new(agent.running.child.stderr.take().unwrap()).lines();
    let mut events = lead(&agent, "a", SHORT).await;
    let held = gained(&mut events).await;
    drop(events);
    let line = timeout(TIME_LIMIT, log.next_line()).await.unwrap().unwrap().unwrap();
    let token = held["token"].as_str().unwrap();
    for said in ["did not let go", "lock=\"a\"", token, "reason=\"gone\""] {
        assert!(line.contains(said), "{line}");
    }
}

#[tokio::test]
async fn a_service_of_the_former_sidecar_is_told_the_name_of_its_leader() {
    let world = World::start().await;
    let nobody = agent(&world, &[]).await;
    assert_eq!(nobody.get("/").await.status, 404);
    let first = agent(&world, &["--elector", "web", "--id", "pod-1"]).await;
    let name = async |agent: &Server| agent.json("/").await["name"].as_str().unwrap().to_string();
    until("the first leads", async || name(&first).await == "pod-1").await;
    let second = agent(&world, &["--elector", "web", "--id", "pod-2"]).await;
    until("the second knows", async || name(&second).await == "pod-1").await;
    first.running.signal(Signal::SIGTERM);
    until("the second leads", async || name(&second).await == "pod-2").await;
    second.running.signal(Signal::SIGTERM);
    second.running.end().await.ends(0);
    assert!(!world.table.inspect("web").await.unwrap().is_held());
}
