//! The dashboard of `deploy/`: each of its queries has data on a Prometheus that scraped an outage.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::Value;
use spindle::{Database, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::sleep;

use crate::http::Server;
use crate::world::{DATABASE, Running, World, reserved, until};

const LEASE: Duration = Duration::from_secs(2);

#[tokio::test]
#[ignore = "needs Prometheus: `.ci/run dashboard` unpacks it"]
async fn each_query_of_the_dashboard_has_data() {
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Prefix("spindle_".into()), &[0.01, 1.0]);
    let exporter = scraped(builder.unwrap().install_recorder().unwrap()).await;
    let world = World::start().await;
    let serve = Server::start(&world, &[]).await;
    let prometheus = prometheus(&[&exporter, &serve.address.to_string()]).await;
    let began = now();

    let failing = ["run", "nightly", "--every", "1h", "--attempts", "1", "--", "false"];
    world.run(&failing).await;
    // The first event of a series changes no rate.
    for _ in 0..3 {
        world.hold("billing", "node-1", LEASE).await.release().await;
        sleep(LEASE / 2).await;
    }
    let held = world.hold("billing", "node-1", LEASE).await;
    let others = Database::at(world.emulator.endpoint(), DATABASE);
    let others = LockTable::new(others, "locktable");
    let waiting = others.lock("billing").id("node-2").lease(LEASE).build().unwrap();
    let waits = tokio::spawn(async move { waiting.acquire().await });
    sleep(LEASE * 2).await;
    // Nothing runs, the loops neither.
    std::thread::sleep(LEASE / 2);
    sleep(LEASE).await;
    let outage = Fault::any().effect(Effect::Fail(Code::Unavailable));
    let outage = world.emulator.inject(outage);
    sleep(LEASE * 4).await;
    outage.remove();
    sleep(LEASE * 3).await;
    held.release().await;
    drop(waits.await.unwrap().unwrap());
    sleep(LEASE * 2).await;

    let mut without = Vec::new();
    let queries = queries();
    assert!(queries.len() > 20, "{queries:?}");
    for query in &queries {
        let values = prometheus.values(query, began, now()).await;
        if values.iter().all(|value| !value.is_finite()) {
            without.push(query);
        }
    }
    assert!(without.is_empty(), "queries without data: {without:#?}");
    for (query, expected) in
        [("min(spindle_table_up)", 0.0), ("sum(spindle_table_job_failed)", 1.0)]
    {
        let values = prometheus.values(query, began, now()).await;
        assert!(values.contains(&expected), "{query}: {values:?}");
    }
}

/// The queries of all panels, with what Grafana puts in for its variables.
fn queries() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(include_str!("../../../../deploy/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let query = |target: &Value| {
        let query = target["expr"].as_str().unwrap();
        query.replace("$__rate_interval", "10s").replace("$lock", "billing")
    };
    targets.map(query).collect()
}

/// Answers each scrape, at the address that is returned.
async fn scraped(metrics: PrometheusHandle) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _request = stream.read(&mut [0; 4_096]).await;
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            let _written =
                stream.write_all((head.to_string() + &metrics.render()).as_bytes()).await;
        }
    });
    address
}

/// A Prometheus that scrapes these each second.
struct Prometheus(Server);

async fn prometheus(targets: &[&str]) -> Prometheus {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    // Nothing is there unless an earlier run of this test left it.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let settings = folder.join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: spindle, static_configs: \
         [{{targets: {targets:?}}}]}}]\n"
    );
    std::fs::write(&settings, text).unwrap();
    let (_reserved, free) = reserved();
    let mut command = Command::new(program());
    command.arg(format!("--config.file={}", settings.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.args([format!("--web.listen-address={free}"), "--log.level=error".to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let running = Running::start(command);
    until("Prometheus listens", async || TcpStream::connect(free).await.is_ok()).await;
    let server = Server { running, address: free };
    until("Prometheus is ready", async || server.get("/-/ready").await.status == 200).await;
    Prometheus(server)
}

/// In the path, or where `.ci/run` unpacks it.
fn program() -> PathBuf {
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus/usr/bin/prometheus");
    if unpacked.is_file() { unpacked } else { "prometheus".into() }
}

impl Prometheus {
    /// The values of a query, second by second, of all its series.
    async fn values(&self, query: &str, from: f64, to: f64) -> Vec<f64> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query_range?query={query}&start={from}&end={to}&step=1");
        let answer = self.0.json(&path).await;
        assert_eq!(answer["status"], "success", "{answer}");
        let series = answer["data"]["result"].as_array().unwrap().iter();
        let values = series.flat_map(|series| series["values"].as_array().unwrap());
        values.map(|value| value[1].as_str().unwrap().parse().unwrap()).collect()
    }
}

fn now() -> f64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()
}
