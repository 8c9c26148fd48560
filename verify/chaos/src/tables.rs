//! Spanner's tables, by the client alone: what was written, and edits that don't ask.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use google_cloud_spanner::client::{DatabaseClient, Spanner};
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::TimestampBound;
use google_cloud_spanner::value::Timestamp;
use serde::{Deserialize, Serialize};

use crate::history::Failure;
use crate::setup::DATABASE;

/// The smallest difference of two commits' times, in nanoseconds.
const MICROSECOND: u64 = 1_000;
/// For so long Spanner keeps versions, and a while less than it.
const KEPT: u64 = 55 * 60 * 1_000_000_000;

/// The counter of this colour that is incremented under a lock.
pub fn counter(lock: usize, colour: &str) -> String {
    format!("{lock}/{colour}")
}

/// The lock under which a counter is incremented.
pub fn lock_of(counter: &str) -> Result<usize, Failure> {
    let (lock, _) = counter.split_once('/').ok_or_else(|| format!("no counter: {counter}"))?;
    Ok(lock.parse()?)
}

/// Neither key forbids what the properties forbid: an increment that was lost or doubled shows.
pub const DDL: &str = include_str!("../tables.sql");

/// A write that Spanner accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub id: String,
    /// The counter after it.
    pub value: i64,
    pub counter: String,
    pub token: u64,
    pub worker: String,
    /// By Spanner's clock, in nanoseconds, as the token is.
    pub committed: u64,
}

/// A row of the lock table as a commit left it. Cells that are NULL read as the epoch, or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    pub key: String,
    /// By Spanner's clock, in nanoseconds, as all of these are. Not later than the commit.
    pub heartbeat: u64,
    pub token: u64,
    pub writer: String,
}

impl Version {
    /// When it was committed: all that is written by the rules has the commit's time in it.
    pub fn committed(&self) -> u64 {
        self.heartbeat.max(self.token)
    }

    /// The id of the one that holds by it.
    pub fn holder(&self) -> Option<&str> {
        let (id, _nonce) = self.writer.rsplit_once('#')?;
        (self.heartbeat > 0 && !self.writer.starts_with('>')).then_some(id)
    }
}

/// The content of the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    pub counters: BTreeMap<String, i64>,
    pub log: Vec<Row>,
    /// Of the lock table, by commit. A row that was deleted may lack its last ones.
    pub versions: Vec<Version>,
}

/// An outsider's act on the lock row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    Delete,
    /// As if it were released.
    Backdate,
    /// As if its holder had just been heard of.
    Refresh,
    /// As if another term had begun.
    Token,
    /// An earlier token than that of the term.
    OldToken,
    Writer,
}

impl Edit {
    pub const ALL: [Edit; 6] =
        [Edit::Delete, Edit::Backdate, Edit::Refresh, Edit::Token, Edit::OldToken, Edit::Writer];
}

pub struct Outside(DatabaseClient);

impl Outside {
    pub async fn connect(server: SocketAddr) -> Result<Outside, Failure> {
        let spanner = Spanner::builder().with_endpoint(format!("http://{server}")).build().await?;
        Ok(Outside(spanner.database_client(DATABASE).build().await?))
    }

    pub async fn tables(&self) -> Result<Tables, Failure> {
        let mut counters = BTreeMap::new();
        for row in self.read("counters", &["name", "value"]).await? {
            counters.insert(row.get("name")?, row.get("value")?);
        }
        let columns = ["id", "value", "counter", "token", "worker", "committed"];
        let mut log = Vec::new();
        for row in self.read("log", &columns).await? {
            log.push(Row {
                id: row.get("id")?,
                value: row.get("value")?,
                counter: row.get("counter")?,
                token: row.get::<String>("token")?.parse()?,
                worker: row.get("worker")?,
                committed: nanoseconds(row.get("committed")?)?,
            });
        }
        Ok(Tables { counters, log, versions: Vec::new() })
    }

