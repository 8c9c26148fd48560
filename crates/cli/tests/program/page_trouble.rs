//! The page of `serve` in Chromium, with all that can be wrong: what a stranger is to find in ten seconds.

use std::time::Duration;

use serde_json::json;
use spindle_emulator::engine::{Code, Mutation, WriteKind};
use spindle_emulator::{Effect, Fault, Rpc};

use crate::browser::Browser;
use crate::http::Server;
use crate::page::{TOO_WIDE, choose, shot};
use crate::world::World;

const SHARDS: &str = "spindle:shard:orders/emails";

/// Sixteen holders with long names and narrow cells, each kind of trouble, a line, and a job that failed.
async fn all_that_can_be_wrong(world: &World) {
    let pods: Vec<String> = (0..16).map(|n| format!("billing-worker-6f5d9c8b7-x{n:02}")).collect();
    let export = |n: usize| format!("eu-west/tenants/{}/invoice-export", 4_700 + n);
    world.write(&[("billing", Some(&pods[3]))]).await;
    for shard in 0..14 {
        world.write(&[(&format!("{SHARDS}/{shard}"), None)]).await;
    }
    world.emulator.advance(Duration::from_secs(120));
    world.write(&[("mail", Some(&pods[4]))]).await;
    for (n, pod) in pods.iter().enumerate() {
        world.write(&[(&export(n), Some(pod))]).await;
    }
    world.emulator.advance(Duration::from_secs(10));
    world.beat(&["mail"]).await;
    // Terms of a few seconds, with short vacancies between them.
    for n in 0..20 {
        world.write(&[("a-restless", Some(&pods[n % 16]))]).await;
        world.emulator.advance(Duration::from_millis(10_000 + 100 * n as u64));
        world.write(&[("a-restless", None)]).await;
        world.emulator.advance(Duration::from_millis(300));
    }
    let exports: Vec<String> = (0..16).map(export).collect();
    world.beat(&exports.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.write(&[("a-restless", Some(&pods[0])), (&format!("{SHARDS}/0"), Some(&pods[1]))]).await;
    let since = world.emulator.clock().now().nanos() - 90_000_000_000;
    let next = format!("0 {since} {}#{:016x}", pods[5], 1);
    let waits = [("name", "mail".into()), ("next", next.as_str().into())];
    world.apply(&[Mutation::write(WriteKind::Update, "locktable", waits)]).await;
    let slot = ["run", "nightly", "--slot", "2026-11-27T02:00:00Z", "--attempts", "1", "--id"];
    world.run(&[&slot[..], &[&pods[6], "--", "false"]].concat()).await.ends(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn all_that_is_wrong_is_told_first_with_its_time_and_the_first_step() {
    let world = World::start().await;
    all_that_can_be_wrong(&world).await;
    let server = Server::start(&world, &[]).await;
    let url = format!("http://{}/", server.address);
    let mut browser = Browser::start().await;
    for (width, height, scheme) in
        [(390, 844, "dark"), (2_000, 1_100, "dark"), (390, 844, "light"), (1_280, 800, "light")]
    {
        browser.resize(width, height, width == 390).await;
        browser.scheme(scheme).await;
        browser.open(&url).await;
        browser.until("document.querySelectorAll('#holders button').length === 16").await;
        browser.until("document.querySelector('tr[data-lock=billing] [aria-busy=false]')").await;
        assert_eq!(browser.eval(TOO_WIDE).await, json!([]), "{width}");
        browser.screenshot(&shot(&format!("page-trouble-{width}-{scheme}.png"))).await;
    }
    let totals = "[...document.querySelectorAll('#totals li')].map((li) => li.textContent)";
    let totals = browser.eval(totals).await;
    assert_eq!(totals[0], "15 in trouble", "{totals}");
    assert_eq!(totals[1], "1 job failed", "{totals}");
    assert!(
        totals[4].as_str().unwrap().starts_with("1 with a line, the longest wait "),
        "{totals}"
    );
    let first = "[...document.querySelectorAll('#locks > tr')].slice(0, 3).map((tr) => [...tr.cells].slice(0, 4).map((td) => td.innerText.split('\\n')[0]))";
    let first = browser.eval(first).await;
    let (lost, late, idle) = (&first[0], &first[1], &first[2]);
    assert_eq!(lost[1], "was billing-worker-6f5d9c8b7-x03", "{first}");
    assert_eq!((&lost[2], &idle[2]), (&json!("lease ran out"), &json!("1 of 14 held")), "{first}");
    assert_eq!(late[2], "held, heartbeat late", "{first}");
    let term =
        browser.eval("document.querySelector('tr[data-lock^=eu-west] time').textContent").await;
    assert_ne!(late[3], term, "since its last heartbeat: {first}");
    assert!(idle[3].as_str().unwrap().contains(" min "), "since when: {first}");
    let advice = "document.getElementById('advice').textContent";
    let said = browser.eval(advice).await;
    assert!(said.as_str().unwrap().starts_with("billing: the lease ran out "), "{said}");

    // Twelve colours, and no colour with the same letters twice.
    let looks = "new Set([...document.querySelectorAll('#holders .swatch')].map((it) => it.style.background)).size";
    assert_eq!(browser.eval(looks).await, 12);
    let alike = "places.clear(), having.forEach((who) => who.length = 0), new Set([...Array(24).keys()] \
                 .map((n) => `web-${n >> 1}-${10 + n % 2}`).map((id) => colour(id) + letters(id))).size";
    assert_eq!(browser.eval(alike).await, 24);
    // Vacancies of a third of a second are ticks, and not a bar.
    let restless = "document.querySelector('tr[data-lock=a-restless] svg')";
    browser.until(&format!("{restless}.ariaBusy === 'false'")).await;
    let ticks = format!("{restless}.querySelectorAll('.tick').length");
    let ticks = browser.eval(&ticks).await.as_u64().unwrap();
    let wide =
        browser.eval(&format!("{restless}.querySelectorAll('.vacant:not(.tick)').length")).await;
    browser.screenshot(&shot("page-trouble-1280-light.png")).await;
    assert!((2..20).contains(&ticks) && wide == 0, "{ticks} ticks, {wide} bars");

    // Without the others, shards that nobody has are the trouble: they are counted, and said what to do about.
    world.write(&[("billing", None)]).await;
    world.beat(&["mail"]).await;
    browser.until("document.querySelector('#totals li')?.textContent === '13 in trouble'").await;
    let said = browser.eval(advice).await;
    let said = said.as_str().unwrap();
    assert!(
        said.starts_with("spindle:shard:orders/emails: 13 shards have had nobody for "),
        "{said}"
    );
    assert!(said.ends_with(". Do: spindle shards orders/emails"), "{said}");
    choose(&mut browser, "state", "trouble").await;
    browser.until("document.querySelectorAll('#locks > tr').length === 1").await;
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn five_thousand_locks_of_which_half_are_dead_are_named_by_holder_and_number() {
    let world = World::start().await;
    let names: Vec<String> = (0..5_000).map(|n| format!("tenant-{n:04}")).collect();
    let pods: Vec<String> = (0..10).map(|n| format!("pod-{n}")).collect();
    let rows: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), Some(pods[n % 10].as_str())))
        .collect();
    for some in rows.chunks(1_000) {
        world.write(some).await;
    }
    world.emulator.advance(Duration::from_secs(400));
    let living: Vec<_> = rows.into_iter().filter(|(_, pod)| *pod < Some("pod-5")).collect();
    for some in living.chunks(1_000) {
        world.write(some).await;
    }
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.resize(1_280, 800, false).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.until("document.querySelectorAll('tr[data-lock]').length > 900").await;
    let headings = "[...document.querySelectorAll('#totals li, #locks > .group')].slice(0, 3).map((it) => it.innerText)";
    let said = browser.eval(headings).await;
    assert_eq!(said[0], "2500 in trouble", "{said}");
    let first = said[2].as_str().unwrap();
    assert!(first.starts_with("pod-5: 500 leases ran out, the first 1 min "), "{said}");
    assert_eq!(browser.eval(TOO_WIDE).await, json!([]));
    let cut = "[...document.querySelectorAll('#locks .head')].filter((it) => it.scrollWidth > it.clientWidth).length";
    assert_eq!(browser.eval(cut).await, 0, "names are whole");
    browser.screenshot(&shot("page-half-dead.png")).await;
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn a_page_before_spanner_and_one_without_locks_tell_no_time_that_is_not_so() {
    let world = World::start().await;
    let away = Fault::any().effect(Effect::Fail(Code::Unavailable)).times(u64::MAX);
    let away = world.emulator.inject(away);
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.until("document.getElementById('trouble')?.hidden === false").await;
    let summary = "document.getElementById('summary').textContent";
    assert_eq!(browser.eval(summary).await, "Nothing is known yet");
    browser.eval("drawAxis()").await;
    let said = "['axis', 'totals'].map((id) => document.getElementById(id).textContent)";
    assert_eq!(browser.eval(said).await, json!(["", ""]));
    away.remove();
    browser.until(&format!("{summary}.startsWith('As of ')")).await;
    browser.until("Math.abs(seenAt() - Date.now()) < 60000").await;
    let midnight = "clock(new Date(2026, 0, 1, 0, 5).getTime())";
    assert_eq!(browser.eval(midnight).await, "00:05:00", "the browser's language is American");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn locks_beyond_the_first_thousand_lines_and_a_holder_that_has_gone_are_within_reach() {
    let world = World::start().await;
    let names: Vec<String> = (0..980).map(|n| format!("tenant-{n:03}")).collect();
    let pods: Vec<String> = (0..70).map(|n| format!("pod-{n:02}")).collect();
    let of = |n: usize| Some(pods[n % 70].as_str());
    let rows: Vec<_> = names.iter().enumerate().map(|(n, name)| (name.as_str(), of(n))).collect();
    world.write(&rows).await;
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("http://{}/", server.address)).await;
    let shown = "document.querySelectorAll('tr[data-lock]').length";
    browser.until(&format!("{shown} > 900")).await;
    let left = 980 - browser.eval(shown).await.as_u64().unwrap();
    assert!(left > 0, "headings take lines, too");
    let more = "document.getElementById('more')";
    assert_eq!(browser.eval(&format!("{more}.hidden")).await, false);
    let said = browser.eval(&format!("{more}.textContent")).await;
    assert_eq!(said, format!("Show more locks: {left} are not shown"));
    browser.eval(&format!("{more}.click()")).await;
    browser.until(&format!("{shown} === 980 && {more}.hidden")).await;

    // The last one that has a button of its own holds nothing any more.
    let pressed = "document.querySelector('#holders [aria-pressed=true]')";
    browser.eval("document.querySelector('#holders button[title=pod-20]').click()").await;
    browser.until(&format!("{shown} === 14")).await;
    let taken: Vec<_> = rows.iter().filter(|(_, pod)| *pod == Some("pod-20")).collect();
    let taken: Vec<_> = taken.into_iter().map(|(name, _)| (*name, Some("pod-99"))).collect();
    world.write(&taken).await;
    browser.until(&format!("{shown} === 0")).await;
    assert_eq!(browser.eval(&format!("{pressed}.textContent")).await, "pod-20 holds 0");
    browser.eval(&format!("{pressed}.click()")).await;
    browser.until(&format!("{shown} > 900")).await;
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn a_page_that_nobody_sees_costs_nothing_and_is_up_to_date_once_it_is_seen() {
    let world = World::start().await;
    world.write(&[("billing", Some("node-1"))]).await;
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("http://{}/", server.address)).await;
    let holder = "document.querySelector('tr[data-lock=billing] .holder')?.textContent";
    browser.until(&format!("{holder} === 'node-1'")).await;
    let seen = async |browser: &mut Browser, is_seen: bool| {
        let hidden = format!(
            "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }})",
            !is_seen
        );
        let event = "document.dispatchEvent(new Event('visibilitychange'))";
        browser.eval(&format!("{hidden}, {event}, isStale()")).await
    };
    let asks = "performance.getEntriesByType('resource').filter((it) => it.name.includes('/lanes')).length";
    browser.until(&format!("{asks} > 0")).await;
    seen(&mut browser, false).await;
    let reads = || world.emulator.requests().get(Rpc::StreamingRead);
    // One poll may be under way.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = reads();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(reads(), before, "nobody looks");
    browser.eval("asked.clear(), performance.clearResourceTimings(), ask()").await;
    assert_eq!(browser.eval(asks).await, 0, "nobody looks at lanes");
    world.write(&[("billing", Some("node-2"))]).await;
    assert_eq!(seen(&mut browser, true).await, true, "the holder of long ago is grey");
    browser.until(&format!("{holder} === 'node-2' && !isStale()")).await;
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}
