//! Runs seeds until the time is over, or replays one: `cargo simulate --help`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use spindle_simulation::{Coverage, FleetPlan, Invariant, Plan, Report, Violation, run, run_fleet};

/// Seeds that once found something: one a line, with the reason behind a `#`.
const REGRESSIONS: &str = include_str!("../regressions.txt");

/// Runs fleets of Spindle in virtual time, with faults, and checks the invariants after every step.
#[derive(Parser)]
struct Arguments {
    /// Begins no world after this many seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Replays one seed and tells every event.
    #[arg(long)]
    seed: Option<u64>,
    /// Takes the seeds from this one on; without it the first is drawn at random.
    #[arg(long, value_name = "SEED")]
    first: Option<u64>,
    /// Runs this many seeds however long they take, a quarter of them as fleets of members and an eighth through the
    /// real client, and fails unless each goal of coverage was met.
    #[arg(long, value_name = "SEEDS", conflicts_with_all = ["seconds", "client", "locks", "fleets", "big"])]
    goals: Option<u64>,
    /// Runs no fleet of hundreds of members and shards.
    #[arg(long, conflicts_with = "big")]
    small: bool,
    /// Runs this many worlds at once; one for each processor unless told.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    threads: Option<u64>,
    /// Runs only worlds through the real client and server.
    #[arg(long)]
    client: bool,
    /// Runs only processes that contend for this many locks each, on one batcher.
    #[arg(long)]
    locks: Option<usize>,
    /// Runs only fleets of members: shards and permits, readers and writers, ranks.
    #[arg(long)]
    fleets: bool,
    /// Runs only fleets of hundreds of members and shards.
    #[arg(long)]
    big: bool,
    /// Runs each world twice, and fails if the traces differ; worlds through the client are left out.
    #[arg(long)]
    twice: bool,
}

#[derive(Default)]
struct Totals {
    seeds: u64,
    simulated: Duration,
    /// The same for each instance.
    lived: Duration,
    instances: u64,
    faults: u64,
    coverage: Coverage,
    failed: Option<(u64, String)>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    // Unoptimised, a big fleet takes longer than all the rest.
    arguments.small |= cfg!(debug_assertions);
    match arguments.seed {
        Some(seed) => replay(&arguments, seed),
        None => explore(&arguments),
    }
}

/// A plan of either kind.
#[derive(Debug)]
enum World {
    Locks(Plan),
    Members(FleetPlan),
}

impl Arguments {
    /// Returns the world that the seed stands for.
    fn world(&self, seed: u64) -> World {
        if !self.is_fleet(seed) {
            return World::Locks(match self.locks {
                Some(locks) => Plan::of_many(seed, locks),
                None => Plan::from_seed_through(seed, self.is_through_client(seed)),
            });
        }
        let plan = FleetPlan::from_seed(seed);
        World::Members(match (self.big, plan.is_big() && !self.is_small()) {
            (true, _) => plan.big(300, 1_000),
            (false, true) => plan.big(140, 320),
            (false, false) => plan,
        })
    }

    /// Returns the options that have the seed stand for the same world, whichever seed is first.
    fn replay(&self, seed: u64) -> String {
        let locks = self.locks.map(|locks| format!(" --locks {locks}")).unwrap_or_default();
        let flags = [
            (self.is_through_client(seed), " --client"),
            (self.big, " --big"),
            (self.is_fleet(seed) && !self.big, " --fleets"),
            (self.is_fleet(seed) && !self.big && self.is_small(), " --small"),
        ];
        let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag));
        format!("--seed {seed}{locks}{}", flags.collect::<String>())
    }

    /// Returns true if no fleet is a big one.
    fn is_small(&self) -> bool {
        self.small || self.goals.is_some()
    }

    /// Returns true if the seed's world goes through the real client whatever its plan says.
    fn is_through_client(&self, seed: u64) -> bool {
        self.client || (self.goals.is_some() && seed % 8 == 1)
    }

    /// Returns true if the seed stands for a fleet of members.
    fn is_fleet(&self, seed: u64) -> bool {
        let is_any = !self.client && self.locks.is_none();
        let is_one_of_four = self.goals.is_some() && seed.is_multiple_of(4);
        self.fleets || self.big || (is_any && (FleetPlan::is_of(seed) || is_one_of_four))
    }
}

/// Lives what the seed stands for; with `prints`, tells it.
fn live(arguments: &Arguments, seed: u64, prints: bool) -> Report {
    let world = arguments.world(seed);
    if prints {
        println!("{world:#?}");
    }
    match world {
        World::Locks(plan) => run(&plan, prints),
        World::Members(plan) => run_fleet(&plan, prints),
    }
}

