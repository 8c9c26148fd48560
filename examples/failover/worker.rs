//! One contender, in a process of its own. It logs to its output and obeys its input.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::{CancellationToken, Change, Error, Fence, LockTable, Spindle, Term};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::fleet::Failure;

pub const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
pub const LEASE: Duration = Duration::from_secs(2);

/// What the parent may write to a worker's input.
enum Order {
    /// Stop writing, so that no transaction is open.
    Rest,
    /// Write again.
    Work,
    /// Decide on one more write under the present term, and hold it back.
    Decide,
    /// Send what was decided.
    Send,
}

pub async fn work(endpoint: &str, id: &str) -> Result<(), Failure> {
    let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
    let lock = table.lock("orders").lease(LEASE).id(id).build()?;
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    let client = spanner.database_client(DATABASE).build().await?;

    let cancel = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut orders = orders(lock.clone());
    let running = lock.run(cancel.clone());
    let clerk = Clerk::new(client, id);
    let leading = tokio::spawn(lead(lock.clone(), clerk.clone()));

    let mut decided: Option<Fence> = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            order = orders.recv() => match order {
                Some(Order::Rest) => {
                    clerk.resting.store(true, Ordering::SeqCst);
                    // Once the writer has seen it, nothing is open.
                    let _idle = clerk.desk.lock().await;
                    log("rests");
                }
                Some(Order::Work) => clerk.resting.store(false, Ordering::SeqCst),
                Some(Order::Decide) => {
                    decided = lock.term().map(|term| term.fence());
                    log(if decided.is_some() { "decided" } else { "undecided" });
                }
                Some(Order::Send) => if let Some(fence) = decided.take() {
                    match clerk.write(fence, "late").await {
                        Ok(Written::Accepted) => log("late-write accepted"),
                        Ok(Written::Refused(error)) => log(&format!("late-write refused {error}")),
                        Err(error) => log(&format!("late-write failed {error}")),
                    }
                },
                // The parent is gone.
                None => break,
            },
        }
    }
    cancel.cancel();
    running.await?;
    leading.abort();
    log("exits");
    Ok(())
}

/// Reports gains and losses, and writes orders while it holds.
async fn lead(lock: Spindle, clerk: Clerk) {
    let mut watch = lock.watch();
    while let Some(change) = watch.next().await {
        match change {
            Change::Gained(term) => {
                log(&format!("began {}", term.token()));
                tokio::spawn(clerk.clone().write_orders(term));
            }
            Change::Lost(term) => log(&format!("ended {} {:?}", term.token(), term.loss())),
            _ => {}
        }
    }
}

/// Writes orders, each only if the fence it is written under still holds.
#[derive(Clone)]
struct Clerk {
    client: DatabaseClient,
    id: String,
    number: Arc<AtomicU64>,
    resting: Arc<AtomicBool>,
    desk: Arc<tokio::sync::Mutex<()>>,
}

enum Written {
    Accepted,
    Refused(Error),
}

impl Clerk {
    fn new(client: DatabaseClient, id: &str) -> Clerk {
        let (number, resting, desk) = Default::default();
        Clerk { client, id: id.to_string(), number, resting, desk }
    }

    /// One order after another, for as long as the term lasts.
    async fn write_orders(self, term: Term) {
        let mut wrote = false;
        while !term.has_ended() {
            match self.write_unless_resting(term.fence()).await {
                Ok(Some(Written::Accepted)) if !wrote => {
                    wrote = true;
                    log(&format!("wrote its first order under {}", term.token()));
                }
                Ok(Some(Written::Refused(error))) => log(&format!("write-refused {error}")),
                Ok(_) => {}
                Err(error) => log(&format!("write-failed {error}")),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn write_unless_resting(&self, fence: Fence) -> Result<Option<Written>, Failure> {
        let _busy = self.desk.lock().await;
        if self.resting.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.write(fence, "on-time").await.map(Some)
    }

    async fn write(&self, fence: Fence, kind: &'static str) -> Result<Written, Failure> {
        let number = self.number.fetch_add(1, Ordering::SeqCst);
        let order = Mutation::new_insert_builder("orders")
            .set("id")
            .to(format!("{}-{number}", self.id))
            .set("token")
            .to(fence.token().to_string())
            .set("kind")
            .to(kind)
            .set("written")
            .to("spanner.commit_timestamp()")
            .build();
        let written = self.client.read_write_transaction().build().run(
            move |transaction: ReadWriteTransaction| {
                let (fence, order) = (fence.clone(), order.clone());
                async move {
                    fence.check(&transaction).await?;
                    transaction.buffer([order])
                }
            },
        );
        match written.await {
            Ok(_) => Ok(Written::Accepted),
            Err(error) => match Error::extract(&error) {
                Some(fenced) if fenced.is_fenced() => Ok(Written::Refused(fenced.clone())),
                _ => Err(error.into()),
            },
        }
    }
}

/// Reads the parent's orders on a thread of its own, which is the first to run after a pause.
fn orders(lock: Spindle) -> mpsc::Receiver<Order> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order = match line.as_str() {
                "rest" => Order::Rest,
                "work" => Order::Work,
                "decide" => Order::Decide,
                "send" => {
                    log(&format!("has-lock {}", lock.has_lock().is_some()));
                    Order::Send
                }
                _ => continue,
            };
            if sender.blocking_send(order).is_err() {
                break;
            }
        }
    });
    receiver
}

fn log(line: &str) {
    // A closed pipe means that the parent is gone, which the closed input says too.
    let _ = writeln!(std::io::stdout(), "{line}");
}
