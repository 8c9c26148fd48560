//! The embedded Spanner in a process of its own, as a benchmark reaches it.

use std::collections::BTreeMap;

use spindle::LockTable;

use crate::counts::counts;
use crate::parts::{Failure, Part};
use crate::serve::DATABASE;

/// The server, which counts the requests.
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

    /// Connects a table, on a connection and with a batcher of its own.
    pub fn table(&self) -> LockTable {
        LockTable::connect_to(&*self.endpoint, DATABASE, "locktable")
    }

    /// All requests so far.
    pub fn requests(&mut self) -> Result<u64, Failure> {
        let counts: BTreeMap<String, u64> = counts(&mut self.part)?;
        Ok(counts.iter().filter(|(what, _)| *what != "sessions").map(|(_, count)| count).sum())
    }
}
