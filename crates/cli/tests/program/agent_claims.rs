//! `spindle agent` and claims that a client names: it asks again, lets go late, and hears the same.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::Instant;

use crate::agent::{LONG, agent, boottime, claim, deadline, gained, lead, token};
use crate::http::{Events, Server};
use crate::jobs::slot;
use crate::world::{World, until};

const NAME: &str = "0123456789abcdefABCDEF-_";

#[tokio::test]
async fn a_request_whose_answer_was_lost_is_granted_the_same_term_again() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "lock": "a", "lease": "60s", "claim": NAME });
    let (status, first) = agent.send("POST", "/v1/acquire", &body).await;
    assert_eq!((status, &first["claim"]), (200, &json!(NAME)), "{first}");
    let (status, again) = agent.send("POST", "/v1/acquire", &body).await;
    assert_eq!((status, &again["token"]), (200, &first["token"]), "{again}");
    let other = json!({ "lock": "a", "lease": "60s" });
    let (status, refused) = agent.send("POST", "/v1/acquire", &other).await;
    assert_eq!((status, &refused["code"]), (409, &json!("held")), "{refused}");
    let (status, _) = agent.send("DELETE", &claim(&first), &Value::Null).await;
    assert_eq!(status, 200);
    assert!(!world.is_held("a").await);
    let (status, next) = agent.send("POST", "/v1/acquire", &body).await;
    assert!(status == 200 && token(&next) > token(&first), "its name is free again: {next}");
}

#[tokio::test]
async fn requests_of_one_name_at_a_time_are_one_claim() {
    let world = World::start().await;
    let held = world.hold("a", "somebody", LONG).await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "lock": "a", "lease": "60s", "wait": "60s", "claim": NAME });
    let ask = || agent.send("POST", "/v1/acquire", &body);
    let frees = async {
        until("one waits", async || agent.get("/metrics").await.body.contains("_claims 1")).await;
        held.release().await;
    };
    let asks = futures_util::future::join_all((0..20).map(|_| ask()));
    let (answers, ()) = tokio::join!(asks, frees);
    for (status, told) in &answers {
        assert_eq!((*status, &told["token"]), (200, &answers[0].1["token"]), "{answers:?}");
    }
}

#[tokio::test]
async fn a_client_that_waits_lets_go_by_the_name_that_it_chose() {
    let world = World::start().await;
    let _held = world.hold("a", "somebody", LONG).await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "lock": "a", "wait": "1h", "claim": NAME });
    let lets_go = async {
        let path = format!("/v1/claims/{NAME}");
        until("it waits", async || agent.get("/metrics").await.body.contains("_claims 1")).await;
        agent.send("DELETE", &path, &Value::Null).await
    };
    let (asked, answer) = tokio::join!(agent.send("POST", "/v1/acquire", &body), lets_go);
    assert_eq!((asked.0, &asked.1["code"]), (409, &json!("let_go")), "{asked:?}");
    assert_eq!(answer, (200, json!({ "outcome": "ended_before" })));
}

/// The begin of the term of `b`, once that of `a` has begun, too.
async fn gained_b(events: &mut Events) -> Value {
    let (one, other) = (gained(events).await, gained(events).await);
    if one["lock"] == "b" { one } else { other }
}

#[tokio::test]
async fn a_stream_of_a_name_takes_the_place_of_the_one_before() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "locks": ["b", "a"], "lease": "60s", "claim": NAME });
    let began = Instant::now();
    let mut first = agent.stream("/v1/lead", &body).await;
    let held = gained_b(&mut first).await;
    assert_eq!(held["claim"], format!("{NAME}.1"), "the first that was named");
    // The agent knows nothing of its end.
    let mut second = agent.stream("/v1/lead", &body).await;
    let next = gained_b(&mut second).await;
    assert!(token(&next) > token(&held), "{next}");
    drop(second);
    until("it is noticed", async || agent.get("/metrics").await.body.contains("lapsed_total 2"))
        .await;
    let mut third = agent.stream("/v1/lead", &body).await;
    let last = gained_b(&mut third).await;
    assert!(token(&last) > token(&next) && began.elapsed() < LONG / 2, "{last}");
}

