//! Health, readiness and metrics: what a kubelet and Prometheus ask for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::claims::{Claim, Claims};
use crate::place::ask;
use crate::serve::answers;
use crate::serve::gauges::{escape, family, number};
use crate::start::Start;

/// A probe is content with an answer of Spanner's as old as this.
const AGE_MAX: Duration = Duration::from_secs(10);

/// For so long a failure stands for the next probes, too.
const FAILED_FOR: Duration = Duration::from_secs(1);

pub struct Probes {
    claims: Arc<Claims>,
    start: Arc<Start>,
    labels_max: usize,
    reached: Arc<Mutex<Option<Reached>>>,
}

/// When Spanner's last answer came, and the error in words.
type Reached = (Instant, Result<(), String>);

impl Probes {
    pub fn new(claims: Arc<Claims>, start: Arc<Start>, labels_max: usize) -> Probes {
        Probes { claims, start, labels_max, reached: Arc::default() }
    }

    /// Asks Spanner, at most every ten seconds once it has answered.
    async fn reached(&self) -> Result<(), String> {
        if let Some(trouble) = self.start.trouble().await {
            return Err(trouble);
        }
        let mut reached = Arc::clone(&self.reached).lock_owned().await;
        if let Some((at, outcome)) = &*reached
            && at.elapsed() < if outcome.is_ok() { AGE_MAX } else { FAILED_FOR }
        {
            return outcome.clone();
        }
        let table = self.claims.table.clone();
        // Its answer stands for later probes, also where this one waits no longer.
        let asking = tokio::spawn(async move {
            let outcome = ask(&table).await.map_err(|error| error.to_string());
            *reached = Some((Instant::now(), outcome.clone()));
            outcome
        });
        asking.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn metrics(&self) -> String {
        let (claims, counts) = (self.claims.all(), self.claims.counts());
        let mut text = String::new();
        let (claimed, help) = (claims.len() as u64, "Locks that clients claim");
        number(&mut text, "spindle_agent_claims", "gauge", help, claimed);
        for (name, help, value) in [
            ("spindle_agent_gained_total", "Terms that began", counts.gained),
            ("spindle_agent_lost_total", "Terms that were lost", counts.lost),
            ("spindle_agent_released_total", "Terms whose client let go", counts.released),
            ("spindle_agent_lapsed_total", "Terms whose client was gone or silent", counts.lapsed),
            ("spindle_agent_exited_total", "Terms released for exited processes", counts.exited),
        ] {
            number(&mut text, name, "counter", help, value);
        }
        let help = "Instances of processes that are released for should those exit";
        number(&mut text, "spindle_agent_watched", "gauge", help, counts.watched);
        let mut held = BTreeMap::<&str, u32>::new();
        for claim in &claims {
            *held.entry(&claim.lock).or_default() += u32::from(claim.term().is_some());
        }
        let name = "spindle_agent_lock_held";
        family(&mut text, name, "gauge", "1 if a client of this agent holds the lock");
        for (lock, held) in held.into_iter().take(self.labels_max) {
            let _ = writeln!(text, "{name}{{lock=\"{}\"}} {held}", escape(lock));
        }
        text
    }
}

pub fn routes(probes: Arc<Probes>) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(probes)
}

/// A restart helps only where a loop is overdue.
async fn health(State(probes): State<Arc<Probes>>) -> Response {
    let overdue = probes.claims.all().into_iter().find(|claim: &Arc<Claim>| !claim.is_alive());
    let trouble = overdue.map(|claim| format!("lock `{}`: its loop is overdue", claim.lock));
    answers::health(trouble.as_deref())
}

async fn readiness(State(probes): State<Arc<Probes>>) -> Response {
    answers::health(probes.reached().await.err().as_deref())
}

async fn metrics(State(probes): State<Arc<Probes>>) -> Response {
    answers::metrics(probes.metrics())
}
