//! `serve`: metrics, health and events, at a bounded cost.

use std::time::Duration;

use nix::sys::signal::Signal;
use spindle_emulator::engine::{Code, Timestamp};
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_protocol::Writer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::http::Server;
use crate::promtool::Recording;
use crate::world::{Cells, DATABASE, TIME_LIMIT, World, row, under};

const LEASE: Duration = Duration::from_secs(30);

/// After this what was polled is old.
const PERIOD: Duration = Duration::from_millis(1_100);

fn reads(world: &World) -> u64 {
    world.emulator.requests().get(Rpc::StreamingRead)
}

#[tokio::test]
async fn prometheus_is_told_of_every_lock() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    world.hold("ma\"il", "node-2", LEASE).await.release().await;
    let server = Server::start(&world, &[]).await;
    let scraped = server.get("/metrics").await;
    assert_eq!(scraped.status, 200, "{scraped:?}");
    assert!(scraped.head.contains("content-type: text/plain; version=0.0.4"), "{scraped:?}");
    let has = |line: &str| scraped.body.lines().any(|said| said == line);
    assert!(has("spindle_table_lock_held{lock=\"billing\"} 1"), "{}", scraped.body);
    assert!(has("spindle_table_lock_held{lock=\"ma\\\"il\"} 0"), "{}", scraped.body);
    assert!(has("spindle_table_lock_lease_seconds{lock=\"billing\"} 30"), "{}", scraped.body);
    assert!(has("spindle_table_up 1") && has("spindle_table_locks{state=\"held\"} 1"));
    let since = held.lock.has_lock().unwrap().to_datetime().timestamp();
    let token = format!("spindle_table_lock_token_timestamp_seconds{{lock=\"billing\"}} {since}");
    assert!(scraped.body.contains(&token), "{token}: {}", scraped.body);
    assert!(scraped.body.contains("spindle_table_lock_heartbeat_age_seconds{lock=\"billing\"} "));
    assert!(!scraped.body.contains("node-1"), "a holder's id is no label");
}

#[tokio::test]
async fn alerts_tell_what_ended_well_from_what_was_left_and_from_an_outage() {
    let world = World::start().await;
    world.write(&[("tenant", None), ("billing", Some("node-1"))]).await;
    world.run(&["run", "backup", "--", "true"]).await.ends(0);
    let job = world.table.lock("nightly").id("node-1");
    let slot = world.table.inspect("nightly").await.unwrap().read_at;
    job.run_once(slot, async |_| ()).await.unwrap();
    let server = Server::start(&world, &[]).await;
    let mut recording = Recording::default();
    let details = server.get("/lock?name=nightly").await.body;
    assert!(details.contains("\"state\":\"done\",\"starts\":1"), "{details}");
    let text = server.get("/metrics").await.body;
    assert!(text.contains("spindle_table_job_failed{lock=\"nightly\"} 0"), "{text}");
    assert!(!text.contains("spindle_table_job_failed{lock=\"backup\"}"), "{text}");
    (0..12).for_each(|_| recording.scrape(&text));
    recording.expect(&[]);

    // A holder died, and a job panicked at each of its attempts.
    world.write(&[("left", Some("node-2"))]).await;
    world.emulator.advance(Duration::from_secs(900));
    world.beat(&["billing"]).await;
    let job = world.table.lock("weekly").id("node-1");
    let panics = async |_| assert_eq!(1, 2, "no report");
    let failed = job.job().attempts(1).run_once(slot, panics).await.unwrap();
    assert!(matches!(failed, spindle::job::JobOutcome::Failed { .. }), "{failed:?}");
    sleep(PERIOD).await;
    let text = server.get("/metrics").await.body;
    (0..12).for_each(|_| recording.scrape(&text));
    recording.expect(&[("SpindleAbandoned", 1), ("SpindleJobFailed", 1)]);

    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)));
    sleep(PERIOD).await;
    let text = server.get("/metrics").await.body;
    (0..12).for_each(|_| recording.scrape(&text));
    recording.expect(&[("SpindleTableDown", 1)]);
    recording.judge("alerts-of-a-table");
}

