//! The signals that end this program, or that it passes on.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::log::complain;

/// The signals by which people and supervisors end a program, and those that mean what it makes of them.
const USUAL: [Signal; 6] = {
    use Signal::*;
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]
};

/// The others that end a program by default and can be handled. SIGPIPE is ignored already. SIGSEGV,
/// SIGBUS, SIGILL and SIGFPE tell of a fault of the program itself, which can't go on.
#[cfg(target_os = "linux")]
const FURTHER: [Signal; 11] = {
    use Signal::*;
    [
        SIGABRT, SIGALRM, SIGIO, SIGPROF, SIGPWR, SIGSTKFLT, SIGSYS, SIGTRAP, SIGVTALRM, SIGXCPU,
        SIGXFSZ,
    ]
};
#[cfg(not(target_os = "linux"))]
const FURTHER: [Signal; 8] = {
    use Signal::*;
    [SIGABRT, SIGALRM, SIGPROF, SIGSYS, SIGTRAP, SIGVTALRM, SIGXCPU, SIGXFSZ]
};

/// The signals that reach this program, but for those that it was started to ignore, as by `nohup`.
pub struct Signals(UnboundedReceiver<Caught>);

/// A signal that has arrived, by its number: the real-time ones have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught(i32);

impl Caught {
    /// False for those that mean what the command makes of them.
    pub fn asks_to_end(self) -> bool {
        ![Signal::SIGUSR1, Signal::SIGUSR2].contains(&self.passed_on())
    }

    /// The signal to pass on: SIGTERM for one that has no name, since nothing safe sends those.
    pub fn passed_on(self) -> Signal {
        Signal::try_from(self.0).unwrap_or(Signal::SIGTERM)
    }

    /// The exit code of a program that it has ended.
    pub fn exit_code(self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(u8::MAX)
    }
}

impl Signals {
    /// Listens to the usual ones.
    pub fn listen() -> io::Result<Signals> {
        Signals::among(USUAL.map(|which| which as i32))
    }

    /// Listens to every signal that ends a program by default, but for those that none can handle and
    /// those of its own faults.
    pub fn listen_to_all() -> io::Result<Signals> {
        let named = USUAL.into_iter().chain(FURTHER).map(|which| which as i32);
        Signals::among(named.chain(real_time()))
    }

    fn among(all: impl IntoIterator<Item = i32>) -> io::Result<Signals> {
        let ignored = ignored().unwrap_or_else(|error| {
            complain(&format!("handles all signals, for it can't tell which are ignored: {error}"));
            0
        });
        let (sender, received) = mpsc::unbounded_channel();
        for which in all {
            if ignored >> (which - 1) & 1 == 1 {
                continue;
            }
            let mut stream = signal(SignalKind::from_raw(which))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(Caught(which)).is_ok() {}
            });
        }
        Ok(Signals(received))
    }

    /// Signals that somebody else receives and sends on.
    pub fn sent_on() -> (UnboundedSender<Caught>, Signals) {
        let (sender, received) = mpsc::unbounded_channel();
        (sender, Signals(received))
    }

    /// Drops those that have arrived.
    pub fn forget(&mut self) {
        while self.0.try_recv().is_ok() {}
    }

    /// The next signal that arrives. Cancellation safe.
    pub async fn next(&mut self) -> Caught {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// The next signal that asks the program to end. Cancellation safe.
    pub async fn end(&mut self) -> Caught {
        loop {
            let signal = self.next().await;
            if signal.asks_to_end() {
                return signal;
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn real_time() -> std::ops::RangeInclusive<i32> {
    nix::libc::SIGRTMIN()..=nix::libc::SIGRTMAX()
}

#[cfg(not(target_os = "linux"))]
fn real_time() -> std::iter::Empty<i32> {
    std::iter::empty()
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
