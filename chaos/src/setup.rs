//! The target of a hunt, and the names that all of its processes agree on.

use std::fmt;
use std::time::Duration;

pub const DATABASE: &str = "projects/chaos/instances/chaos/databases/chaos";

/// The group of the members, and the name of their shards.
pub const GROUP: &str = "chaos";
pub const SHARDS: &str = "pieces";
/// Each worker reads or holds all of their rows.
const LOCKS_MAX: usize = 1_000;

/// The work of a hunt's workers. Its locks have the numbers from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// All contend for one lock.
    #[default]
    One,
    /// All contend for each of so many locks.
    Locks(usize),
    /// They are members of a group, and share so many shards.
    Shards(usize),
}

impl Target {
    pub fn parse(name: &str, count: &str) -> Result<Target, String> {
        let number = count.parse().ok().filter(|number| (2..=LOCKS_MAX).contains(number));
        let count = number.ok_or_else(|| format!("--{name} {count}: expected 2 to {LOCKS_MAX}"))?;
        match name {
            "locks" => Ok(Target::Locks(count)),
            "shards" => Ok(Target::Shards(count)),
            _ => Err(format!("no target: {name}")),
        }
    }

    pub fn from_name(name: &str) -> Result<Target, String> {
        match name.split_once(' ') {
            None if name == "one" => Ok(Target::One),
            Some((name, count)) => Target::parse(name, count),
            None => Err(format!("no target: {name}")),
        }
    }

    pub fn count(self) -> usize {
        match self {
            Target::One => 1,
            Target::Locks(count) | Target::Shards(count) => count,
        }
    }

    /// The key of a lock's row.
    pub fn key(self, lock: usize) -> String {
        match self {
            Target::One => "chaos".to_string(),
            Target::Locks(_) => format!("chaos-{lock}"),
            Target::Shards(_) => format!("spindle:shard:{GROUP}/{SHARDS}/{lock}"),
        }
    }

    /// So many contenders for so many locks need time, unless they have cores of their own.
    pub fn lease(self) -> Duration {
        Duration::from_secs(if matches!(self, Target::Locks(_)) { 4 } else { 2 })
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
            Target::Locks(_) | Target::Shards(_) => self.lease() * 3 + Duration::from_secs(60),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::One => write!(f, "one"),
            Target::Locks(count) => write!(f, "locks {count}"),
            Target::Shards(count) => write!(f, "shards {count}"),
        }
    }
}
