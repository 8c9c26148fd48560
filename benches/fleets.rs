//! The cost and the pace of fleets: printed with units, asserted nowhere.
//!
//! ```text
//! cargo bench --bench fleets
//! cargo bench --bench fleets -- join 20 1000
//! cargo bench --bench fleets -- killed 1000
//! cargo bench --bench fleets -- group 200
//! cargo bench --bench fleets -- permits 100 64
//! cargo bench --bench fleets -- readers 100
//! ```
//!
//! Without arguments all of them run, with these numbers. Real time, release build, lease 10 s and
//! the default poll interval of 1 s. The embedded Spanner is a process of its own, which counts the
//! requests. Each member has a connection and a batcher of its own, as a process has.

#[path = "parts/counts.rs"]
mod counts;
#[path = "fleets/group.rs"]
mod group;
#[path = "fleets/killed.rs"]
mod killed;
mod parts;
#[path = "fleets/permits.rs"]
mod permits;
#[path = "fleets/readers.rs"]
mod readers;
#[path = "parts/serve.rs"]
mod serve;
#[path = "parts/server.rs"]
mod server;
#[path = "fleets/shards.rs"]
mod shards;
#[path = "fleets/sharing.rs"]
mod sharing;

use std::time::Duration;

use spindle::LockTable;

use crate::parts::{Failure, load};
use crate::server::Server;

const LEASE: Duration = Duration::from_secs(10);
/// When a measurement is given up.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn main() -> Result<(), Failure> {
    // The harness of `cargo bench` adds an option of its own.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
}

async fn measure(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        ["server"] => return serve::serve(LockTable::DDL).await,
        ["member", endpoint, shards] => return killed::member(endpoint, shards.parse()?).await,
        ["permits", endpoint, permits, tasks] => {
            return permits::acquire(endpoint, permits.parse()?, tasks.parse()?).await;
        }
        ["commits", endpoint, tasks] => return permits::commit(endpoint, tasks.parse()?).await,
        _ => {}
    }
    println!("lease {LEASE:?}, {}", load());
    match *arguments {
        ["join", members, shards] => {
            shards::join(&mut Server::start()?, members.parse()?, shards.parse()?).await?;
        }
        ["killed", shards] => killed::measure(&Server::start()?, shards.parse()?).await?,
        ["group", members] => group::measure(&mut Server::start()?, members.parse()?).await?,
        ["permits", permits, tasks] => {
            permits::measure(&Server::start()?, permits.parse()?, tasks.parse()?).await?;
        }
        ["readers", readers] => readers::measure(&Server::start()?, readers.parse()?).await?,
        _ => {
            shards::join(&mut Server::start()?, 20, 1_000).await?;
            killed::measure(&Server::start()?, 1_000).await?;
            group::measure(&mut Server::start()?, 200).await?;
            permits::measure(&Server::start()?, 100, 64).await?;
            readers::measure(&Server::start()?, 100).await?;
        }
    }
    println!("{}", load());
    Ok(())
}
