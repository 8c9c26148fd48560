//! The mutants that a run judges: all, some by name, or those that changed.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::process::Command;

use crate::checker::Checker;
use crate::mutant::{LIST, Mutant};
use crate::sources::Sources;

/// The commit at which all mutants were last judged and noticed.
const JUDGED: &str = "verify/mutants/judged";
/// The number of mutants that are drawn whatever changed.
const DRAWN: usize = 10;

/// The mutants to judge, in order.
pub struct Selection<'a> {
    pub mutants: Vec<&'a Mutant>,
    /// Says why these.
    pub why: String,
    pub is_all: bool,
}

impl<'a> Selection<'a> {
    /// Selects all; those of one checker one after the other.
    pub fn all(mutants: &'a [Mutant]) -> Selection<'a> {
        let mut all: Vec<&Mutant> = mutants.iter().collect();
        all.sort_by_key(|mutant| mutant.test().map(|(package, _)| package));
        Selection { why: format!("all {}", all.len()), mutants: all, is_all: true }
    }

    /// Selects those whose names contain one of these texts.
    pub fn named(mutants: &'a [Mutant], texts: &[String]) -> Selection<'a> {
        let is_named = |mutant: &&Mutant| texts.iter().any(|text| mutant.name.contains(text));
        let why = format!("those with `{}` in their names", texts.join("` or `"));
        Selection { mutants: mutants.iter().filter(is_named).collect(), why, is_all: false }
    }
}

/// Selects ten by the commit's hash, and after them those whose file or checker changed since all were judged.
///
/// The commit's hash decides the order, too. So another commit leaves others out when the time is short.
pub fn select<'a>(
    workspace: &Path,
    mutants: &'a [Mutant],
    sources: &Sources,
) -> io::Result<Selection<'a>> {
    let commit = git(workspace, &["rev-parse", "HEAD"])?;
    let judged_at = fs::read_to_string(workspace.join(JUDGED))?.trim().to_string();
    let place = |mutant: &&Mutant| {
        let mut hasher = DefaultHasher::new();
        (commit.trim(), &mutant.name).hash(&mut hasher);
        hasher.finish()
    };
    let mut drawn: Vec<&Mutant> = mutants.iter().collect();
    drawn.sort_by_key(place);
    let others = drawn.split_off(DRAWN.min(drawn.len()));
    let (touched, since) = match changed_since(workspace, &judged_at) {
        Ok(files) => {
            let mut touched = Vec::new();
            for mutant in others {
                if is_touched(mutant, &files, sources)? {
                    touched.push(mutant);
                }
            }
            (touched, format!("since {judged_at}"))
        }
        // A copy without that commit knows of no change; so everything counts as changed.
        Err(error) => (others, format!("since ever, as {judged_at} is unknown here ({error})")),
    };
    let why = format!(
        "{} drawn by the commit, and {} whose file or checker changed {since}",
        drawn.len(),
        touched.len()
    );
    drawn.extend(touched);
    Ok(Selection { mutants: drawn, why, is_all: false })
}

/// Returns true if the mutant, a file that it edits, or its first checker changed.
fn is_touched(mutant: &Mutant, files: &[String], sources: &Sources) -> io::Result<bool> {
    let own = format!("{LIST}/{}.toml", mutant.name);
    let checkers = Checker::all_for(mutant, sources)?;
    Ok(files.iter().any(|file| {
        *file == own
            || mutant.edits.iter().any(|edit| edit.file == *file)
            || checkers.first().is_some_and(|checker| checker.is_in(file))
    }))
}

fn changed_since(workspace: &Path, commit: &str) -> io::Result<Vec<String>> {
    let tracked = git(workspace, &["diff", "--name-only", commit])?;
    let new = git(workspace, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(tracked.lines().chain(new.lines()).map(str::to_string).collect())
}

/// Keeps the commit as one at which every mutant was noticed, if the sources are those of a commit.
pub fn record_judged(workspace: &Path) -> io::Result<()> {
    if !git(workspace, &["status", "--porcelain"])?.is_empty() {
        println!("mutants: {JUDGED} stays as it is, because the sources differ from the commit");
        return Ok(());
    }
    fs::write(workspace.join(JUDGED), git(workspace, &["rev-parse", "HEAD"])?)
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
