//! A participant: a process that contends for locks, says what it is told, and obeys.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::server::DATABASE;

/// Far more than anything takes that a participant is asked, on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A library that takes part.
#[derive(Clone, Debug)]
pub struct Library {
    pub name: &'static str,
    pub program: PathBuf,
    /// More of its processes' environment.
    pub environment: Vec<(&'static str, PathBuf)>,
}

/// An agent that releases for the processes of a library that die, until it is dropped.
pub struct Agent {
    pub socket: PathBuf,
    /// Killed when it is dropped.
    _child: Child,
}

impl Agent {
    /// Starts it on this server, and waits until it listens.
    pub async fn start(program: &Path, server: &str) -> Result<Agent, Failure> {
        let socket = std::env::temp_dir().join(format!("peers-{}.sock", std::process::id()));
        let child = Command::new(program)
            .args(["agent", "--socket"])
            .arg(&socket)
            .env("SPANNER_EMULATOR_HOST", server)
            .env("SPINDLE_DATABASE", DATABASE)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let deadline = Instant::now() + TIME_LIMIT;
        while UnixStream::connect(&socket).await.is_err() {
            if Instant::now() >= deadline {
                return Err("the agent never listened".into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Agent { socket, _child: child })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It is killed, and leaves that.
        let _ = std::fs::remove_file(&self.socket);
    }
}

pub struct Participant {
    pub id: String,
    /// Killed when it is dropped.
    child: Child,
    input: ChildStdin,
    lines: Arc<Mutex<Vec<String>>>,
}

/// A gain or a loss of a lock, as its program was told it; nanoseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub gained: bool,
    pub lock: String,
    pub at: i128,
}

/// A participant's answer to the question if it holds its first lock.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// By what it knows without a request.
    pub told: bool,
    /// By the call that asks Spanner.
    pub called: bool,
    pub at: i128,
}

impl Participant {
    pub fn start(
        library: &Library,
        server: &str,
        id: &str,
        prefix: &str,
        count: usize,
        lease: Duration,
    ) -> Result<Participant, Failure> {
        let mut child = Command::new(&library.program)
            .args([id, prefix, &count.to_string(), &lease.as_millis().to_string()])
            .env("SPANNER_EMULATOR_HOST", server)
            .env("DATABASE", DATABASE)
            .envs(library.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", library.program.display()))?;
        let input = child.stdin.take().ok_or("the participant has no input")?;
        let output = child.stdout.take().ok_or("the participant has no output")?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Ok(Participant { id: id.to_string(), child, input, lines })
    }

    /// Waits until all its locks contend.
    pub async fn ready(&self) -> Result<(), Failure> {
        self.reply("ready", 0).await.map(|_| ())
    }

    /// Asks if it holds its first lock, before it runs on if it is stopped now.
    pub async fn ask(&mut self) -> Result<usize, Failure> {
        self.order("ask").await
    }

    /// The answer to a question that was asked when so many lines had been said.
    pub async fn answer(&self, since: usize) -> Result<Answer, Failure> {
        let line = self.reply("answer ", since).await?;
        let words: Vec<&str> = line.split(' ').collect();
        let [told, called, at] = words.as_slice() else {
            return Err(format!("{} answered {line}", self.id).into());
        };
        Ok(Answer { told: told.parse()?, called: called.parse()?, at: at.parse()? })
    }

    /// How many locks it holds, by what it knows without a request.
    pub async fn held(&mut self) -> Result<usize, Failure> {
        let since = self.order("count").await?;
        Ok(self.reply("held ", since).await?.parse()?)
    }

    /// Returns the nanoseconds that it costs to ask if it holds its lock.
    pub async fn cost(&mut self, rounds: u32) -> Result<f64, Failure> {
        let since = self.order(&format!("cost {rounds}")).await?;
        Ok(self.reply("cost ", since).await?.parse()?)
    }

    /// Asks it to go, and says when it led no more.
    pub async fn go(&mut self) -> Result<i128, Failure> {
        let since = self.order("go").await?;
        Ok(self.reply("gone ", since).await?.parse()?)
    }

    /// Waits until the process has ended by itself.
    pub async fn ended(&mut self) -> Result<(), Failure> {
        tokio::time::timeout(TIME_LIMIT, self.child.wait()).await??;
        Ok(())
    }

    pub async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    /// Returns what its program was told so far.
    pub fn told(&self) -> Vec<Told> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter_map(|line| Told::parse(line)).collect()
    }

    /// Resident memory, in MiB.
    pub fn memory_mib(&self) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.number()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).ok_or("no VmRSS")?;
        Ok(kib.trim().parse::<f64>()? / 1024.0)
    }

    /// Processor time used so far.
    pub fn processor_time(&self) -> Result<Duration, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.number()?))?;
        // The fields after the name, which may have blanks in it: 12th and 13th are user and system.
        let fields = stat.rsplit_once(')').ok_or("no name in stat")?.1;
        let ticks: Vec<u64> =
            fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs_f64(ticks.iter().sum::<u64>() as f64 / per_second as f64))
    }

    fn number(&self) -> Result<u32, Failure> {
        self.child.id().ok_or_else(|| format!("{} has ended", self.id).into())
    }

    fn pid(&self) -> Result<Pid, Failure> {
        let number = self.number()?;
        Pid::from_raw(number.cast_signed()).ok_or_else(|| format!("{number} is no pid").into())
    }

    async fn order(&mut self, order: &str) -> Result<usize, Failure> {
        let since = self.lines.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.input.write_all(format!("{order}\n").as_bytes()).await?;
        self.input.flush().await?;
        Ok(since)
    }

    /// Waits for a line that begins so, among those said since.
    async fn reply(&self, begin: &str, since: usize) -> Result<String, Failure> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            {
                let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
                let found = lines.iter().skip(since).find_map(|line| line.strip_prefix(begin));
                if let Some(rest) = found {
                    return Ok(rest.to_string());
                }
            }
            if Instant::now() >= deadline {
                return Err(format!("{} never said `{begin}`", self.id).into());
            }
            sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Told {
    fn parse(line: &str) -> Option<Told> {
        let (change, rest) = line.split_once(' ')?;
        let gained = match change {
            "gained" => true,
            "lost" => false,
            _ => return None,
        };
        let (lock, at) = rest.split_once(' ')?;
        Some(Told { gained, lock: lock.to_string(), at: at.parse().ok()? })
    }
}