#[tokio::test]
async fn labels_are_bounded() {
    let world = World::start().await;
    for n in 0..30 {
        world.write(&[(&format!("lock-{n:02}"), (n != 29).then_some("a"))]).await;
    }
    // One of the others was left 700 s ago, with a lease of 300 s.
    world.emulator.advance(Duration::from_secs(700));
    let names: Vec<_> = (0..28).map(|n| format!("lock-{n:02}")).collect();
    world.beat(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let server = Server::start(&world, &["--metrics-locks", "20"]).await;
    let body = server.get("/metrics").await.body;
    let of_others = |family: &str| {
        let start = format!("spindle_table_lock_{family}{{lock=\"(others)\"}} ");
        let value = body.lines().find_map(|line| line.strip_prefix(&*start));
        value.unwrap_or_else(|| panic!("{body}")).parse::<f64>().unwrap()
    };
    let (age, lease) = (of_others("heartbeat_age_seconds"), of_others("lease_seconds"));
    assert!(lease == 300.0 && age > lease * 2.0, "the alert for what is left: {age} s, {lease} s");
    assert_eq!(body.matches("spindle_table_lock_held{").count(), 21, "{body}");
    // One of the others is held by nobody.
    assert!(body.contains("spindle_table_lock_held{lock=\"(others)\"} 0"), "{body}");
    assert!(body.contains("spindle_table_lock_held{lock=\"lock-19\"} 1"), "{body}");
}

#[tokio::test]
async fn a_member_that_has_gone_leaves_no_heartbeat_of_its_fleet() {
    let world = World::start().await;
    world.write(&[("spindle:member:orders/node-1", Some("node-1")), ("a", Some("a"))]).await;
    world.emulator.advance(Duration::from_secs(700));
    let server = Server::start(&world, &["--metrics-locks", "1"]).await;
    let body = server.get("/metrics").await.body;
    let ages = |of: &str| {
        body.matches(&format!("spindle_table_lock_heartbeat_age_seconds{{lock=\"{of}\"}}")).count()
    };
    assert_eq!((ages("a"), ages("(others)")), (1, 0), "no alert tells of it: {body}");
}

#[tokio::test]
async fn shards_that_a_move_left_behind_are_not_shown() {
    let world = World::start().await;
    let shard = |part: &str| format!("spindle:shard:orders/emails/{part}");
    let names = [shard("0"), shard("1"), shard("2"), shard("3"), shard("4")];
    let [of_a, free, left, held, other] = &names;
    let rows = [(of_a, Some("a")), (free, None), (left, None), (held, Some("a"))];
    world.write(&rows.map(|(name, id)| (name.as_str(), id))).await;
    world.write(&[(&other.replace("emails", "mails"), None)]).await;
    let (now, epoch) = (world.emulator.clock().now(), Timestamp::from_micros(0));
    let count = |count: &str| Cells {
        heartbeat: Some(epoch),
        lease_ms: None,
        info: None,
        writer: Writer::from(count),
        ..Cells::term(now, "", 0)
    };
    let server = Server::start(&world, &[]).await;
    let before = reads(&world);
    server.get("/metrics").await;
    assert_eq!(reads(&world) - before, 2, "one more for the counts of both fleets");
    let shown = async || -> Vec<u32> {
        sleep(PERIOD).await;
        let all = server.events().await.next().await.unwrap().1;
        let locks = all["locks"].as_array().unwrap().iter();
        locks.filter_map(|lock| lock["name"].as_str()?.rsplit('/').next()?.parse().ok()).collect()
    };
    assert_eq!(shown().await, [0, 1, 2, 3, 4], "no row names a count");
    world.apply(&[row(&shard("count"), count("shards 2 from 4 draining"))]).await;
    assert_eq!(shown().await, [0, 1, 2, 3, 4]);
    world.apply(&[row(&shard("count"), count("shards 1 from 2 draining"))]).await;
    assert_eq!(shown().await, [0, 1, 3, 4], "an earlier move left the third behind");
    world.apply(&[row(&shard("count"), count("shards 2 from 4"))]).await;
    assert_eq!(shown().await, [0, 1, 3, 4], "nobody is to have the third");
}

#[tokio::test]
async fn health_follows_spanner() {
    let world = World::start().await;
    let server = Server::start(&world, &[]).await;
    let well = server.get("/healthz").await;
    assert_eq!((well.status, well.body.as_str()), (200, "ok\n"));
    let fault = Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::PermissionDenied));
    world.emulator.inject(fault);
    sleep(PERIOD).await;
    // A scrape polls again, and the probe learns of it.
    let scraped = server.get("/metrics").await.body;
    assert!(scraped.contains("spindle_table_up 0"), "{scraped}");
    assert!(scraped.contains("spindle_table_poll_failures_total 1"), "{scraped}");
    assert!(
        !scraped.contains("spindle_table_lock_held{"),
        "what was is not said to be so: {scraped}"
    );
    let ill = server.get("/healthz").await;
    assert_eq!(ill.status, 503, "{ill:?}");
    assert!(ill.body.contains("locktable"), "{ill:?}");
}

