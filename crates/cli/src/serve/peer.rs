//! The process at the other end of a Unix socket, and its exit, as the kernel tells of both.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

/// The process that connected, whoever has its socket now.
#[derive(Clone, Debug)]
pub struct Peer {
    pub uid: u32,
    /// None for a process of another PID namespace, which has no number in this one.
    pid: Option<u32>,
    /// Stays that process's when its number is another's. Linux 6.5 and later tell it.
    pidfd: Option<Arc<OwnedFd>>,
}

/// The exit of a process. A clone tells of the same one.
#[derive(Clone, Debug)]
pub struct Exit(Arc<AsyncFd<Arc<OwnedFd>>>);

impl Peer {
    pub fn of(stream: &UnixStream) -> io::Result<Peer> {
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.filter(|pid| *pid != 0);
        Ok(Peer { uid: credentials.uid(), pid, pidfd: pidfd(stream).map(Arc::new) })
    }

    /// Returns the exit of the peer, which calls itself `stated`; or why it can't be had.
    pub fn exit(&self, stated: u32) -> Result<Exit, String> {
        if let Some(pid) = self.pid.filter(|pid| *pid != stated) {
            let why = "a relay's end says nothing of its client's";
            return Err(format!("pid {stated}: process {pid} has connected; {why}"));
        }
        let Some(pidfd) = &self.pidfd else {
            return Err("unsupported: Linux 6.5 and later tell of a peer's exit".to_string());
        };
        #[allow(deprecated, reason = "its successor is unsafe, for types that change their file")]
        let exit = AsyncFd::with_interest(Arc::clone(pidfd), Interest::READABLE);
        exit.map(|exit| Exit(Arc::new(exit))).map_err(|error| format!("pidfd: {error}"))
    }
}

impl Exit {
    /// Waits until the process is gone, with all its threads. Cancellation safe.
    pub async fn exited(&self) {
        // The guard is dropped without clearing: whoever asks later is told as well.
        if self.0.readable().await.is_err() {
            // The runtime shuts down.
            pending::<()>().await;
        }
    }
}

#[cfg(target_os = "linux")]
fn pidfd(stream: &UnixStream) -> Option<OwnedFd> {
    use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
    getsockopt(stream, PeerPidfd).ok()
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_: &UnixStream) -> Option<OwnedFd> {
    None
}
