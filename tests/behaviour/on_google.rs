//! On the Spanner emulator of Google, which runs one read-write transaction at a time and ends the
//! others. `tests/any_spanner/on_google` starts one, and these tests on it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use google_cloud_spanner::client::{DatabaseClient, Spanner};
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::job::JobOutcome;
use spindle::{CancellationToken, LockTable, RunHandle, Spindle, TermChange, TermEnd};
use tokio::time::{Instant, sleep};

use crate::world::{EVENTUALLY, until};

const LEASE: Duration = Duration::from_secs(5);

/// A table of the test's own, in the database that the environment names.
struct Google {
    database: String,
    table: &'static str,
}

impl Google {
    async fn with(table: &'static str) -> Google {
        let database = std::env::var("SPINDLE_TEST_DATABASE").expect("run by `on_google`");
        let google = Google { database, table };
        let spanner = Spanner::builder().build().await.unwrap();
        let admin = LockTable::admin(&spanner).await.unwrap();
        google.table().create(&admin, &google.database).await.unwrap();
        google
    }

    /// The table by a connection of its own, as another process has it.
    fn table(&self) -> LockTable {
        LockTable::new(&self.database, self.table)
    }

    async fn client(&self) -> DatabaseClient {
        let spanner = Spanner::builder().build().await.unwrap();
        spanner.database_client(&self.database).build().await.unwrap()
    }
}

/// Contends for locks of a table, as one process.
fn contend(table: &LockTable, names: &[String], id: &str) -> Vec<(Spindle, RunHandle)> {
    contend_by(table, names, id, LEASE)
}

fn contend_by(
    table: &LockTable,
    names: &[String],
    id: &str,
    lease: Duration,
) -> Vec<(Spindle, RunHandle)> {
    let cancel = CancellationToken::new();
    let start = |name: &String| {
        let lock = table.lock(name).id(id).lease(lease).build().unwrap();
        let running = lock.run(cancel.clone());
        (lock, running)
    };
    names.iter().map(start).collect()
}

