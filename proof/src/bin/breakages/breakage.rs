//! One deliberate breakage, and the verdict on it that is kept.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::checker::{Catch, Checker};
use crate::workshop::SOUND;

/// A patch and who may notice it; without a patch, the sources as they are, which nobody may.
#[derive(Debug)]
pub struct Breakage {
    pub name: String,
    pub what: String,
    pub patch: Option<PathBuf>,
    pub checkers: Vec<Checker>,
    text: String,
}

/// The checker that noticed a breakage, its finding, and the sources for which that is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How many checkers looked, the one that noticed included.
    pub checkers: usize,
    /// The hash of the patch and of all that those checkers read.
    pub key: String,
    /// None where nothing is broken and nobody noticed anything.
    pub catch: Option<Catch>,
}

/// The verdicts that are kept, by the names of their breakages.
pub type Verdicts = BTreeMap<String, Verdict>;

impl Breakage {
    pub fn none() -> Breakage {
        Breakage {
            name: "none".into(),
            what: "the sources as they are".into(),
            patch: None,
            checkers: SOUND.to_vec(),
            text: String::new(),
        }
    }

    pub fn read(patch: &Path) -> io::Result<Breakage> {
        let text = fs::read_to_string(patch)?;
        Ok(Breakage {
            name: patch.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            what: text.lines().next().unwrap_or_default().trim_end_matches('.').to_string(),
            patch: Some(patch.to_path_buf()),
            checkers: Checker::for_patch(&text),
            text,
        })
    }

    /// Returns the hash of what the patch changes and of all code that its first `checkers` read.
    /// Comments decide nothing.
    pub fn key(&self, workspace: &Path, checkers: usize) -> io::Result<String> {
        let mut folders: Vec<&str> =
            self.checkers.iter().take(checkers).flat_map(Checker::reads).copied().collect();
        folders.sort_unstable();
        folders.dedup();
        let mut files = Vec::new();
        for folder in folders {
            find(&workspace.join(folder), &mut files)?;
        }
        files.sort();
        files.dedup();
        let mut all = changes(&self.text).into_bytes();
        for file in files {
            let name = file.strip_prefix(workspace).unwrap_or(&file).to_string_lossy().into_owned();
            all.extend_from_slice(name.as_bytes());
            all.extend(code(&fs::read_to_string(&file)?).into_bytes());
        }
        hash(&all)
    }

    /// Returns true if the verdict is about the patch and the sources as they are now.
    pub fn is_about(&self, verdict: &Verdict, workspace: &Path) -> io::Result<bool> {
        Ok(self.key(workspace, verdict.checkers)? == verdict.key)
    }

    /// Returns true if the verdict is right and need not be given again.
    pub fn is_judged_by(&self, verdict: &Verdict, workspace: &Path) -> io::Result<bool> {
        let is_right = verdict.catch.is_some() == self.patch.is_some();
        Ok(is_right && self.is_about(verdict, workspace)?)
    }

    /// Returns a row of the table in `docs/safety.md`.
    pub fn row(&self, catch: Option<&Catch>) -> String {
        let Breakage { name, what, .. } = self;
        match catch {
            Some(Catch { property, after, place }) => {
                format!("| `{name}` | {what} | {property} | {after} | {place} |")
            }
            None => format!("| `{name}` | {what} | nothing | | |"),
        }
    }
}

/// Returns the lines that a patch takes away and adds, and the law that it names.
fn changes(patch: &str) -> String {
    let is_change = |line: &&str| line.starts_with(['+', '-']) || line.starts_with("Law: ");
    patch.lines().filter(is_change).flat_map(|line| [line, "\n"]).collect()
}

/// Returns a source without the lines that are comments.
fn code(source: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    source.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

/// Reads the verdicts that are kept; a line that can't be read counts as none.
pub fn load(file: &Path) -> io::Result<Verdicts> {
    if !file.exists() {
        return Ok(Verdicts::new());
    }
    Ok(fs::read_to_string(file)?.lines().filter_map(parse).collect())
}

/// Keeps the verdicts, a line each.
pub fn save(file: &Path, verdicts: &Verdicts) -> io::Result<()> {
    let lines: String = verdicts
        .iter()
        .map(|(name, Verdict { checkers, key, catch })| {
            let (property, after, place) = match catch {
                Some(Catch { property, after, place }) => (&**property, &**after, &**place),
                None => ("", "", ""),
            };
            format!("{name}\t{checkers}\t{key}\t{property}\t{after}\t{place}\n")
        })
        .collect();
    // In one step: a run that is stopped leaves whole lines.
    let beside = file.with_extension("new");
    fs::write(&beside, lines)?;
    fs::rename(beside, file)
}

fn parse(line: &str) -> Option<(String, Verdict)> {
    let mut cells = line.split('\t');
    let name = cells.next()?.to_string();
    let checkers = cells.next()?.parse().ok()?;
    let key = cells.next()?.to_string();
    let (property, after, place) = (cells.next()?, cells.next()?, cells.next()?);
    let catch = (!property.is_empty()).then(|| Catch {
        property: property.into(),
        after: after.into(),
        place: place.into(),
    });
    Some((name, Verdict { checkers, key, catch }))
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // The judge's own clerk changes no verdict.
        if path.ends_with("bin/breakages") {
            continue;
        }
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn hash(bytes: &[u8]) -> io::Result<String> {
    let mut git = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = git.stdin.take() {
        input.write_all(bytes)?;
    }
    let output = git.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other("git hash-object failed"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