#[tokio::test]
async fn a_request_that_is_refused_ends_no_claim_of_its_name() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let mut body = json!({ "locks": ["a"], "lease": "60s", "claim": NAME });
    let mut first = agent.stream("/v1/lead", &body).await;
    let held = gained(&mut first).await;
    body["leese"] = json!("60s");
    let refused = agent.send("POST", "/v1/lead", &body).await;
    assert_eq!((refused.0, &refused.1["code"]), (400, &json!("bad_request")), "{refused:?}");
    let heartbeat = format!("{}/heartbeat", claim(&held));
    let told = agent.send("POST", &heartbeat, &json!({})).await;
    assert_eq!((told.0, &told.1["token"]), (200, &held["token"]), "{told:?}");
}

/// An agent, and the term of a client whose connection has ended.
async fn gone(world: &World) -> (Server, Value) {
    let agent = agent(world, &[]).await;
    let mut events = lead(&agent, "a", LONG).await;
    let held = gained(&mut events).await;
    drop(events);
    until("it is noticed", async || agent.get("/metrics").await.body.contains("lapsed_total 1"))
        .await;
    (agent, held)
}

#[tokio::test]
async fn a_client_whose_connection_has_ended_can_still_let_go() {
    let world = World::start().await;
    let (agent, held) = gone(&world).await;
    assert!(world.is_held("a").await);
    let answer = agent.send("DELETE", &claim(&held), &Value::Null).await;
    assert_eq!(answer, (200, json!({ "outcome": "released" })));
    assert!(!world.is_held("a").await);
    let (status, gone) = agent.send("DELETE", &claim(&held), &Value::Null).await;
    assert_eq!((status, &gone["code"]), (404, &json!("no_such_claim")));
}

#[tokio::test]
async fn a_client_that_is_gone_while_it_lets_go_late_may_ask_once_more() {
    let world = World::start().await;
    let (agent, held) = gone(&world).await;
    let stalled = world.emulator.inject(Fault::on(Rpc::Commit).effect(Effect::Stall).times(1));
    let path = claim(&held);
    tokio::select! {
        answer = agent.send("DELETE", &path, &Value::Null) => panic!("{answer:?}"),
        () = until("it is asked", async || stalled.hits() > 0) => {}
    }
    let answer = agent.send("DELETE", &path, &Value::Null).await;
    assert_eq!(answer, (200, json!({ "outcome": "released" })));
    assert!(!world.is_held("a").await);
}

/// A run that has taken too long: its events, the first start and the loss that it was told.
async fn overrun(world: &World, agent: &Server, lease: &str) -> (Events, Value, Value) {
    let slot = slot(world).await;
    let mut body = json!({ "lock": "nightly", "slot": slot, "lease": lease, "at_most": "500ms" });
    body["heartbeat_timeout"] = json!("1h");
    body["retry_pause"] = json!("1ms");
    let mut events = agent.stream("/v1/run-once", &body).await;
    let first = gained(&mut events).await;
    let lost = events.named("lost").await;
    assert_eq!(lost["token"], first["token"]);
    (events, first, lost)
}

#[tokio::test]
async fn a_run_that_takes_too_long_has_its_lease_to_stop_in() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let (mut events, _, lost) = overrun(&world, &agent, "3s").await;
    let again = gained(&mut events).await;
    assert!(boottime() >= deadline(&lost), "the first start may go on until then: {lost} {again}");
}

#[tokio::test]
async fn a_run_that_took_too_long_is_ended_at_once_by_its_client() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let (_events, first, _) = overrun(&world, &agent, "60s").await;
    assert!(world.is_held("nightly").await, "its client may be at work");
    let ends = format!("{}?outcome=failed", claim(&first));
    let answer = agent.send("DELETE", &ends, &Value::Null).await;
    assert_eq!(answer, (200, json!({ "outcome": "released" })));
    assert!(!world.is_held("nightly").await);
}

