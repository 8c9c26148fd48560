//! The workers as processes: starting, signalling, knowing who holds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::history::Failure;
use crate::proxy::{LinkFault, Proxy};
use crate::setup::Target;

/// A worker that was told to leave releases its lock first.
const FAREWELL: Duration = Duration::from_secs(15);

/// All workers. They are killed when this is dropped.
pub struct Fleet {
    server: SocketAddr,
    target: Target,
    out: PathBuf,
    workers: BTreeMap<String, Worker>,
    holder: Holder,
}

/// The last process to say that it holds: a target to hit, and no evidence of anything.
#[derive(Clone, Default)]
struct Holder(Arc<Mutex<Option<String>>>);

struct Worker {
    proxy: Proxy,
    process: Option<Process>,
}

struct Process {
    /// Killed when it is dropped, stopped or not.
    child: Child,
    input: ChildStdin,
}

impl Fleet {
    pub fn new(server: SocketAddr, target: Target, out: PathBuf) -> Fleet {
        Fleet { server, target, out, workers: BTreeMap::new(), holder: Holder::default() }
    }

    /// Starts another process of this program as the contender `id`, or starts it again.
    pub async fn start(&mut self, id: &str) -> Result<(), Failure> {
        if !self.workers.contains_key(id) {
            let proxy = Proxy::start(self.server).await?;
            self.workers.insert(id.to_string(), Worker { proxy, process: None });
        }
        let (out, holder) = (self.out.clone(), self.holder.clone());
        let target = self.target.to_string();
        let worker = self.worker(id)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", &worker.proxy.endpoint(), id, &target])
            .arg(out)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("the worker has no input")?;
        let output = child.stdout.take().ok_or("the worker has no output")?;
        worker.process = Some(Process { child, input });
        tokio::spawn(listen(output, id.to_string(), holder));
        Ok(())
    }

    pub fn holder(&self) -> Option<String> {
        self.holder.lock().clone()
    }

    pub fn running(&self) -> Vec<String> {
        let running = self.workers.iter().filter(|(_, worker)| worker.process.is_some());
        running.map(|(id, _)| id.clone()).collect()
    }

    pub async fn kill(&mut self, id: &str) -> Result<(), Failure> {
        let mut process = self.worker(id)?.process.take().ok_or("the worker is gone")?;
        Ok(process.child.kill().await?)
    }

    pub fn signal(&mut self, id: &str, signal: Signal) -> Result<(), Failure> {
        let process = self.worker(id)?.process.as_ref().ok_or("the worker is gone")?;
        let pid = process.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(kill_process(pid.ok_or("the worker is gone")?, signal)?)
    }

    pub fn set(&mut self, id: &str, link_fault: LinkFault) -> Result<(), Failure> {
        self.worker(id)?.proxy.set(link_fault);
        Ok(())
    }

    pub async fn resign(&mut self, id: &str) -> Result<(), Failure> {
        let process = self.worker(id)?.process.as_mut().ok_or("the worker is gone")?;
        process.input.write_all(b"resign\n").await?;
        Ok(process.input.flush().await?)
    }

    /// Tells a worker to leave, and waits until it has.
    pub async fn leave(&mut self, id: &str) -> Result<(), Failure> {
        let process = self.worker(id)?.process.take().ok_or("the worker is gone")?;
        farewell(id, process).await
    }

    /// Tells all to leave, and waits for them.
    pub async fn disband(&mut self) -> Result<(), Failure> {
        let leaving: Vec<_> = self
            .workers
            .iter_mut()
            .filter_map(|(id, worker)| Some((id.clone(), worker.process.take()?)))
            .map(|(id, process)| tokio::spawn(async move { farewell(&id, process).await }))
            .collect();
        for left in leaving {
            left.await??;
        }
        Ok(())
    }

    fn worker(&mut self, id: &str) -> Result<&mut Worker, Failure> {
        self.workers.get_mut(id).ok_or_else(|| format!("no worker {id}").into())
    }
}

async fn farewell(id: &str, process: Process) -> Result<(), Failure> {
    let Process { mut child, input } = process;
    // The end of its input tells it to leave.
    drop(input);
    let Ok(status) = timeout(FAREWELL, child.wait()).await else {
        return Err(format!("{id} was told to leave and stays").into());
    };
    let status = status?;
    if status.success() { Ok(()) } else { Err(format!("{id} ended with {status}").into()) }
}

impl Holder {
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen(output: ChildStdout, id: String, holder: Holder) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match line.as_str() {
            "holds" => *holder.lock() = Some(id.clone()),
            _ => {
                holder.lock().take_if(|holder| *holder == id);
            }
        }
    }
}
