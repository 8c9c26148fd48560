//! The work that a holder does: increments, each written fenced to Spanner and unfenced to a file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use spindle::{Error, Fence, Spindle};
use tokio::time::{sleep, timeout};

use crate::history::{Event, Failure, Journal, Outcome, UNFENCED, append, now};
use crate::worker::{DATABASE, linger};

pub const COUNTERS: [&str; 3] = ["red", "green", "blue"];

/// One request of a write may take this long, and a write as a whole twice as long.
const LIMIT: Duration = Duration::from_secs(1);

pub struct Clerk {
    endpoint: String,
    id: String,
    journal: Arc<Journal>,
    unfenced: File,
    client: Option<DatabaseClient>,
}

/// One increment, known by its id wherever it shows up.
#[derive(Clone)]
struct Increment {
    id: String,
    worker: String,
    counter: &'static str,
    fence: Fence,
}

impl Clerk {
    pub fn new(
        endpoint: &str,
        id: &str,
        out: &Path,
        journal: Arc<Journal>,
    ) -> Result<Clerk, Failure> {
        let unfenced = append(&out.join(UNFENCED))?;
        let (endpoint, id) = (endpoint.to_string(), id.to_string());
        Ok(Clerk { endpoint, id, journal, unfenced, client: None })
    }

    pub async fn write_while_held(mut self, lock: Spindle) {
        for number in 0_u64.. {
            let Some(term) = lock.term() else {
                sleep(Duration::from_millis(5)).await;
                continue;
            };
            // The decision has been made: this is where a careless leader can be late.
            linger(Duration::from_millis(20), Duration::from_millis(60)).await;
            let increment = Increment {
                id: format!("{}-{}-{number}", self.id, std::process::id()),
                worker: self.id.clone(),
                counter: COUNTERS[rand::random_range(0..COUNTERS.len())],
                fence: term.fence(),
            };
            if self.write(increment).await.is_err() {
                // The files can't be written: what happens from here on would go unseen.
                std::process::exit(1);
            }
        }
    }

    async fn write(&mut self, increment: Increment) -> Result<(), Failure> {
        let (id, token) = (increment.id.clone(), increment.fence.token().as_nanoseconds());
        let line = format!("{token} {} {id} {}\n", self.id, now());
        self.unfenced.write_all(line.as_bytes())?;
        let counter = increment.counter.to_string();
        self.journal.write(Event::Attempt { id: id.clone(), token, counter })?;
        let outcome = match self.client().await {
            Some(client) => attempt(client, increment).await,
            None => Outcome::NotSent,
        };
        if matches!(outcome, Outcome::NotSent | Outcome::Unknown) {
            // A client whose session is lost never makes another one.
            self.client = None;
        }
        self.journal.write(Event::Outcome { id, outcome })
    }

    async fn client(&mut self) -> Option<DatabaseClient> {
        if self.client.is_none() {
            self.client = timeout(LIMIT, connect(&self.endpoint)).await.ok().and_then(Result::ok);
        }
        self.client.clone()
    }
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
                let value = read(&transaction, increment.counter).await? + 1;
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
        .to(increment.counter)
        .set("value")
        .to(value)
        .build();
    let log = Mutation::new_insert_builder("log")
        .set("id")
        .to(&increment.id)
        .set("value")
        .to(value)
        .set("counter")
        .to(increment.counter)
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
