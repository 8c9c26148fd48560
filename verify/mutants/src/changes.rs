//! The mutants that a run judges: all, some by name, or those that changed.

use std::hash::Hasher as _;
use std::io;
use std::path::Path;
use std::process::Command;

use fnv::FnvHasher;

use crate::mutant::Mutant;
use crate::record::Record;

/// The number of mutants that are drawn of those that did not change.
const DRAWN: usize = 10;

/// The mutants to judge, in order, and why these.
pub type Selection<'a> = (Vec<&'a Mutant>, String);

/// Selects those with one of these texts in their names or in those of the files that they edit; without a text all.
pub fn named<'a>(mutants: &'a [Mutant], texts: &[String]) -> Selection<'a> {
    let is_named = |mutant: &&Mutant| {
        let mut names = mutant.edits.iter().map(|edit| &edit.file).chain([&mutant.name]);
        texts.is_empty() || names.any(|name| texts.iter().any(|text| name.contains(text)))
    };
    let mut mutants: Vec<&Mutant> = mutants.iter().filter(is_named).collect();
    mutants.sort_by_key(|mutant| mutant.built());
    let why = match texts {
        [] => format!("all {}", mutants.len()),
        texts => format!("those with `{}` in their names or files", texts.join("` or `")),
    };
    (mutants, why)
}

/// Selects those that changed since they were noticed, and after them ten of the others by the commit's hash.
///
/// The commit's hash decides the order, too. So another commit leaves others out when the time is short.
pub fn changed<'a>(
    workspace: &Path,
    mutants: &'a [Mutant],
    record: &Record,
) -> io::Result<Selection<'a>> {
    let commit = git(workspace, &["rev-parse", "HEAD"])?;
    let place = |text: &str| {
        let mut hasher = FnvHasher::default();
        hasher.write(commit.as_bytes());
        hasher.write(text.as_bytes());
        hasher.finish()
    };
    let noticed = record.noticed()?;
    let (mut drawn, mut changed): (Vec<&Mutant>, Vec<&Mutant>) =
        mutants.iter().partition(|mutant| noticed.contains(&mutant.name));
    changed.sort_by_cached_key(|mutant| mutant.built().map(place));
    drawn.sort_by_cached_key(|mutant| place(&mutant.name));
    drawn.truncate(DRAWN);
    drawn.sort_by_key(|mutant| mutant.built());
    let why = format!("{} that changed, and {} that the commit draws", changed.len(), drawn.len());
    changed.extend(drawn);
    Ok((changed, why))
}

/// Returns what git prints.
pub fn git(workspace: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git").current_dir(workspace).args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git {}: {}", arguments.join(" "), said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