fn replay(arguments: &Arguments, seed: u64) -> ExitCode {
    let report = live(arguments, seed, true);
    println!("{}", report.coverage);
    let simulated = report.simulated;
    match report.violation {
        None => {
            println!(
                "simulate: ok seed={seed} simulated={simulated:?} trace={:016x}",
                report.trace
            );
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("simulate: FAILED seed={seed} {violation}");
            ExitCode::FAILURE
        }
    }
}

fn explore(arguments: &Arguments) -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "how long to go on, by the wall")]
    let started = std::time::Instant::now();
    let regressions: Vec<u64> = regressions();
    let first = arguments.first.unwrap_or_else(rand::random);
    println!("simulate: seeds from {first} on, after {} regressions", regressions.len());
    let seconds = Duration::from_secs(arguments.seconds);
    let is_due = |index: u64| match arguments.goals {
        Some(seeds) => index < seeds + regressions.len() as u64,
        None => started.elapsed() < seconds,
    };
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    let reported = AtomicU64::new(0);
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if !is_due(index) {
                return;
            }
            let of_list = usize::try_from(index).ok().and_then(|index| regressions.get(index));
            let seed = of_list.copied().unwrap_or(first.wrapping_add(index));
            let mut report = live(arguments, seed, false);
            if arguments.twice && report.repeats {
                differ(&mut report, &live(arguments, seed, false));
            }
            let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.add(seed, &report);
            is_over.fetch_or(totals.failed.is_some(), Ordering::Relaxed);
            let tens = started.elapsed().as_secs() / 10;
            if reported.fetch_max(tens, Ordering::Relaxed) < tens {
                println!("{}", totals.line(started.elapsed()));
            }
        }
    };
    let processors = || thread::available_parallelism().map_or(1, |it| it.get() as u64);
    let threads = arguments.threads.unwrap_or_else(processors);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    verdict(arguments, &totals, started.elapsed())
}

/// Has the first fail if it is another than the second.
fn differ(first: &mut Report, second: &Report) {
    if first.trace != second.trace && first.violation.is_none() {
        let what = format!("trace {:016x}, and then {:016x}", first.trace, second.trace);
        first.violation =
            Some(Violation { invariant: Invariant::Repeats, at: first.simulated, what });
    }
}

fn verdict(arguments: &Arguments, totals: &Totals, elapsed: Duration) -> ExitCode {
    println!("seen: {}", totals.coverage);
    if let Some((seed, violation)) = &totals.failed {
        println!("replay: cargo simulate {}", arguments.replay(*seed));
        println!("simulate: FAILED seed={seed} {violation}");
        return ExitCode::FAILURE;
    }
    let missing = totals.coverage.missing();
    if arguments.goals.is_some() && !missing.is_empty() {
        println!("simulate: FAILED never seen: {missing:?} {}", totals.line(elapsed));
        return ExitCode::FAILURE;
    }
    println!("simulate: ok {}", totals.line(elapsed));
    ExitCode::SUCCESS
}

fn regressions() -> Vec<u64> {
    let lines = REGRESSIONS.lines().filter_map(|line| line.split('#').next()).map(str::trim);
    let seeds = lines.filter(|seed| !seed.is_empty());
    seeds.map(|seed| seed.parse().expect("a line of regressions.txt begins with a seed")).collect()
}

impl Totals {
    fn add(&mut self, seed: u64, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        let instances = u32::try_from(report.instances).unwrap_or(u32::MAX);
        self.lived += report.simulated * instances;
        self.instances += u64::from(instances);
        self.faults += report.faults;
        let missed = self.coverage.missing().len();
        self.coverage.add(&report.coverage);
        if missed > 0 && self.coverage.missing().is_empty() {
            println!("every goal met after {} seeds", self.seeds);
        }
        if let Some(violation) = &report.violation {
            self.failed.get_or_insert((seed, violation.to_string()));
        }
    }

    fn line(&self, elapsed: Duration) -> String {
        let hours = |duration: Duration| duration.as_secs_f64() / 3_600.0;
        let minutes = (elapsed.as_secs_f64() / 60.0).max(f64::MIN_POSITIVE);
        format!(
            "seeds={} simulated_hours={:.0} instance_hours={:.0} instances={} faults={} \
             hours_per_minute={:.0} seconds={:.0}",
            self.seeds,
            hours(self.simulated),
            hours(self.lived),
            self.instances,
            self.faults,
            hours(self.simulated) / minutes,
            elapsed.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_seed_is_replayed_as_the_same_world() {
        for options in
            ["--goals 300", "--client", "--fleets", "--fleets --small", "--big", "--locks 3", ""]
        {
            let parse = |options: &str| {
                Arguments::parse_from(["simulate"].into_iter().chain(options.split_whitespace()))
            };
            let explored = parse(options);
            for seed in 1..=300 {
                let replayed = parse(&explored.replay(seed));
                let [explored, replayed] =
                    [&explored, &replayed].map(|it| format!("{:?}", it.world(seed)));
                assert_eq!(explored, replayed, "{options}, seed {seed}");
            }
        }
    }
}
