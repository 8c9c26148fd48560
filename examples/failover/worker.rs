//! One contender, in a process of its own. It logs to its output and obeys its input.

use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spindle::{CancellationToken, Fence, LockTable, Spindle, Term, TermChange};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::fleet::Failure;
use crate::orders::{DATABASE, Orders, Written, log};

pub const LEASE: Duration = Duration::from_secs(2);

/// The orders that the parent may write to a worker's input.
enum Order {
    /// Stop writing, so that no transaction is open.
    Rest,
    /// Write again.
    Work,
    /// Decide on one more write under the present term, hold it back, and tell its fence.
    Decide,
    /// Send what was decided.
    Send,
}

pub async fn work(endpoint: &str, id: &str) -> Result<(), Failure> {
    let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
    let lock = table.lock("orders").lease(LEASE).id(id).build()?;
    let writer = Writer {
        orders: Orders::connect(endpoint, id).await?,
        resting: Arc::default(),
        transaction: Arc::default(),
    };

    let cancel = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut orders = orders(lock.clone());
    let running = lock.run(cancel.clone());
    let leading = tokio::spawn(lead(lock.clone(), writer.clone()));

    let mut decided: Option<Fence> = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            order = orders.recv() => match order {
                Some(Order::Rest) => {
                    writer.resting.store(true, Ordering::SeqCst);
                    // Once the writer has seen it, nothing is open.
                    let _idle = writer.transaction.lock().await;
                    log("rests");
                }
                Some(Order::Work) => writer.resting.store(false, Ordering::SeqCst),
                Some(Order::Decide) => {
                    decided = lock.term().map(|term| term.fence());
                    match &decided {
                        Some(fence) => log(&format!("decided {}", serde_json::to_string(fence)?)),
                        None => log("undecided"),
                    }
                }
                Some(Order::Send) => if let Some(fence) = decided.take() {
                    writer.orders.write_late(fence).await;
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
async fn lead(lock: Spindle, writer: Writer) {
    let mut watch = lock.watch();
    while let Some(change) = watch.next().await {
        match change {
            TermChange::Gained(term) => {
                log(&format!("began {}", term.token()));
                tokio::spawn(writer.clone().write_orders(term));
            }
            TermChange::Lost(term) => log(&format!("ended {} {:?}", term.token(), term.ended())),
            _ => {}
        }
    }
}

/// Writes one order after another while it leads.
#[derive(Clone)]
struct Writer {
    orders: Orders,
    resting: Arc<AtomicBool>,
    transaction: Arc<tokio::sync::Mutex<()>>,
}

impl Writer {
    /// Writes for as long as the term lasts.
    async fn write_orders(self, term: Term) {
        let mut wrote = false;
        while !term.is_cancelled() {
            match self.write_unless_resting(term.fence()).await {
                Ok(Some(Written::Accepted)) if !wrote => {
                    wrote = true;
                    log(&format!("wrote its first order under {}", term.token()));
                }
                Ok(Some(Written::Refused(error))) => log(&format!("write refused: {error}")),
                Ok(_) => {}
                Err(error) => log(&format!("write failed: {error}")),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn write_unless_resting(&self, fence: Fence) -> Result<Option<Written>, Failure> {
        let _busy = self.transaction.lock().await;
        if self.resting.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.orders.write(fence, "on-time").await.map(Some)
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
