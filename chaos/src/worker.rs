//! One contender, in a process of its own: it writes while it holds, and obeys its input.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use spindle::{CancellationToken, LockTable, Spindle, TermChange};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::clerk::Clerk;
use crate::history::{Event, Failure, Journal, nanoseconds, now};

pub const DATABASE: &str = "projects/chaos/instances/chaos/databases/chaos";
pub const LEASE: Duration = Duration::from_secs(2);
pub const LOCK: &str = "chaos";

/// How often a holder says that it holds.
const SAMPLE: Duration = Duration::from_millis(5);
/// A claim that took longer says too little of when it was made.
const PRECISE: Duration = Duration::from_millis(1);

enum Order {
    Resign,
    Leave,
}

/// Works until its input says `leave` or ends.
pub async fn work(endpoint: &str, id: &str, out: PathBuf) -> Result<(), Failure> {
    // Also a worker that is stopped ends with its parent.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let journal = Arc::new(Journal::open(&out, id)?);
    journal.write(Event::Started)?;
    let lock = LockTable::connect_to(endpoint, DATABASE, "locktable")
        .lock(LOCK)
        .lease(LEASE)
        .id(id)
        .build()?;
    let mut orders = orders();
    let cancel = CancellationToken::new();
    let running = lock.run(cancel.clone());
    say_who_holds(lock.clone(), Arc::clone(&journal));
    tokio::spawn(report(lock.clone(), Arc::clone(&journal)));
    let clerk = Clerk::new(endpoint, id, &out, Arc::clone(&journal))?;
    let writing = tokio::spawn(clerk.write_while_held(lock.clone()));

    while let Some(Order::Resign) = orders.recv().await {
        journal.write(Event::LetsGo)?;
        let lock = lock.clone();
        tokio::spawn(async move { lock.resign().await });
    }
    journal.write(Event::LetsGo)?;
    cancel.cancel();
    // Its release limit is shorter.
    let _ = timeout(Duration::from_secs(10), running).await;
    writing.abort();
    journal.write(Event::Exited)
}

/// Writes down what `has_lock()` says, from a thread that no runtime can hold up.
fn say_who_holds(lock: Spindle, journal: Arc<Journal>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(SAMPLE);
            let asked = now();
            let token = lock.has_lock();
            let at = now();
            let Some(token) = token else { continue };
            if at - asked > nanoseconds(PRECISE) {
                continue;
            }
            // Read after the claim: at worst it says too little.
            let read = now();
            let until = match lock.term() {
                Some(term) if term.token() == token => read + nanoseconds(term.remaining()),
                _ => at,
            };
            let until = if now() - read > nanoseconds(PRECISE) { at } else { until };
            let claim = Event::Claim { token: token.as_nanoseconds(), asked, until };
            if journal.write_at(at, claim).is_err() {
                // Without a history there is nothing to do here.
                std::process::exit(1);
            }
        }
    });
}

/// Tells the parent who holds, so that it knows whom to hit.
async fn report(lock: Spindle, journal: Arc<Journal>) -> Result<(), Failure> {
    let mut watch = lock.watch();
    while let Some(change) = watch.next().await {
        match change {
            TermChange::Gained(_) => writeln!(std::io::stdout(), "holds")?,
            TermChange::Lost(term) => {
                let token = term.token().as_nanoseconds();
                journal.write(Event::Lost { token, why: format!("{:?}", term.loss()) })?;
                writeln!(std::io::stdout(), "lost")?;
            }
            _ => {}
        }
    }
    Ok(())
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

/// A random length, so that processes don't march in step.
pub async fn linger(least: Duration, most: Duration) {
    sleep(least + (most - least).mul_f64(rand::random())).await;
}
