//! The solvers: Python modules, each in a process of its own.

use std::collections::HashMap;
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
    /// Its version.
    pub version: String,
}

/// An answer to one query.
pub struct Answer {
    /// `sat`, `unsat`, `unknown` or an error, and what follows.
    pub said: String,
    /// How long it took.
    pub milliseconds: u64,
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

    /// Asks all of these; the answers come by the names of the queries.
    pub fn answers(&self, queries: &[Query]) -> io::Result<HashMap<String, Answer>> {
        self.ask(queries.iter().map(std::slice::from_ref))
    }

    /// Asks each of these groups until a query of it has a model; returns that query and the answer.
    pub fn models<'q>(
        &self,
        groups: &'q [Vec<Query>],
    ) -> io::Result<Vec<Option<(&'q Query, String)>>> {
        let answers = self.ask(groups.iter().map(Vec::as_slice))?;
        let model = |query: &'q Query| {
            let answer = answers.get(&query.name)?;
            answer.said.starts_with("sat").then(|| (query, answer.said.clone()))
        };
        Ok(groups.iter().map(|group| group.iter().find_map(model)).collect())
    }

    fn ask<'q>(
        &self,
        groups: impl Iterator<Item = &'q [Query]>,
    ) -> io::Result<HashMap<String, Answer>> {
        let folder = PathBuf::from("target/prove").join(self.name);
        fs::create_dir_all(&folder)?;
        let mut paths = String::new();
        let mut names = HashMap::new();
        for group in groups {
            for query in group {
                let path = folder.join(query.name.replace('/', "-") + ".smt2");
                fs::write(&path, &query.text)?;
                paths += &format!("{} ", path.display());
                names.insert(path.display().to_string(), query.name.clone());
            }
            paths += "\n";
        }
        let said = ask(self.name, &paths)?;
        let answers = said.lines().filter_map(|line| {
            let [path, milliseconds, said] = line.split('\t').collect::<Vec<_>>()[..] else {
                return None;
            };
            let answer = Answer { said: said.into(), milliseconds: milliseconds.parse().ok()? };
            Some((names.get(path)?.clone(), answer))
        });
        Ok(answers.collect())
    }

    /// Returns the queries whose answer is not as wanted; `unknown` is none that is.
    pub fn failures(&self, queries: &[Query]) -> io::Result<Vec<String>> {
        let answers = self.answers(queries)?;
        let failures = queries.iter().filter_map(|query| match answers.get(&query.name) {
            Some(answer) if answer.said == query.wanted => None,
            Some(answer) => {
                Some(format!("{}: {} after {} ms", query.name, answer.said, answer.milliseconds))
            }
            None => Some(format!("{}: no answer", query.name)),
        });
        Ok(failures.collect())
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
