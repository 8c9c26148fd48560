//! The page of `serve` in Chromium: `.ci/run page` installs it where it can, and runs these.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use spindle_emulator::{Effect, Fault};

use crate::browser::Browser;
use crate::http::Server;
use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// An hour of four locks: quiet, crashing, handed around, and left alone for a while. At its end six
/// shards begin, which three share.
async fn an_hour(world: &World) {
    let locks = ["billing", "mail", "reports/daily", "shard-0"];
    for minute in 0..58_usize {
        for (place, name) in locks.into_iter().enumerate() {
            let node = |n: usize| format!("node-{}", n % 3 + 1);
            match (place, minute) {
                (_, 0) => world.write(&[(name, Some(&node(place)))]).await,
                (1, 20..27 | 41..49) => {}
                (1, 27 | 49) => world.write(&[(name, Some(&node(minute)))]).await,
                (2, _) if minute % 9 == 0 => world.write(&[(name, None)]).await,
                (2, _) if minute % 9 == 1 => world.write(&[(name, Some(&node(minute / 9)))]).await,
                (3, 30) => world.write(&[(name, None)]).await,
                (3, 31..) => {}
                _ => world.beat(&[name]).await,
            }
        }
        world.emulator.advance(MINUTE);
    }
    world.beat(&locks[..3]).await;
    for shard in 0..6 {
        let name = format!("spindle:shard:orders/emails/{shard}");
        world.write(&[(&name, Some(&format!("node-{}", shard / 2 + 1)))]).await;
    }
}

pub fn shot(name: &str) -> PathBuf {
    let directory = std::env::var("SPINDLE_SCREENSHOTS");
    Path::new(&directory.unwrap_or_else(|_| env!("CARGO_TARGET_TMPDIR").to_string())).join(name)
}

/// The elements that the screen is too narrow for.
pub const TOO_WIDE: &str = "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth ? [] : \
    [...document.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > clientWidth) \
    .map((e) => e.outerHTML.slice(0, 200)).slice(0, 5).concat(scrollWidth))(document.documentElement)";

const HOLDER: &str = "document.querySelector('tr[data-lock=billing] .holder')?.textContent";

async fn filter(browser: &mut Browser, prefix: &str) {
    let input = "document.getElementById('prefix')";
    let typed = format!("{input}.value = '{prefix}'; {input}.dispatchEvent(new Event('input'))");
    browser.eval(&typed).await;
}

