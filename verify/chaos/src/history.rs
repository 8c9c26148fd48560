//! The record of events as they happen: one file that every process appends to.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use spindle_judge::Outcome;

use crate::setup::Target;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub const HISTORY: &str = "history.jsonl";
/// The file that takes every write, late or not.
pub const UNFENCED: &str = "unfenced.log";

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// By the machine's clock, in nanoseconds: comparable across its processes.
    pub at: u64,
    /// A worker, or `nemesis`.
    pub who: String,
    /// Its process: a worker that was killed comes back as another one.
    pub pid: u32,
    /// The lock that it is about, if it isn't about all.
    pub lock: Option<usize>,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The run begins.
    Run(Target),
    /// An agent releases for workers that are killed: from there on such a one holds nothing.
    Witnessed,
    /// Spanner's clock shows this, in nanoseconds.
    Spanner(u64),
    Started,
    /// `has_lock()` gave this token at some instant from `asked` to the record's `at`.
    Claim {
        token: u64,
        asked: u64,
        /// Until when the process would say so again if it heard nothing more.
        until: u64,
    },
    /// The worker asks to read or to write.
    Asks,
    /// From here on the worker may let go, so that `until` binds nobody.
    LetsGo,
    Lost {
        token: u64,
        why: String,
    },
    /// A shard's task began although another one of it was still at work in the same process.
    Beside {
        token: u64,
        other: u64,
    },
    /// A fenced write is about to be sent; the same write has been appended to the plain file.
    Attempt {
        id: String,
        token: u64,
        counter: String,
    },
    Outcome {
        id: String,
        outcome: Outcome,
    },
    Exited,
    Phase(Phase),
    Deploy(Deploy),
    /// The shards are shared evenly after a deploy, and stay so.
    Settled,
    /// They don't come to be, for longer than anybody waits.
    Unsettled,
    Fault {
        fault: Fault,
        on: Option<String>,
    },
    Over {
        fault: Fault,
        on: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Faults of every kind, by the rules.
    Faults,
    /// Somebody outside the protocol deletes and edits the lock row.
    Edits,
    /// No more faults: somebody has to lead again.
    Recovery,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fault {
    Kill,
    Stop,
    Cut,
    Silence,
    Slow,
    Restart,
    Outage,
    /// Commits whose reply is lost, or that are applied late.
    Lossy,
    Resign,
    Join,
    Leave,
    Delete,
    Edit,
}

/// The kinds by which a run counts its faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Kill,
    Stop,
    /// A line goes wrong, or what is sent on it.
    Cut,
    Restart,
    /// Not counted by kind.
    Other,
}

impl Fault {
    pub fn kind(self) -> FaultKind {
        match self {
            Fault::Kill => FaultKind::Kill,
            Fault::Stop => FaultKind::Stop,
            Fault::Cut | Fault::Silence | Fault::Slow | Fault::Lossy => FaultKind::Cut,
            Fault::Restart | Fault::Outage => FaultKind::Restart,
            Fault::Resign | Fault::Join | Fault::Leave | Fault::Delete | Fault::Edit => {
                FaultKind::Other
            }
        }
    }
}

/// A way in which a service's processes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deploy {
    /// Each is started anew, one after the other.
    Roll,
    /// Half of them leave at once, and come back.
    Half,
    /// One more dies soon after each start.
    CrashLoop,
    /// Others come, and these leave at once.
    BlueGreen,
    /// Each is started anew, and its shards wait for it.
    Restart,
}

impl Deploy {
    pub const ALL: [Deploy; 5] =
        [Deploy::Roll, Deploy::Half, Deploy::CrashLoop, Deploy::BlueGreen, Deploy::Restart];
}

/// Appends to the history. Every line is one write, so that processes don't mix theirs, and
/// nothing is buffered, so that a killed process loses nothing.
pub struct Journal {
    file: File,
    who: String,
    pid: u32,
}

impl Journal {
    pub fn open(out: &Path, who: &str) -> Result<Journal, Failure> {
        let file = append(&out.join(HISTORY))?;
        Ok(Journal { file, who: who.to_string(), pid: std::process::id() })
    }

    pub fn write(&self, event: Event) -> Result<(), Failure> {
        self.write_at(now(), None, event)
    }

    pub fn write_of(&self, lock: usize, event: Event) -> Result<(), Failure> {
        self.write_at(now(), Some(lock), event)
    }

    pub fn write_at(&self, at: u64, lock: Option<usize>, event: Event) -> Result<(), Failure> {
        let record = Record { at, who: self.who.clone(), pid: self.pid, lock, event };
        let line = format!("{}\n", serde_json::to_string(&record)?);
        Ok((&self.file).write_all(line.as_bytes())?)
    }
}

/// Ends the process if its history or a file beside it can't be written: what happens from here on
/// would go unseen.
pub fn must(written: Result<(), Failure>) {
    if written.is_err() {
        std::process::exit(1);
    }
}

pub fn append(path: &Path) -> Result<File, Failure> {
    Ok(OpenOptions::new().create(true).append(true).open(path)?)
}

/// Counts suspended time where the system has such a clock, and is the same for every process.
pub fn now() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(ID);
    let since_boot =
        Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0));
    nanoseconds(since_boot)
}

pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
