//! The workers as processes: starting, signalling, listening.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Far more than anything in the story takes on a slow machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A line that a worker logged, or what was done to it, and when.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at: Instant,
    pub worker: String,
    pub line: String,
}

/// All workers, and all that they have logged.
pub struct Fleet {
    endpoint: String,
    started: Instant,
    workers: Vec<Worker>,
    sender: mpsc::UnboundedSender<Entry>,
    receiver: mpsc::UnboundedReceiver<Entry>,
    pub log: Vec<Entry>,
}

struct Worker {
    id: String,
    /// Killed when it is dropped, however the story ends.
    child: Child,
    input: ChildStdin,
}

impl Fleet {
    pub fn new(endpoint: String) -> Fleet {
        let (sender, receiver) = mpsc::unbounded_channel();
        let started = Instant::now();
        Fleet { endpoint, started, workers: Vec::new(), sender, receiver, log: Vec::new() }
    }

    /// Starts another process of this program, by the name `id`, in the part of `role`.
    pub fn start(&mut self, role: &str, id: &str) -> Result<(), Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([role, &self.endpoint, id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("the worker has no input")?;
        let output = child.stdout.take().ok_or("the worker has no output")?;
        let (worker, sender) = (id.to_string(), self.sender.clone());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let entry = Entry { at: Instant::now(), worker: worker.clone(), line };
                if sender.send(entry).is_err() {
                    break;
                }
            }
        });
        self.workers.push(Worker { id: id.to_string(), child, input });
        Ok(())
    }

    /// Waits until some worker logs a line of which `wanted` makes something.
    pub async fn hear<T>(
        &mut self,
        what: &str,
        wanted: impl Fn(&Entry) -> Option<T>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let next =
                timeout(deadline.saturating_duration_since(Instant::now()), self.receiver.recv());
            let Ok(Some(entry)) = next.await else {
                return Err(format!("never heard that {what}").into());
            };
            self.tell(&entry.worker.clone(), &entry.line.clone());
            self.log.push(entry.clone());
            if let Some(found) = wanted(&entry) {
                return Ok(found);
            }
        }
    }

    /// Waits for a line of one worker that begins so, and gives the rest of it.
    pub async fn hear_from(&mut self, id: &str, begin: &str) -> Result<String, Failure> {
        self.hear(&format!("{id} {begin}"), |entry| {
            (entry.worker == id).then(|| entry.line.strip_prefix(begin).map(str::to_string))?
        })
        .await
    }

    pub async fn order(&mut self, id: &str, order: &str) -> Result<(), Failure> {
        let input = &mut self.worker(id)?.input;
        input.write_all(format!("{order}\n").as_bytes()).await?;
        Ok(input.flush().await?)
    }

    pub fn signal(&mut self, id: &str, signal: Signal, what: &str) -> Result<Instant, Failure> {
        let pid = self.worker(id)?.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        kill_process(pid.ok_or("the worker is gone")?, signal)?;
        let at = Instant::now();
        self.tell(id, what);
        self.log.push(Entry { at, worker: id.to_string(), line: what.to_string() });
        Ok(at)
    }

    /// Waits until a worker has exited by itself.
    pub async fn exited(&mut self, id: &str) -> Result<(), Failure> {
        let status = timeout(TIME_LIMIT, self.worker(id)?.child.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("{id} ended with {status}").into()) }
    }

    /// Kills what still runs, stopped or not, and waits for it.
    pub async fn end(&mut self) -> Result<(), Failure> {
        for worker in &mut self.workers {
            worker.child.kill().await?;
        }
        Ok(())
    }

    /// A line of the timeline.
    pub fn tell(&self, who: &str, what: &str) {
        println!("{:8.3} s  {who:<8} {what}", self.started.elapsed().as_secs_f64());
    }

    fn worker(&mut self, id: &str) -> Result<&mut Worker, Failure> {
        let found = self.workers.iter_mut().find(|worker| worker.id == id);
        found.ok_or_else(|| format!("no worker {id}").into())
    }
}
