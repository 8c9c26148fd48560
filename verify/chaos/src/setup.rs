//! The target of a run, and the names that all of its processes agree on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub const DATABASE: &str = "projects/chaos/instances/chaos/databases/chaos";

/// The group of the members, and the name of their shards.
pub const GROUP: &str = "chaos";
pub const SHARDS: &str = "pieces";
/// The variable with the socket of the agent that releases for workers that are killed.
pub const WITNESS: &str = "CHAOS_WITNESS";
/// Each worker reads or holds all of their rows.
pub const LOCKS_MAX: usize = 1_000;

/// The work of a run's workers. Its locks have the numbers from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// All contend for one lock.
    #[default]
    One,
    /// All contend for each of so many locks.
    Locks(usize),
    /// They are members of a group, and share so many shards.
    Shards(usize),
    /// The same by this lease, while they come and go as the processes of a service do.
    Deploys { shards: usize, lease: Duration },
    /// All contend for one lock, each through an agent of its own.
    Agents,
    /// So many read under one lock and so many write under it. Work by writers has the number 0, work
    /// by readers the number 1.
    Sides { readers: usize, writers: usize },
}

/// Workers of greater numbers keep their shards over a restart, where they are deployed.
const KEEP_NOTHING: u32 = 10;

/// The numbers of the two sides of a lock for readers and writers.
pub const WRITERS: usize = 0;
pub const READERS: usize = 1;

impl Target {
    pub fn count(self) -> usize {
        match self {
            Target::One | Target::Agents => 1,
            Target::Sides { .. } => 2,
            Target::Locks(count) | Target::Shards(count) => count,
            Target::Deploys { shards, .. } => shards,
        }
    }

    /// Returns for how long a worker's shards wait for it when it leaves.
    pub fn restart(self, id: &str) -> Option<Duration> {
        let Target::Deploys { lease, .. } = self else { return None };
        number(id).filter(|number| *number > KEEP_NOTHING).map(|_| lease * 3)
    }

    /// Returns the side of a lock for readers and writers that a worker is on. Of the reserve, the
    /// first writes.
    pub fn side(self, id: &str) -> Option<usize> {
        let Target::Sides { readers, writers } = self else { return None };
        let number = number(id)? as usize;
        Some(if number <= writers || number == writers + readers + 1 { WRITERS } else { READERS })
    }

    /// The counters that a worker increments: those of all, or its own if others are at work beside it.
    pub fn colours(self, id: &str) -> Vec<String> {
        if self.side(id) == Some(READERS) {
            return vec![id.to_string()];
        }
        ["red", "green", "blue"].map(String::from).to_vec()
    }

    /// True if whoever holds the one keeps others from the other.
    pub fn excludes(self, lock: usize, other: usize) -> bool {
        match self {
            Target::Sides { .. } => lock == WRITERS || other == WRITERS,
            _ => lock == other,
        }
    }

    /// True if the versions of the rows in the lock table are evidence too.
    pub fn tells_by_rows(self) -> bool {
        matches!(self, Target::Sides { .. })
    }

    /// The key of a lock's row.
    pub fn key(self, lock: usize) -> String {
        match self {
            Target::One | Target::Agents => "chaos".to_string(),
            // The gate of the writers; each reader has a row of its own.
            Target::Sides { .. } => format!("spindle:rw:{GROUP}"),
            Target::Locks(_) => format!("chaos-{lock}"),
            Target::Shards(_) | Target::Deploys { .. } => {
                format!("spindle:shard:{GROUP}/{SHARDS}/{lock}")
            }
        }
    }

    /// So many contenders for so many locks need time, unless they have cores of their own.
    pub fn lease(self) -> Duration {
        match self {
            Target::Deploys { lease, .. } => lease,
            Target::Locks(_) => Duration::from_secs(4),
            _ => Duration::from_secs(2),
        }
    }

    /// From one write under a lock to the next, so that the server has about the same to do however
    /// many locks there are.
    pub fn pace(self) -> Duration {
        Duration::from_millis(20) * u32::try_from(self.count() - 1).unwrap_or(u32::MAX)
    }

    /// After the last fault every lock has to be written under by then. An abandoned transaction may
    /// hold a row for Spanner's idle limit of 10 s, then a lease runs out. Many locks have three
    /// leases and a minute.
    pub fn progress_limit(self) -> Duration {
        match self {
            Target::One => Duration::from_secs(20),
            // An agent that could not start is started again, and a silent client's lease runs out later.
            Target::Agents => Duration::from_secs(30),
            // A row that is held by an abandoned transaction may be in the way of either side.
            Target::Sides { .. } => self.lease() * 3 + Duration::from_secs(24),
            Target::Locks(_) | Target::Shards(_) | Target::Deploys { .. } => {
                self.lease() * 3 + Duration::from_secs(60)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::One => write!(f, "one"),
            Target::Locks(count) => write!(f, "locks {count}"),
            Target::Shards(count) => write!(f, "shards {count}"),
            Target::Deploys { shards, lease } => write!(f, "deploys {shards} {}", lease.as_secs()),
            Target::Agents => write!(f, "agents"),
            Target::Sides { readers, writers } => write!(f, "sides {readers} {writers}"),
        }
    }
}

/// The id of the agent that a worker leads through.
pub fn agent_of(id: &str) -> String {
    format!("agent-{id}")
}

fn number(id: &str) -> Option<u32> {
    id.strip_prefix('w')?.parse().ok()
}
