//! The command under the lock: a process group of its own.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, getppid, tcgetpgrp, tcsetpgrp};
use spindle::FencingToken;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::failure::Code;
use crate::log::complain;

/// How often a group is looked at whose end nobody tells.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process with all that it starts; dropping it kills them.
pub struct Group {
    child: Child,
    id: Pid,
    /// Tells that a child of this process has ended.
    deaths: tokio::signal::unix::Signal,
    has_exited: bool,
    /// True if the terminal was given to the group, and has to be taken back.
    has_terminal: bool,
}

impl Group {
    /// Starts the command, with the lock's name and token in its environment.
    pub fn start(command: &[OsString], lock: &str, token: FencingToken) -> io::Result<Group> {
        let deaths = signal(SignalKind::child())?;
        let mut child = dies_with_this_process(command)?;
        child.env("SPINDLE_LOCK", lock).env("SPINDLE_TOKEN", token.to_string()).process_group(0);
        let child = spawn(child)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.map(Pid::from_raw).ok_or_else(|| io::Error::other("it ended at once"))?;
        let mut group = Group { child, id, deaths, has_exited: false, has_terminal: false };
        group.has_terminal = owns_terminal() && tcsetpgrp(io::stdin().as_fd(), id).is_ok();
        if group.has_terminal {
            // It may have been stopped for reading before the terminal was its own.
            group.signal(Signal::SIGCONT);
        }
        Ok(group)
    }

    /// Sends a signal to all of the group; one that is gone needs none.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = killpg(self.id, signal)
            && error != Errno::ESRCH
        {
            complain(&format!("{signal} to process group {}: {error}", self.id));
        }
    }

    /// Waits until no process of the group is left. Cancellation safe.
    pub async fn gone(&self) {
        while killpg(self.id, None) != Err(Errno::ESRCH) {
            self.reap();
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the command itself has ended. Cancellation safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    self.has_exited = true;
                    return status;
                }
                Some(()) = self.deaths.recv() => self.reap(),
            }
        }
    }

    /// Takes note of the end of processes whose parent has ended before them: they come to pid 1 of a
    /// container, and stay zombies until it has. The command itself is left to its owner.
    #[cfg(target_os = "linux")]
    fn reap(&self) {
        use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // It fails once there is no child at all.
        while let Ok(found) = waitid(Id::All, look)
            && let Some(ended) = found.pid()
            && (self.has_exited || ended != self.id)
        {
            let _noted = waitpid(ended, Some(WaitPidFlag::WNOHANG));
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reap(&self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.has_exited {
            self.signal(Signal::SIGKILL);
        }
        if self.has_terminal {
            take_terminal_back();
        }
    }
}

/// Prepares to start the command by way of this program, which becomes it once the kernel knows that it
/// is to end with this process.
#[cfg(target_os = "linux")]
fn dies_with_this_process(command: &[OsString]) -> io::Result<Command> {
    // This program, also where its file was replaced or removed since.
    let own = std::path::Path::new("/proc/self/exe");
    if !own.exists() {
        complain("no /proc is mounted: the command goes on if `spindle` is killed");
        return itself(command);
    }
    let mut child = Command::new(own);
    child.arg0("spindle").arg("become").arg(std::process::id().to_string()).arg("--").args(command);
    Ok(child)
}

#[cfg(not(target_os = "linux"))]
fn dies_with_this_process(command: &[OsString]) -> io::Result<Command> {
    itself(command)
}

fn itself(command: &[OsString]) -> io::Result<Command> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no command"));
    };
    let mut child = Command::new(program);
    child.args(arguments);
    Ok(child)
}

/// Starts a process by a thread that lives as long as this one. The kernel takes the end of the thread
/// that started a process for the end of its parent, and a runtime's threads may end before.
fn spawn(mut command: Command) -> io::Result<Child> {
    let runtime = Handle::current();
    let (sender, started) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("parent".to_string()).spawn(move || {
        let _runtime = runtime.enter();
        // The receiver waits right below.
        let _ = sender.send(command.spawn());
        loop {
            std::thread::park();
        }
    })?;
    started.recv().map_err(io::Error::other)?
}

/// Becomes the command of a `run`, as its child. Returns only if it can't.
pub fn become_command(parent: i32, command: &[OsString]) -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        complain(&format!("the command goes on if `spindle` is killed: {error}"));
    }
    // It may have ended before the kernel was told.
    if getppid() != Pid::from_raw(parent) {
        return Code::NotStarted.exit();
    }
    match itself(command) {
        Ok(mut child) => not_started(command, &child.as_std_mut().exec()),
        Err(error) => not_started(command, &error),
    }
}

/// Says why a command could not be started, and returns the exit code for that.
pub fn not_started(command: &[OsString], error: &io::Error) -> ExitCode {
    let program = command.first().map(|word| word.to_string_lossy().into_owned());
    complain(&format!("command `{}`: {error}", program.unwrap_or_default()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Returns true if this program reads from a terminal and is in its foreground.
fn owns_terminal() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && tcgetpgrp(stdin.as_fd()).is_ok_and(|group| group == getpgrp())
}

/// A group in the background may do so only while SIGTTOU is blocked, so a thread does that blocks it.
fn take_terminal_back() {
    let taking = std::thread::spawn(|| {
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        blocked.thread_block().and_then(|()| tcsetpgrp(io::stdin().as_fd(), getpgrp()))
    });
    if let Ok(Err(error)) = taking.join() {
        complain(&format!("take the terminal back: {error}"));
    }
}

/// The exit code that says how a command ended, as shells do.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
