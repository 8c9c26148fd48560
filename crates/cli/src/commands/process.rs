//! The command under the lock: a process group of its own.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use spindle::FencingToken;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::log::complain;

/// How often a group is looked at whose end nobody tells.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process with all that it starts; dropping it kills them.
pub struct Group {
    child: Child,
    id: Pid,
    has_exited: bool,
    /// True if the terminal was given to the group, and has to be taken back.
    has_terminal: bool,
}

impl Group {
    /// Starts the command, with the lock's name and token in its environment.
    pub fn start(command: &[OsString], lock: &str, token: FencingToken) -> io::Result<Group> {
        let [program, arguments @ ..] = command else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no command"));
        };
        let child = Command::new(program)
            .args(arguments)
            .env("SPINDLE_LOCK", lock)
            .env("SPINDLE_TOKEN", token.to_string())
            .process_group(0)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.map(Pid::from_raw).ok_or_else(|| io::Error::other("it ended at once"))?;
        let mut group = Group { child, id, has_exited: false, has_terminal: false };
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
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the command itself has ended. Cancellation safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.has_exited = true;
        Ok(status)
    }
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
