//! One contender, in a process of its own. It logs to its output and obeys its input.

use std::io::BufRead as _;
use std::time::Duration;

use spindle::{CancellationToken, Database, Fence, LockTable, Spindle, Term, TermChange};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::fleet::Failure;
use crate::orders::{DATABASE, Orders, Written, log};

pub const LEASE: Duration = Duration::from_secs(2);

/// The orders that the parent may write to a worker's input.
enum Order {
    /// Decide on one more write under the present term, hold it back, and tell its fence.
    Decide,
    /// Send what was decided.
    Send,
}

pub async fn work(endpoint: &str, id: &str) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let lock = table.lock("orders").lease(LEASE).id(id).build()?;
    let writer = Orders::connect(endpoint, id).await?;

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
                Some(Order::Decide) => {
                    decided = lock.term().map(|term| term.fence());
                    match &decided {
                        Some(fence) => log(&format!("decided {}", serde_json::to_string(fence)?)),
                        None => log("undecided"),
                    }
                }
                Some(Order::Send) => if let Some(fence) = decided.take() {
                    writer.write_late(fence).await;
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
async fn lead(lock: Spindle, orders: Orders) {
    let mut watch = lock.watch();
    while let Some(change) = watch.next().await {
        match change {
            TermChange::Gained(term) => {
                log(&format!("began {}", term.token()));
                tokio::spawn(write_orders(orders.clone(), term));
            }
            TermChange::Lost(term) => log(&format!("ended {} {:?}", term.token(), term.ended())),
            _ => {}
        }
    }
}

/// Writes one order after another for as long as the term lasts. A process that is killed or stopped
/// meanwhile holds nobody up: such a write locks nothing before its commit.
async fn write_orders(orders: Orders, term: Term) {
    let mut wrote = false;
    while !term.is_cancelled() {
        match orders.write(term.fence(), "on-time").await {
            Ok(Written::Accepted) if !wrote => {
                wrote = true;
                log(&format!("wrote its first order under {}", term.token()));
            }
            Ok(Written::Accepted) => {}
            Ok(Written::Refused(error)) => log(&format!("write refused: {error}")),
            Err(error) => log(&format!("write failed: {error}")),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Reads the parent's orders on a thread of its own, which is the first to run after a pause.
fn orders(lock: Spindle) -> mpsc::Receiver<Order> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order = match line.as_str() {
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
