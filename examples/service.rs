//! A service for production: axum, probes, metrics, SIGTERM, and a leader for each tenant.
//!
//! ```text
//! cargo run --example service        # on the embedded Spanner, unless DATABASE names one
//! curl 127.0.0.1:8080/readyz; curl 127.0.0.1:8080/metrics
//! ```
//!
//! `docs/service.md` explains it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::health::Health;
use spindle::testing::Clock;
use spindle::{CancellationToken, Database, Ddl, LockTable, Spindle, Term};
use spindle_emulator::Emulator;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The service's own tables, beside the lock table.
pub const TABLES: &str = "CREATE TABLE tenants (id STRING(MAX) NOT NULL) PRIMARY KEY (id);
CREATE TABLE invoices (
    tenant STRING(MAX) NOT NULL,
    written TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (tenant, written)";

/// How soon a new tenant is led, and one that has gone no longer.
const TENANTS_INTERVAL: Duration = Duration::from_secs(5);
/// How long requests under way may take after the last lock was released.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // First of all, so that no signal is missed while the rest starts.
    let shutdown = terminated()?;
    let metrics = exporter()?.install_recorder()?;
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(listen).await?;
    println!("listens on http://{}", listener.local_addr()?);
    let (database, emulator) = match std::env::var("DATABASE") {
        Ok(database) => (database, None),
        Err(_) => {
            let (database, emulator) = demonstration().await?;
            let address = emulator.address();
            println!(
                "a second replica: LISTEN=127.0.0.1:8081 SPANNER_EMULATOR_HOST={address} DATABASE={database}"
            );
            (database, Some(emulator))
        }
    };
    let endpoint = emulator.as_ref().map(|emulator| emulator.endpoint().to_string());
    let settings = Settings { database, endpoint, clock: Clock::system() };
    serve(settings, listener, metrics, shutdown).await
}

/// A token that SIGTERM or Ctrl-C cancels.
fn terminated() -> std::io::Result<CancellationToken> {
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let cancel = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancel.cancel();
    });
    Ok(shutdown)
}

/// The values that a test chooses otherwise than production.
pub struct Settings {
    /// The full name of the database with all the tables.
    pub database: String,
    /// Where Spanner is; nothing for Google's own.
    pub endpoint: Option<String>,
    /// The clock of the locks.
    pub clock: Clock,
}

/// Serves until `shutdown` is cancelled, and then until every lock is released.
pub async fn serve(
    settings: Settings,
    listener: TcpListener,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let service = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(()),
        service = Service::connect(settings, metrics, shutdown.clone()) => Arc::new(service?),
    };
    let released = CancellationToken::new();
    let routes = routes(Arc::clone(&service));
    let http =
        axum::serve(listener, routes).with_graceful_shutdown(released.clone().cancelled_owned());
    let http = tokio::spawn(http.into_future());
    service.follow_tenants().await;
    // The probes have answered up to here. Now whoever has no answer yet gets one.
    released.cancel();
    timeout(DRAIN_LIMIT, http).await???;
    Ok(())
}

/// One replica: the locks that it contends for, and what its probes ask.
struct Service {
    client: DatabaseClient,
    table: LockTable,
    clock: Clock,
    metrics: PrometheusHandle,
    shutdown: CancellationToken,
    /// None until the table of tenants was read once.
    tenants: Mutex<Option<Tenants>>,
}

type Tenants = BTreeMap<String, Tenant>;

struct Tenant {
    lock: Spindle,
    gone: CancellationToken,
}

impl Service {
    async fn connect(
        settings: Settings,
        metrics: PrometheusHandle,
        shutdown: CancellationToken,
    ) -> Result<Service, Failure> {
        let Settings { database, endpoint, clock } = settings;
        let mut spanner = Spanner::builder();
        if let Some(endpoint) = &endpoint {
            spanner = spanner.with_endpoint(endpoint);
        }
        let client = spanner.build().await?.database_client(&database).build().await?;
        // One table for the whole process: its locks share connections and requests.
        let table = match endpoint {
            Some(endpoint) => LockTable::new(Database::at(endpoint, database), "locktable"),
            None => LockTable::new(database, "locktable"),
        };
        Ok(Service { client, table, clock, metrics, shutdown, tenants: Mutex::default() })
    }

    fn tenants(&self) -> MutexGuard<'_, Option<Tenants>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Contends for each tenant for as long as the tenant is there. Ends after `shutdown`, when the
    /// last lock is released.
    async fn follow_tenants(&self) {
        let mut leading = JoinSet::new();
        let follow = async {
            loop {
                match self.read_tenants().await {
                    Ok(ids) => self.lead_exactly(&ids, &mut leading),
                    Err(error) => tracing::warn!(error, "keeps the tenants that it knows"),
                }
                while leading.try_join_next().is_some() {}
                self.metrics.run_upkeep();
                sleep(TENANTS_INTERVAL).await;
            }
        };
        self.shutdown.run_until_cancelled(follow).await;
        while leading.join_next().await.is_some() {}
    }

    async fn read_tenants(&self) -> Result<BTreeSet<String>, Failure> {
        let read = ReadRequest::builder("tenants", vec!["id"]).with_keys(KeySet::all()).build();
        let mut rows = self.client.single_use().build().execute_read(read).await?;
        let mut ids = BTreeSet::new();
        while let Some(row) = rows.next().await.transpose()? {
            ids.insert(row.get("id")?);
        }
        Ok(ids)
    }

