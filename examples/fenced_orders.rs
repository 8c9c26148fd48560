//! Fenced writes: of the term, or not at all. On the embedded Spanner, in a few seconds.
//!
//! ```text
//! cargo run --example fenced_orders
//! ```
//!
//! A process acquires the lock, writes orders and gives its fence as text to a delegate, which stands for
//! another process. Then it is cut off, and the next one acquires the lock. The delegate has heard of nothing, and goes on
//! writing in every way there is. The content of the table is then judged from outside.

use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::statement::Statement;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{Database, Ddl, Error, Fence, Guard, LockTable, Term};
use spindle_emulator::Emulator;
use tokio::time::Instant;

const DATABASE: &str = "projects/p/instances/i/databases/d";
const LEASE: Duration = Duration::from_secs(2);
const TIME_LIMIT: Duration = Duration::from_secs(30);
const ORDERS: &str = "CREATE TABLE orders (
    id STRING(MAX) NOT NULL, note STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id);";

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner
        .create_database(DATABASE, &format!("{};\n{ORDERS}", LockTable::ddl(Ddl::GoogleSql)))
        .await?;
    let client = Spanner::builder().with_endpoint(spanner.endpoint()).build().await?;
    let client = client.database_client(DATABASE).build().await?;

    let machine = spanner.open_port().await?;
    let term = acquire(machine.endpoint(), "a").await?;
    println!("a holds the lock under {}", term.token());
    // A fence travels to whoever works for the same term.
    let text = serde_json::to_string(&term.fence())?;
    println!("its delegate gets the fence as text: {text}");
    let delegate: Fence = serde_json::from_str(&text)?;
    for (id, written) in write_in_every_way(&client, &delegate, "on-time").await {
        written.map_err(|error| format!("{id}, within the term: {error}"))?;
    }
    println!("the delegate writes in 4 ways, and all arrive");

    machine.cut_off().await;
    println!("a is cut off: Spanner hears of it no more");
    let cut = Instant::now();
    let next = acquire(spanner.endpoint(), "b").await?;
    println!("b holds it under {}, {:.1} s later", next.token(), cut.elapsed().as_secs_f64());

    let here = term.fence().write(&client, [order("late-here")]).await;
    let Err(here) = here else { return Err("a wrote after its term".into()) };
    println!("a itself knows: {here}");
    for (id, written) in write_in_every_way(&client, &delegate, "late").await {
        match written {
            Err(error) if is_fenced(&error) => println!("the delegate's {id} is refused: {error}"),
            Err(error) => return Err(format!("{id}: {error}").into()),
            Ok(()) => return Err(format!("{id} was not refused").into()),
        }
    }
    next.fence().write(&client, [order("next-write")]).await?;
    judge(&client, nanoseconds_of(&term), nanoseconds_of(&next)).await?;
    println!("fenced_orders: ok on_time=4/4 late_refused=5/5 next=1/1");
    Ok(())
}

/// The four ways to write under a fence.
async fn write_in_every_way(
    client: &DatabaseClient,
    fence: &Fence,
    when: &str,
) -> [(String, Result<(), Failure>); 4] {
    let id = |way: &str| format!("{when}-{way}");
    let (write, transaction) = (id("write"), id("transaction"));
    let (check, predicate) = (id("check"), id("predicate"));
    let by_write = fence.write(client, [order(&write)]).await.map(drop).map_err(Failure::from);
    let by_transaction = in_transaction(client, fence, &transaction).await.map_err(Failure::from);
    let by_check = with_check(client, fence, &check).await;
    let by_predicate = with_dml(client, fence, &predicate).await;
    [(write, by_write), (transaction, by_transaction), (check, by_check), (predicate, by_predicate)]
}

