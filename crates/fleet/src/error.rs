//! The error that only a fleet has.

use std::fmt;

use spindle::Error;
use spindle_protocol::fleet::Count;

/// The reason of an error about the count of shards.
#[derive(Debug)]
pub(crate) struct OtherCount;

impl OtherCount {
    pub(crate) fn error(shards: &str, asked: usize, named: Count) -> Error {
        let text = format!("shards `{shards}`: {asked} asked for, but the group shares {named}");
        Error::other(text, OtherCount)
    }
}

impl fmt::Display for OtherCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all members of a group share the same count of shards")
    }
}

impl std::error::Error for OtherCount {}

/// Returns true if a group shares another count of shards than the one asked for. The code that
/// begins to [share them](crate::Shards::run) asks, or the one that
/// [moves them](crate::ShardCount::resize) beside somebody else. Nothing was changed, and the
/// text has both counts.
pub fn is_other_count(error: &Error) -> bool {
    error.cause::<OtherCount>().is_some()
}
