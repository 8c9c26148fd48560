//! A copy of the workspace, to be broken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::breakage::Breakage;
use crate::checker::{Catch, Checker};

/// The sources as they are have to pass this.
pub const SOUND: [Checker; 2] =
    [Checker::Model(&["--quick"]), Checker::Simulation(&["--seconds", "30"])];

pub struct Workshop {
    copy: PathBuf,
    target: PathBuf,
}

impl Workshop {
    /// Opens a copy of the workspace, always in the same place, so that what was built stays built.
    /// The others need not build again what the first has built.
    pub fn open(workspace: &Path, index: usize) -> io::Result<Workshop> {
        let place = workspace.join("target/breakages");
        let copy = place.join(format!("{index}/copy"));
        let target = place.join(format!("{index}/target"));
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        copy_folder(workspace, &copy)?;
        if !target.exists() && index > 0 {
            // With the times of the files, by which cargo knows what is fresh.
            Command::new("cp").arg("-a").arg(place.join("0/target")).arg(&target).status()?;
        }
        Ok(Workshop { copy, target })
    }

    /// Breaks the copy with a patch and lets its checkers look; who noticed, and what.
    pub fn judge(&self, breakage: &Breakage) -> io::Result<Option<(usize, Catch)>> {
        if let Some(patch) = &breakage.patch {
            self.apply(patch, &[])?;
        }
        let caught = self.check_all(&breakage.checkers);
        if let Some(patch) = &breakage.patch {
            self.apply(patch, &["--reverse"])?;
        }
        caught
    }

    /// Runs the checkers until one notices.
    fn check_all(&self, checkers: &[Checker]) -> io::Result<Option<(usize, Catch)>> {
        for (index, checker) in checkers.iter().enumerate() {
            if let Some(catch) = self.check(checker)? {
                return Ok(Some((index, catch)));
            }
        }
        Ok(None)
    }

    fn apply(&self, patch: &Path, options: &[&str]) -> io::Result<()> {
        // Away from the workspace's own repository, which would take the paths for its own.
        let status = Command::new("git")
            .env("GIT_CEILING_DIRECTORIES", self.copy.parent().unwrap_or(&self.copy))
            .current_dir(&self.copy)
            .arg("apply")
            .args(options)
            .arg(patch)
            .status()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("{} does not apply any more", patch.display())))
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let (command, others) = arguments.split_at(1);
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            // Most are noticed at once: what counts is how soon a copy is built.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
            .args(command)
            .args(["--release", "--quiet"])
            .args(others);
        cargo
    }

    /// Builds what the sources as they are will be checked with, before others copy it.
    pub fn build(&self) -> io::Result<()> {
        for checker in SOUND {
            if !self.cargo(&checker.build()).status()?.success() {
                return Err(io::Error::other("the copy of the workspace does not build"));
            }
        }
        Ok(())
    }

    /// Runs a checker in the copy; what it noticed, if it did.
    fn check(&self, checker: &Checker) -> io::Result<Option<Catch>> {
        let output = self.cargo(&checker.run()).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        checker.verdict(&printed).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("the copy does not run:\n{printed}\n{errors}"))
        })
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to.join(name))?;
        } else {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
