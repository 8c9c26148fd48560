//! The numbers that a part prints for each line that it reads.

use std::collections::BTreeMap;
use std::io::Write as _;

use crate::parts::{Failure, Part};

/// Asks for the numbers, by their names.
pub fn counts(part: &mut Part) -> Result<BTreeMap<String, u64>, Failure> {
    writeln!(part.child.stdin.as_mut().ok_or("no input")?)?;
    let line = part.line()?;
    let counts = line.split(' ').filter_map(|count| count.split_once('='));
    counts.map(|(what, count)| Ok((what.to_string(), count.parse()?))).collect()
}
