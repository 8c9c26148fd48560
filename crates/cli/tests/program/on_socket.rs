//! An agent on a Unix socket, and processes of this test's own program beside it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::world::{Running, TIME_LIMIT, World, under, until};

/// The options that make a PID namespace, which ends with it.
pub const NAMESPACE: [&str; 3] = ["--pid", "--fork", "--kill-child"];

/// An agent on a socket of its own.
pub struct OnSocket {
    pub socket: PathBuf,
    pub running: Running,
}

impl OnSocket {
    pub async fn start(world: &World, name: &str) -> OnSocket {
        OnSocket::at(world, own_path(name), &[]).await
    }

    pub async fn at(world: &World, socket: PathBuf, arguments: &[&str]) -> OnSocket {
        OnSocket::in_namespace(world, socket, arguments, false).await
    }

    /// In a PID namespace of its own, or in this one.
    pub async fn in_namespace(
        world: &World,
        socket: PathBuf,
        arguments: &[&str],
        unshared: bool,
    ) -> OnSocket {
        let mut command = world.program(&["agent", "--socket"]);
        command.arg(&socket).args(arguments);
        let mut command = if unshared { under("unshare", &NAMESPACE, command) } else { command };
        command.stderr(Stdio::inherit());
        let mut running = Running::start(command);
        assert!(running.line().await.starts_with("Listens on"));
        OnSocket { socket, running }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.running.child.id().unwrap().cast_signed())
    }

    /// A number that its metrics say.
    pub async fn counts(&self, name: &str) -> usize {
        let metrics = self.answer("GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await;
        let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap().parse().unwrap()
    }

    pub async fn killed(mut self) {
        self.running.signal(Signal::SIGKILL);
        self.running.code().await;
    }

    /// The agent's answer, to its end.
    pub async fn answer(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(TIME_LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    /// Waits until its metrics say so.
    pub async fn says(&self, line: &str) {
        until(line, async || {
            let metrics = self.answer("GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await;
            metrics.lines().any(|said| said == line)
        })
        .await;
    }
}

impl Drop for OnSocket {
    fn drop(&mut self) {
        // A killed agent leaves it.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A socket's path that no other test has.
pub fn own_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("spindle-{}-{name}.sock", std::process::id()))
}

/// A process of this test's own program, in which one part of it runs alone.
pub fn in_a_process(part: &str, variables: &[(&str, &OsStr)], unshared: bool) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", part, "--ignored", "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().copied());
    let mut command = if unshared { under("unshare", &NAMESPACE, command) } else { command };
    command.kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Running::start(command)
}
