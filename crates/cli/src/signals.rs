//! The signals that end this program, or that it passes on.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::log::complain;

/// The signals that reach this program, but for those that it was started to ignore, as by `nohup`.
pub struct Signals(UnboundedReceiver<Signal>);

impl Signals {
    pub fn listen() -> io::Result<Signals> {
        use Signal::*;
        let ignored = ignored().unwrap_or_else(|error| {
            complain(&format!("handles all signals, for it can't tell which are ignored: {error}"));
            0
        });
        let (sender, received) = mpsc::unbounded_channel();
        for which in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
            if ignored >> (which as i32 - 1) & 1 == 1 {
                continue;
            }
            let mut stream = signal(SignalKind::from_raw(which as i32))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(which).is_ok() {}
            });
        }
        Ok(Signals(received))
    }

    /// Signals that somebody else receives and sends on.
    pub fn sent_on() -> (UnboundedSender<Signal>, Signals) {
        let (sender, received) = mpsc::unbounded_channel();
        (sender, Signals(received))
    }

    /// The next signal that arrives. Cancellation safe.
    pub async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next signal that asks the program to end. Cancellation safe.
    pub async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if asks_to_end(signal) {
                return signal;
            }
        }
    }
}

/// False for those that mean what the command makes of them.
pub fn asks_to_end(signal: Signal) -> bool {
    !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2)
}

/// Returns the signals that this process ignores: the lowest bit is the first.
///
/// Nothing safe asks the system directly. Linux writes it into a file, and `ps` knows it elsewhere.
fn ignored() -> io::Result<u64> {
    let mask = match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => status.lines().find_map(|line| line.strip_prefix("SigIgn:").map(hex)),
        Err(_) => {
            let own = std::process::id().to_string();
            let ps = std::process::Command::new("ps").args(["-o", "ignored=", "-p", &own]).output();
            Some(hex(&String::from_utf8_lossy(&ps?.stdout)))
        }
    };
    mask.flatten().ok_or_else(|| io::Error::other("not a mask of signals"))
}

fn hex(mask: &str) -> Option<u64> {
    u64::from_str_radix(mask.trim(), 16).ok()
}