fn held(locks: &[(Spindle, RunHandle)]) -> usize {
    locks.iter().filter(|(lock, _)| lock.has_lock().is_some()).count()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Google's emulator"]
async fn of_eight_that_start_at_once_none_fails_and_one_leads() {
    let google = Google::with("eight").await;
    let starting: Vec<_> = (0..8)
        .map(|n| {
            let table = google.table();
            tokio::spawn(async move {
                table.check().await.unwrap();
                contend(&table, &["job".to_string()], &format!("node-{n}"))
            })
        })
        .collect();
    let mut contenders = Vec::new();
    for start in starting {
        contenders.extend(start.await.unwrap());
    }
    until("one leads", || (held(&contenders) == 1).then_some(())).await;
    sleep(LEASE * 2).await;
    assert_eq!(held(&contenders), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Google's emulator"]
async fn a_job_that_many_nodes_start_at_once_runs_on_one_and_fails_on_none() {
    let google = Google::with("jobs").await;
    let slot = google.table().inspect("job").await.unwrap().read_at;
    let running: Vec<_> = (0..13)
        .map(|n| {
            let lock = google.table().lock("job").id(format!("node-{n}"));
            tokio::spawn(lock.run_once(slot, |_| async {}))
        })
        .collect();
    let mut ran = 0;
    for outcome in running {
        ran += usize::from(matches!(outcome.await.unwrap().unwrap(), JobOutcome::Ran(())));
    }
    assert_eq!(ran, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Google's emulator"]
async fn a_hundred_locks_beside_a_contender_lose_none() {
    locks_beside_a_contender("hundred", 100, LEASE * 6).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night"]
async fn for_long_a_thousand_locks_beside_a_contender_lose_none() {
    locks_beside_a_contender("thousand", 1_000, Duration::from_secs(600)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night"]
async fn for_long_ten_thousand_locks_lose_none() {
    let google = Google::with("ten_thousand").await;
    let names: Vec<_> = (0..10_000).map(|n| format!("lock-{n}")).collect();
    // Two cores serve them at this lease, beside the server.
    let holder = contend_by(&google.table(), &names, "holder", LEASE * 2);
    keeps(&holder, Duration::from_secs(600)).await;
}

/// Waits until all are held, and for so long that none is lost.
async fn keeps(holder: &[(Spindle, RunHandle)], time: Duration) {
    // Seldom: to count ten thousand takes milliseconds.
    let since = Instant::now();
    while held(holder) < holder.len() {
        assert!(since.elapsed() < EVENTUALLY, "{} of {} are held", held(holder), holder.len());
        sleep(Duration::from_millis(100)).await;
    }
    println!("{} are held after {:?}", holder.len(), since.elapsed());
    let mut watches: Vec<_> = holder.iter().map(|(lock, _)| lock.watch()).collect();
    for watch in &mut watches {
        assert!(matches!(watch.next().await, Some(TermChange::Gained(_))));
    }
    sleep(time).await;
    let mut ended = BTreeMap::<&str, usize>::new();
    for watch in &mut watches {
        if let Some(Some(TermChange::Lost(term))) = watch.next().now_or_never() {
            let why = term.ended().map_or("no reason", TermEnd::as_str);
            *ended.entry(why).or_default() += 1;
        }
    }
    assert!(ended.is_empty(), "of {} terms ended: {ended:?}", holder.len());
}

async fn locks_beside_a_contender(table: &'static str, count: usize, time: Duration) {
    let google = Google::with(table).await;
    let names: Vec<_> = (0..count).map(|n| format!("lock-{n}")).collect();
    let holder = contend(&google.table(), &names, "holder");
    keeps(&holder, Duration::ZERO).await;
    let contender = contend(&google.table(), &names, "contender");
    keeps(&holder, time).await;
    assert_eq!(held(&contender), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Google's emulator"]
async fn an_abandoned_transaction_keeps_no_lone_contender_from_its_lock() {
    let google = Google::with("abandoned").await;
    for round in 0..3 {
        abandon_a_transaction(&google).await;
        let table = google.table();
        let begun = Instant::now();
        let alone = contend(&table, &[format!("lock-{round}")], "alone");
        // One attempt in five ends the abandoned one, and the budget lets few be made at once (I8).
        until("it holds", || alone[0].0.has_lock()).await;
        println!("held {:?} after an abandoned transaction", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Google's emulator"]
async fn a_table_is_made_beside_an_abandoned_transaction() {
    let google = Google::with("beside").await;
    for table in ["made", "made_next", "made_last"] {
        abandon_a_transaction(&google).await;
        Google::with(table).await.table().inspect("job").await.unwrap();
    }
}

/// Reads in a transaction, whose process then dies.
async fn abandon_a_transaction(google: &Google) {
    let (database, table) = (google.database.clone(), google.table);
    let dies = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = Google { database, table }.client().await;
            let (read, has_read) = tokio::sync::oneshot::channel();
            let read = std::sync::Mutex::new(Some(read));
            let running = client.read_write_transaction().build();
            let read = std::sync::Arc::new(read);
            tokio::spawn(running.run(move |transaction: ReadWriteTransaction| {
                let read = std::sync::Arc::clone(&read);
                async move {
                    let keys = KeySet::builder().add_key(key!["nobody"]).build();
                    let request = ReadRequest::builder(table, vec!["name"]).with_keys(keys).build();
                    let mut rows = transaction.execute_read(request).await?;
                    rows.next().await.transpose()?;
                    if let Some(read) = read.lock().unwrap().take() {
                        read.send(()).unwrap();
                    }
                    std::future::pending::<google_cloud_spanner::Result<()>>().await
                }
            }));
            has_read.await.unwrap();
        });
        runtime.shutdown_background();
    });
    tokio::task::spawn_blocking(move || dies.join().unwrap()).await.unwrap();
}
