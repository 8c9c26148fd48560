//! The rate of acquired and released permits, and the bound that the commits set.

use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::{Database, LockTable};
use spindle_fleet::Semaphore;
use tokio::time::Instant;

use crate::parts::{DATABASE, Failure, Part, Server, connect};

const PROCESSES: usize = 4;
const MEASURED: Duration = Duration::from_secs(10);

/// So many tasks in four processes, first with permits, then with commits of rows of their own.
pub async fn measure(server: &Server, permits: usize, tasks: usize) -> Result<(), Failure> {
    let each = (tasks / PROCESSES).max(1).to_string();
    let acquired = rate(&["acquire", &server.endpoint, &permits.to_string(), &each])?;
    let commits = rate(&["commit", &server.endpoint, &each])?;
    println!(
        "fleets-permits: ok permits={permits} tasks={tasks} processes={PROCESSES} \
         acquired_and_released_a_second={acquired:.0} transactions_a_second={commits:.0} \
         bound_a_second={:.0}",
        commits / 2.0
    );
    Ok(())
}

/// Runs the processes at the same time, and adds up what each of them says.
fn rate(arguments: &[&str]) -> Result<f64, Failure> {
    let start = |_| Part::start(arguments);
    let mut parts = (0..PROCESSES).map(start).collect::<Result<Vec<Part>, Failure>>()?;
    let mut sum = 0.0;
    for part in &mut parts {
        sum += part.line()?.parse::<f64>()?;
    }
    Ok(sum)
}

/// One process whose tasks acquire and release, as fast as they can.
pub async fn acquire(endpoint: &str, permits: usize, tasks: usize) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(endpoint, DATABASE).side_by_side(), "locktable");
    let semaphore = Semaphore::new(&table, "uploads", permits).build()?;
    repeat(tasks, move |_| {
        let semaphore = semaphore.clone();
        async move {
            let _ = semaphore.acquire().await?.release().await;
            Ok(())
        }
    })
    .await
}

/// One process whose tasks read and write each a row of its own: a begin or a release is no less.
pub async fn commit(endpoint: &str, tasks: usize) -> Result<(), Failure> {
    let client = connect(endpoint).await?;
    let process = std::process::id();
    repeat(tasks, move |task| touch(client.clone(), format!("row-{process}-{task}"))).await
}

async fn touch(client: DatabaseClient, name: String) -> Result<(), Failure> {
    let transaction = client.read_write_transaction().build();
    let touched = transaction.run(move |transaction: ReadWriteTransaction| {
        let name = name.clone();
        async move {
            let keys = KeySet::builder().add_key(key![name.as_str()]).build();
            let read = ReadRequest::builder("locktable", vec!["token"]).with_keys(keys).build();
            transaction.execute_read(read).await?.next().await.transpose()?;
            let row = Mutation::new_insert_or_update_builder("locktable").set("name").to(&name);
            let row = row.set("token").to("spanner.commit_timestamp()").build();
            transaction.buffer([row])
        }
    });
    touched.await?;
    Ok(())
}

/// Has each task do the same again and again, and prints how often a second all of them did it.
async fn repeat<F, Fut>(tasks: usize, act: F) -> Result<(), Failure>
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    // The first one connects.
    act(0).await?;
    let start = Instant::now();
    let working = (0..tasks).map(|task| {
        let act = act.clone();
        tokio::spawn(async move {
            let mut count = 0_u32;
            while start.elapsed() < MEASURED {
                act(task).await?;
                count += 1;
            }
            Ok::<_, Failure>(count)
        })
    });
    let working: Vec<_> = working.collect();
    let mut count = 0;
    for working in working {
        count += working.await??;
    }
    println!("{:.1}", f64::from(count) / start.elapsed().as_secs_f64());
    Ok(())
}
