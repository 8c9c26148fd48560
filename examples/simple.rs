//! Contends for one lock and prints who leads, on any Spanner.
//!
//! Run it in as many terminals as you like:
//!
//! ```text
//! cargo run --example simple -- --db projects/p/instances/i/databases/d --table locktable --name mylock
//! ```
//!
//! Ctrl-C or SIGTERM in the leader's terminal hands over within a poll interval; `kill -9` when
//! the lease has run out.

use std::process::ExitCode;
use std::time::Duration;

use spindle::{CancellationToken, Error, LockState, LockTable, Spindle};
use tokio::time::timeout;

const USAGE: &str = "usage: simple --db projects/P/instances/I/databases/D --table T --name LOCK";

/// Long enough for credentials and a first connection, short enough for somebody who waits.
const CHECK_LIMIT: Duration = Duration::from_secs(14);

#[tokio::main]
async fn main() -> ExitCode {
    let Some([database, table, name]) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&database, &table, &name).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simple: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The values of `--db`, `--table` and `--name`, if each is given once.
fn arguments() -> Option<[String; 3]> {
    let mut values = [const { None }; 3];
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let index = ["--db", "--table", "--name"].iter().position(|known| *known == flag)?;
        if values[index].replace(arguments.next()?).is_some() {
            return None;
        }
    }
    let [database, table, name] = values;
    Some([database?, table?, name?])
}

async fn run(database: &str, table: &str, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let table = LockTable::new(database, table);
    let lock = table.lock(name).build()?;
    match timeout(CHECK_LIMIT, table.check()).await {
        Ok(checked) => drop(checked?),
        Err(_) => return Err(format!("{database}: no answer within {CHECK_LIMIT:?}").into()),
    }

    let cancel = CancellationToken::new();
    let running = lock.run(cancel.clone());
    println!("{}: contending for `{name}`", lock.id());
    tokio::select! {
        () = report(&lock) => {}
        () = stop_signal()? => println!("{}: letting go", lock.id()),
    }
    cancel.cancel();
    Ok(running.await?)
}

/// Prints who leads, each time that it is somebody else.
async fn report(lock: &Spindle) {
    let mut said = String::new();
    loop {
        let leader = match lock.has_lock() {
            Some(token) => format!("leader active (me), token {token}"),
            None => elsewhere(lock.inspect().await),
        };
        if leader != said {
            println!("{}: {leader}", lock.id());
            said = leader;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn elsewhere(state: Result<LockState, Error>) -> String {
    match state {
        Ok(state) => match state.holder() {
            Some(id) => format!("leader is {id}"),
            None => "no leader".to_string(),
        },
        Err(error) => format!("can't tell who leads: {error}"),
    }
}
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
