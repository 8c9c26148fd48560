//! A copy of the workspace, to be mutated.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::changes::git;
use crate::checker::{Checker, Outcome};
use crate::mutant::Mutant;

/// The time after which a build and a run together count as hanging, in seconds.
const LIMIT_S: &str = "900";

/// A copy of the sources and what was built of it, always in the same place.
pub struct Sandbox {
    copy: PathBuf,
    target: PathBuf,
}

impl Sandbox {
    /// Opens the copy of this number, and brings it up to date.
    pub fn open(workspace: &Path, index: usize) -> io::Result<Sandbox> {
        let built = target(workspace);
        let place = built.join("mutants").join(index.to_string());
        let sandbox = Sandbox { copy: place.join("copy"), target: place.join("target") };
        update(workspace, &sandbox.copy)?;
        if !sandbox.target.exists() {
            link_built(&built.join("debug"), &sandbox.target.join("debug"))?;
        }
        Ok(sandbox)
    }

    /// Mutates the copy, and runs the checkers until one notices.
    pub fn judge(&self, mutant: &Mutant, checkers: &[Checker]) -> io::Result<Outcome> {
        let files = match mutant.mutated(&self.copy) {
            Ok(files) => files,
            Err(error) => return Ok(Outcome::Broken(error)),
        };
        for file in &files {
            fs::write(self.copy.join(&file.file), &file.after)?;
        }
        let mut outcomes = checkers.iter().map(|checker| self.check(checker));
        let told = outcomes.find(|outcome| !matches!(outcome, Ok(Outcome::NotNoticed)));
        for file in &files {
            fs::write(self.copy.join(&file.file), &file.before)?;
        }
        told.unwrap_or(Ok(Outcome::NotNoticed))
    }

    /// Fails unless a run of the copy as it is succeeds.
    pub fn must_pass(&self, run: &[&str]) -> io::Result<()> {
        let output = self.cargo(run)?;
        if output.status.success() {
            return Ok(());
        }
        let [printed, said] =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
        let run = run.join(" ");
        Err(io::Error::other(format!("without a mutant, `cargo {run}` fails:\n{printed}{said}")))
    }

    fn check(&self, checker: &Checker) -> io::Result<Outcome> {
        let output = self.cargo(&checker.run())?;
        let printed = String::from_utf8_lossy(&output.stdout);
        Ok(match checker.verdict(&printed) {
            Outcome::Broken(printed) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Outcome::Broken(format!("{} ({})\n{printed}{said}", "no verdict", output.status))
            }
            outcome => outcome,
        })
    }

    fn cargo(&self, run: &[&str]) -> io::Result<Output> {
        // With its limit it ends all that it started, too.
        Command::new("timeout")
            .args(["--kill-after=5", LIMIT_S, "cargo"])
            .args(run)
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TERM_COLOR", "never")
            .stdin(Stdio::null())
            .output()
    }
}

/// The folder of what is built.
pub fn target(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

/// Makes the copy equal to the sources; a file that is equal keeps its time, so that it stays built.
fn update(workspace: &Path, copy: &Path) -> io::Result<()> {
    let listed = git(workspace, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut files = BTreeSet::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        // One that is deleted and not committed is listed all the same.
        let Ok(found) = fs::read(workspace.join(name)) else { continue };
        let to = copy.join(name);
        if fs::read(&to).ok().as_ref() != Some(&found) {
            fs::create_dir_all(to.parent().unwrap_or(copy))?;
            fs::write(&to, found)?;
            fs::set_permissions(&to, fs::metadata(workspace.join(name))?.permissions())?;
        }
        files.insert(to);
    }
    remove_others(copy, &files)
}

fn remove_others(folder: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), files)?;
        } else if !files.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Takes over what was built of other people's packages, so that only ours are built once more.
///
/// By links: cargo never writes into a file of a package that is fresh. Ours have the same names in a copy, and cargo
/// writes their fingerprints in place. By a link that would be the original's, which would then count as built.
fn link_built(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for part in ["deps", "build", ".fingerprint"] {
        if from.join(part).is_dir() {
            let status =
                Command::new("cp").arg("-al").arg(from.join(part)).arg(to.join(part)).status()?;
            if !status.success() {
                return Err(io::Error::other(format!("cp -al {}: {status}", from.display())));
            }
        }
    }
    for entry in fs::read_dir(to.join(".fingerprint")).into_iter().flatten() {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("spindle") {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
