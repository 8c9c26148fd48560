//! The one server: started as a program, asked over its control port and read as a table.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::{KeyRange, KeySet};
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::Failure;

pub const DATABASE: &str = "projects/peers/instances/peers/databases/peers";

/// How often the table is read while something is awaited.
const LOOK: Duration = Duration::from_millis(20);

pub struct Server {
    /// Killed when it is dropped.
    _program: Child,
    pub address: String,
    rest: String,
    control: String,
    http: reqwest::Client,
    client: DatabaseClient,
}

/// A lock row; times in nanoseconds since the epoch, by the server's clock.
#[derive(Clone, Debug)]
pub struct Row {
    pub heartbeat: i128,
    pub token: i128,
    pub writer: String,
}

/// A lock that changed hands, by the server's clock.
#[derive(Clone, Copy, Debug)]
pub struct HandOver {
    /// The last heartbeat of who had it.
    pub last: i128,
    /// The commit that gave it to the next.
    pub taken: i128,
}

impl Server {
    pub async fn start(program: &Path) -> Result<Server, Failure> {
        Server::with_table(program, "ddl/googlesql.sql").await
    }

    /// Starts with the table of this file of the repository.
    pub async fn with_table(program: &Path, ddl: &str) -> Result<Server, Failure> {
        let ddl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(ddl);
        let mut child = Command::new(program)
            .args(["--port", "0", "--rest", "0", "--control", "0", "--database", DATABASE, "--ddl"])
            .arg(ddl)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines =
            BufReader::new(child.stdout.take().ok_or("the server has no output")?).lines();
        let (mut address, mut rest) = (None, None);
        let control = loop {
            let line = lines.next_line().await?.ok_or("the server ended before it served")?;
            if let Some(found) = line.strip_prefix("export SPANNER_EMULATOR_HOST=") {
                address = Some(found.to_string());
            }
            if let Some(found) = line.strip_prefix("# administration over REST on ") {
                rest = Some(found.to_string());
            }
            if let Some(found) = line.strip_prefix("# control service on ") {
                break found.to_string();
            }
        };
        let (address, rest) =
            address.zip(rest).ok_or("the server does not say where it listens")?;
        let spanner = Spanner::builder().with_endpoint(format!("http://{address}")).build().await?;
        let client = spanner.database_client(DATABASE).build().await?;
        Ok(Server { _program: child, address, rest, control, http: reqwest::Client::new(), client })
    }

    /// Carries out the statements of this text.
    pub async fn alter(&self, ddl: &str) -> Result<(), Failure> {
        let lines =
            ddl.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        let statements: Vec<&str> =
            lines.split(';').map(str::trim).filter(|it| !it.is_empty()).collect();
        let url = format!("{}/v1/{DATABASE}/ddl", self.rest);
        let body = json!({ "statements": statements }).to_string();
        let request = self.http.patch(url).header("content-type", "application/json").body(body);
        let done: Value =
            serde_json::from_str(&request.send().await?.error_for_status()?.text().await?)?;
        match done.get("error") {
            None => Ok(()),
            Some(error) => Err(format!("{statements:?}: {error}").into()),
        }
    }

