//! The embedded Spanner in a process of its own, which counts the requests.

use std::collections::BTreeMap;

use spindle::LockTable;
use spindle_emulator::Emulator;

use crate::counts::counts;
use crate::parts::{Failure, Part};

pub const DATABASE: &str = "projects/p/instances/i/databases/d";

/// Serves until the parent is gone; each line it reads asks for the counts.
pub async fn serve() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner.create_database(DATABASE, LockTable::DDL).await?;
    println!("{}", spanner.endpoint());
    let counts = spanner.requests();
    let counting = tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lines() {
            let each = counts.each();
            let each: Vec<_> = each.iter().map(|(rpc, count)| format!("{rpc}={count}")).collect();
            println!("{} sessions={}", each.join(" "), counts.sessions().len());
        }
    });
    Ok(counting.await?)
}

/// The server, as a benchmark reaches it.
pub struct Server {
    part: Part,
    pub endpoint: String,
}

impl Server {
    pub fn start() -> Result<Server, Failure> {
        let mut part = Part::start(&["server"])?;
        let endpoint = part.line()?;
        Ok(Server { part, endpoint })
    }

    /// Connects a table, on a connection and with a carrier of its own.
    pub fn table(&self) -> LockTable {
        LockTable::connect_to(&*self.endpoint, DATABASE, "locktable")
    }

    /// All requests so far.
    pub fn requests(&mut self) -> Result<u64, Failure> {
        let counts: BTreeMap<String, u64> = counts(&mut self.part)?;
        Ok(counts.iter().filter(|(what, _)| *what != "sessions").map(|(_, count)| count).sum())
    }
}
