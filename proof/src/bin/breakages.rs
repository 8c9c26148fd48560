//! Breaks copies of the shipped sources on purpose, one patch at a time, and shows which checker
//! notices, and in how many steps: a checker that lets a broken protocol pass proves nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;

use spindle_proof::run::stopwatch;

/// From the quickest to the most thorough; the first that notices ends the search.
const CHECKERS: [&[&str]; 2] = [&["--quick"], &[]];

const USAGE: &str = "usage: breakages [--only TEXT] [--jobs N]
  --only TEXT  the patches whose names contain TEXT
  --jobs N     so many at once; two by default";

struct Options {
    only: String,
    jobs: usize,
}

/// The rows of the table by the number of their patch, and whether it was noticed.
type Rows = BTreeMap<usize, (String, bool)>;

struct Workshop {
    copy: PathBuf,
    target: PathBuf,
}

/// How a broken copy was noticed.
struct Catch {
    property: String,
    steps: String,
    scenario: String,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("breakages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { only: String::new(), jobs: 2 };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--only" => options.only = arguments.next()?,
            "--jobs" => options.jobs = arguments.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            _ => return None,
        }
    }
    Some(options)
}

fn run(options: &Options) -> io::Result<bool> {
    let began = stopwatch();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let patches = patches(&workspace.join("proof/breakages"), &options.only)?;
    let first = Workshop::open(&workspace, 0)?;
    first.build()?;
    let mut workshops = vec![first];
    for index in 1..options.jobs.min(patches.len()) {
        workshops.push(Workshop::open(&workspace, index)?);
    }
    // The sources as they are come first: a checker that notices something in them is no judge.
    let queue = Mutex::new(iter::once(None).chain(patches.iter().map(Some)).enumerate());
    let rows = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        let workers: Vec<_> =
            workshops.iter().map(|shop| scope.spawn(|| shop.work_off(&queue, &rows))).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker died")))
        })
    })?;
    let rows = rows.into_inner().unwrap_or_default();
    println!("| breakage | noticed as | steps | in |\n|---|---|---|---|");
    let mut caught = 0;
    for (row, noticed) in rows.values() {
        println!("{row}");
        caught += usize::from(*noticed);
    }
    let total = patches.len();
    let sound = rows.get(&0).is_some_and(|(_, noticed)| !noticed);
    let verdict = if sound && caught == total && total > 0 { "ok" } else { "FAILED" };
    println!("breakages: {verdict} caught={caught}/{total} seconds={}", began.elapsed().as_secs());
    Ok(verdict == "ok")
}

fn patches(folder: &Path, only: &str) -> io::Result<Vec<PathBuf>> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let named = path.to_string_lossy().contains(only);
        if named && path.extension().is_some_and(|extension| extension == "patch") {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}

impl Workshop {
    /// A copy of the workspace, always in the same place, so that what was built stays built; what
    /// the first has built, the others need not build again.
    fn open(workspace: &Path, index: usize) -> io::Result<Workshop> {
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
    fn work_off<'a>(
        &self,
        queue: &Mutex<impl Iterator<Item = (usize, Option<&'a PathBuf>)>>,
        rows: &Mutex<Rows>,
    ) -> io::Result<()> {
        loop {
            let next = queue.lock().map_err(|_| io::Error::other("a worker died"))?.next();
            let Some((number, patch)) = next else { return Ok(()) };
            let name = patch.and_then(|patch| patch.file_stem()).map(|name| name.to_string_lossy());
            let name = name.unwrap_or("the sources as they are".into());
            let catch = match patch {
                Some(patch) => self.break_and_check(patch)?,
                None => self.check(CHECKERS[0])?,
            };
            let noticed = catch.is_some();
            let row = match catch {
                Some(Catch { property, steps, scenario }) => {
                    format!("| `{name}` | {property} | {steps} | {scenario} |")
                }
                None => format!("| `{name}` | nothing | | |"),
            };
            eprintln!("{row}");
            let mut rows = rows.lock().map_err(|_| io::Error::other("a worker died"))?;
            rows.insert(number, (row, noticed));
        }
    }

    fn break_and_check(&self, patch: &Path) -> io::Result<Option<Catch>> {
        self.apply(patch, &[])?;
        let mut caught = None;
        for checker in CHECKERS {
            caught = self.check(checker)?;
            if caught.is_some() {
                break;
            }
        }
        self.apply(patch, &["--reverse"])?;
        Ok(caught)
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
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            // Most are noticed at once: what counts is how soon a copy is built.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
            .args(arguments)
            .args(["--release", "--quiet", "-p", "spindle-proof", "--bin", "model"]);
        cargo
    }

    fn build(&self) -> io::Result<()> {
        if self.cargo(&["build"]).status()?.success() {
            return Ok(());
        }
        Err(io::Error::other("the copy of the workspace does not build"))
    }

    /// Runs the model checker in the copy; what it noticed, if it did.
    fn check(&self, options: &[&str]) -> io::Result<Option<Catch>> {
        let output = self.cargo(&["run"]).args(["--", "--first"]).args(options).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let Some(verdict) = printed.lines().find(|line| line.starts_with("model: ")) else {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("the copy does not run:\n{errors}")));
        };
        if verdict.starts_with("model: ok") {
            return Ok(None);
        }
        Ok(Some(noticed(&printed)))
    }
}

/// Reads the first failure off a report.
fn noticed(printed: &str) -> Catch {
    let mut scenario = String::new();
    for line in printed.lines() {
        if let Some((steps, property)) =
            line.strip_prefix("  broken in ").and_then(|rest| rest.split_once(" steps: "))
        {
            return Catch { property: property.into(), steps: steps.into(), scenario };
        }
        if let Some(sight) = line.strip_prefix("  never seen: ") {
            let property = format!("never seen: {sight}");
            return Catch { property, steps: "all".into(), scenario };
        }
        scenario = line.split("transitions=").next().unwrap_or_default().trim().into();
    }
    Catch { property: "?".into(), steps: "?".into(), scenario }
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
