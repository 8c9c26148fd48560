//! Asks Google's GoogleSQL and the emulator the same questions and shows where they disagree.
//!
//! `--seconds N` or `--statements N` statements are generated from `--seed S`; `--file F` asks what
//! stands in a file, a statement a line. The exit code is 1 if there was a disagreement.

mod answer;
mod exceptions;
mod generate;
mod google;
mod ours;
mod random;
mod tree;

#[path = "../../src/engine/mod.rs"]
#[allow(dead_code, unused_imports)]
pub mod engine;
#[path = "../../src/sql/mod.rs"]
#[allow(dead_code, unused_imports)]
pub mod sql;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use answer::{Answer, Verdict, verdict};
use exceptions::Exceptions;
use generate::Generator;
use google::Google;
use ours::Ours;
use tree::Tree;

/// How many statements are asked at once: Google's side answers in order.
const BATCH: usize = 64;
/// So many disagreements are shown before the rest is only counted.
const SHOWN: usize = 40;

struct Options {
    seed: u64,
    time: Option<Duration>,
    statements: u64,
    file: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seed: 1, time: None, statements: u64::MAX, file: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--seed" => options.seed = number()?,
            "--seconds" => options.time = Some(Duration::from_secs(number()?)),
            "--statements" => options.statements = number()?,
            "--file" => options.file = Some(value),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

/// The statements asked so far, and how the answers compare.
struct Session {
    google: Google,
    ours: Ours,
    exceptions: Exceptions,
    counts: BTreeMap<Verdict, u64>,
    excepted: BTreeMap<String, u64>,
    unsupported: BTreeMap<String, u64>,
    shown: usize,
}

impl Session {
    fn ask(&mut self, statements: &[Tree]) -> Result<(), String> {
        let texts: Vec<String> = statements.iter().map(Tree::text).collect();
        let answers = self.google.ask(&texts)?;
        for ((tree, text), google) in statements.iter().zip(&texts).zip(answers) {
            let ours = self.ours.ask(text);
            let mut found = verdict(text, &google, &ours);
            if let Answer::Unsupported(construct) = &ours {
                *self.unsupported.entry(construct.clone()).or_default() += 1;
            }
            if found.is_disagreement()
                && let Some(reason) = self.exceptions.reason(text, &google, &ours)
            {
                *self.excepted.entry(reason).or_default() += 1;
                found = Verdict::Excepted;
            }
            *self.counts.entry(found).or_default() += 1;
            if found.is_disagreement() && self.shown < SHOWN {
                self.shown += 1;
                self.show(tree, found)?;
            }
        }
        Ok(())
    }

    /// Shows a disagreement in the smallest statement that still has it.
    fn show(&mut self, tree: &Tree, found: Verdict) -> Result<(), String> {
        let mut smallest = tree.clone();
        'smaller: loop {
            for candidate in smallest.smaller() {
                if self.judge(&candidate.text())?.0 == found {
                    smallest = candidate;
                    continue 'smaller;
                }
            }
            break;
        }
        let text = smallest.text();
        let (_, google, ours) = self.judge(&text)?;
        println!("{found:?}: {text}\n  Google: {google}\n  ours:   {ours}");
        Ok(())
    }

    fn judge(&mut self, text: &str) -> Result<(Verdict, Answer, Answer), String> {
        let google = self.google.ask(&[text.to_owned()])?.remove(0);
        let ours = self.ours.ask(text);
        let mut found = verdict(text, &google, &ours);
        if found.is_disagreement() && self.exceptions.reason(text, &google, &ours).is_some() {
            found = Verdict::Excepted;
        }
        Ok((found, google, ours))
    }

    fn report(&self) -> bool {
        println!("statements: {}", self.counts.values().sum::<u64>());
        for (verdict, count) in &self.counts {
            println!("  {verdict:?}: {count}");
        }
        for (reason, count) in &self.excepted {
            println!("  excepted: {count} {reason}");
        }
        for (construct, count) in &self.unsupported {
            println!("  unsupported: {count} {construct}");
        }
        println!("crashes of Google's side: {}", self.google.crashes);
        !self.counts.keys().any(|verdict| verdict.is_disagreement())
    }
}

fn run() -> Result<bool, String> {
    let options = options()?;
    let mut session = Session {
        google: Google::start()?,
        ours: Ours::new()?,
        exceptions: Exceptions::read()?,
        counts: BTreeMap::new(),
        excepted: BTreeMap::new(),
        unsupported: BTreeMap::new(),
        shown: 0,
    };
    if let Some(file) = &options.file {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
        let statements: Vec<Tree> = lines.map(Tree::leaf).collect();
        for batch in statements.chunks(BATCH) {
            session.ask(batch)?;
        }
        return Ok(session.report());
    }
    let start = Instant::now();
    let mut left = options.statements;
    let mut generator = Generator::new(options.seed);
    while left > 0 && options.time.is_none_or(|time| start.elapsed() < time) {
        let batch: Vec<Tree> = (0..left.min(BATCH as u64)).map(|_| generator.statement()).collect();
        left -= batch.len() as u64;
        session.ask(&batch)?;
    }
    println!("seed {}, {} s", options.seed, start.elapsed().as_secs());
    Ok(session.report())
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("oracle: {error}");
            std::process::ExitCode::from(2)
        }
    }
}
