//! The record of the mutants that were noticed: for each the digest of what it was judged on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fnv::FnvHasher;

use crate::checker::Checker;
use crate::mutant::{LIST, Mutant};
use crate::sandbox;
use crate::sources::Sources;

/// The mutants that were noticed, in a file that no commit has: runs of one target folder share it, and CI keeps it.
///
/// It has one line for each, sorted by name: `NAME DIGEST`.
pub struct Record {
    file: PathBuf,
    /// The digest of each mutant on the sources as they are.
    now: BTreeMap<String, String>,
    /// Held while the file is read and written.
    one_writer: Mutex<()>,
}

impl Record {
    pub fn open(workspace: &Path, mutants: &[Mutant], sources: &Sources) -> io::Result<Record> {
        let digest = |it: &Mutant| Ok((it.name.clone(), digest(workspace, it, sources)?));
        let target = sandbox::target(workspace);
        Ok(Record {
            file: target.join("mutants/judged"),
            now: mutants.iter().map(digest).collect::<io::Result<_>>()?,
            one_writer: Mutex::default(),
        })
    }

    /// Returns the names of those that were noticed on the sources as they are.
    pub fn noticed(&self) -> io::Result<BTreeSet<String>> {
        let mut kept = self.read()?;
        kept.retain(|name, digest| self.now.get(name) == Some(digest));
        Ok(kept.into_keys().collect())
    }

    /// Keeps a verdict at once, so that a run that is stopped keeps those that it had.
    ///
    /// Reads the file anew each time, because another run or a merge may have written it.
    pub fn keep(&self, mutant: &Mutant, is_noticed: bool) -> io::Result<()> {
        let _alone = self.one_writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = self.read()?;
        kept.retain(|name, _| self.now.contains_key(name) && *name != mutant.name);
        if is_noticed {
            kept.insert(mutant.name.clone(), self.now[&mutant.name].clone());
        }
        let line = |(name, digest): (String, String)| format!("{name} {digest}\n");
        let lines: String = kept.into_iter().map(line).collect();
        // A run that is stopped here leaves a whole file.
        fs::create_dir_all(self.file.parent().unwrap_or(&self.file))?;
        let new = self.file.with_extension("new");
        fs::write(&new, lines)?;
        fs::rename(&new, &self.file)
    }

    fn read(&self) -> io::Result<BTreeMap<String, String>> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs.map(|(name, digest)| (name.to_string(), digest.to_string())).collect())
    }
}

/// Returns what a mutant is judged on: its own file, those that it edits, and its first checker's.
pub fn judged_on(mutant: &Mutant, sources: &Sources) -> io::Result<BTreeSet<String>> {
    let checkers = Checker::all_for(mutant, sources)?;
    let checks = |file: &&str| checkers.first().is_some_and(|checker| checker.is_in(file));
    let own = format!("{LIST}/{}.toml", mutant.name);
    let edited = mutant.edits.iter().map(|edit| edit.file.clone());
    Ok(sources.files().filter(checks).map(str::to_string).chain(edited).chain([own]).collect())
}

/// Returns the digest of all that a mutant is judged on.
///
/// FNV-1a never changes, so the record is good for any version of Rust.
fn digest(workspace: &Path, mutant: &Mutant, sources: &Sources) -> io::Result<String> {
    let mut hasher = FnvHasher::default();
    for file in judged_on(mutant, sources)? {
        for part in [file.as_bytes(), &fs::read(workspace.join(&file))?] {
            hasher.write(part);
            hasher.write(&[0]);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant;

    fn record(file: PathBuf, digest: &str) -> Record {
        let now = ["a", "b"].map(|name| (name.to_string(), digest.to_string())).into();
        Record { file, now, one_writer: Mutex::default() }
    }

    fn mutant(name: &str) -> Mutant {
        Mutant { name: name.into(), what: String::new(), test: None, edits: Vec::new() }
    }

    #[test]
    fn a_verdict_is_good_until_what_it_was_judged_on_changes_or_it_is_not_noticed() {
        let folder = std::env::temp_dir().join(format!("spindle-record-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("judged");
        let noticed = |record: &Record| Vec::from_iter(record.noticed().expect("the record"));
        let before = record(file.clone(), "1");
        assert!(noticed(&before).is_empty());
        before.keep(&mutant("b"), true).expect("kept");
        before.keep(&mutant("a"), true).expect("kept");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "a 1\nb 1\n");
        before.keep(&mutant("b"), false).expect("kept");
        assert_eq!(noticed(&before), ["a"]);
        let after = record(file, "2");
        assert!(noticed(&after).is_empty());
        after.keep(&mutant("b"), true).expect("kept");
        assert_eq!(noticed(&after), ["b"]);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn the_digest_of_a_mutant_changes_with_its_test_and_with_nothing_else_of_its_package() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = Sources::read(&workspace).expect("the sources");
        let mutants = mutant::read_all(&workspace).expect("the mutants");
        let tested = mutants.iter().find(|it| it.test.is_some()).expect("one with a test");
        let test = sources.test(tested).expect("its test");
        let copy = std::env::temp_dir().join(format!("spindle-digest-{}", std::process::id()));
        let edited = tested.edits.iter().map(|edit| edit.file.clone());
        for file in edited.chain([test.file.clone(), format!("{LIST}/{}.toml", tested.name)]) {
            fs::create_dir_all(copy.join(&file).parent().expect("a folder")).expect("made");
            fs::copy(workspace.join(&file), copy.join(&file)).expect("copied");
        }
        let at = |place: &Path| digest(place, tested, &sources).expect("a digest");
        assert_eq!(at(&copy), at(&workspace), "the place and all other files make no difference");
        fs::write(copy.join(test.file), "another").expect("written");
        assert_ne!(at(&copy), at(&workspace));
        fs::remove_dir_all(copy).expect("removed");
    }
}
