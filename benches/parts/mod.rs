//! The parts of a benchmark: processes of its own, a server that counts its requests, and times.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::{Database, LockTable};
use spindle_emulator::Emulator;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub const DATABASE: &str = "projects/bench/instances/bench/databases/bench";

/// The arguments, without the option that the harness of `cargo bench` adds.
pub fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench").collect()
}

/// How busy the machine is, since the figures depend on it.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", load.split(' ').next().unwrap_or("unknown"))
}

/// Times that were measured, in order.
pub struct Times(Vec<Duration>);

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Times {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort();
        Times(times)
    }
}

impl Times {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that so many percent don't exceed; zero where there is none.
    pub fn at(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }

    /// Says the median and the worst in milliseconds, of what begins so.
    pub fn told(&self, what: &str, digits: usize) -> String {
        let [median, worst] = [50, 100].map(|percent| milliseconds(self.at(percent)));
        format!("{what}median_ms={median:.digits$} {what}worst_ms={worst:.digits$}")
    }
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}

/// Another process of this program, which ends with this one.
pub struct Part {
    pub child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Part {
    pub fn start(arguments: &[&str]) -> Result<Part, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Part { child, output })
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> Result<String, Failure> {
        Ok(self.output.next().ok_or("it has ended")??)
    }

    /// The numbers that it prints for each line that it reads, by their names.
    pub fn counts(&mut self) -> Result<BTreeMap<String, u64>, Failure> {
        writeln!(self.child.stdin.as_mut().ok_or("no input")?)?;
        let line = self.line()?;
        let counts = line.split(' ').filter_map(|count| count.split_once('='));
        counts.map(|(what, count)| Ok((what.to_string(), count.parse()?))).collect()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The embedded Spanner in a process of its own, which counts the requests.
pub struct Server {
    pub part: Part,
    pub endpoint: String,
}

impl Server {
    pub fn start() -> Result<Server, Failure> {
        let mut part = Part::start(&["server"])?;
        let endpoint = part.line()?;
        Ok(Server { part, endpoint })
    }

    /// Serves a database with these tables until the parent is gone.
    pub async fn serve(ddl: &str) -> Result<(), Failure> {
        let spanner = Emulator::start().await?;
        spanner.create_database(DATABASE, ddl).await?;
        println!("{}", spanner.endpoint());
        let counts = spanner.requests();
        let counting = tokio::task::spawn_blocking(move || {
            for _ in std::io::stdin().lines() {
                let each = counts.each().into_iter().map(|(rpc, count)| format!("{rpc}={count}"));
                println!("{}", each.collect::<Vec<_>>().join(" "));
            }
        });
        Ok(counting.await?)
    }

    /// Connects a table, on a connection and with a batcher of its own.
    pub fn table(&self) -> LockTable {
        LockTable::new(Database::at(&*self.endpoint, DATABASE).side_by_side(), "locktable")
    }

    /// All requests so far.
    pub fn requests(&mut self) -> Result<u64, Failure> {
        Ok(self.part.counts()?.values().sum())
    }
}
