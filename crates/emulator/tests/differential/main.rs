//! The embedded Spanner beside Google's emulator: both get the same calls, and rows, types and codes
//! are compared.
//!
//! ```text
//! cargo test --test differential -- --seed 1 --cases 4000     # the same cases each time
//! cargo test --test differential -- --seed 7 --seconds 3600   # as many as the time takes
//! cargo test --test differential -- --file FILE               # calls of a file, as in calls.txt
//! cargo test --test differential -- --record FILE             # and writes both answers into it
//! ```
//!
//! Without options it does nothing, and where Google's emulator isn't installed it says so. A
//! disagreement is shown in the smallest case that still has it; it can be copied to `calls.txt`.

mod answer;
mod generate;
mod google;
mod known;
mod random;
mod scripts;
mod side;
mod tables;
mod tree;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use answer::{Answer, Verdict};
use generate::Generator;
use google::Google;
use known::Known;
use scripts::Scripts;
use side::Side;
use spindle_emulator::Emulator;
use tree::Tree;

/// So many disagreements are shown before the rest is only counted.
const SHOWN: usize = 40;
/// So many smaller cases are tried for each.
const SMALLER: usize = 80;

type Result<T> = std::result::Result<T, String>;

#[derive(Default)]
struct Options {
    seed: u64,
    cases: Option<u64>,
    time: Option<Duration>,
    file: Option<String>,
    record: Option<String>,
}

fn options() -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1).peekable();
    // Otherwise it is `cargo test` with options of its own.
    if !arguments.peek().is_some_and(|it| ["--seed", "--file", "--record"].contains(&it.as_str())) {
        return Ok(None);
    }
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse().map_err(|error| format!("{name} {value}: {error}"));
        match name.as_str() {
            "--seed" => options.seed = number()?,
            "--cases" => options.cases = Some(number()?),
            "--seconds" => options.time = Some(Duration::from_secs(number()?)),
            "--file" => options.file = Some(value),
            "--record" => options.record = Some(value),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(Some(options))
}

/// Where a case runs.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In the database with the tables of `tables.rs`, where it leaves nothing.
    Tables,
    /// In a new database.
    New,
}

/// A difference between the answers to one call of a case.
struct Difference {
    verdict: Verdict,
    call: String,
    google: Answer,
    ours: Answer,
}

/// Both servers, and how their answers compare so far.
struct Pair {
    google: Side,
    ours: Side,
    known: Known,
    /// By verb.
    counts: BTreeMap<(String, Verdict), u64>,
    databases: u64,
    shown: usize,
    /// The calls of the case and the answers to them, as `calls.txt` has them.
    recording: String,
}

impl Pair {
    async fn start(google: &Google, emulator: &Emulator) -> Result<Pair> {
        let mut pair = Pair {
            google: Side::connect(google.endpoint.clone()).await?,
            ours: Side::connect(emulator.endpoint()).await?,
            known: Known::read()?,
            counts: BTreeMap::new(),
            databases: 0,
            shown: 0,
            recording: String::new(),
        };
        for side in [&mut pair.google, &mut pair.ours] {
            side.enter_new("tables").await.map_err(|status| status.to_string())?;
            for call in tables::calls() {
                let answer = side.answer(&call).await;
                if answer.code != tonic::Code::Ok {
                    return Err(format!("{call}: {answer}"));
                }
            }
            side.leave(false).await.map_err(|status| status.to_string())?;
        }
        Ok(pair)
    }