#[tokio::test]
async fn a_run_whose_connection_has_ended_can_still_be_ended() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let mut streams = Vec::new();
    let (failed, done) = ("2026-11-26T03:00:00Z", "2026-11-26T04:00:00Z");
    for (count, outcome, slot, next) in
        [(1, "failed", failed, "gained"), (2, "done", done, "ended")]
    {
        let body = json!({ "lock": outcome, "slot": slot, "lease": "60s", "retry_pause": "10ms" });
        let mut events = agent.stream("/v1/run-once", &body).await;
        let held = gained(&mut events).await;
        drop(events);
        let lapsed = format!("lapsed_total {count}");
        until("it is noticed", async || agent.get("/metrics").await.body.contains(&lapsed)).await;
        let path = format!("{}?outcome={outcome}", claim(&held));
        let answer = agent.send("DELETE", &path, &Value::Null).await;
        assert_eq!(answer, (200, json!({ "outcome": "released" })));
        let mut again = agent.stream("/v1/run-once", &body).await;
        again.named("waiting").await;
        let (event, told) = again.next().await.unwrap();
        assert_eq!(event, next, "{told}");
        // So that it doesn't lapse, too.
        streams.push(again);
    }
}

#[tokio::test]
async fn a_client_whose_end_of_a_run_is_not_recorded_is_told_so() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let slot = slot(&world).await;
    let body =
        json!({ "lock": "nightly", "slot": slot, "lease": "20s", "heartbeat_timeout": "1h" });
    let mut events = agent.stream("/v1/run-once", &body).await;
    let held = gained(&mut events).await;
    world.emulator.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let answer = agent.send("DELETE", &claim(&held), &Value::Null).await;
    assert_eq!(answer, (200, json!({ "outcome": "unacknowledged" })));
    assert_eq!(events.named("ended").await["reason"], "unacknowledged");
}

#[tokio::test]
async fn one_heartbeat_is_enough_for_all_locks_of_a_stream() {
    let world = World::start().await;
    let agent = agent(&world, &[]).await;
    let body = json!({ "locks": ["a", "b"], "lease": "60s", "heartbeat_timeout": "6s" });
    let mut events = agent.stream("/v1/lead", &body).await;
    let held = gained(&mut events).await;
    let heartbeat = format!("{}/heartbeat", claim(&held));
    let began = Instant::now();
    while began.elapsed().as_secs() < 7 {
        assert_eq!(agent.send("POST", &heartbeat, &json!({})).await.0, 200);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    assert!(agent.get("/metrics").await.body.contains("spindle_agent_claims 2"));
    let (one, other) = (events.named("ended").await, events.named("ended").await);
    assert_eq!((&one["reason"], &other["reason"]), (&json!("silent"), &json!("silent")));
}

#[tokio::test]
async fn a_client_without_a_stream_hears_from_its_heartbeats_that_the_agent_ends() {
    let world = World::start().await;
    let agent = agent(&world, &["--grace", "20s"]).await;
    let body = json!({ "lock": "a", "lease": "60s", "claim": NAME });
    assert_eq!(agent.send("POST", "/v1/acquire", &body).await.0, 200);
    let heartbeat = format!("/v1/claims/{NAME}/heartbeat");
    let told = agent.send("POST", &heartbeat, &json!({})).await;
    assert_eq!(told.1["ending"], false, "{told:?}");
    agent.running.signal(Signal::SIGTERM);
    until("it is told", async || {
        agent.send("POST", &heartbeat, &json!({})).await.1["ending"] == true
    })
    .await;
    let path = format!("/v1/claims/{NAME}");
    assert_eq!(agent.send("DELETE", &path, &Value::Null).await.0, 200);
    agent.running.end().await.ends(0);
}
