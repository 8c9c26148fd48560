//! A participant that contends by the rules of client-go's `leaderelection`, on the lock table: a port of its three
//! constants, at their default proportions, and of its two loops. It is no lock: nothing here is fenced.
//!
//! Usage: `contend-client-go ID PREFIX 1 LEASE_MS`, with `DATABASE` and `SPANNER_EMULATOR_HOST` in the environment.

#![allow(
    clippy::disallowed_methods,
    reason = "one machine: its wall clock is the one that all participants and the server share"
)]

use std::error::Error;
use std::io::Read as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::value::Timestamp;
use tokio::time::{Instant, sleep, timeout};

type Failure = Box<dyn Error + Send + Sync>;

/// `LeaseDuration`, `RenewDeadline` and `RetryPeriod` are 15, 10 and 2 s.
const PROPORTIONS: (u32, u32, u32) = (15, 10, 2);

/// `JitterFactor`.
const JITTER: f64 = 1.2;

/// The last record that was seen, and when.
type Observed = Option<(String, Timestamp, Instant)>;

struct Elector {
    client: DatabaseClient,
    lock: String,
    id: String,
    lease: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    observed: Observed,
}

impl Elector {
    /// `tryAcquireOrRenew`. A request takes half of the renew deadline at most, as in `NewFromKubeconfig`.
    async fn acquires_or_renews(&mut self) -> bool {
        let limit = self.renew_deadline / 2;
        matches!(timeout(limit, self.attempt()).await, Ok(Ok(true)))
    }

    async fn attempt(&mut self) -> Result<bool, Failure> {
        let (lock, id, lease) = (self.lock.clone(), self.id.clone(), self.lease);
        let observed = self.observed.clone();
        // Kubernetes keeps no locks either: an attempt that is dropped must not hold up the next one.
        let runner = self.client.read_write_transaction();
        let runner = runner.set_read_lock_mode(ReadLockMode::Optimistic).build();
        let run = runner.run(move |transaction: ReadWriteTransaction| {
            let (lock, id, observed) = (lock.clone(), id.clone(), observed.clone());
            async move {
                let keys = KeySet::builder().add_key(key![lock.clone()]).build();
                let columns = vec!["writer", "heartbeat"];
                let read = ReadRequest::builder("locktable", columns).with_keys(keys).build();
                let row = transaction.execute_read(read).await?.next().await.transpose()?;
                let seen = match row {
                    None => None,
                    Some(row) => Some((row.get("writer")?, row.get("heartbeat")?)),
                };
                let seen = seen.map(|(holder, renewed): (String, Timestamp)| match observed {
                    Some((before, at, when)) if before == holder && at == renewed => {
                        (before, at, when)
                    }
                    _ => (holder, renewed, Instant::now()),
                });
                let is_mine = seen.as_ref().is_some_and(|(holder, ..)| *holder == id);
                if let Some((_, _, when)) = &seen
                    && !is_mine
                    && when.elapsed() < lease
                {
                    return Ok((false, seen));
                }
                let now = "spanner.commit_timestamp()";
                let row = Mutation::new_insert_or_update_builder("locktable").set("name").to(lock);
                let row = row.set("heartbeat").to(now).set("writer").to(id);
                let row = if is_mine { row } else { row.set("token").to(now) };
                transaction.buffer([row.build()])?;
                Ok((true, seen))
            }
        });
        let (acquired, observed) = run.await?.into_inner();
        self.observed = observed;
        Ok(acquired)
    }

    /// `Run`, again and again.
    async fn run(mut self) {
        loop {
            while !self.acquires_or_renews().await {
                let jitter = 1.0 + JITTER * f64::from(now().subsec_nanos() % 1_000) / 1_000.0;
                sleep(self.retry_period.mul_f64(jitter)).await;
            }
            println!("gained {} {}", self.lock, now().as_nanos());
            while timeout(self.renew_deadline, self.renews()).await.is_ok() {
                sleep(self.retry_period).await;
            }
            println!("lost {} {}", self.lock, now().as_nanos());
        }
    }

    async fn renews(&mut self) {
        while !self.acquires_or_renews().await {
            sleep(self.retry_period).await;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [id, prefix, _, lease_ms] = arguments.as_slice() else {
        return Err("usage: contend-client-go ID PREFIX 1 LEASE_MS".into());
    };
    let lease = Duration::from_millis(lease_ms.parse()?);
    let endpoint = format!("http://{}", std::env::var("SPANNER_EMULATOR_HOST")?);
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    let client = spanner.database_client(std::env::var("DATABASE")?).build().await?;
    let (lease_duration, renew_deadline, retry_period) = PROPORTIONS;
    let elector = Elector {
        client,
        lock: format!("{prefix}-00000"),
        id: id.clone(),
        lease,
        renew_deadline: lease * renew_deadline / lease_duration,
        retry_period: lease * retry_period / lease_duration,
        observed: None,
    };
    tokio::spawn(elector.run());
    println!("ready");
    // Until the parent is gone.
    let end = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(end).await??;
    std::process::exit(0)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
