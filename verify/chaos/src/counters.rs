//! The work under a lock: increments, each written fenced to Spanner and unfenced to a file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use google_cloud_gax::options::RequestOptions;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner, SpannerBuilderExt as _};
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::{Error, Fence};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use crate::history::{Event, Failure, Journal, Outcome, UNFENCED, append, must, now};
use crate::setup::{DATABASE, Target};
use crate::tables::counter;

/// One request of a write may take this long, and a write as a whole twice as long.
const LIMIT: Duration = Duration::from_secs(1);

/// Writes for all locks of a worker.
pub struct Counters {
    id: String,
    pace: Duration,
    /// Of the counters that it increments.
    colours: Vec<String>,
    journal: Arc<Journal>,
    unfenced: File,
    line: Line,
    increments: AtomicU64,
}

/// One increment, known by its id wherever it shows up.
#[derive(Clone)]
struct Increment {
    id: String,
    worker: String,
    counter: String,
    fence: Fence,
}

impl Counters {
    pub fn new(
        endpoint: &str,
        id: &str,
        target: Target,
        out: &Path,
        journal: Arc<Journal>,
    ) -> Result<Counters, Failure> {
        let unfenced = append(&out.join(UNFENCED))?;
        let line = Line { endpoint: endpoint.to_string(), client: Mutex::default() };
        let (pace, colours) = (target.pace(), target.colours(id));
        let (id, increments) = (id.to_string(), AtomicU64::default());
        Ok(Counters { id, pace, colours, journal, unfenced, line, increments })
    }

    /// Waits until the next write under a lock is due.
    pub async fn pause(&self) {
        linger(self.pace / 2, self.pace * 3 / 2).await;
    }

