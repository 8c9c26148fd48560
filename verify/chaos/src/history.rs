//! The record of events as they happen: one file that every process appends to.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::setup::Target;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub const HISTORY: &str = "history.jsonl";
/// The file that takes every write, late or not.
pub const UNFENCED: &str = "unfenced.log";

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run begins.
    Run(Target),
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

/// The outcome of a fenced write, as its writer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Refused, since the term was over.
    Fenced,
    /// It never came to a commit.
    NotSent,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults of every kind, by the rules.
    Storm,
    /// Somebody outside the protocol deletes and edits the lock row.
    Edits,
    /// No more faults: somebody has to lead again.
    Recovery,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// A way in which a service's processes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Names on paper, the same as in the program.
macro_rules! named {
    ($kind:ident: $($name:ident)*) => {
        impl $kind {
            fn from_name(name: &str) -> Result<$kind, Failure> {
                match name {
                    $(stringify!($name) => Ok($kind::$name),)*
                    _ => Err(format!("no {}: {name}", stringify!($kind)).into()),
                }
            }
        }
    };
}

named!(Outcome: Committed Fenced NotSent Unknown);
named!(Phase: Storm Edits Recovery End);
named!(Deploy: Roll Half CrashLoop BlueGreen Restart);
named!(Fault: Kill Stop Cut Silence Slow Restart Outage Lossy Resign Join Leave Delete Edit);

impl Record {
    pub fn to_json(&self) -> Value {
        let mut json = match &self.event {
            Event::Run(target) => json!({"event": "run", "target": target.to_string()}),
            Event::Spanner(time) => json!({"event": "spanner", "time": time}),
            Event::Started => json!({"event": "started"}),
            Event::Claim { token, asked, until } => {
                json!({"event": "claim", "token": token, "asked": asked, "until": until})
            }
            Event::Asks => json!({"event": "asks"}),
            Event::LetsGo => json!({"event": "lets_go"}),
            Event::Lost { token, why } => json!({"event": "lost", "token": token, "why": why}),
            Event::Beside { token, other } => {
                json!({"event": "beside", "token": token, "other": other})
            }
            Event::Attempt { id, token, counter } => {
                json!({"event": "attempt", "id": id, "token": token, "counter": counter})
            }
            Event::Outcome { id, outcome } => {
                json!({"event": "outcome", "id": id, "outcome": format!("{outcome:?}")})
            }
            Event::Exited => json!({"event": "exited"}),
            Event::Phase(phase) => json!({"event": "phase", "phase": format!("{phase:?}")}),
            Event::Deploy(deploy) => json!({"event": "deploy", "deploy": format!("{deploy:?}")}),
            Event::Settled => json!({"event": "settled"}),
            Event::Unsettled => json!({"event": "unsettled"}),
            Event::Fault { fault, on } => {
                json!({"event": "fault", "fault": format!("{fault:?}"), "on": on})
            }
            Event::Over { fault, on } => {
                json!({"event": "over", "fault": format!("{fault:?}"), "on": on})
            }
        };
        json["at"] = self.at.into();
        json["who"] = self.who.as_str().into();
        json["pid"] = self.pid.into();
        if let Some(lock) = self.lock {
            json["lock"] = lock.into();
        }
        json
    }

    pub fn from_json(json: &Value) -> Result<Record, Failure> {
        let text = |name: &str| json[name].as_str().ok_or_else(|| format!("no `{name}`"));
        let number = |name: &str| json[name].as_u64().ok_or_else(|| format!("no `{name}`"));
        let on = || json["on"].as_str().map(str::to_string);
        let event = match text("event")? {
            "run" => Event::Run(Target::from_name(text("target")?)?),
            "spanner" => Event::Spanner(number("time")?),
            "started" => Event::Started,
            "claim" => Event::Claim {
                token: number("token")?,
                asked: number("asked")?,
                until: number("until")?,
            },
            "asks" => Event::Asks,
            "lets_go" => Event::LetsGo,
            "lost" => Event::Lost { token: number("token")?, why: text("why")?.to_string() },
            "beside" => Event::Beside { token: number("token")?, other: number("other")? },
            "attempt" => Event::Attempt {
                id: text("id")?.to_string(),
                token: number("token")?,
                counter: text("counter")?.to_string(),
            },
            "outcome" => Event::Outcome {
                id: text("id")?.to_string(),
                outcome: Outcome::from_name(text("outcome")?)?,
            },
            "exited" => Event::Exited,
            "phase" => Event::Phase(Phase::from_name(text("phase")?)?),
            "deploy" => Event::Deploy(Deploy::from_name(text("deploy")?)?),
            "settled" => Event::Settled,
            "unsettled" => Event::Unsettled,
            "fault" => Event::Fault { fault: Fault::from_name(text("fault")?)?, on: on() },
            "over" => Event::Over { fault: Fault::from_name(text("fault")?)?, on: on() },
            other => return Err(format!("no event: {other}").into()),
        };
        let (at, pid) = (number("at")?, u32::try_from(number("pid")?)?);
        let lock = json["lock"].as_u64().map(usize::try_from).transpose()?;
        Ok(Record { at, who: text("who")?.to_string(), pid, lock, event })
    }
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
        let line = format!("{}\n", record.to_json());
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