    /// Runs a case up to the first disagreement, and shows it in the smallest case that has it.
    async fn judge(&mut self, place: Place, case: Vec<Tree>) -> Result<()> {
        let Some(found) = self.run(place, &case, true).await? else { return Ok(()) };
        self.shown += 1;
        if self.shown > SHOWN {
            return Ok(());
        }
        let (mut smallest, mut difference, mut tried) = (case, found, 0);
        'smaller: loop {
            for candidate in smaller(&smallest) {
                tried += 1;
                if tried > SMALLER {
                    break 'smaller;
                }
                if let Some(found) = self.run(place, &candidate, false).await?
                    && found.verdict == difference.verdict
                {
                    (smallest, difference) = (candidate, found);
                    continue 'smaller;
                }
            }
            break;
        }
        let Difference { verdict, call, google, ours } = difference;
        println!("\n{verdict:?}:");
        for call in &smallest {
            println!("{}", call.text());
        }
        println!("-- at {call}\n-- Google: {google:.600}\n-- ours:   {ours:.600}");
        Ok(())
    }

    /// Runs a case up to the first disagreement.
    async fn run(
        &mut self,
        place: Place,
        case: &[Tree],
        counts: bool,
    ) -> Result<Option<Difference>> {
        self.databases += 1;
        let name = format!("d{}", self.databases);
        for side in [&mut self.google, &mut self.ours] {
            let entered = match place {
                Place::Tables => side.enter("tables").await,
                Place::New => side.enter_new(&name).await,
            };
            entered.map_err(|status| format!("enter {name}: {status}"))?;
        }
        let mut found = None;
        let mut refused = BTreeSet::new();
        for call in case {
            let call = call.text();
            let answers = tokio::join!(self.google.answer(&call), self.ours.answer(&call));
            let (mut google, ours) = answers;
            // The refusal of a call before, in the same transaction.
            let transaction = call.split(' ').next().and_then(|verb| verb.split_once('@'));
            if let Some((_, name)) = transaction
                && !google.message.is_empty()
                && !refused.insert((name.to_owned(), google.message.clone()))
            {
                google.message.push_str(" (again)");
            }
            let in_order = answer::in_order(&call);
            let mut verdict = ours.against(&google, in_order);
            if counts {
                self.recording.push_str(&answer::recorded(&call, &google, &ours));
            }
            if verdict >= Verdict::WrongValue
                && let Some(reason) = self.known.reason(&call, &google, &ours)
            {
                verdict = Verdict::Known;
                if counts {
                    *self.known.1.entry(reason).or_default() += 1;
                }
            }
            if counts {
                let verb = call.split([' ', '@']).next().unwrap_or_default().to_owned();
                *self.counts.entry((verb, verdict)).or_default() += 1;
            }
            // Behind a difference the two are no longer in the same state.
            let leaves_nothing = ["sql ", "read ", "schema"].iter().any(|it| call.starts_with(it));
            // Of a batch that ends in different ways, different statements are carried out.
            let differs = (google.code == tonic::Code::Ok) != (ours.code == tonic::Code::Ok)
                || call.starts_with("batch") && google.code != ours.code;
            let differs = differs && !leaves_nothing;
            if verdict >= Verdict::WrongValue {
                found = Some(Difference { verdict, call, google, ours });
                break;
            } else if differs {
                break;
            }
        }
        for side in [&mut self.google, &mut self.ours] {
            if place == Place::Tables && case.len() > 1 {
                side.answer("session own").await;
                side.answer("ddl DROP TABLE k").await;
            }
            let left = side.leave(place == Place::New).await;
            left.map_err(|status| format!("leave {name}: {status}"))?;
        }
        Ok(found)
    }

    fn report(&self) -> bool {
        println!("\ndifferential: calls by verb, and how the answers compare");
        for ((verb, verdict), count) in &self.counts {
            println!("  {verb:10} {verdict:?}: {count}");
        }
        println!("differential: known differences");
        for (reason, count) in &self.known.1 {
            println!("  {count:6} {reason}");
        }
        let of = |wanted: fn(Verdict) -> bool| {
            let counts = self.counts.iter().filter(|((_, verdict), _)| wanted(*verdict));
            counts.map(|(_, count)| count).sum::<u64>()
        };
        let calls = of(|_| true);
        let same = of(|verdict| verdict < Verdict::Known);
        let known = of(|verdict| verdict == Verdict::Known);
        let wrong = calls - same - known;
        let result = if wrong == 0 { "ok" } else { "FAILED" };
        println!("differential: {result} calls={calls} same={same} known={known} wrong={wrong}");
        wrong == 0
    }
}

