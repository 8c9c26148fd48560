//! The workers as processes: starting, signalling, knowing who holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::history::Failure;
use crate::proxy::{LinkFault, Proxy, Server};
use crate::setup::{DATABASE, Target, WITNESS, agent_of};

/// A worker that was told to leave releases its lock first, and its row in the group.
const LEAVE_LIMIT: Duration = Duration::from_secs(25);

/// The exit code of `spindle` when it can't reach Spanner.
const UNREACHABLE: i32 = 3;

/// All workers. They are killed when this is dropped.
pub struct Fleet {
    server: SocketAddr,
    target: Target,
    out: PathBuf,
    /// The program `spindle`, if each worker leads through an agent of its own.
    agent: Option<PathBuf>,
    workers: BTreeMap<String, Worker>,
    /// By id, as the workers are.
    agents: BTreeMap<String, Worker>,
    holder: Holder,
    /// The agent that releases for workers that were killed, if there is one; and its socket.
    witness: Option<(PathBuf, Child)>,
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
    /// How many of its tasks are at work, as it says.
    tasks: Arc<AtomicUsize>,
}

impl Fleet {
    pub fn new(server: SocketAddr, target: Target, out: PathBuf, agent: Option<PathBuf>) -> Fleet {
        let (workers, agents) = (BTreeMap::new(), BTreeMap::new());
        let (holder, witness) = (Holder::default(), None);
        Fleet { server, target, out, agent, workers, agents, holder, witness }
    }

    /// Starts the agent that releases for workers that are killed. Nothing befalls it.
    pub fn start_witness(&mut self, program: &Path) -> Result<(), Failure> {
        let socket = self.socket("witness");
        let mut command = self.agent_command(program, "witness", self.server)?;
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn()?;
        self.witness = Some((socket, child));
        Ok(())
    }

    pub fn has_witness(&self) -> bool {
        self.witness.is_some()
    }

    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Starts another process as the contender `id`, at first with its agent, or starts either again.
    pub async fn start(&mut self, id: &str) -> Result<(), Failure> {
        if self.agents.contains_key(id) {
            return self.start_agent(id);
        }
        if !self.workers.contains_key(id) {
            let way = match self.agent {
                Some(_) => Server::Unix(self.add_agent(&agent_of(id)).await?),
                None => Server::Tcp(self.server),
            };
            let worker = Worker { proxy: Proxy::start(way).await?, process: None };
            self.workers.insert(id.to_string(), worker);
        }
        let mut command = Command::new(std::env::current_exe()?);
        let proxy = self.worker(id)?.proxy.address();
        // Through an agent or not, its writes are its own.
        let spanner = if self.agent.is_some() { self.server } else { proxy };
        command.args([
            "worker",
            &format!("http://{spanner}"),
            id,
            &serde_json::to_string(&self.target)?,
        ]);
        command.arg(&self.out);
        if self.agent.is_some() {
            command.arg(proxy.to_string());
        }
        if let Some((socket, _)) = &self.witness {
            command.env(WITNESS, socket);
        }
        self.spawn(id, command)
    }

    /// Starts an agent for the first time; returns its socket.
    async fn add_agent(&mut self, id: &str) -> Result<PathBuf, Failure> {
        let proxy = Proxy::start(Server::Tcp(self.server)).await?;
        self.agents.insert(id.to_string(), Worker { proxy, process: None });
        self.start_agent(id)?;
        Ok(self.socket(id))
    }

    fn socket(&self, id: &str) -> PathBuf {
        self.out.join(format!("{id}.sock"))
    }

    fn start_agent(&mut self, id: &str) -> Result<(), Failure> {
        let program = self.agent.as_ref().ok_or("there are no agents")?;
        let command = self.agent_command(program, id, self.agents[id].proxy.address())?;
        self.spawn(id, command)
    }

