use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::testing::Clock;
use spindle::{CancellationToken, Database, Ddl, LockTable, Term};
use spindle_emulator::engine::Value;
use spindle_emulator::{Emulator, Port};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DATABASE: &str = "projects/p/instances/i/databases/d";
const LEASE: Duration = Duration::from_secs(10);
const INVOICES: &str = "CREATE TABLE invoices (
    id STRING(MAX) NOT NULL,
    token INT64 NOT NULL,
    written TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

/// The service under test: one replica writes an invoice a second, each under its fence.
async fn serve(
    endpoint: String,
    id: &str,
    clock: Clock,
    stop: CancellationToken,
) -> spindle::Result<()> {
    let table = LockTable::new(Database::at(&endpoint, DATABASE), "locktable");
    let lock = table.lock("billing").id(id).lease(LEASE).clock(clock).build()?;
    let task = {
        let id = id.to_string();
        move |term: Term| bill(endpoint.clone(), id.clone(), term)
    };
    lock.lead(stop, task).await.map(|_| ())
}

async fn bill(endpoint: String, id: String, term: Term) -> Result<(), Failure> {
    let client = connect(&endpoint).await?;
    let fence = term.fence();
    for number in 0.. {
        let token = i64::try_from(term.token().as_nanoseconds())?;
        let invoice = Mutation::new_insert_builder("invoices")
            .set("id")
            .to(format!("{id}-{token}-{number}"))
            .set("token")
            .to(token)
            .set("written")
            .to("spanner.commit_timestamp()")
            .build();
        tokio::select! {
            () = term.cancelled() => break,
            written = fence.write(&client, [invoice]) => { written?; }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}

/// The token and the time of each invoice, by time; both in nanoseconds.
fn invoices(emulator: &Emulator) -> Result<Vec<(i64, i128)>, Failure> {
    let rows = emulator.database(DATABASE).ok_or("no database")?.rows("invoices")?;
    let mut invoices = Vec::new();
    for row in rows {
        if let (Value::Int64(token), Value::Timestamp(written)) = (&row["token"], &row["written"]) {
            invoices.push((*token, written.nanos()));
        }
    }
    invoices.sort_by_key(|(_, written)| *written);
    Ok(invoices)
}

#[tokio::test(start_paused = true)]
async fn a_crashed_replica_is_replaced_within_a_lease() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    emulator
        .create_database(DATABASE, &format!("{};{INVOICES}", LockTable::ddl(Ddl::GoogleSql)))
        .await?;
    let (clock, stop) = (Clock::runtime(), CancellationToken::new());
    let start = |port: &Port, id: &'static str| {
        tokio::spawn(serve(port.endpoint(), id, clock.clone(), stop.clone()))
    };

    let first = emulator.open_port().await?;
    let doomed = start(&first, "replica-1");
    tokio::time::sleep(LEASE).await;
    let second = emulator.open_port().await?;
    let other = start(&second, "replica-2");
    tokio::time::sleep(LEASE).await;
    first.cut_off().await; // the first replica's machine dies
    tokio::time::sleep(3 * LEASE).await;

    let invoices = invoices(&emulator)?;
    assert!(invoices.is_sorted_by_key(|(token, _)| *token), "no invoice of an old term comes late");
    let gaps = invoices.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let longest = Duration::from_nanos(gaps.max().ok_or("no invoices")?.try_into()?);
    assert!(longest < LEASE + Duration::from_secs(2), "{longest:?} without an invoice");
    let terms: std::collections::BTreeSet<i64> = invoices.iter().map(|(token, _)| *token).collect();
    assert_eq!(terms.len(), 2);

    stop.cancel();
    other.await??;
    doomed.await??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_an_operators_eviction_somebody_bills_again() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    emulator
        .create_database(DATABASE, &format!("{};{INVOICES}", LockTable::ddl(Ddl::GoogleSql)))
        .await?;
    let stop = CancellationToken::new();
    let endpoint = emulator.endpoint().to_string();
    let alone = tokio::spawn(serve(endpoint, "replica-1", Clock::runtime(), stop.clone()));
    tokio::time::sleep(LEASE).await;
    // The next fenced write fails, and `?` ends the task with it. The replica goes on.
    LockTable::new(Database::at(emulator.endpoint(), DATABASE), "locktable")
        .evict("billing")
        .await?;
    tokio::time::sleep(3 * LEASE).await;
    let terms: std::collections::BTreeSet<i64> =
        invoices(&emulator)?.iter().map(|(token, _)| *token).collect();
    assert_eq!(terms.len(), 2);
    stop.cancel();
    tokio::time::timeout(LEASE, alone).await???;
    Ok(())
}