#[tokio::test]
async fn a_probe_that_gives_up_leaves_no_health_behind() {
    let world = World::start().await;
    let server = Server::start(&world, &[]).await;
    world.emulator.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Stall));
    let gave_up = timeout(Duration::from_millis(500), server.get("/healthz")).await;
    assert!(gave_up.is_err(), "{gave_up:?}");
    let ill = server.get("/healthz").await;
    assert_eq!(ill.status, 503, "{ill:?}");
}

#[tokio::test]
async fn a_host_name_of_somebody_else_is_turned_away() {
    let world = World::start().await;
    let server = Server::start(&world, &["--allow-host", "locks.example.com"]).await;
    for path in ["/", "/events", "/metrics", "/lock?name=a"] {
        let refused = server.ask("GET", path, "evil.example:9464").await;
        assert_eq!(refused.status, 421, "{path}: {refused:?}");
        assert!(refused.body.contains("--allow-host"), "{refused:?}");
    }
    assert_eq!(server.ask("GET", "/", "locks.example.com").await.status, 200);
    assert_eq!(server.ask("GET", "/", "localhost:1").await.status, 200);
    assert_eq!(server.ask("POST", "/", "localhost").await.status, 405, "it only reads");
}

#[tokio::test]
async fn every_answer_forbids_what_the_page_does_not_need() {
    let world = World::start().await;
    let server = Server::start(&world, &[]).await;
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/lanes.js", "text/javascript"),
        ("/fleets.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg+xml"),
        ("/nothing-here", ""),
    ] {
        let answer = server.get(path).await;
        let head = &answer.head;
        assert!(head.contains("content-security-policy: default-src 'none'; "), "{path}: {head}");
        assert!(!head.contains("unsafe") && head.contains("frame-ancestors 'none'"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(head.contains(kind), "{path}: {head}");
    }
    let page = server.get("/").await.body;
    for inline in ["<style", "style=", "onclick", "javascript:", "http://", "https://"] {
        assert!(!page.contains(inline), "{inline}: {page}");
    }
    assert!(page.contains(DATABASE), "it says where it looks");
}

#[tokio::test]
async fn a_takeover_reaches_those_who_watch() {
    let world = World::start().await;
    let held = world.hold("billing", "node-1", LEASE).await;
    let server = Server::start(&world, &[]).await;
    let mut events = server.events().await;
    let (name, all) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &all["locks"][0]["holder"]), ("all", &"node-1".into()));
    let lanes = server.json("/lanes?lock=billing&lock=nothing").await;
    assert_eq!(lanes.as_array().unwrap().len(), 1, "{lanes}");
    let lane = events.named("lane").await;
    assert_eq!((&lane["loading"], lane["terms"].as_array().unwrap().len()), (&false.into(), 1));

    held.release().await;
    let _held = world.hold("billing", "node-2", LEASE).await;
    let is_it = |name: &str, data: &serde_json::Value| {
        name == "change" && data["changed"][0]["holder"] == "node-2"
    };
    let change = events.until("the takeover", is_it).await;
    assert_eq!(change["changed"][0]["state"], "held");
    let is_it = |name: &str, data: &serde_json::Value| {
        name == "lane"
            && data["terms"][0]["holder"] == "node-2"
            && data["terms"][1]["cause"] == "released"
    };
    let lane = events.until("the end of the term before", is_it).await;
    assert_eq!(lane["terms"][1]["holder"], "node-1");
    assert!(lane["terms"][0]["vacancy_ms"].is_u64(), "{lane}");
    let shown = server.json("/lock?name=billing").await;
    assert!(shown["next"].as_str().unwrap().contains("no heartbeat"), "{shown}");
    assert_eq!(server.get("/lock?name=nothing").await.status, 404);
}

#[tokio::test]
async fn twenty_viewers_and_a_scraper_cost_one_read_a_second() {
    let world = World::start().await;
    let names: Vec<_> = (0..1_000).map(|n| format!("lock-{n:03}")).collect();
    world.write(&names.iter().map(|name| (name.as_str(), None)).collect::<Vec<_>>()).await;
    let server = Server::start(&world, &[]).await;
    let idle = reads(&world);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(reads(&world), idle, "nobody watches, so nothing is read");

    let mut viewers = Vec::new();
    for _ in 0..20 {
        let mut events = server.events().await;
        let (_, all) = events.next().await.unwrap();
        assert_eq!(all["locks"].as_array().unwrap().len(), 1_000);
        viewers.push(events);
    }
    let (before, began) = (reads(&world), Instant::now());
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(server.get("/metrics").await.status, 200);
        sleep(Duration::from_millis(50)).await;
    }
    let (read, seconds) = (reads(&world) - before, began.elapsed().as_secs_f64());
    assert!(read >= 1 && (read as f64) <= seconds + 1.0, "{read} reads in {seconds} s");
    for mut events in viewers {
        assert!(events.count_for(Duration::from_millis(100)).await >= 1, "each was told");
    }
    // Once the last has gone, the polls end: one may be under way.
    sleep(Duration::from_secs(3)).await;
    let after = reads(&world);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(reads(&world), after);
}

