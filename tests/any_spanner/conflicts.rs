//! Two transactions at a time on one row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::retry_policy::NeverRetry;
use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::model::transaction_options::IsolationLevel;
use spindle::google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::{
    BasicTransactionRetryPolicy, ReadWriteTransaction, TransactionRunner,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::place::{COMMIT_TIMESTAMP, Failure, Place};
use crate::points::code;
use crate::report::Verdict;

/// A time that nobody who isn't held up takes, and less than Spanner leaves an idle transaction.
const PROMPT: Duration = Duration::from_secs(6);

/// Spanner ends a transaction that is in the way and has been idle for 10 s.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Twice that, and some: held up for good.
const FOR_GOOD: Duration = Duration::from_secs(25);

/// The parts of the place that two transactions need, so that their closures own them.
#[derive(Clone)]
struct Row {
    client: DatabaseClient,
    table: String,
    id: &'static str,
}

/// A runner that tries once, as the library's own transactions do.
fn runner(client: &DatabaseClient, mode: ReadLockMode) -> TransactionRunner {
    let runner = client.read_write_transaction().set_isolation_level(IsolationLevel::Serializable);
    let once = BasicTransactionRetryPolicy::new().with_max_attempts(1);
    let runner = runner.set_read_lock_mode(mode).with_retry_policy(once);
    runner.with_begin_retry_policy(NeverRetry).with_commit_retry_policy(NeverRetry).build()
}

impl Row {
    fn of(place: &Place, client: &DatabaseClient, id: &'static str) -> Row {
        Row { client: client.clone(), table: place.points(), id }
    }

    fn read(&self, column: &str) -> ReadRequest {
        let keys = KeySet::builder().add_key(key![self.id]).build();
        ReadRequest::builder(&self.table, vec![column]).with_keys(keys).build()
    }

    fn set_n(&self, n: i64) -> Mutation {
        Mutation::new_update_builder(&self.table).set("id").to(self.id).set("n").to(n).build()
    }

    /// Reads one column, then writes: the two requests of a heartbeat.
    async fn beat(
        &self,
        mode: ReadLockMode,
        column: &'static str,
        write: Mutation,
    ) -> Result<(), spindle::google_cloud_spanner::Error> {
        let row = self.clone();
        let run = runner(&self.client, mode).run(move |transaction: ReadWriteTransaction| {
            let (row, write) = (row.clone(), write.clone());
            async move {
                let mut rows = transaction.execute_read(row.read(column)).await?;
                rows.next().await.transpose()?;
                transaction.buffer([write])
            }
        });
        run.await.map(|_| ())
    }
}

/// A transaction reads a row, another writes it, the first commits.
pub async fn changed_reads(place: &Place) -> Result<Verdict, Failure> {
    let (row, other) =
        (Row::of(place, &place.client, "changed"), Row::of(place, &place.observer, "changed"));
    place.write(vec![place.set("changed", 1)]).await?;
    let between = Arc::new(AtomicU32::new(0));
    let wrote = Arc::clone(&between);
    let first = runner(&place.client, ReadLockMode::Optimistic).run(
        move |transaction: ReadWriteTransaction| {
            let (row, other, wrote) = (row.clone(), other.clone(), Arc::clone(&wrote));
            async move {
                let mut rows = transaction.execute_read(row.read("n")).await?;
                rows.next().await.transpose()?;
                let second = other.beat(ReadLockMode::Optimistic, "n", other.set_n(2));
                if let Ok(Ok(())) = timeout(PROMPT, second).await {
                    wrote.fetch_add(1, Ordering::SeqCst);
                }
                transaction.buffer([row.set_n(3)])
            }
        },
    );
    let first = first.await;
    let n = place.point(&place.client, "changed").await?.and_then(|point| point.n);
    let wrote = between.load(Ordering::SeqCst) > 0;
    Ok(match (wrote, first) {
        (true, Err(error)) if code(&error) == Some(Code::Aborted) && n == Some(2) => {
            Verdict::Held(String::new())
        }
        (true, Err(error)) => {
            Verdict::Broken(format!("it ended with {error}, and the row has {n:?}"))
        }
        (true, Ok(_)) => {
            Verdict::Broken(format!("it was committed over the change: the row has {n:?}"))
        }
        (false, Ok(_)) if n == Some(3) => {
            Verdict::Held("the other writer was kept out instead".into())
        }
        (false, first) => Verdict::Broken(format!("neither could write: {:?}, {n:?}", first.err())),
    })
}

/// A fence reads the term's columns under locks; meanwhile the holder's heartbeat writes another.
pub async fn heartbeat_beside_a_fence(place: &Place) -> Result<Verdict, Failure> {
    let row = Row::of(place, &place.client, "beside");
    let heart = Row::of(place, &place.observer, "beside");
    place.write(vec![place.set("beside", 1)]).await?;
    let took = Arc::new(std::sync::Mutex::new(None));
    let told = Arc::clone(&took);
    let guarded = place.set("guarded", 1);
    let fenced = runner(&place.client, ReadLockMode::Pessimistic).run(
        move |transaction: ReadWriteTransaction| {
            let (row, heart, told, guarded) =
                (row.clone(), heart.clone(), Arc::clone(&told), guarded.clone());
            async move {
                let mut rows = transaction.execute_read(row.read("n")).await?;
                rows.next().await.transpose()?;
                let write = Mutation::new_update_builder(&heart.table).set("id").to(heart.id);
                let write = write.set("a").to(COMMIT_TIMESTAMP).build();
                let begun = Instant::now();
                let beat = timeout(PROMPT, heart.beat(ReadLockMode::Optimistic, "n", write)).await;
                let found = match beat {
                    Ok(Ok(())) => Ok(begun.elapsed()),
                    Ok(Err(error)) => {
                        let aborted = code(&error) == Some(Code::Aborted);
                        Err((format!("the heartbeat ended with {error}"), aborted))
                    }
                    Err(_) => {
                        Err((format!("the heartbeat waited for more than {PROMPT:?}"), false))
                    }
                };
                *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(found);
                transaction.buffer([guarded])
            }
        },
    );
    let fenced = fenced.await;
    let beat = took.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    let (reason, aborted) = match (beat, fenced) {
        (Some(Ok(_)), Ok(_)) => return Ok(Verdict::Held(String::new())),
        (Some(Ok(_)), Err(error)) => {
            (format!("the fenced write ended with {error}"), code(&error) == Some(Code::Aborted))
        }
        (Some(Err(found)), _) => found,
        (None, fenced) => (format!("the fence could not read: {:?}", fenced.err()), false),
    };
    let is_limit = aborted && runs_one_at_a_time(place).await?;
    Ok(if is_limit { Verdict::OneAtATime(reason) } else { Verdict::Broken(reason) })
}

/// Returns true if a transaction on one row and another on another row can't both commit.
async fn runs_one_at_a_time(place: &Place) -> Result<bool, Failure> {
    let here = Row::of(place, &place.client, "here");
    let there = Row::of(place, &place.observer, "there");
    let (write, other) = (place.set("here", 1), place.set("there", 1));
    let both = runner(&place.client, ReadLockMode::Pessimistic).run(
        move |transaction: ReadWriteTransaction| {
            let (here, there) = (here.clone(), there.clone());
            let (write, other) = (write.clone(), other.clone());
            async move {
                let mut rows = transaction.execute_read(here.read("n")).await?;
                rows.next().await.transpose()?;
                there.beat(ReadLockMode::Pessimistic, "n", other).await?;
                transaction.buffer([write])
            }
        },
    );
    match timeout(PROMPT, both).await? {
        Ok(_) => Ok(false),
        Err(error) if code(&error) == Some(Code::Aborted) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A transaction that has read and does nothing more, as of a process that died.
pub async fn idle(place: &Place) -> Result<Verdict, Failure> {
    let row = Row::of(place, &place.client, "idle");
    place.write(vec![place.set("idle", 1)]).await?;
    let open = Arc::new(Notify::new());
    let (reading, opened) = (row.clone(), Arc::clone(&open));
    let first = runner(&place.client, ReadLockMode::Pessimistic);
    let idle = tokio::spawn(async move {
        let run = first.run(move |transaction: ReadWriteTransaction| {
            let (row, opened) = (reading.clone(), Arc::clone(&opened));
            async move {
                let mut rows = transaction.execute_read(row.read("n")).await?;
                rows.next().await.transpose()?;
                opened.notify_one();
                std::future::pending::<Result<(), spindle::google_cloud_spanner::Error>>().await
            }
        });
        run.await.map(|_| ())
    });
    timeout(PROMPT, open.notified()).await.map_err(|_| "the transaction could not begin")?;
    let begun = Instant::now();
    // A conflict may be answered with ABORTED; then the writer comes again, as the lock's loop does.
    let written = loop {
        let writer = Row::of(place, &place.observer, "idle");
        let left = FOR_GOOD.saturating_sub(begun.elapsed());
        let write = writer.beat(ReadLockMode::Pessimistic, "n", writer.set_n(2));
        match timeout(left, write).await {
            Ok(Err(error)) if code(&error) == Some(Code::Aborted) && !left.is_zero() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(written) => break written.map_err(|error| error.to_string()),
            Err(_) => break Err(format!("nothing for {FOR_GOOD:?}")),
        }
    };
    let took = begun.elapsed();
    idle.abort();
    Ok(match written {
        Ok(()) if took <= IDLE_LIMIT + PROMPT => {
            Verdict::Held(format!("a writer was held up for {:.1} s", took.as_secs_f64()))
        }
        Ok(()) => Verdict::Broken(format!("a writer was held up for {:.1} s", took.as_secs_f64())),
        Err(reason) => Verdict::Broken(format!("a writer got through to nothing: {reason}")),
    })
}
