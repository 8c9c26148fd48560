//! The row that names the count of a group's shards, as members and movers read and write it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spindle::rows::Rows;
use spindle::{Error, LockTable, Result};
use spindle_protocol::fleet::{Count, CountNamed};
use spindle_protocol::{Change, Row, StoredRow};
use tokio::sync::Mutex;

use crate::error::OtherCount;
use crate::names::shard_count_key;

/// The row of the count, where a member finds it.
#[derive(Debug)]
pub(crate) struct CountRow {
    rows: Rows,
    key: Arc<str>,
    /// The group and the name, for people.
    shards: String,
    /// The number of reads that have begun for [`read_anew`](CountRow::read_anew).
    begun: AtomicU64,
    last: Mutex<LastRead>,
}

/// The last read that many may share.
#[derive(Debug)]
struct LastRead {
    number: u64,
    found: Result<Option<Row>>,
}

/// The answer to a member whose `run` begins.
#[derive(Clone, Debug)]
pub(crate) enum Beginning {
    /// It may begin; so many shards are shared.
    Admitted(usize),
    /// It wrote the row, or another did: it is to look again.
    LookAgain,
    /// It is to look again a poll later: too many attempts to write the row were in vain.
    Wait,
    /// The row names another count, or none that this version knows.
    Refused(Error),
}

/// The answer to an attempt to name the count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written {
    Yes,
    /// The row is another one than was seen.
    No,
    /// The table has spent what it may in vain, so nothing was sent.
    Unpaid,
}

impl CountRow {
    pub(crate) fn new(table: &LockTable, group: &str, name: &str) -> CountRow {
        let key: Arc<str> = shard_count_key(group, name).into();
        CountRow {
            rows: table.rows().key(Arc::clone(&key)),
            key,
            shards: format!("{group}/{name}"),
            begun: AtomicU64::new(0),
            last: Mutex::new(LastRead { number: 0, found: Ok(None) }),
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Reads the row once.
    pub(crate) async fn read(&self) -> Result<Option<Row>> {
        Ok(self.rows.poll().await?.rows.first().map(StoredRow::row))
    }

    /// Reads the row by a read that begins after this call. Those who call meanwhile share the next
    /// one, so that a member that takes many shards at once sends few.
    pub(crate) async fn read_anew(&self) -> Result<Option<Row>> {
        let begun_before = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if last.number <= begun_before {
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            let found = self.read().await;
            *last = LastRead { number, found };
        }
        last.found.clone()
    }

    /// Names the count if the row is still as it was seen, once that is paid for, in this time at most.
    ///
    /// Each attempt is charged, the first of a member, too (I8): all members of a group attempt it at
    /// the same time, and one of them is needed.
    pub(crate) async fn write(
        &self,
        seen: Option<Row>,
        count: Count,
        wait: Duration,
    ) -> Result<Written> {
        let change = (Arc::clone(&self.key), Change::NameCount { seen, count });
        Ok(match self.rows.edit([change], wait).await? {
            Some(0) => Written::No,
            Some(_) => Written::Yes,
            None => Written::Unpaid,
        })
    }

    /// Decides if a member may begin whose code names so many shards. The first one of a group writes
    /// the row.
    pub(crate) async fn begin(&self, shards: usize) -> Result<Beginning> {
        let row = self.read().await?;
        match CountNamed::by(row.as_ref()) {
            CountNamed::Nothing => {
                match self.write(None, Count::first(shards), Duration::ZERO).await {
                    Err(error) if !error.is_interrupted() => Err(error),
                    Ok(Written::Unpaid) => Ok(Beginning::Wait),
                    _ => Ok(Beginning::LookAgain),
                }
            }
            CountNamed::Unreadable => Ok(Beginning::Refused(self.unreadable(row.as_ref()))),
            CountNamed::Count(count) if count.admits(shards) => {
                Ok(Beginning::Admitted(count.shards))
            }
            CountNamed::Count(count) => Ok(Beginning::Refused(self.other_count(shards, count))),
        }
    }

    /// Returns the error of this row, which names no count.
    pub(crate) fn unreadable(&self, row: Option<&Row>) -> Error {
        let CountRow { key, shards, .. } = self;
        let found = row.map_or("", |row| row.writer.as_str());
        let held = if row.is_some_and(|row| !row.is_released()) { ", held" } else { "" };
        Error::config(format!(
            "shards `{shards}`: row `{key}` names no count that this version knows: its `writer` is \
             `{found}`{held}; expected a released row with `shards 60`, `shards 80 from 60` or \
             `shards 80 from 60 draining`; `ShardCount::resize` writes it anew"
        ))
    }

    pub(crate) fn other_count(&self, asked: usize, named: Count) -> Error {
        OtherCount::error(&self.shards, asked, named)
    }
}
