//! The lock hunted in real processes: killed, stopped, cut off, lied to, and judged afterwards.
//!
//! ```text
//! cargo chaos --minutes 2 --seed 7
//! ```
//!
//! Five workers contend on one embedded Spanner and write under the lock while a nemesis is at
//! them. Their acts are then judged by their history and Spanner's tables, without the library. The
//! folder `target/chaos/` keeps the history, a summary and a picture; `cargo chaos check DIR`
//! judges them again.
//!
//! ```text
//! cargo chaos --locks 200
//! cargo chaos --shards 64 --members 5
//! cargo chaos --ranks
//! cargo chaos --readers 4 --writers 2
//! ```
//!
//! With `--locks` each worker contends for so many locks at once. With `--shards` the workers are
//! members of a group that share the shards out. Each lock and each shard is judged by itself. With
//! `--ranks` they contend for one lock by rank, most of them with `preempt`. With `--readers` and
//! `--writers` so many read under a lock and so many write.

#[cfg(unix)]
mod checker;
#[cfg(unix)]
mod clerk;
#[cfg(unix)]
mod fleet;
#[cfg(unix)]
mod history;
#[cfg(unix)]
mod nemesis;
#[cfg(unix)]
mod picture;
#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod setup;
#[cfg(unix)]
mod summary;
#[cfg(unix)]
mod tables;
#[cfg(unix)]
mod worker;

use std::process::ExitCode;

#[cfg(unix)]
#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match arguments[..] {
        ["worker", endpoint, id, target, out] => {
            worker::work(endpoint, id, target, out.into()).await.map(|()| true)
        }
        ["check", folder] => run::judge(folder.as_ref(), None),
        ref options => run::start(options).await,
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("chaos: FAILED {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("chaos: needs the signals of a Unix system");
    ExitCode::FAILURE
}
