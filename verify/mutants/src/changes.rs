//! The mutants that a run judges: all, some by name, or those that changed.

use std::collections::BTreeSet;
use std::hash::Hasher as _;
use std::io;
use std::path::Path;
use std::process::Command;

use fnv::FnvHasher;

use crate::mutant::Mutant;
use crate::record::{Record, judged_on};
use crate::sources::Sources;

/// The number of mutants that are drawn of those that did not change.
const DRAWN: usize = 10;

/// On main, the number of commits whose changes count as new.
const BEFORE: usize = 20;

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

/// Selects those that a change since this commit touches, and after them ten of the others by the hash of HEAD. Those
/// that the record has as noticed need no other look: they are drawn when all others are gone.
///
/// The hash decides the order, too. So another commit leaves others out when the time is short.
pub fn changed<'a>(
    workspace: &Path,
    mutants: &'a [Mutant],
    sources: &Sources,
    record: &Record,
    since: Option<&str>,
) -> io::Result<Selection<'a>> {
    let head = git(workspace, &["rev-parse", "HEAD"])?;
    let place = |text: &str| {
        let mut hasher = FnvHasher::default();
        hasher.write(head.as_bytes());
        hasher.write(text.as_bytes());
        hasher.finish()
    };
    let base = base(workspace, since)?;
    let changed = differing(workspace, &base)?;
    let noticed = record.noticed()?;
    let (mut touched, mut others) = (Vec::new(), Vec::new());
    for mutant in mutants {
        let is_touched = judged_on(mutant, sources)?.iter().any(|file| changed.contains(file));
        let is_new = is_touched && !noticed.contains(&mutant.name);
        if is_new { touched.push(mutant) } else { others.push(mutant) }
    }
    touched.sort_by_cached_key(|mutant| mutant.built().map(place));
    others.sort_by_cached_key(|it| (noticed.contains(&it.name), place(&it.name)));
    others.truncate(DRAWN);
    others.sort_by_key(|mutant| mutant.built());
    let base: String = base.chars().take(12).collect();
    let (few, drawn) = (touched.len(), others.len());
    let why = format!("{few} touched since {base} and not noticed yet, {drawn} that HEAD draws");
    touched.extend(others);
    Ok((touched, why))
}

/// The commit to compare with: the one that is named, where this clone has it. Else the one at which the branch left main,
/// and on main itself some before.
fn base(workspace: &Path, since: Option<&str>) -> io::Result<String> {
    let commit = |name: &str| git(workspace, &["rev-parse", "--verify", "--quiet", name]);
    if let Some(since) = since {
        match commit(&format!("{since}^{{commit}}")) {
            Ok(found) => return Ok(found.trim().to_string()),
            Err(_) => println!("mutants: this clone has no commit {since}"),
        }
    }
    let head = commit("HEAD")?;
    for main in ["main", "origin/main"] {
        match git(workspace, &["merge-base", "HEAD", main]) {
            Ok(left) if left != head => return Ok(left.trim().to_string()),
            _ => {}
        }
    }
    let some = format!("--max-count={}", BEFORE + 1);
    let before = git(workspace, &["rev-list", "--first-parent", &some, "HEAD"])?;
    Ok(before.lines().last().unwrap_or("HEAD").to_string())
}

/// The files that differ from this commit, with those that are not committed.
fn differing(workspace: &Path, base: &str) -> io::Result<BTreeSet<String>> {
    let changed = git(workspace, &["diff", "--name-only", "-z", base])?;
    let new = git(workspace, &["ls-files", "-z", "--others", "--exclude-standard"])?;
    Ok(changed.split('\0').chain(new.split('\0')).map(str::to_string).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_differs_is_told_from_the_named_commit_from_main_or_from_some_before() {
        let folder = std::env::temp_dir().join(format!("spindle-changes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let run = |arguments: &[&str]| git(&folder, arguments).expect("git runs");
        let commit = |file: &str| {
            fs::write(folder.join(file), file).expect("written");
            run(&["add", "."]);
            let by = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            run(&[&by[..], &["commit", "--quiet", "-m", file]].concat());
            run(&["rev-parse", "HEAD"]).trim().to_string()
        };
        run(&["init", "--quiet", "--initial-branch=main"]);
        let first = commit("a");
        let second = commit("b");
        assert_eq!(base(&folder, None).expect("a base"), first, "main has no more");
        assert_eq!(base(&folder, Some(&second)).expect("a base"), second);
        run(&["checkout", "--quiet", "-b", "branch"]);
        commit("c");
        fs::write(folder.join("d"), "").expect("written");
        let left = base(&folder, Some("0000000000")).expect("a base");
        assert_eq!(left, second, "this clone has no such commit");
        let differing = differing(&folder, &left).expect("files");
        assert!(differing.contains("c") && differing.contains("d") && !differing.contains("b"));
        fs::remove_dir_all(folder).expect("removed");
    }
}
