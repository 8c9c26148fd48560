//! A task that runs on one of three nodes, on the embedded Spanner.
//!
//! ```text
//! cargo run --example leader_task
//! ```
//!
//! Each node calls `lead`. The leader is asked to resign in favour of another, then cut off from
//! Spanner, then everything is shut down. Each time its task is stopped before another one starts.
//! That is judged from outside: by the `bills` table, read without the library.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, Error, FencingToken, LockTable, Spindle, Term};
use spindle_emulator::{Effect, Emulator, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
const LEASE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

const BILLS: &str = "CREATE TABLE bills (
    id STRING(MAX) NOT NULL,
    token STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

#[tokio::main]
async fn main() -> ExitCode {
    match tell().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader_task: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tell() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner.create_database(DATABASE, &format!("{};\n{BILLS}", LockTable::DDL)).await?;
    let client = Spanner::builder().with_endpoint(spanner.endpoint()).build().await?;
    let client = client.database_client(DATABASE).build().await?;
    let shutdown = CancellationToken::new();
    let office = Arc::new(Office { client: client.clone(), busy: AtomicUsize::new(0) });

    let mut nodes = Vec::new();
    let mut leading = Vec::new();
    for id in ["node-a", "node-b", "node-c"] {
        // A connection of its own, as in a process of its own.
        let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
        let node = table.lock("billing").id(id).lease(LEASE).build()?;
        nodes.push(node.clone());
        let (shutdown, office) = (shutdown.clone(), Arc::clone(&office));
        leading.push(tokio::spawn(async move {
            let id = node.id().to_string();
            let led = node.lead(shutdown, move |term| Arc::clone(&office).bill(id.clone(), term));
            led.await
        }));
    }

    let (first, term) = leader(&nodes, None).await?;
    sleep(LEASE).await;
    let next = nodes.iter().find(|node| node.id() != first.id()).ok_or("no other node")?;
    println!("{} is asked to resign in favour of {}", first.id(), next.id());
    first.resign_to(next.id()).await?;
    let (second, term) = leader(&nodes, Some(term.token())).await?;
    if second.id() != next.id() {
        return Err(format!("{} leads; the lock was for {}", second.id(), next.id()).into());
    }

    sleep(LEASE).await;
    println!("spanner answers no heartbeat of {} any more", second.id());
    let heartbeats = Fault::on(Rpc::Commit).table("locktable").key("billing");
    let silence = spanner.inject(heartbeats.effect(Effect::Stall));
    timeout(PATIENCE, term.cancelled()).await?;
    silence.remove();
    leader(&nodes, Some(term.token())).await?;

    sleep(LEASE).await;
    println!("everything is shut down");
    shutdown.cancel();
    for task in leading {
        timeout(PATIENCE, task).await???;
    }
    let verdict = judge(&client).await;
    spanner.stop().await;
    println!("{}", verdict?);
    Ok(())
}

/// The tools of a task; no two tasks may use them at once.
struct Office {
    client: DatabaseClient,
    busy: AtomicUsize,
}

/// Says when a task has ended, also one that was aborted.
struct ClerkState(Arc<Office>, String);

impl Drop for ClerkState {
    fn drop(&mut self) {
        println!("  {}: task ends", self.1);
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Office {
    /// Writes bills for as long as the term lasts.
    async fn bill(self: Arc<Office>, id: String, term: Term) -> Result<(), Failure> {
        let others = self.busy.fetch_add(1, Ordering::SeqCst);
        let _desk = ClerkState(Arc::clone(&self), id.clone());
        if others > 0 {
            eprintln!("{id}: another task is still at work");
            std::process::exit(1);
        }
        println!("  {id}: task starts under token {}", term.token());
        for number in 0.. {
            tokio::select! {
                () = term.cancelled() => {
                    println!("  {id}: told to stop, {:?} of the lease left", term.remaining());
                    return Ok(());
                }
                () = sleep(Duration::from_millis(50)) => self.write(&term, number).await?,
            }
        }
        Ok(())
    }

    async fn write(&self, term: &Term, number: u32) -> Result<(), Failure> {
        let fence = term.fence();
        let bill = Mutation::new_insert_builder("bills")
            .set("id")
            .to(format!("{}-{number}", term.token()))
            .set("token")
            .to(term.token().to_string())
            .set("written")
            .to("spanner.commit_timestamp()")
            .build();
        let run = self.client.read_write_transaction().build().run(
            move |transaction: ReadWriteTransaction| {
                let (fence, bill) = (fence.clone(), bill.clone());
                async move {
                    fence.check(&transaction).await?;
                    transaction.buffer([bill])
                }
            },
        );
        match run.await {
            Err(error) if Error::extract(&error).is_some_and(Error::is_fenced) => Ok(()),
            result => result.map(drop).map_err(Into::into),
        }
    }
}

/// The node that leads, once it does so under a later token than the last one.
async fn leader(nodes: &[Spindle], last: Option<FencingToken>) -> Result<(Spindle, Term), Failure> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let mut terms = nodes.iter().filter_map(|node| Some((node.clone(), node.term()?)));
        if let Some((node, term)) = terms.find(|(_, term)| Some(term.token()) > last) {
            println!("{} leads, after {:?}", node.id(), begin.elapsed());
            return Ok((node, term));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Err("nobody leads".into())
}

/// Bills in the order of their commits: the tokens never go back, and there were three terms.
async fn judge(client: &DatabaseClient) -> Result<String, Failure> {
    let read = ReadRequest::builder("bills", vec!["token", "written"]);
    let read = read.with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut bills = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        let written: Timestamp = row.get("written")?;
        bills.push((written.seconds(), written.nanos(), row.get::<String>("token")?));
    }
    bills.sort();
    let mut terms: Vec<_> = bills.iter().map(|(.., token)| token.as_str()).collect();
    terms.dedup();
    if terms.len() != 3 || !terms.is_sorted() {
        return Err(format!("expected 3 terms one after the other, saw {terms:?}").into());
    }
    Ok(format!("leader_task: ok terms={} bills={} overlapping=0", terms.len(), bills.len()))
}
