//! One contender, in a process of its own: it writes while it holds, and obeys its input.

mod agent;
mod claims;
mod holders;
mod locks;
mod shards;
mod sides;

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, Database, LockTable};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::counters::Counters;
use crate::history::{Event, Failure, Journal};
use crate::setup::{DATABASE, Target, WITNESS};

/// Each task has been stopped and each lock released, or given up for lost, by then.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// Works until its input says `leave` or ends.
pub async fn work(
    endpoint: &str,
    id: &str,
    target: &str,
    out: PathBuf,
    agent: Option<SocketAddr>,
) -> Result<(), Failure> {
    // Also a worker that is stopped ends with its parent.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let journal = Arc::new(Journal::open(&out, id)?);
    journal.write(Event::Started)?;
    let target: Target = serde_json::from_str(target)?;
    let mut table = LockTable::new(Database::at(endpoint, DATABASE).side_by_side(), "locktable");
    if let Some(socket) = std::env::var_os(WITNESS) {
        table = table.release_on_exit(socket);
    }
    let worker = Worker {
        id: id.to_string(),
        target,
        table,
        counters: Arc::new(Counters::new(endpoint, id, target, &out, Arc::clone(&journal))?),
        journal: Arc::clone(&journal),
        orders: orders(),
    };
    match worker.target {
        Target::One | Target::Locks(_) => worker.contend().await?,
        Target::Shards(count) | Target::Deploys { shards: count, .. } => {
            worker.share(count).await?
        }
        Target::Sides { .. } => worker.take_turns().await?,
        Target::Agents => worker.lead(agent.ok_or("the worker has no agent")?).await?,
    }
    journal.write(Event::Exited)
}

struct Worker {
    id: String,
    target: Target,
    table: LockTable,
    counters: Arc<Counters>,
    journal: Arc<Journal>,
    orders: mpsc::Receiver<Order>,
}

impl Worker {
    /// Does this again and again until it is told to leave; an order to resign ends it once, early.
    async fn again_and_again<D>(
        &mut self,
        run: impl Fn(CancellationToken) -> D,
    ) -> Result<(), Failure>
    where
        D: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut goes_on = true;
        while goes_on {
            let stop = CancellationToken::new();
            let mut running = tokio::spawn(run(stop.clone()));
            tokio::select! {
                ended = &mut running => {
                    ended??;
                    continue;
                }
                order = self.orders.recv() => goes_on = matches!(order, Some(Order::Resign)),
            }
            stop.cancel();
            // The lease ends whatever is not released by then.
            if let Ok(ended) = timeout(LEAVE_LIMIT, running).await {
                ended??;
            }
        }
        Ok(())
    }
}

enum Order {
    Resign,
    Leave,
}

/// Reads the parent's orders; the end of the input means that the parent is gone.
fn orders() -> mpsc::Receiver<Order> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order = match line.as_str() {
                "resign" => Order::Resign,
                "leave" => Order::Leave,
                _ => continue,
            };
            if sender.blocking_send(order).is_err() {
                break;
            }
        }
    });
    receiver
}