/// Cases with one call less, or with a smaller one.
fn smaller(case: &[Tree]) -> Vec<Vec<Tree>> {
    let mut found = Vec::new();
    if case.len() > 1 {
        for place in (0..case.len()).rev() {
            let mut without = case.to_vec();
            without.remove(place);
            found.push(without);
        }
    }
    for (place, call) in case.iter().enumerate() {
        found.extend(call.smaller().into_iter().map(|call| {
            let mut with = case.to_vec();
            with[place] = call;
            with
        }));
    }
    found
}

/// The cases of a text: calls line by line, with an empty line between two cases. Answers are left out.
fn cases(text: &str) -> Vec<Vec<Tree>> {
    let cases = text.split("\n\n").map(|case| {
        let calls =
            case.lines().filter(|line| !line.is_empty() && !line.starts_with(['-', '=', '!']));
        calls.map(Tree::leaf).collect::<Vec<_>>()
    });
    cases.filter(|case| !case.is_empty()).collect()
}

/// Writes the answers of both servers to the calls of a file into it.
async fn record(pair: &mut Pair, file: &str) -> Result<bool> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let mut recorded = Vec::new();
    for case in text.split("\n\n") {
        let comments = case.lines().filter(|line| line.starts_with("--"));
        let mut lines: Vec<String> = comments.map(str::to_owned).collect();
        for calls in cases(case) {
            pair.recording.clear();
            pair.judge(Place::New, calls.clone()).await?;
            let written = std::mem::take(&mut pair.recording);
            lines.extend(written.lines().map(str::to_owned));
            // Behind a difference nothing was asked.
            let calls = calls.iter().map(Tree::text).filter(|call| !lines.contains(call));
            for call in calls.collect::<Vec<_>>() {
                println!("not asked: {call}");
                lines.push(call);
            }
        }
        recorded.push(lines.join("\n"));
    }
    let recorded = recorded.join("\n\n") + "\n";
    std::fs::write(file, recorded).map_err(|error| format!("{file}: {error}"))?;
    Ok(pair.report())
}

async fn compare(options: &Options, google: &Google) -> Result<bool> {
    let emulator = Emulator::start().await.map_err(|error| error.to_string())?;
    let mut pair = Pair::start(google, &emulator).await?;
    if let Some(file) = &options.file {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        for case in cases(&text) {
            let sets_up = case.iter().any(|call| call.text().starts_with("ddl"));
            pair.judge(if sets_up { Place::New } else { Place::Tables }, case).await?;
        }
        return Ok(pair.report());
    }
    if let Some(file) = &options.record {
        return record(&mut pair, file).await;
    }
    for statement in include_str!("statements.sql").lines().filter(|line| !line.starts_with("--")) {
        pair.judge(Place::Tables, vec![Tree::leaf(format!("sql {statement}"))]).await?;
    }
    // A short run leaves them to `tests/wire/recorded.rs`.
    let recorded = if options.cases.is_none() { include_str!("calls.txt") } else { "" };
    for case in cases(recorded) {
        pair.judge(Place::New, case).await?;
    }
    #[allow(clippy::disallowed_methods, reason = "it bounds a run")]
    let start = Instant::now();
    let (mut generator, mut scripts) = (Generator::new(options.seed), Scripts::new(options.seed));
    for case in 0..options.cases.unwrap_or(u64::MAX) {
        if options.time.is_some_and(|time| start.elapsed() >= time) {
            break;
        }
        match case % 8 {
            0 => pair.judge(Place::New, scripts.case()).await?,
            _ => pair.judge(Place::Tables, generator.case()).await?,
        }
    }
    println!("seed {}, {} s", options.seed, start.elapsed().as_secs());
    Ok(pair.report())
}

fn run() -> Result<bool> {
    let Some(options) = options()? else {
        println!("differential: not asked for; `-- --seed 1 --cases 4000` runs it");
        return Ok(true);
    };
    let Some(program) = Google::program() else {
        let skip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/skip");
        let part = ["differential", "emulator_main of Google's emulator"];
        let told = Command::new(skip).args(part).status().map_err(|error| error.to_string())?;
        return Ok(told.success());
    };
    let google = Google::start(&program)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(compare(&options, &google))
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}