/// Spindle runs the transaction, and its error says what happened.
async fn in_transaction(client: &DatabaseClient, fence: &Fence, id: &str) -> Result<(), Error> {
    let order = order(id);
    let committed = fence.transaction(client).run(move |transaction| {
        let order = order.clone();
        async move { transaction.buffer([order]) }
    });
    committed.await.map(drop)
}

/// Somebody else runs the transaction; the check goes first.
async fn with_check(client: &DatabaseClient, fence: &Fence, id: &str) -> Result<(), Failure> {
    let (fence, order) = (fence.clone(), order(id));
    // Optimistic: if this process dies, its transaction keeps no lock that the next leader waits for.
    let runner =
        client.read_write_transaction().set_read_lock_mode(ReadLockMode::Optimistic).build();
    let committed = runner.run(move |transaction: ReadWriteTransaction| {
        let (fence, order) = (fence.clone(), order.clone());
        async move {
            fence.check(&transaction).await?;
            transaction.buffer([order])
        }
    });
    Ok(committed.await.map(drop)?)
}

/// Somebody writes DML; the fence is a condition of the statement.
async fn with_dml(client: &DatabaseClient, fence: &Fence, id: &str) -> Result<(), Failure> {
    let (fence, id) = (fence.clone(), id.to_string());
    // Optimistic: if this process dies, its transaction keeps no lock that the next leader waits for.
    let runner =
        client.read_write_transaction().set_read_lock_mode(ReadLockMode::Optimistic).build();
    let committed = runner.run(move |transaction: ReadWriteTransaction| {
        let (fence, id) = (fence.clone(), id.clone());
        async move {
            let sql = format!(
                "UPDATE orders SET note = @note WHERE id = 'on-time-write' AND {}",
                fence.predicate()
            );
            let statement = Statement::builder(sql).add_param("note", id.as_str());
            let changed = transaction.execute_update(fence.bind(statement).build()).await?;
            if changed != 1 {
                // No row was changed: was it the fence?
                fence.check(&transaction).await?;
                return Err(Error::give_up("the order is gone"));
            }
            Ok(())
        }
    });
    Ok(committed.await.map(drop)?)
}

/// Returns true if the library says so, or the client on its behalf.
fn is_fenced(error: &Failure) -> bool {
    let by_client =
        error.downcast_ref::<spindle::google_cloud_spanner::Error>().and_then(Error::extract);
    by_client.or(error.downcast_ref::<Error>()).is_some_and(Error::is_fenced)
}

fn order(id: &str) -> Mutation {
    Mutation::new_insert_builder("orders")
        .set("id")
        .to(id)
        .set("written")
        .to("spanner.commit_timestamp()")
        .build()
}

/// Judges the content of the table, read without the library.
async fn judge(client: &DatabaseClient, first: i128, second: i128) -> Result<(), Failure> {
    let read = ReadRequest::builder("orders", vec!["id", "note", "written"]);
    let read = read.with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let (mut on_time, mut next) = (0, 0);
    while let Some(row) = rows.next().await.transpose()? {
        let id: String = row.get("id")?;
        let note: Option<String> = row.get("note")?;
        let written = nanoseconds(row.get("written")?);
        match id.split_once('-') {
            Some(("on", _)) if (first..second).contains(&written) => on_time += 1,
            Some(("next", _)) if written > second => next += 1,
            _ => return Err(format!("`{id}` was written at {written}").into()),
        }
        if note.is_some_and(|note| note != "on-time-predicate") {
            return Err(format!("`{id}` was changed after its term").into());
        }
    }
    if (on_time, next) != (3, 1) {
        return Err(format!("{on_time} orders of the first term, {next} of the next").into());
    }
    Ok(())
}

async fn acquire(endpoint: String, id: &str) -> Result<Guard, Failure> {
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let lock = table.lock("orders").id(id).lease(LEASE).build()?;
    Ok(lock.acquire().within(TIME_LIMIT).await?)
}

fn nanoseconds_of(term: &Term) -> i128 {
    i128::from(term.token().as_nanoseconds())
}

fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