    /// Starts to count anew.
    pub async fn reset_count(&self) -> Result<(), Failure> {
        let url = format!("{}/requests", self.control);
        self.http.delete(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// Returns how many requests arrived since the count began.
    pub async fn count(&self) -> Result<f64, Failure> {
        let reply = self.http.get(format!("{}/requests", self.control)).send().await?;
        let counts: Value = serde_json::from_str(&reply.error_for_status()?.text().await?)?;
        counts["total"].as_f64().ok_or_else(|| format!("no total in {counts}").into())
    }

    /// Counts the requests of a stretch of time in which nothing else is asked.
    pub async fn count_over(&self, duration: Duration) -> Result<f64, Failure> {
        self.reset_count().await?;
        sleep(duration).await;
        self.count().await
    }

    /// Delays every commit from now on.
    pub async fn delay_commits(&self, delay: Duration) -> Result<(), Failure> {
        let fault = json!({ "rpc": "Commit", "effect": "delay", "ms": delay.as_millis() as u64 });
        let url = format!("{}/faults", self.control);
        self.http.post(url).body(fault.to_string()).send().await?.error_for_status()?;
        Ok(())
    }

    pub async fn clear_faults(&self) -> Result<(), Failure> {
        let url = format!("{}/faults", self.control);
        self.http.delete(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// Reads every row whose name begins so; those without a heartbeat are takeover rows.
    async fn read(&self, prefix: &str) -> Result<BTreeMap<String, Option<Row>>, Failure> {
        let range = KeyRange::closed_open(key![prefix.to_string()], key![format!("{prefix}~")]);
        let keys = KeySet::builder().add_range(range).build();
        let columns = vec!["name", "heartbeat", "token", "writer"];
        let read = ReadRequest::builder("locktable", columns).with_keys(keys).build();
        let mut found = self.client.single_use().build().execute_read(read).await?;
        let mut rows = BTreeMap::new();
        while let Some(row) = found.next().await.transpose()? {
            let heartbeat: Option<Timestamp> = row.get("heartbeat")?;
            let token: Option<Timestamp> = row.get("token")?;
            let writer: Option<String> = row.get("writer")?;
            let lock_row = heartbeat.zip(token).map(|(heartbeat, token)| Row {
                heartbeat: nanoseconds(heartbeat),
                token: nanoseconds(token),
                writer: writer.unwrap_or_default(),
            });
            rows.insert(row.get("name")?, lock_row);
        }
        Ok(rows)
    }

    /// Returns the lock rows whose names begin so, and the names of the takeover rows, as of one moment.
    pub async fn rows(
        &self,
        prefix: &str,
    ) -> Result<(BTreeMap<String, Row>, Vec<String>), Failure> {
        let (mut locks, mut takeovers) = (BTreeMap::new(), Vec::new());
        for (name, row) in self.read(prefix).await? {
            match row {
                Some(row) => _ = locks.insert(name, row),
                None => takeovers.push(name),
            }
        }
        Ok((locks, takeovers))
    }

    /// Returns the lock rows whose names begin so.
    pub async fn locks(&self, prefix: &str) -> Result<BTreeMap<String, Row>, Failure> {
        Ok(self.rows(prefix).await?.0)
    }

    /// Returns the takeover rows whose names begin so.
    pub async fn takeover_rows(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        Ok(self.rows(prefix).await?.1)
    }

    /// Waits until `count` locks are in the hands of `id`, at most so long; says of how many it saw it.
    pub async fn held_by(
        &self,
        prefix: &str,
        id: &str,
        count: usize,
        time_limit: Duration,
    ) -> Result<usize, Failure> {
        let deadline = Instant::now() + time_limit;
        loop {
            let rows = self.locks(prefix).await?;
            let held = rows.values().filter(|row| row.is_of(id)).count();
            if held >= count || Instant::now() >= deadline {
                return Ok(held);
            }
            sleep(LOOK).await;
        }
    }

    /// Watches `count` locks go from one id to another, at most so long.
    pub async fn hand_overs(
        &self,
        prefix: &str,
        (from, to): (&str, &str),
        count: usize,
        time_limit: Duration,
    ) -> Result<BTreeMap<String, HandOver>, Failure> {
        let deadline = Instant::now() + time_limit;
        let (mut last, mut done) = (BTreeMap::new(), BTreeMap::new());
        while done.len() < count && Instant::now() < deadline {
            for (name, row) in self.locks(prefix).await? {
                if row.is_of(from) {
                    last.insert(name, row.heartbeat);
                } else if row.is_of(to)
                    && let Some(last) = last.get(&name)
                {
                    done.entry(name).or_insert(HandOver { last: *last, taken: row.heartbeat });
                }
            }
            sleep(LOOK).await;
        }
        Ok(done)
    }
}

impl Row {
    /// Returns true if `id` wrote the row: ours adds `#` and a nonce.
    pub fn is_of(&self, id: &str) -> bool {
        self.writer.split('#').next() == Some(id)
    }
}

fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