    /// Returns the versions of the lock table's rows, by commit: those of nearly an hour, for which
    /// Spanner keeps them.
    ///
    /// Each step reads the whole table just before the latest commit that shows in it. So of a row
    /// that is still there no version is passed over.
    pub async fn versions(&self) -> Result<Vec<Version>, Failure> {
        let mut versions = BTreeSet::new();
        let (mut bound, mut oldest) = (TimestampBound::strong(), 1);
        loop {
            let rows = self.lock_rows(bound).await?;
            let latest = rows.iter().map(Version::committed).max();
            let Some(latest) = latest.filter(|latest| *latest >= oldest) else { break };
            versions.extend(rows);
            oldest = oldest.max(latest.saturating_sub(KEPT));
            let before = latest - MICROSECOND;
            let (seconds, nanos) = (before / 1_000_000_000, before % 1_000_000_000);
            let before = Timestamp::clamp(i64::try_from(seconds)?, i32::try_from(nanos)?);
            bound = TimestampBound::read_timestamp(before);
        }
        let mut versions: Vec<Version> = versions.into_iter().collect();
        versions.sort_by_key(Version::committed);
        Ok(versions)
    }

    async fn lock_rows(&self, bound: TimestampBound) -> Result<Vec<Version>, Failure> {
        let columns = ["name", "heartbeat", "token", "writer"].map(String::from).to_vec();
        let read = ReadRequest::builder("locktable", columns).with_keys(KeySet::all()).build();
        let reading = self.0.single_use().set_timestamp_bound(bound).build();
        let mut found = reading.execute_read(read).await?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().await.transpose()? {
            let time = |timestamp: Option<Timestamp>| timestamp.map_or(Ok(0), nanoseconds);
            rows.push(Version {
                key: row.get("name")?,
                heartbeat: time(row.get("heartbeat")?)?,
                token: time(row.get("token")?)?,
                writer: row.get::<Option<String>>("writer")?.unwrap_or_default(),
            });
        }
        Ok(rows)
    }

    /// The time by Spanner's clock, in nanoseconds.
    pub async fn now(&self) -> Result<u64, Failure> {
        let mut found =
            self.0.single_use().build().execute_query("SELECT CURRENT_TIMESTAMP()").await?;
        let row = found.next().await.transpose()?.ok_or("no time")?;
        nanoseconds(row.get(0)?)
    }

    /// How many increments there have been under each lock.
    pub async fn increments(&self) -> Result<BTreeMap<usize, i64>, Failure> {
        let mut sums = BTreeMap::new();
        for row in self.read("counters", &["name", "value"]).await? {
            let lock = lock_of(&row.get::<String>("name")?)?;
            *sums.entry(lock).or_default() += row.get::<i64>("value")?;
        }
        Ok(sums)
    }

    /// Edits or deletes the row of a lock. False if there is none.
    pub async fn edit(&self, edit: Edit, lock: &str) -> Result<bool, Failure> {
        let keys = KeySet::builder().add_key(key![lock]).build();
        let read = ReadRequest::builder("locktable", vec!["token"]).with_keys(keys).build();
        let mut rows = self.0.single_use().build().execute_read(read).await?;
        let Some(row) = rows.next().await.transpose()? else { return Ok(false) };
        let token: Timestamp = row.get("token")?;
        let update = Mutation::new_update_builder("locktable").set("name").to(lock);
        let mutation = match edit {
            Edit::Delete => {
                let keys = KeySet::builder().add_key(key![lock]).build();
                Mutation::delete("locktable", keys)
            }
            Edit::Backdate => update.set("heartbeat").to(Timestamp::clamp(0, 0)).build(),
            Edit::Refresh => update.set("heartbeat").to("spanner.commit_timestamp()").build(),
            Edit::Token => update.set("token").to("spanner.commit_timestamp()").build(),
            Edit::OldToken => {
                let earlier = Timestamp::clamp(token.seconds() - 60, token.nanos());
                update.set("token").to(earlier).build()
            }
            Edit::Writer => update.set("writer").to("nobody#0").build(),
        };
        self.0.write_only_transaction().build().write(vec![mutation]).await?;
        Ok(true)
    }

    async fn read(
        &self,
        table: &str,
        columns: &[&str],
    ) -> Result<Vec<google_cloud_spanner::result::Row>, Failure> {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let read = ReadRequest::builder(table, columns).with_keys(KeySet::all()).build();
        let mut found = self.0.single_use().build().execute_read(read).await?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().await.transpose()? {
            rows.push(row);
        }
        Ok(rows)
    }
}

fn nanoseconds(timestamp: Timestamp) -> Result<u64, Failure> {
    let seconds = u64::try_from(timestamp.seconds())?;
    Ok(seconds * 1_000_000_000 + u64::try_from(timestamp.nanos())?)
}