    fn lead_exactly(&self, ids: &BTreeSet<String>, leading: &mut JoinSet<()>) {
        let mut tenants = self.tenants();
        let tenants = tenants.get_or_insert_default();
        tenants.retain(|id, tenant| {
            let stays = ids.contains(id);
            if !stays {
                tenant.gone.cancel();
            }
            stays
        });
        for id in ids {
            if tenants.contains_key(id) {
                continue;
            }
            match self.table.lock(format!("tenant/{id}")).clock(self.clock.clone()).build() {
                Ok(lock) => {
                    let gone = self.shutdown.child_token();
                    leading.spawn(lead(
                        lock.clone(),
                        id.clone(),
                        self.client.clone(),
                        gone.clone(),
                    ));
                    tenants.insert(id.clone(), Tenant { lock, gone });
                }
                Err(error) => tracing::error!(%error, "a tenant that nobody can lead"),
            }
        }
    }
}

/// Leads for a tenant until it has gone; then the lock is released.
async fn lead(lock: Spindle, id: String, client: DatabaseClient, gone: CancellationToken) {
    while !gone.is_cancelled() {
        let task = {
            let (id, client) = (id.clone(), client.clone());
            move |term| bill(id.clone(), client.clone(), term)
        };
        // Errors of the task are repeated in there. Only a panic comes out of it.
        if let Err(error) = lock.lead(gone.clone(), task).await {
            tracing::error!(id, %error, "leads again in a minute");
            gone.run_until_cancelled(sleep(Duration::from_secs(60))).await;
        }
    }
}

/// The work: an invoice a second, each under the fence of the term.
async fn bill(tenant: String, client: DatabaseClient, term: Term) -> Result<(), Failure> {
    while !term.is_cancelled() {
        let invoice = Mutation::new_insert_builder("invoices")
            .set("tenant")
            .to(tenant.clone())
            .set("written")
            .to("spanner.commit_timestamp()")
            .build();
        term.fence().write(&client, [invoice]).await?;
        term.cancellation().run_until_cancelled(sleep(Duration::from_secs(1))).await;
    }
    Ok(())
}

fn routes(service: Arc<Service>) -> axum::Router {
    axum::Router::new()
        .route("/startupz", get(startup))
        .route("/readyz", get(readiness))
        .route("/livez", get(liveness))
        .route("/leader/{tenant}", get(leadership))
        .route(
            "/metrics",
            get(async |State(service): State<Arc<Service>>| service.metrics.render()),
        )
        .with_state(service)
}

/// Says yes once each lock has reached Spanner.
async fn startup(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    service.answer(|tenants| {
        let waiting = troubles(tenants, Health::is_started);
        (waiting.is_empty(), waiting)
    })
}

/// Says no while the service shuts down, and while nothing works. One tenant's trouble is for the
/// alerts: no user gains from a replica that is taken away for it.
async fn readiness(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    if service.shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shuts down\n".into());
    }
    service.answer(|tenants| {
        let unready = troubles(tenants, Health::is_ready);
        (unready.is_empty() || unready.len() < tenants.len(), unready)
    })
}

/// Says no where a restart helps: a lock's loop is blocked or gone.
async fn liveness(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    if service.tenants().is_none() {
        return (StatusCode::OK, "starts\n".into());
    }
    service.answer(|tenants| {
        let dead = troubles(tenants, Health::is_alive);
        (dead.is_empty(), dead)
    })
}

/// Says yes on the replica that leads this tenant, and on no other: for a load balancer.
async fn leadership(
    State(service): State<Arc<Service>>,
    Path(tenant): Path<String>,
) -> (StatusCode, &'static str) {
    let leads = |tenants: &Tenants| tenants.get(&tenant)?.lock.has_lock();
    match service.tenants().as_ref().and_then(leads) {
        Some(_) => (StatusCode::OK, "leads\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "does not lead\n"),
    }
}

/// Names the trouble of each lock that is not fine.
fn troubles(tenants: &Tenants, is_fine: fn(&Health) -> bool) -> Vec<String> {
    let all = tenants.values().map(|tenant| (tenant.lock.name(), tenant.lock.health()));
    let troubled = all.filter(|(_, health)| !is_fine(health));
    let tell = |(lock, health): (&str, Health)| match health.trouble {
        Some(trouble) => trouble.error.to_string(),
        None => format!("lock `{lock}`: no answer yet"),
    };
    troubled.map(tell).collect()
}

impl Service {
    /// Answers a probe with the troubles, also where they don't make it fail.
    fn answer(&self, judge: impl FnOnce(&Tenants) -> (bool, Vec<String>)) -> (StatusCode, String) {
        let (passes, troubles) = match &*self.tenants() {
            Some(tenants) => judge(tenants),
            None => (false, vec!["the tenants are not known yet".to_string()]),
        };
        let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let text = if troubles.is_empty() { "ok".to_string() } else { troubles.join("\n") };
        (status, text + "\n")
    }
}

/// An exporter with buckets, that forgets the metrics of tenants that have gone.
pub fn exporter() -> Result<PrometheusBuilder, BuildError> {
    let buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Prefix("spindle_".into()), &buckets)?
        .idle_timeout(MetricKindMask::ALL, Some(Duration::from_secs(3_600))))
}

/// A database with two tenants, on the embedded Spanner.
async fn demonstration() -> Result<(String, Emulator), Failure> {
    let database = "projects/demo/instances/demo/databases/demo".to_string();
    let emulator = Emulator::start().await?;
    emulator
        .create_database(&database, &format!("{};\n{TABLES}", LockTable::ddl(Ddl::GoogleSql)))
        .await?;
    let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await?;
    let client = spanner.database_client(&database).build().await?;
    let tenant = |id: &str| Mutation::new_insert_builder("tenants").set("id").to(id).build();
    let tenants = vec![tenant("acme"), tenant("globex")];
    client.write_only_transaction().build().write(tenants).await?;
    Ok((database, emulator))
}