    fn agent_command(
        &self,
        program: &Path,
        id: &str,
        server: SocketAddr,
    ) -> Result<Command, Failure> {
        let mut command = Command::new(program);
        let log = self.out.join(format!("{id}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        command
            .args(["agent", "--grace", "2s", "--socket"])
            .arg(self.socket(id))
            .env("SPANNER_EMULATOR_HOST", server.to_string())
            .env("SPINDLE_DATABASE", DATABASE)
            .env_remove("SPINDLE_TABLE")
            .stderr(log);
        Ok(command)
    }

    fn spawn(&mut self, id: &str, mut command: Command) -> Result<(), Failure> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or("the process has no input")?;
        let output = child.stdout.take().ok_or("the process has no output")?;
        let (holder, tasks) = (self.holder.clone(), Arc::default());
        tokio::spawn(listen(output, id.to_string(), holder, Arc::clone(&tasks)));
        self.worker(id)?.process = Some(Process { child, input, tasks });
        Ok(())
    }

    /// Starts those agents again that could not reach Spanner as they started.
    pub fn restart_agents(&mut self) -> Result<(), Failure> {
        let mut ended = Vec::new();
        for (id, agent) in &mut self.agents {
            if let Some(process) = &mut agent.process
                && !process.runs(id)?
            {
                ended.push(id.clone());
            }
        }
        ended.iter().try_for_each(|id| self.start_agent(id))
    }

    /// Returns the agent of a worker, if it runs.
    pub fn agent(&self, id: &str) -> Option<String> {
        let id = agent_of(id);
        self.agents.get(&id).is_some_and(|agent| agent.process.is_some()).then_some(id)
    }

    pub fn holder(&self) -> Option<String> {
        self.holder.lock().clone()
    }

    pub fn running(&self) -> Vec<String> {
        let running = self.workers.iter().filter(|(_, worker)| worker.process.is_some());
        running.map(|(id, _)| id.clone()).collect()
    }

    /// How many tasks of each that runs are at work, as they say.
    pub fn tasks(&self) -> BTreeMap<&str, usize> {
        let tasks = |worker: &Worker| Some(worker.process.as_ref()?.tasks.load(Ordering::Relaxed));
        self.workers.iter().filter_map(|(id, worker)| Some((&**id, tasks(worker)?))).collect()
    }

    pub async fn kill(&mut self, id: &str) -> Result<(), Failure> {
        let mut process = self.worker(id)?.process.take().ok_or("the worker is gone")?;
        // One that died by itself is no victim.
        if process.runs(id)? {
            process.child.kill().await?;
        }
        Ok(())
    }

    pub fn signal(&mut self, id: &str, signal: Signal) -> Result<(), Failure> {
        self.worker(id)?.process.as_ref().ok_or("the worker is gone")?.signal(signal)
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

    /// Tells workers to leave, and waits until they have.
    pub async fn leave<S: AsRef<str>>(&mut self, ids: &[S]) -> Result<(), Failure> {
        let mut leaving = Vec::new();
        for id in ids.iter().map(AsRef::as_ref) {
            let process = self.worker(id)?.process.take().ok_or("the worker is gone")?;
            let id = id.to_string();
            leaving.push(tokio::spawn(async move { ends(&id, process).await }));
        }
        for left in leaving {
            left.await??;
        }
        Ok(())
    }

    /// Tells all to leave, and waits for them.
    pub async fn stop_all(&mut self) -> Result<(), Failure> {
        self.leave(&self.running()).await?;
        for (id, agent) in &mut self.agents {
            if let Some(process) = agent.process.take() {
                process.signal(Signal::TERM)?;
                ends(id, process).await?;
            }
        }
        Ok(())
    }

    fn worker(&mut self, id: &str) -> Result<&mut Worker, Failure> {
        let found = self.workers.get_mut(id).or_else(|| self.agents.get_mut(id));
        found.ok_or_else(|| format!("no worker {id}").into())
    }
}

impl Process {
    /// Returns true if it runs, and false for an agent that could not reach Spanner as it started. Fails if it ended in
    /// any other way, which nobody told it to.
    fn runs(&mut self, id: &str) -> Result<bool, Failure> {
        match self.child.try_wait()? {
            None => Ok(true),
            // No worker ends with it.
            Some(status) if status.code() == Some(UNREACHABLE) => Ok(false),
            Some(status) => Err(format!("{id} ended by itself, with {status}").into()),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(kill_process(pid.ok_or("the process is gone")?, signal)?)
    }
}

async fn ends(id: &str, process: Process) -> Result<(), Failure> {
    let Process { mut child, input, .. } = process;
    // The end of its input tells it to leave.
    drop(input);
    let Ok(status) = timeout(LEAVE_LIMIT, child.wait()).await else {
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

async fn listen(output: ChildStdout, id: String, holder: Holder, tasks: Arc<AtomicUsize>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match line.as_str() {
            "holds" => *holder.lock() = Some(id.clone()),
            "begins" => _ = tasks.fetch_add(1, Ordering::Relaxed),
            "ends" => _ = tasks.fetch_sub(1, Ordering::Relaxed),
            _ => {
                holder.lock().take_if(|holder| *holder == id);
            }
        }
    }
}