    /// Increments counters of this lock for as long as there is a fence.
    pub async fn write_while_held(&self, lock: usize, fence: impl Fn() -> Option<Fence>) {
        loop {
            self.pause().await;
            match fence() {
                Some(fence) => self.write(lock, fence).await,
                None => sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Increments a counter of this lock, under a fence that was had a while ago.
    pub async fn write(&self, lock: usize, fence: Fence) {
        // The decision has been made: this is where a careless leader can be late.
        linger(Duration::from_millis(20), Duration::from_millis(60)).await;
        let number = self.increments.fetch_add(1, Ordering::Relaxed);
        // Its own process refuses a late one by itself, and a delegate's relies on Spanner.
        let fence = if rand::random() { as_text(&fence) } else { fence };
        let increment = Increment {
            id: format!("{}-{}-{number}", self.id, std::process::id()),
            worker: self.id.clone(),
            counter: counter(lock, &self.colours[rand::random_range(0..self.colours.len())]),
            fence,
        };
        must(self.increment(lock, increment).await);
    }

    async fn increment(&self, lock: usize, increment: Increment) -> Result<(), Failure> {
        let (id, token) = (increment.id.clone(), increment.fence.token().as_nanoseconds());
        let line = format!("{lock} {token} {} {id} {}\n", self.id, now());
        (&self.unfenced).write_all(line.as_bytes())?;
        let counter = increment.counter.clone();
        self.journal.write_of(lock, Event::Attempt { id: id.clone(), token, counter })?;
        let outcome = match self.line.client().await {
            Some((number, client)) => {
                let outcome = attempt(client, increment).await;
                if matches!(outcome, Outcome::NotSent | Outcome::Unknown) {
                    self.line.drop_client(number).await;
                }
                outcome
            }
            None => Outcome::NotSent,
        };
        self.journal.write_of(lock, Event::Outcome { id, outcome })
    }
}

/// Returns the fence as a delegate has it, who knows nothing else of the term.
fn as_text(fence: &Fence) -> Fence {
    let text = serde_json::to_string(fence).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|_| fence.clone())
}

/// The counters's own way to Spanner.
struct Line {
    endpoint: String,
    /// The present client, and how many there were before.
    client: Mutex<(u64, Option<DatabaseClient>)>,
}

impl Line {
    async fn client(&self) -> Option<(u64, DatabaseClient)> {
        let client = async {
            let mut slot = self.client.lock().await;
            if slot.1.is_none() {
                slot.1 = connect(&self.endpoint).await.ok();
            }
            slot.1.clone().map(|client| (slot.0, client))
        };
        timeout(LIMIT, client).await.ok().flatten()
    }

    /// A client whose session is lost never makes another one.
    async fn drop_client(&self, number: u64) {
        let mut slot = self.client.lock().await;
        if slot.0 == number {
            *slot = (number + 1, None);
        }
    }
}

/// A random length, so that processes don't march in step.
pub fn random_between(least: Duration, most: Duration) -> Duration {
    least + (most - least).mul_f64(rand::random())
}

async fn linger(least: Duration, most: Duration) {
    sleep(random_between(least, most)).await;
}

async fn attempt(client: DatabaseClient, increment: Increment) -> Outcome {
    let may_commit = Arc::new(AtomicBool::new(false));
    let progress = Arc::clone(&may_commit);
    // The fence has to hold either way.
    let mode = if rand::random() { ReadLockMode::Optimistic } else { ReadLockMode::Pessimistic };
    let running = client
        .read_write_transaction()
        .set_read_lock_mode(mode)
        .with_begin_retry_policy(NeverRetry)
        .with_begin_attempt_timeout(LIMIT)
        .with_commit_retry_policy(NeverRetry)
        .with_commit_attempt_timeout(LIMIT)
        .with_rollback_retry_policy(NeverRetry)
        .with_rollback_attempt_timeout(LIMIT)
        .build()
        .run(move |transaction: ReadWriteTransaction| {
            let (increment, may_commit) = (increment.clone(), Arc::clone(&progress));
            async move {
                let value = read(&transaction, &increment.counter).await? + 1;
                increment.fence.check(&transaction).await?;
                transaction.buffer(mutations(&increment, value))?;
                may_commit.store(true, Ordering::SeqCst);
                Ok(())
            }
        });
    match timeout(LIMIT * 2, running).await {
        Ok(Ok(_)) => Outcome::Committed,
        // Refused before this attempt's commit; an earlier one was aborted, so not applied.
        Ok(Err(error)) if Error::extract(&error).is_some_and(Error::is_fenced) => Outcome::Fenced,
        _ if may_commit.load(Ordering::SeqCst) => Outcome::Unknown,
        _ => Outcome::NotSent,
    }
}

async fn read(
    transaction: &ReadWriteTransaction,
    counter: &str,
) -> google_cloud_spanner::Result<i64> {
    let keys = KeySet::builder().add_key(key![counter]).build();
    let request = ReadRequest::builder("counters", vec!["value"])
        .with_keys(keys)
        .with_retry_policy(NeverRetry)
        .with_attempt_timeout(LIMIT)
        .build();
    let mut rows = transaction.execute_read(request).await?;
    let row = rows.next().await.transpose()?;
    row.map_or(Ok(0), |row| row.get("value"))
}

fn mutations(increment: &Increment, value: i64) -> [Mutation; 2] {
    let counter = Mutation::new_insert_or_update_builder("counters")
        .set("name")
        .to(&increment.counter)
        .set("value")
        .to(value)
        .build();
    let log = Mutation::new_insert_builder("log")
        .set("id")
        .to(&increment.id)
        .set("value")
        .to(value)
        .set("counter")
        .to(&increment.counter)
        .set("token")
        .to(increment.fence.token().to_string())
        .set("worker")
        .to(&increment.worker)
        .set("committed")
        .to("spanner.commit_timestamp()")
        .build();
    [counter, log]
}

async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let mut options = RequestOptions::default();
    options.set_retry_policy(NeverRetry);
    options.set_attempt_timeout(LIMIT);
    let spanner = Spanner::builder()
        .with_endpoint(endpoint)
        .with_channel_pool(StaticChannelPoolConfig::new(1))
        .build()
        .await?;
    Ok(spanner.database_client(DATABASE).with_request_options(options).build().await?)
}
