//! The service of `docs/service.md`: its probes, its tenants that come and go, and its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::testing::Clock;
use spindle::{CancellationToken, Database, Ddl, LockTable};
use spindle_emulator::engine::{Code, Value};
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::service_example::{Settings, TABLES, exporter, serve};
use crate::world::{DATABASE, EVENTUALLY, LEASE};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Replica {
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), Failure>>,
}

impl Replica {
    async fn start(emulator: &Emulator, metrics: PrometheusHandle) -> Replica {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let settings = Settings {
            database: DATABASE.to_string(),
            endpoint: Some(emulator.endpoint().to_string()),
            clock: Clock::runtime(),
        };
        let serving = tokio::spawn(serve(settings, listener, metrics, shutdown.clone()));
        Replica { address, shutdown, serving }
    }

    /// The answer to a request; an error once nobody listens.
    async fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    async fn passes(&self, path: &str) -> bool {
        self.get(path).await.unwrap().starts_with("HTTP/1.1 200")
    }

    async fn answers(&self, path: &str, passes: bool) {
        let waiting = async {
            while self.passes(path).await != passes {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(EVENTUALLY, waiting).await.unwrap_or_else(|_| panic!("{path}: never {passes}"));
    }
}

struct Deployment {
    emulator: Emulator,
    client: DatabaseClient,
}

impl Deployment {
    async fn with_tenants(ids: &[&str]) -> Deployment {
        let emulator = Emulator::start().await.unwrap();
        emulator
            .create_database(DATABASE, &format!("{};{TABLES}", LockTable::ddl(Ddl::GoogleSql)))
            .await
            .unwrap();
        let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await.unwrap();
        let client = spanner.database_client(DATABASE).build().await.unwrap();
        let deployment = Deployment { emulator, client };
        for id in ids {
            deployment.write(tenant(id)).await;
        }
        deployment
    }

    async fn write(&self, mutation: Mutation) {
        self.client.write_only_transaction().build().write(vec![mutation]).await.unwrap();
    }

    /// How many invoices each tenant has.
    fn invoices(&self) -> BTreeMap<String, usize> {
        let mut invoices = BTreeMap::new();
        for row in self.emulator.database(DATABASE).unwrap().rows("invoices").unwrap() {
            let Value::String(tenant) = &row["tenant"] else { panic!("{row:?}") };
            *invoices.entry(tenant.to_string()).or_default() += 1;
        }
        invoices
    }

    /// How many more there are after a while.
    async fn billed_in(&self, time: Duration, id: &str) -> usize {
        let count = || self.invoices().get(id).copied().unwrap_or(0);
        let before = count();
        sleep(time).await;
        count() - before
    }

    /// Looks on until each tenant is billed.
    async fn bills(&self, ids: &[&str]) {
        for id in ids {
            let waiting = async { while self.billed_in(Duration::from_secs(1), id).await == 0 {} };
            timeout(EVENTUALLY, waiting).await.unwrap_or_else(|_| panic!("nobody bills {id}"));
        }
    }
}

fn tenant(id: &str) -> Mutation {
    Mutation::new_insert_builder("tenants").set("id").to(id).build()
}

fn lock_of(id: &str) -> String {
    format!("tenant/{id}")
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_told_to_stop_says_so_and_hands_over_each_tenant_at_once() {
    let ids = ["acme", "globex", "initech"];
    let deployment = Deployment::with_tenants(&ids).await;
    let recorder = exporter().unwrap().build_recorder();
    let old = Replica::start(&deployment.emulator, recorder.handle()).await;
    old.answers("/startupz", true).await;
    deployment.bills(&ids).await;
    assert!(old.passes("/readyz").await && old.passes("/livez").await);
    assert!(old.passes("/leader/acme").await && !old.passes("/leader/nobody").await);
    let new = Replica::start(&deployment.emulator, recorder.handle()).await;
    new.answers("/readyz", true).await;
    sleep(LEASE).await;
    assert!(!new.passes("/leader/acme").await, "one replica alone leads");

    let releases = deployment.emulator.inject(
        Fault::on(Rpc::Commit).table("locktable").times(1).effect(Effect::Delay(LEASE / 10)),
    );
    old.shutdown.cancel();
    let told = old.get("/readyz").await.unwrap();
    assert!(told.starts_with("HTTP/1.1 503") && told.ends_with("shuts down\n"), "{told}");
    assert!(old.passes("/livez").await, "nobody may kill it while it releases");
    // Within the stop limit and the release limit, and long before any lease is over.
    timeout(LEASE / 2, old.serving).await.unwrap().unwrap().unwrap();
    drop(releases);
    assert!(TcpStream::connect(old.address).await.is_err(), "it listens no more");
    new.answers("/leader/acme", true).await;
    sleep(Duration::from_secs(2)).await;
    for id in ids {
        assert!(
            deployment.billed_in(Duration::from_secs(3), id).await > 0,
            "{id} waits for its lease"
        );
    }
    new.shutdown.cancel();
    timeout(EVENTUALLY, new.serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn tenants_come_and_go_while_the_service_runs() {
    // Names of its own: instances of other tests in this process would count under them, too.
    let deployment = Deployment::with_tenants(&["hooli"]).await;
    let recorder = exporter().unwrap().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let replica = Replica::start(&deployment.emulator, recorder.handle()).await;
    deployment.bills(&["hooli"]).await;
    deployment.write(tenant("umbrella")).await;
    deployment.bills(&["hooli", "umbrella"]).await;
    let scraped = replica.get("/metrics").await.unwrap();
    assert!(scraped.contains("spindle_held{lock=\"tenant/umbrella\"} 1"), "{scraped}");
    assert!(scraped.contains("spindle_heartbeat_seconds_bucket"), "{scraped}");

    let gone = KeySet::builder().add_key(key!["umbrella".to_string()]).build();
    deployment.write(Mutation::delete("tenants", gone)).await;
    sleep(LEASE).await;
    assert_eq!(deployment.billed_in(LEASE * 2, "umbrella").await, 0, "it has gone");
    let table = LockTable::new(Database::at(deployment.emulator.endpoint(), DATABASE), "locktable");
    assert!(!table.inspect(&lock_of("umbrella")).await.unwrap().is_held(), "its lock is released");
    let scraped = replica.get("/metrics").await.unwrap();
    assert!(scraped.contains("spindle_held{lock=\"tenant/umbrella\"} NaN"), "{scraped}");
    deployment.bills(&["hooli"]).await;
    deployment.write(tenant("umbrella")).await;
    deployment.bills(&["umbrella"]).await;
    replica.shutdown.cancel();
    timeout(EVENTUALLY, replica.serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_tenants_trouble_is_told_and_takes_no_replica_away_and_an_outage_does() {
    let deployment = Deployment::with_tenants(&["acme", "globex"]).await;
    let denied = Effect::Fail(Code::PermissionDenied);
    let fault = Fault::on(Rpc::Commit).table("locktable").key(lock_of("globex"));
    let denied = deployment.emulator.inject(fault.effect(denied));
    let recorder = exporter().unwrap().build_recorder();
    let replica = Replica::start(&deployment.emulator, recorder.handle()).await;
    replica.answers("/readyz", true).await;
    deployment.bills(&["acme"]).await;
    sleep(LEASE).await;
    let told = replica.get("/readyz").await.unwrap();
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("`tenant/globex`"), "{told}");
    denied.remove();
    deployment.bills(&["globex"]).await;

    let outage = Fault::any().effect(Effect::Fail(Code::Unavailable));
    let outage = deployment.emulator.inject(outage);
    replica.answers("/readyz", false).await;
    for _ in 0..30 {
        assert!(replica.passes("/livez").await, "a restart would help nobody");
        sleep(LEASE / 10).await;
    }
    outage.remove();
    replica.answers("/readyz", true).await;
    deployment.bills(&["acme", "globex"]).await;
    replica.shutdown.cancel();
    timeout(EVENTUALLY, replica.serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_never_reaches_spanner_never_starts_and_stops_when_it_is_told_to() {
    let deployment = Deployment::with_tenants(&["acme"]).await;
    let recorder = exporter().unwrap().build_recorder();
    deployment.emulator.inject(Fault::any().effect(Effect::Stall));
    let replica = Replica::start(&deployment.emulator, recorder.handle()).await;
    sleep(LEASE).await;
    replica.shutdown.cancel();
    timeout(EVENTUALLY, replica.serving).await.unwrap().unwrap().unwrap();
}
