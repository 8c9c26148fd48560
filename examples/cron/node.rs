//! One node of the fleet: a schedule by the wall clock, and a job.

use std::io::{BufRead as _, Write as _};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use cron::Schedule;
use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::job::{JobOutcome, JobRun};
use spindle::{Database, LockTable};
use tokio::time::sleep;

use crate::server::{DATABASE, Failure, connect};

/// Each three seconds, in cron's words.
pub const SCHEDULE: &str = "*/3 * * * * *";
pub const LEASE: Duration = Duration::from_secs(2);

/// The parent's order for the next run.
type Order = Arc<Mutex<String>>;

pub async fn work(endpoint: &str, id: &str) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let (client, order) = (connect(endpoint).await?, obey());
    let schedule = Schedule::from_str(SCHEDULE)?;
    // No two nodes of a real fleet are on time to the millisecond either.
    let late = Duration::from_millis(60 * u64::from(id.bytes().last().unwrap_or(0) % 8));
    let job = table.lock("report").id(id).lease(LEASE).job();
    let job = job.retry_pause(Duration::from_millis(200));
    log("waits for its schedule");
    loop {
        let slot = schedule.upcoming(Utc).next().ok_or("the schedule has no end")?;
        sleep((slot - now()).to_std().unwrap_or_default() + late).await;
        let (client, order) = (client.clone(), Arc::clone(&order));
        let task = move |run| report(client.clone(), run, Arc::clone(&order));
        let at = slot.timestamp();
        match job.run_once(slot, task).await {
            Ok(JobOutcome::Ran(start)) => log(&format!("ran {at} at start {start}")),
            Ok(it @ JobOutcome::Skipped { .. }) => log(&format!("skipped {at}: {it}")),
            Ok(failed) => log(&format!("failed {at}: {failed}")),
            Err(error) => log(&format!("could not run {at}: {error}")),
        }
    }
}

/// The job: the report, and the record that it is written, are one transaction.
async fn report(client: DatabaseClient, run: JobRun, order: Order) -> Result<u32, Failure> {
    let slot = run.slot().timestamp();
    log(&format!("started {slot} as start {}", run.start()));
    sleep(Duration::from_millis(100)).await;
    let ordered = || order.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if ordered() == "fail" && run.start() == 1 {
        return Err("the printer is out of ink".into());
    }
    while ordered() == "hang" {
        sleep(Duration::from_millis(10)).await;
    }
    let row =
        Mutation::new_insert_builder("reports").set("id").to(format!("{slot}-{}", run.token()));
    let row = row.set("slot").to(slot).set("start").to(i64::from(run.start())).build();
    run.finish(&client, [row]).await?;
    Ok(run.start())
}

#[allow(clippy::disallowed_methods, reason = "a schedule is by the wall clock")]
fn now() -> DateTime<Utc> {
    std::time::SystemTime::now().into()
}

/// Takes the parent's orders, and ends with it.
fn obey() -> Order {
    let order = Order::default();
    let told = Arc::clone(&order);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = line;
        }
        // The parent is gone.
        std::process::exit(0);
    });
    order
}

fn log(line: &str) {
    // A closed pipe means that the parent is gone, which the closed input says too.
    let _ = writeln!(std::io::stdout(), "{line}");
}
