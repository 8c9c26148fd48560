//! Explores every scenario, prints what was found, and exits by the verdict.

use std::process::ExitCode;
use std::time::Duration;

use spindle_proof::run::{Limits, check, explore, stopwatch};
use spindle_proof::scenarios;
use spindle_proof::shard::ShardModel;

const USAGE: &str = "usage: model [--quick | --long] [--only NAME] [--first] [--seconds N] [--states N] [--threads N]
  --quick      one fault at most
  --long       further than CI has time for
  --only NAME  one scenario
  --first      stop at the first scenario that fails
  --seconds N  stop after so long, wherever it is
  --states N   stop each scenario after so many distinct states, roughly
  --threads N  two by default; one finds the shortest counterexample";

#[derive(Default)]
struct Options {
    quick: bool,
    long: bool,
    first: bool,
    only: Option<String>,
    seconds: Option<u64>,
    states: Option<usize>,
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let scenarios = match (options.quick, options.long) {
        (true, _) => scenarios::quick(),
        (_, true) => scenarios::long(),
        _ => scenarios::short(),
    };
    let began = stopwatch();
    let (mut states, mut depth, mut failed, mut explored) = (0, 0, 0, 0);
    let shard = if options.quick { ShardModel::quick() } else { ShardModel::short() };
    let locks = scenarios.into_iter().map(|scenario| (scenario, None));
    for (scenario, shard) in locks.chain([(shard.scenario.clone(), Some(shard))]) {
        if options.only.as_ref().is_some_and(|only| only != scenario.name) {
            continue;
        }
        let left = options.seconds.map(|seconds| {
            Duration::from_secs(seconds).saturating_sub(began.elapsed()).max(Duration::from_secs(1))
        });
        let threads = options.threads.unwrap_or(2);
        let limits = Limits { time: left, states: options.states, threads };
        let report = match shard {
            Some(shard) => check(scenario.name, shard, limits),
            None => explore(&scenario, limits),
        };
        println!("{report}");
        explored += 1;
        states += report.states;
        depth = depth.max(report.depth);
        if !report.failures.is_empty() {
            failed += 1;
            if options.first {
                break;
            }
        }
    }
    let verdict = if failed == 0 && explored > 0 { "ok" } else { "FAILED" };
    println!(
        "model: {verdict} states={states} depth={depth} seconds={}",
        began.elapsed().as_secs()
    );
    if verdict == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--long" => options.long = true,
            "--first" => options.first = true,
            "--only" => options.only = Some(arguments.next()?),
            "--seconds" => options.seconds = Some(arguments.next()?.parse().ok()?),
            "--states" => options.states = Some(arguments.next()?.parse().ok()?),
            "--threads" => options.threads = Some(arguments.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some(options)
}
