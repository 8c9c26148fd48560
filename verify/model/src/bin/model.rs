//! Explores every scenario, prints what was found, and exits by the verdict.

use std::process::ExitCode;
use std::time::Duration;

use spindle_model::rank::RankModel;
use spindle_model::run::{Limits, Report, check, explore, stopwatch};
use spindle_model::rw::{self, RwModel};
use spindle_model::scenarios;
use spindle_model::shard::ShardModel;

const USAGE: &str = "usage: model [--quick | --long] [--only NAME] [--first] [--seconds N] [--states N] [--threads N]
  --quick      one fault at most
  --long       further than CI has time for
  --only NAME  one scenario
  --first      stop at the first scenario that fails
  --seconds N  stop after so long, wherever it is
  --states N   stop each scenario after so many distinct states, roughly
  --threads N  two by default; one finds the shortest counterexample";

/// A scenario of either kind, to be explored.
struct Exploration(&'static str, Box<dyn Fn(Limits) -> Report>);

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
    let (locks, shared) = match (options.quick, options.long) {
        (true, _) => (scenarios::quick(), rw::quick()),
        (_, true) => (scenarios::long(), rw::long()),
        _ => (scenarios::short(), rw::short()),
    };
    let explorations = locks.into_iter().map(|scenario| {
        Exploration(scenario.name, Box::new(move |limits| explore(&scenario, limits)))
    });
    let shard = if options.quick { ShardModel::quick() } else { ShardModel::short() };
    let name = shard.scenario.name;
    let shards = Exploration(name, Box::new(move |limits| check(name, shard.clone(), limits)));
    let ranks = if options.quick { RankModel::quick() } else { RankModel::short() };
    let ranks = ranks.into_iter().map(|model| {
        let name = model.scenario.name;
        Exploration(name, Box::new(move |limits| check(name, model.clone(), limits)))
    });
    let shared = shared.into_iter().map(|scenario| {
        let model = RwModel { scenario };
        let name = model.scenario.name;
        Exploration(name, Box::new(move |limits| check(name, model.clone(), limits)))
    });
    let began = stopwatch();
    let (mut states, mut depth, mut failed, mut explored) = (0, 0, 0, 0);
    for Exploration(name, explore) in explorations.chain([shards]).chain(ranks).chain(shared) {
        if options.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let left = options.seconds.map(|seconds| {
            Duration::from_secs(seconds).saturating_sub(began.elapsed()).max(Duration::from_secs(1))
        });
        let threads = options.threads.unwrap_or(2);
        let report = explore(Limits { time: left, states: options.states, threads });
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
