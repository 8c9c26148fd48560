//! One node of the fleet: a schedule by the wall clock, and a job.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::job::JobOutcome;
use spindle::{Database, LockTable, Term};
use tokio::time::sleep;

use crate::server::{DATABASE, Failure, connect};

pub const JOB: &str = "report";
pub const PERIOD: Duration = Duration::from_millis(3_000);
/// Longer than the schedules of the nodes differ, shorter than the period.
pub const AT_LEAST: Duration = Duration::from_millis(2_000);
pub const AT_MOST: Duration = Duration::from_millis(5_000);

pub async fn work(endpoint: &str, id: &str) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let client = connect(endpoint).await?;
    let slow = obey();
    // No two nodes of a real fleet are on time to the millisecond either.
    let late = Duration::from_millis(60 * u64::from(id.bytes().last().unwrap_or(0) % 8));
    log("waits for its schedule");
    loop {
        let tick = until_the_next_tick().await;
        sleep(late).await;
        let before = table.last_run(JOB).await?;
        let job = {
            let (client, slow) = (client.clone(), Arc::clone(&slow));
            move |term| report(client, term, tick, slow)
        };
        let once = table.lock(JOB).id(id).run_once(AT_LEAST, AT_MOST, job).await;
        match (once, before) {
            (Ok(JobOutcome::Ran(Ok(()))), None) => log(&format!("ran {tick}; it never ran before")),
            (Ok(JobOutcome::Ran(Ok(()))), Some(run)) => {
                log(&format!("ran {tick}; before, it {run}"))
            }
            (Ok(JobOutcome::Ran(Err(error))), _) => log(&format!("failed {tick}: {error}")),
            (Ok(JobOutcome::Skipped(Some(run))), _) => log(&format!("skipped {tick}: it {run}")),
            (Ok(other), _) => log(&format!("{other:?} {tick}")),
            (Err(error), _) => log(&format!("could not run {tick}: {error}")),
        }
    }
}

/// The job: it writes that it starts and that it has ended, each only under its own term.
async fn report(
    client: DatabaseClient,
    term: Term,
    tick: u128,
    slow: Arc<AtomicBool>,
) -> Result<(), Failure> {
    let run = |started: bool| {
        let id = format!("{tick}-{}", term.token());
        let run = if started {
            let insert = Mutation::new_insert_builder("runs").set("id").to(id);
            let insert = insert.set("tick").to(tick.to_string());
            insert.set("started").to("spanner.commit_timestamp()")
        } else {
            let update = Mutation::new_update_builder("runs").set("id").to(id);
            update.set("ended").to("spanner.commit_timestamp()")
        };
        run.build()
    };
    term.fence().write(&client, [run(true)]).await?;
    log(&format!("started {tick}"));
    sleep(Duration::from_millis(100)).await;
    while slow.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(10)).await;
    }
    term.fence().write(&client, [run(false)]).await?;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a schedule is by the wall clock")]
async fn until_the_next_tick() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let period = PERIOD.as_millis();
    let tick = now / period + 1;
    let wait = u64::try_from(tick * period - now).unwrap_or(0);
    sleep(Duration::from_millis(wait)).await;
    tick
}

/// Takes the parent's orders, and ends with it: whether a job is to take long.
fn obey() -> Arc<AtomicBool> {
    let slow = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&slow);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            told.store(line == "slow", Ordering::SeqCst);
        }
        // The parent is gone.
        std::process::exit(0);
    });
    slow
}

fn log(line: &str) {
    // A closed pipe means that the parent is gone, which the closed input says too.
    let _ = writeln!(std::io::stdout(), "{line}");
}