/// Roles and names as a screen reader gets them.
async fn spoken(browser: &mut Browser) -> Vec<(String, String)> {
    let tree = browser.tell("Accessibility.getFullAXTree", json!({})).await;
    let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_string();
    let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
    nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn the_page_shows_who_holds_and_the_last_hour_and_follows_both() {
    let world = World::start().await;
    an_hour(&world).await;
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.resize(1_000, 760, false).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.until(&format!("{HOLDER} === 'node-1'")).await;
    let rects = |name: &str, kind: &str| {
        format!("document.querySelectorAll('tr[data-lock=\"{name}\"] rect.{kind}').length")
    };
    browser
        .until(&format!(
            "{} > 5 && {} > 5",
            rects("reports/daily", "term"),
            rects("reports/daily", "vacant")
        ))
        .await;
    browser.until("!document.querySelector('[aria-busy=true]')").await;
    let fills = "new Set([...document.querySelectorAll('rect.term')].map((r) => r.getAttribute('fill'))).size";
    assert_eq!(browser.eval(fills).await, 3, "one colour for each holder");
    browser.until(&format!("{} === 1", rects("shard-0", "vacant"))).await;

    // By the keyboard alone: to the filter, to the first lock, open.
    browser.press("Tab", 9, "").await;
    for id in ["prefix", "state", "span", "compact"] {
        assert_eq!(browser.eval("document.activeElement.id").await, id);
        browser.press("Tab", 9, "").await;
    }
    for holder in ["node-1 holds 4", "node-2 holds 3", "node-3 holds 2"] {
        assert_eq!(browser.eval("document.activeElement.textContent").await, holder);
        browser.press("Tab", 9, "").await;
    }
    assert_eq!(browser.eval("document.activeElement.textContent").await, "billing");
    browser.press("Enter", 13, "\r").await;
    browser
        .until("document.querySelector('.details dd')?.textContent.includes('no heartbeat')")
        .await;
    browser.screenshot(&shot("page-desktop.png")).await;

    let spoken = spoken(&mut browser).await;
    let says =
        |role: &str, text: &str| spoken.iter().any(|(r, name)| r == role && name.contains(text));
    for (role, text) in [
        ("table", "Locks, their holders"),
        ("columnheader", "Holder"),
        ("rowheader", "billing"),
        ("button", "billing"),
        ("searchbox", "Names that begin with"),
        ("image", "node-1 from"),
    ] {
        assert!(says(role, text), "{role} {text}: {spoken:?}");
    }

    // Live: a takeover is shown, told to screen readers, and drawn.
    let drawn = browser.eval(&rects("billing", "term")).await.as_u64().unwrap();
    world.write(&[("billing", Some("node-9"))]).await;
    browser.until(&format!("{HOLDER} === 'node-9'")).await;
    browser
        .until("document.getElementById('news').textContent.includes('billing: held by node-9')")
        .await;
    browser.until(&format!("{} === {}", rects("billing", "term"), drawn + 1)).await;

    world.write(&[("billing", None)]).await;
    browser.until(&format!("{HOLDER} === '–'")).await;
    let swatch =
        "getComputedStyle(document.querySelector('tr[data-lock=billing] .swatch')).visibility";
    assert_eq!(browser.eval(swatch).await, "hidden", "the colour goes with the holder");

    filter(&mut browser, "re").await;
    assert_eq!(browser.eval("document.querySelectorAll('tr[data-lock]').length").await, 1);
    assert_eq!(browser.eval("location.hash").await, "#re");
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn the_page_fits_a_phone_and_bounds_what_it_draws() {
    let world = World::start().await;
    an_hour(&world).await;
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.resize(390, 1_100, true).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.until("document.querySelectorAll('tr[data-lock]').length === 4").await;
    browser.until("document.querySelectorAll('rect.term').length > 8 && !document.querySelector('[aria-busy=true]')").await;
    let too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.eval(too_wide).await, 0);
    browser.screenshot(&shot("page-phone.png")).await;
    let header = spoken(&mut browser).await;
    assert!(
        header.iter().any(|(role, name)| role == "columnheader" && name == "State"),
        "{header:?}"
    );

    for n in 0..300 {
        world.write(&[(&format!("more-{n:03}"), None)]).await;
    }
    browser.until("document.querySelectorAll('tr[data-lock]').length === 304").await;
    assert_eq!(
        browser.eval("document.getElementById('compact').checked").await,
        true,
        "many locks"
    );
    browser.eval("document.getElementById('compact').click()").await;
    browser.until("document.querySelectorAll('tr[data-lock]').length === 200").await;
    assert_eq!(browser.eval("document.getElementById('more').hidden").await, false);
    browser.eval("document.getElementById('more').click()").await;
    browser.until("document.querySelectorAll('tr[data-lock]').length === 304").await;
    let open = "document.querySelector('tr[data-fleet] button').click()";
    browser.eval(open).await;
    browser.until("document.querySelectorAll('tr.within').length === 6").await;
    assert_eq!(browser.eval(too_wide).await, 0, "open fleets fit too");
    // The connection goes, and the page says so.
    drop(server);
    browser.until("!document.getElementById('trouble').hidden").await;
}

/// The first cells of each line, as they stand on the page.
async fn table(browser: &mut Browser) -> Vec<String> {
    let cells = "[...tr.cells].slice(0, 3).map((cell) => cell.textContent).join(' | ')";
    let lines = format!("[...document.querySelectorAll('#locks > tr')].map((tr) => {cells})");
    let lines = browser.eval(&lines).await;
    lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn a_fleet_is_one_line_of_the_page_and_opens_by_key_and_by_click() {
    let world = World::start().await;
    let _fleet = crate::fleets::fleet(&world).await;
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.resize(390, 660, true).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.until("document.querySelectorAll('#locks > tr').length").await;
    let closed = table(&mut browser).await;
    let ls = world.run(&["ls"]).await.out;
    let names = |lines: Vec<&str>, end: &str| -> Vec<String> {
        lines.iter().map(|line| line.split(end).next().unwrap().to_string()).collect()
    };
    let shown = names(closed.iter().map(String::as_str).collect(), " | ");
    assert_eq!(shown, names(ls.lines().skip(1).collect(), " "), "lines and order of `ls`");
    assert!(closed.contains(&"spindle:shard:orders/emails | node-1 | 8 of 8 held".to_string()));
    assert!(
        closed.contains(&"spindle:rw:jobs | node-3 | 1 of 2 held, 1 waiting".to_string()),
        "{closed:?}"
    );

    let button = "document.querySelector('[data-fleet=\"spindle:shard:orders/emails\"] button')";
    browser.eval(&format!("{button}.focus()")).await;
    browser.press("Enter", 13, "\r").await;
    let open = table(&mut browser).await;
    assert_eq!(open.len(), closed.len() + 8, "{open:?}");
    let at =
        open.iter().position(|line| line.starts_with("spindle:shard:orders/emails |")).unwrap();
    for (shard, line) in open[at + 1..=at + 8].iter().enumerate() {
        let begins = format!("spindle:shard:orders/emails/{shard} | node-1 | held");
        assert!(line.starts_with(&begins), "{line}");
    }
    assert_eq!(browser.eval(&format!("document.activeElement === {button}")).await, true);
    assert_eq!(browser.eval(&format!("{button}.ariaExpanded")).await, "true");
    browser.press("Tab", 9, "").await;
    let focus = "document.activeElement.textContent";
    assert_eq!(browser.eval(focus).await, "spindle:shard:orders/emails/0", "the next stop");
    browser.press("Enter", 13, "\r").await;
    browser.until("document.querySelector('.details dd')").await;
    let said = spoken(&mut browser).await;
    let button_name = ("button".to_string(), "spindle:shard:orders/emails".to_string());
    assert!(said.contains(&button_name), "{said:?}");
    browser.until("document.querySelectorAll('tr.within [aria-busy=false]').length > 0").await;

    browser.eval(&format!("{button}.click()")).await;
    assert_eq!(table(&mut browser).await, closed, "a second click closes it, and all within");
    assert_eq!(browser.eval(&format!("{button}.ariaExpanded")).await, "false");

    // A writer that waits is no holder, neither in its line nor in its lane.
    filter(&mut browser, "spindle:rw:").await;
    let rows = table(&mut browser).await;
    let waits = "spindle:rw:jobs | – | node-2 waits";
    assert_eq!(rows, [waits, "spindle:rw:jobs/node-3 | node-3 | held"]);
    let rects = |kind: &str| {
        format!("document.querySelectorAll('tr[data-lock=\"spindle:rw:jobs\"] rect.{kind}').length")
    };
    browser.until(&format!("{} === 1", rects("reserved"))).await;
    assert_eq!(browser.eval(&rects("term")).await, 0);
    filter(&mut browser, "").await;

    // A closed fleet speaks for its rows.
    world.write(&[("spindle:rw:jobs/node-3", None)]).await;
    let news = "document.getElementById('news').textContent";
    browser.until(&format!("{news} === 'spindle:rw:jobs: 1 of 2 held'")).await;
    assert!(
        table(&mut browser).await.contains(&"spindle:rw:jobs | node-2 | 1 of 2 held".to_string())
    );
    // The filter of `ls` for each row.
    filter(&mut browser, "spindle:rw:").await;
    let rows = table(&mut browser).await;
    assert_eq!(rows, ["spindle:rw:jobs | node-2 | held", "spindle:rw:jobs/node-3 | – | released"]);
    filter(&mut browser, "spin").await;
    assert_eq!(table(&mut browser).await.len(), closed.len() - 1, "fleets alone");
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: .ci/run page"]
async fn hundreds_of_locks_fit_a_phone_with_those_in_trouble_first() {
    let world = World::start().await;
    let names: Vec<String> = (0..500).map(|n| format!("tenant-{n:03}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), Some("node-1"))).collect();
    world.write(&rows).await;
    world.emulator.advance(MINUTE * 6);
    // The others have begun anew since; these are held by nobody who lives.
    let dead = ["tenant-007", "tenant-123", "tenant-499"];
    let living: Vec<_> = rows.into_iter().filter(|(name, _)| !dead.contains(name)).collect();
    world.write(&living).await;
    let server = Server::start(&world, &[]).await;
    let mut browser = Browser::start().await;
    browser.resize(390, 780, true).await;
    let url = format!("http://{}/", server.address);
    browser.open(&url).await;
    browser.until("document.querySelectorAll('tr[data-lock]').length === 500").await;
    let height = browser.eval("document.documentElement.scrollHeight").await.as_u64().unwrap();
    assert!(height < 9_000, "{height} pixels");
    assert_eq!(browser.eval(TOO_WIDE).await, json!([]));
    let first =
        "[...document.querySelectorAll('#locks > tr')].slice(0, 3).map((tr) => tr.dataset.lock)";
    assert_eq!(browser.eval(first).await, json!(dead));
    let totals = "[...document.querySelectorAll('#totals li')].map((li) => li.textContent)";
    assert_eq!(browser.eval(totals).await, json!(["3 in trouble", "497 of 500 held"]));
    let holders = "document.querySelector('#holders button').textContent";
    assert_eq!(browser.eval(holders).await, "node-1 holds 497, 3 in trouble");
    let advice = browser.eval("document.getElementById('advice').textContent").await;
    assert!(advice.as_str().unwrap().starts_with("3 leases ran out, the first 1 min "), "{advice}");
    let ago = browser.eval("document.querySelector('#locks > tr time').textContent").await;
    assert!(ago.as_str().unwrap().starts_with("1 min "), "since the loss: {ago}");
    browser.screenshot(&shot("page-compact.png")).await;

    // Spanner goes: nothing stays green or red, and the page says since when.
    browser.resize(1_280, 800, false).await;
    let height = browser.eval("document.documentElement.scrollHeight").await;
    assert_eq!(height, 800, "a laptop shows them all");
    let fault = world.emulator.inject(Fault::any().effect(Effect::Stall).times(u64::MAX));
    browser.until("document.body.classList.contains('stale')").await;
    let colours = "['.held', '.expired', '#totals .good'].map((at) => getComputedStyle(document.querySelector(at)).color)";
    let colours = browser.eval(&format!("new Set({colours}).size")).await;
    assert_eq!(colours, 1, "all is grey");
    let said = browser.eval("document.getElementById('summary').textContent").await;
    assert!(said.as_str().unwrap().starts_with("Nothing is known since "), "{said}");
    browser.screenshot(&shot("page-outage.png")).await;
    fault.remove();
    browser.until("!document.body.classList.contains('stale')").await;
    browser.resize(390, 780, true).await;

    choose(&mut browser, "state", "trouble").await;
    browser.until("document.querySelectorAll('#locks > tr').length === 3").await;
    assert_eq!(browser.eval("document.body.className").await, "", "few locks have lanes");
    choose(&mut browser, "span", "5").await;
    browser.until("document.getElementById('past').textContent === 'Last 5 minutes'").await;
    browser
        .until("document.querySelector('svg.past').ariaLabel.startsWith('Last 5 minutes')")
        .await;
    assert_eq!(browser.eval("location.search").await, "?state=trouble&span=5");

    // Another viewer sees the same colours, whichever holder comes first.
    let colours = browser.eval("[colour('node-1'), colour('node-2')]").await;
    browser.open(&format!("{url}?state=trouble")).await;
    browser.until("document.querySelectorAll('#locks > tr').length === 3").await;
    assert_eq!(browser.eval("[colour('node-2'), colour('node-1')].reverse()").await, colours);
    assert_eq!(browser.complaints, [""; 0], "nothing was refused by the policy");
}

pub async fn choose(browser: &mut Browser, id: &str, value: &str) {
    let input = format!("document.getElementById('{id}')");
    let chosen = format!("{input}.value = '{value}'; {input}.dispatchEvent(new Event('change'))");
    browser.eval(&chosen).await;
}
