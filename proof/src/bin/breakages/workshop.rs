//! A copy of the workspace, to be broken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::Rows;
use crate::checker::{Catch, Checker};

/// The sources as they are have to pass this.
const SOUND: [Checker; 2] =
    [Checker::Model(&["--quick"]), Checker::Simulation(&["--seconds", "30"])];

pub struct Workshop {
    copy: PathBuf,
    target: PathBuf,
}

impl Workshop {
    /// A copy of the workspace, always in the same place, so that what was built stays built; what
    /// the first has built, the others need not build again.
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

    /// Takes one patch after the other until none is left.
    pub fn work_off<'a>(
        &self,
        queue: &Mutex<impl Iterator<Item = (usize, Option<&'a PathBuf>)>>,
        rows: &Mutex<Rows>,
    ) -> io::Result<()> {
        loop {
            let next = queue.lock().map_err(|_| io::Error::other("a worker died"))?.next();
            let Some((number, patch)) = next else { return Ok(()) };
            let (name, what, catch) = match patch {
                Some(patch) => {
                    let text = fs::read_to_string(patch)?;
                    let name = patch.file_stem().unwrap_or_default().to_string_lossy();
                    let what = text.lines().next().unwrap_or_default().trim_end_matches('.');
                    (name.into_owned(), what.to_string(), self.break_and_check(patch, &text)?)
                }
                None => ("none".into(), "the sources as they are".into(), self.check_all(&SOUND)?),
            };
            let noticed = catch.is_some();
            let row = match catch {
                Some(Catch { property, after, place }) => {
                    format!("| `{name}` | {what} | {property} | {after} | {place} |")
                }
                None => format!("| `{name}` | {what} | nothing | | |"),
            };
            eprintln!("{row}");
            let mut rows = rows.lock().map_err(|_| io::Error::other("a worker died"))?;
            rows.insert(number, (row, noticed));
        }
    }

    fn break_and_check(&self, patch: &Path, text: &str) -> io::Result<Option<Catch>> {
        self.apply(patch, &[])?;
        let caught = self.check_all(&Checker::for_patch(text))?;
        self.apply(patch, &["--reverse"])?;
        Ok(caught)
    }

    /// Runs the checkers until one notices.
    fn check_all(&self, checkers: &[Checker]) -> io::Result<Option<Catch>> {
        for checker in checkers {
            let caught = self.check(*checker)?;
            if caught.is_some() {
                return Ok(caught);
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

    fn cargo(&self, command: &str, checker: Checker) -> Command {
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            // Most are noticed at once: what counts is how soon a copy is built.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
            .arg(command)
            .args(["--release", "--quiet"])
            .args(checker.program());
        cargo
    }

    /// Builds what the sources as they are will be checked with, before others copy it.
    pub fn build(&self) -> io::Result<()> {
        for checker in SOUND {
            if !self.cargo("build", checker).status()?.success() {
                return Err(io::Error::other("the copy of the workspace does not build"));
            }
        }
        Ok(())
    }

    /// Runs a checker in the copy; what it noticed, if it did.
    fn check(&self, checker: Checker) -> io::Result<Option<Catch>> {
        let output = self.cargo("run", checker).arg("--").args(checker.options()).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        checker.verdict(&printed).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("the copy does not run:\n{errors}"))
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
