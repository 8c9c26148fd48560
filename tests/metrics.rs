//! The metrics that Prometheus scrapes are those of the table in `docs/operating.md` and of
//! `deploy/`.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

#[path = "metrics/alerts.rs"]
mod alerts;
#[path = "metrics/exporter.rs"]
#[expect(dead_code, reason = "it takes the port that the exporter has by default")]
mod exporter;
#[path = "metrics/promtool.rs"]
mod promtool;

use std::collections::BTreeSet;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::{CancellationToken, Database, Ddl, LockTable, Spindle};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use spindle_fleet::{Member, Semaphore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const LEASE: Duration = Duration::from_secs(2);
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The metrics that the table documents.
fn documented() -> BTreeSet<String> {
    let table = include_str!("../docs/operating.md").lines();
    let names = table.filter_map(|line| line.strip_prefix("| `spindle_"));
    // The agent's are those of its own exporter.
    names
        .filter(|rest| !rest.starts_with("agent_"))
        .filter_map(|rest| rest.split_once('`'))
        .map(|(name, _)| format!("spindle_{name}"))
        .collect()
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names = words.filter(|word| word.starts_with("spindle_"));
    names.map(|name| base(name).to_string()).collect()
}

/// The name of the histogram that a series belongs to.
fn base(name: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIME_LIMIT, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

struct Scraped(String);

impl Scraped {
    async fn from(address: std::net::SocketAddr) -> Scraped {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        Scraped(text)
    }

    /// The sum of the series of this name whose labels have all of this in them.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let series = self.0.lines().filter(|line| {
            line.split(['{', ' ']).next() == Some(name)
                && labels.iter().all(|label| line.contains(label))
        });
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

fn contender(table: &LockTable, id: &str) -> (Spindle, CancellationToken) {
    let lock = table.lock("billing").id(id).lease(LEASE).build().unwrap();
    let cancel = CancellationToken::new();
    drop(lock.run(cancel.clone()));
    (lock, cancel)
}

#[tokio::test]
async fn a_scrape_shows_each_metric_of_the_table_and_no_other() {
    // The exporter takes no port that the system picks. Bound without listening, this one is given to
    // nobody before the exporter listens.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = reserved.local_addr().unwrap();
    let builder = PrometheusBuilder::new().with_http_listener(address);
    builder.set_buckets(&[0.01, 0.1, 1.0, 10.0]).unwrap().install().unwrap();

    let emulator = Emulator::start().await.unwrap();
    emulator.create_database(DATABASE, LockTable::ddl(Ddl::GoogleSql)).await.unwrap();
    let table = || LockTable::new(Database::at(emulator.endpoint(), DATABASE), "locktable");
    let (a, end_a) = contender(&table(), "a");
    until("a holds", async || a.has_lock().is_some()).await;
    let scraped = Scraped::from(address).await;
    assert_eq!(scraped.sum("spindle_held", &["lock=\"billing\""]), 1.0);
    assert_eq!(scraped.sum("spindle_terms_begun_total", &["how=\"first\""]), 1.0);

    // Handed over, with a vacancy of a poll at most.
    let (b, _end_b) = contender(&table(), "b");
    a.resign().to("b").grace(TIME_LIMIT).await.unwrap();
    until("b holds", async || b.has_lock().is_some()).await;
    end_a.cancel();
    let scraped = Scraped::from(address).await;
    assert_eq!(scraped.sum("spindle_terms_begun_total", &["how=\"handed_over\""]), 1.0);
    assert_eq!(scraped.sum("spindle_terms_ended_total", &["cause=\"let_go\""]), 1.0);
    assert_eq!(scraped.sum("spindle_vacancy_seconds_count", &[]), 1.0);
    assert_eq!(scraped.sum("spindle_held", &[]), 1.0);

    // The runtime is blocked for longer than a tick.
    std::thread::sleep(LEASE / 4);
    // Heartbeats come, then fail, then succeed again.
    let heartbeats =
        async || Scraped::from(address).await.sum("spindle_heartbeat_seconds_count", &[]);
    let before = heartbeats().await;
    until("heartbeats come", async || heartbeats().await > before).await;
    let remaining = Scraped::from(address).await.sum("spindle_remaining_seconds", &[]);
    assert!(remaining > 0.0 && remaining <= LEASE.as_secs_f64(), "{remaining}");
    let fault = Fault::on(Rpc::Commit).effect(Effect::Fail(Code::PermissionDenied));
    emulator.inject(fault);
    let refused = ["act=\"heartbeat\"", "code=\"permission_denied\""];
    until("heartbeats fail", async || {
        Scraped::from(address).await.sum("spindle_failures_total", &refused) > 0.0
    })
    .await;
    emulator.clear_faults();

    fleets_have_one_label_each(address, &table()).await;

    // Somebody deletes the row.
    let spanner = spindle::google_cloud_spanner::client::Spanner::builder();
    let spanner = spanner.with_endpoint(emulator.endpoint()).build().await.unwrap();
    let client = spanner.database_client(DATABASE).build().await.unwrap();
    let keys = KeySet::builder().add_key(key!["billing"]).build();
    let delete = spindle::google_cloud_spanner::mutation::Mutation::delete("locktable", keys);
    let ended = async || {
        let scraped = Scraped::from(address).await;
        scraped.sum("spindle_terms_ended_total", &["cause=\"superseded\""])
    };
    client.write_only_transaction().build().write(vec![delete]).await.unwrap();
    until("the term ends", async || ended().await > 0.0).await;

    let scraped = Scraped::from(address).await;
    assert!(scraped.sum("spindle_stalls_total", &[]) >= 1.0);
    assert!(scraped.sum("spindle_acts_total", &["act=\"observe\""]) >= 1.0);
    let shown: BTreeSet<String> = (scraped.0.lines().filter(|line| !line.starts_with('#')))
        .filter_map(|line| line.split(['{', ' ']).next())
        .filter(|name| name.starts_with("spindle_"))
        .map(|name| base(name).to_string())
        .collect();
    assert_eq!(shown, documented());
}

/// A hundred shards are one label, with their number as its value.
async fn fleets_have_one_label_each(address: std::net::SocketAddr, table: &LockTable) {
    let member = Member::new(table, "orders").id("m").build().unwrap();
    let cancel = CancellationToken::new();
    let running = member.run(cancel.clone());
    let shards = member.shards("emails", 100);
    let task = |shard: spindle_fleet::Shard| async move { shard.cancelled().await };
    let shared = tokio::spawn({
        let cancel = cancel.clone();
        async move { shards.run(cancel, task).await }
    });
    let semaphore = Semaphore::new(table, "api", 5).build().unwrap();
    let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    let held = async |fleet: &str| {
        let label = format!("lock=\"spindle:{fleet}\"");
        Scraped::from(address).await.sum("spindle_held", &[&label])
    };
    until("all shards are held", async || held("shard:orders/emails").await >= 100.0).await;
    assert_eq!(held("member:orders").await, 1.0);
    assert_eq!(held("permit:api").await, 2.0);
    let scraped = Scraped::from(address).await;
    let shards = ["lock=\"spindle:shard:orders/emails\""];
    assert_eq!(scraped.sum("spindle_terms_begun_total", &shards), 100.0);
    let shares = ["lock=\"spindle:share:orders/emails\""];
    let settled = "spindle_shards_settle_seconds_count";
    until("the shares settle", async || Scraped::from(address).await.sum(settled, &shares) > 0.0)
        .await;
    let remaining = async || Scraped::from(address).await.sum("spindle_remaining_seconds", &shards);
    // From their first heartbeats on.
    until("a shard has its first heartbeat", async || remaining().await > 0.0).await;
    assert!(remaining().await <= 10.0, "the least of all");
    assert!(scraped.sum("spindle_contact_age_seconds", &shards) < 60.0);
    let series = scraped.0.lines().filter(|line| line.starts_with("spindle_held{lock=\"spindle:"));
    // The members, those who share, the shards, the permits.
    assert_eq!(series.count(), 4, "{}", scraped.0);

    drop(permits);
    cancel.cancel();
    shared.await.unwrap().unwrap();
    running.await.unwrap();
    // The semaphore keeps nobody who could want one.
    until("both permits are back", async || held("permit:api").await.is_nan()).await;
    assert!(held("shard:orders/emails").await.is_nan());
    let scraped = Scraped::from(address).await;
    for gauge in ["spindle_remaining_seconds", "spindle_contact_age_seconds"] {
        assert!(scraped.sum(gauge, &shards).is_nan(), "nothing is left of them: {gauge}");
    }
    shards_tell_their_moves_and_how_long_they_were_vacant(address, table).await;
}

/// Another member takes all of them.
async fn shards_tell_their_moves_and_how_long_they_were_vacant(
    address: std::net::SocketAddr,
    table: &LockTable,
) {
    let (label, moved) = ("lock=\"spindle:shard:orders/emails\"", "how=\"released\"");
    let vacancies = async |metric: &str| Scraped::from(address).await.sum(metric, &[label]);
    let before = vacancies("spindle_vacancy_seconds_count").await;
    let shards = Member::new(table, "orders").id("n").build().unwrap().shards("emails", 100);
    let stop = CancellationToken::new();
    let task = |shard: spindle_fleet::Shard| async move { shard.cancelled().await };
    let shared = tokio::spawn({
        let stop = stop.clone();
        async move { shards.run(stop, task).await }
    });
    let moves =
        async || Scraped::from(address).await.sum("spindle_terms_begun_total", &[label, moved]);
    until("all shards have moved", async || moves().await >= 100.0).await;
    assert_eq!(vacancies("spindle_vacancy_seconds_count").await - before, 100.0);
    assert!(vacancies("spindle_vacancy_seconds_sum").await > 0.0);
    stop.cancel();
    shared.await.unwrap().unwrap();
}

#[test]
fn the_dashboard_and_the_alert_rules_name_only_metrics_that_exist() {
    let rules = include_str!("../deploy/alerts.yml");
    let dashboard = include_str!("../deploy/grafana.json");
    let mut exist = documented();
    assert_eq!(exist.len(), 13, "{exist:?}");
    let page = include_str!("../docs/operating.md");
    assert!(page.contains(&format!("```rust\n{}```\n", include_str!("metrics/exporter.rs"))));
    let of_serve = page.lines().filter(|line| line.starts_with("| gauge | `spindle_table_"));
    exist.extend(of_serve.flat_map(named));
    let of_agents = include_str!("../crates/cli/src/agent/probes.rs");
    exist.extend(named(of_agents).into_iter().filter(|name| name.starts_with("spindle_agent_")));
    for (file, text) in [("alerts.yml", rules), ("grafana.json", dashboard)] {
        let named = named(text);
        assert!(!named.is_empty(), "{file}");
        let unknown: Vec<_> = named.difference(&exist).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 6));
}