#[tokio::test]
async fn the_past_costs_ten_reads_a_second_at_most_and_is_read_once() {
    let world = World::start().await;
    let names: Vec<_> = (0..6).map(|n| format!("lock-{n}")).collect();
    // Four terms each, in the last hour.
    for id in ["a", "b", "c", "d"] {
        let rows: Vec<_> = names.iter().map(|name| (name.as_str(), Some(id))).collect();
        world.write(&rows).await;
        world.emulator.advance(Duration::from_secs(600));
    }
    let server = Server::start(&world, &[]).await;
    server.get("/healthz").await;
    let (before, began) = (reads(&world), Instant::now());
    let query: Vec<_> = names.iter().map(|name| format!("lock={name}")).collect();
    let path = format!("/lanes?{}", query.join("&"));
    let is_complete = |lane: &serde_json::Value| {
        lane["loading"] == false && lane["terms"].as_array().unwrap().len() == 4
    };
    // Two viewers want the same.
    while !server.json(&path).await.as_array().unwrap().iter().all(is_complete) {
        server.json(&path).await;
        assert!(began.elapsed() < TIME_LIMIT);
        sleep(Duration::from_millis(50)).await;
        let (read, seconds) = (reads(&world) - before, began.elapsed().as_secs_f64());
        assert!((read as f64) <= 10.0 * seconds + 1.0, "{read} reads in {seconds} s");
    }
    let lanes = server.json(&path).await;
    let told: Vec<_> =
        lanes[0]["terms"].as_array().unwrap().iter().map(|term| &term["cause"]).collect();
    assert_eq!(told[1..], ["before_heartbeat"; 3], "{lanes}");

    let after = reads(&world);
    server.json(&path).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(reads(&world), after, "what was read is not read again");
    // A takeover: one poll, and what lies between the two terms.
    world.write(&[("lock-0", Some("e"))]).await;
    server.get("/metrics").await;
    let one = "/lanes?lock=lock-0";
    let refreshed = async || server.json(one).await[0]["terms"].as_array().unwrap().len() == 5;
    crate::world::until("the new term is there", refreshed).await;
    let lane = server.json(one).await;
    assert_eq!(lane[0]["terms"][0]["holder"], "e", "{lane}");
    assert!(reads(&world) - after <= 2, "{}", reads(&world) - after);
}

#[tokio::test]
async fn a_signal_ends_it_and_every_stream_with_it() {
    let world = World::start().await;
    let mut server = Server::start(&world, &[]).await;
    let mut events = server.events().await;
    events.next().await.unwrap();
    server.running.signal(Signal::SIGTERM);
    assert_eq!(server.running.code().await, Some(0));
    while events.next().await.is_some() {}
}

#[tokio::test]
async fn what_it_cannot_serve_is_said_at_once() {
    let world = World::with("").await;
    world.run(&["serve", "--listen", "127.0.0.1:0"]).await.ends(4);
    let world = World::start().await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = world.run(&["serve", "--listen", &address]).await;
    ran.ends(2).complains(&address).complains("port 0");
}

#[tokio::test]
async fn half_a_request_is_not_waited_for_and_keeps_no_other_from_an_answer() {
    let world = World::start().await;
    let program = world.program(&["serve", "--listen", "127.0.0.1:0"]);
    let few_files = "ulimit -n 256; exec \"$0\" \"$@\"";
    let server = Server::started(under("sh", &["-c", few_files], program)).await;
    let mut halves = Vec::new();
    for _ in 0..300 {
        let mut half = TcpStream::connect(server.address).await.unwrap();
        half.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n").await.unwrap();
        halves.push(half);
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    // One that sends nothing at all is not waited for either.
    let silent = TcpStream::connect(server.address).await.unwrap();
    for mut half in halves.into_iter().chain([silent]) {
        let mut rest = Vec::new();
        // An answer or an error: the connection is over.
        let _ = timeout(TIME_LIMIT, half.read_to_end(&mut rest)).await.expect("it is closed");
    }
}
