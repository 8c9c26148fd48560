//! Explores every scenario, prints what was found, and exits by the verdict.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use spindle_model::line::LineModel;
use spindle_model::permits::PermitModel;
use spindle_model::run::{Limits, Report, check, check_broken, explore, stopwatch};
use spindle_model::rw::{self, RwModel};
use spindle_model::scenarios;
use spindle_model::shard::ShardModel;

/// A scenario of either kind, to be explored.
struct Exploration(&'static str, Box<dyn Fn(Limits) -> Report>);

/// Explores every scenario, prints what was found, and exits by the verdict.
#[derive(Parser)]
struct Options {
    /// Allows one fault at most.
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// Goes further than the gate has time for.
    #[arg(long)]
    long: bool,
    /// Explores one scenario.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Stops at the first scenario that fails.
    #[arg(long)]
    first: bool,
    /// Stops after so long, wherever it is.
    #[arg(long)]
    seconds: Option<u64>,
    /// Stops each scenario after about so many distinct states.
    #[arg(long)]
    states: Option<usize>,
    /// One thread finds the shortest counterexample.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
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
    let shared = shared.into_iter().map(|scenario| {
        let model = RwModel { scenario };
        let name = model.scenario.name;
        Exploration(name, Box::new(move |limits| check(name, model.clone(), limits)))
    });
    let broken = rw::broken().into_iter().map(|scenario| {
        let model = RwModel { scenario };
        let name = model.scenario.name;
        Exploration(name, Box::new(move |limits| check_broken(name, model.clone(), limits)))
    });
    let lines = LineModel::all().into_iter();
    let lines = lines.map(|model| Exploration(model.name, Box::new(move |_| model.report())));
    let permits = PermitModel::all().into_iter();
    let permits = permits.map(|model| Exploration(model.name, Box::new(move |_| model.report())));
    let began = stopwatch();
    let (mut states, mut depth, mut failed, mut explored) = (0, 0, 0, 0);
    let all = explorations.chain([shards]).chain(lines).chain(permits).chain(shared).chain(broken);
    for Exploration(name, explore) in all {
        if options.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let left = options.seconds.map(|seconds| {
            Duration::from_secs(seconds).saturating_sub(began.elapsed()).max(Duration::from_secs(1))
        });
        let report =
            explore(Limits { time: left, states: options.states, threads: options.threads });
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
