//! The solvers: Python modules, each in a process of its own.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::queries::Query;

/// The versions with which the proof is known to pass.
const PINNED: &str = include_str!("../solvers.txt");

/// How long one query may take. It takes a few seconds, and more on a busy machine.
const LIMIT_MS: &str = "100000";

/// A solver that is installed.
pub struct Solver {
    /// The name of its module.
    pub name: &'static str,
    pub version: String,
}

impl Solver {
    /// Returns the solver, if Python and its module are installed.
    pub fn find(name: &'static str) -> io::Result<Option<Solver>> {
        let said = match ask(name, "") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            said => said?,
        };
        let version = said.lines().next().and_then(|line| line.strip_prefix("version "));
        Ok(version.map(|version| Solver { name, version: version.into() }))
    }

    /// Returns true if this is the version with which the proof is known to pass.
    pub fn is_pinned(&self) -> bool {
        let suffix = format!("=={}", self.version);
        PINNED.lines().any(|line| line.starts_with(self.name) && line.ends_with(&suffix))
    }

    /// Returns the answers in the order of the queries: `sat`, `unsat`, `unknown` or an error, and
    /// what follows. A solver that ends early answers fewer.
    pub fn answers(&self, queries: &[Query]) -> io::Result<Vec<String>> {
        let folder = PathBuf::from("target/prove").join(self.name);
        fs::create_dir_all(&folder)?;
        let mut paths = String::new();
        for query in queries {
            for (number, text) in query.texts.iter().enumerate() {
                let name = format!("{}-{number}.smt2", query.name.replace('/', "-"));
                fs::write(folder.join(&name), text)?;
                paths += &format!("{} ", folder.join(name).display());
            }
            paths += "\n";
        }
        let said = ask(self.name, &paths)?;
        Ok(said.lines().skip(1).map(String::from).collect())
    }
}

fn ask(solver: &str, paths: &str) -> io::Result<String> {
    let mut python = Command::new("python3")
        .args(["-c", include_str!("ask.py"), solver, LIMIT_MS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (stdin, paths) = (python.stdin.take(), paths.to_string());
    // From a thread of its own, since both pipes are bounded.
    let writer = std::thread::spawn(move || {
        stdin.map_or(Ok(()), |mut stdin| stdin.write_all(paths.as_bytes()))
    });
    let output = python.wait_with_output()?;
    // A solver that ended early has said less than it was asked, which counts as unknown.
    drop(writer.join());
    Ok(String::from_utf8_lossy(&output.stdout).into())
}
