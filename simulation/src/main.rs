//! Runs seeds until the time is over, or replays one: `cargo simulate [--seconds N] [--seed S]`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use spindle_simulation::{
    FleetPlan, Invariant, Plan, Report, Sightings, Violation, run, run_fleet,
};

/// Seeds that once found something: one a line, with the reason behind a `#`.
const REGRESSIONS: &str = include_str!("../regressions.txt");

const USAGE: &str = "\
usage: simulate [--seconds N] [--seed S] [--first S] [--threads N] [--client] [--locks N]
  --seconds N   how long to go on (120)
  --seed S      replays one seed and tells every event
  --first S     the first of the seeds (drawn at random)
  --threads N   how many worlds at once (one for each processor)
  --client      only through the real client and server
  --locks N     only processes that contend for N locks each, on one carrier
  --fleets      only fleets of members: shards and permits, readers and writers, ranks
  --twice       lives each world twice, and fails if they differ, but for those on the client
  --big         only fleets of hundreds of members and shards";

/// With fewer seeds a run is too short to have seen everything.
const LONG_RUN_SEEDS: u64 = 1_000;

struct Arguments {
    seconds: u64,
    seed: Option<u64>,
    first: u64,
    threads: usize,
    client: bool,
    locks: Option<usize>,
    fleets: bool,
    big: bool,
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
    sightings: Sightings,
    failed: Option<(u64, String)>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match arguments.seed {
        Some(seed) => replay(&arguments, seed),
        None => explore(&arguments),
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        seconds: 120,
        seed: None,
        first: rand::random(),
        threads: thread::available_parallelism().map_or(1, usize::from),
        client: false,
        locks: None,
        fleets: false,
        big: false,
        twice: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        if name == "--client" {
            arguments.client = true;
            continue;
        }
        if name == "--fleets" {
            arguments.fleets = true;
            continue;
        }
        if name == "--twice" {
            arguments.twice = true;
            continue;
        }
        if name == "--big" {
            (arguments.fleets, arguments.big) = (true, true);
            continue;
        }
        let value = given.next().ok_or(format!("{name}: expected a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{name}: {value} is no number"))?;
        match name.as_str() {
            "--seconds" => arguments.seconds = number,
            "--seed" => arguments.seed = Some(number),
            "--first" => arguments.first = number,
            "--locks" => arguments.locks = usize::try_from(number).ok(),
            "--threads" => arguments.threads = usize::try_from(number).unwrap_or(1).max(1),
            _ => return Err(format!("{name}: unknown")),
        }
    }
    Ok(arguments)
}

/// Lives what the seed stands for; with `prints`, tells it.
fn live(arguments: &Arguments, seed: u64, prints: bool) -> Report {
    let is_any = !arguments.client && arguments.locks.is_none();
    if arguments.fleets || (is_any && FleetPlan::is_of(seed)) {
        let plan = FleetPlan::from_seed(seed);
        let plan = match (arguments.big, plan.is_big()) {
            (true, _) => plan.big(300, 1_000),
            // Unoptimised, one of them takes longer than all the rest.
            (false, true) if !cfg!(debug_assertions) => plan.big(140, 320),
            _ => plan,
        };
        if prints {
            println!("{plan:#?}");
        }
        return run_fleet(&plan, prints);
    }
    let plan = match arguments.locks {
        Some(locks) => Plan::of_many(seed, locks),
        None => Plan::from_seed_through(seed, arguments.client),
    };
    if prints {
        println!("{plan:#?}");
    }
    run(&plan, prints)
}

fn replay(arguments: &Arguments, seed: u64) -> ExitCode {
    let report = live(arguments, seed, true);
    println!("{}", report.sightings);
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
    let limit = Duration::from_secs(arguments.seconds);
    let regressions: Vec<u64> = regressions();
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    let reported = AtomicU64::new(0);
    let work = || {
        while !is_over.load(Ordering::Relaxed) && started.elapsed() < limit {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let of_list = usize::try_from(index).ok().and_then(|index| regressions.get(index));
            let seed = of_list.copied().unwrap_or(arguments.first.wrapping_add(index));
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
    thread::scope(|scope| (0..arguments.threads).for_each(|_| drop(scope.spawn(work))));
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
    println!("seen: {}", totals.sightings);
    if let Some((seed, violation)) = &totals.failed {
        println!(
            "replay: cargo simulate --seed {seed}{}{}",
            if arguments.client { " --client" } else { "" },
            if arguments.big {
                " --big"
            } else if arguments.fleets {
                " --fleets"
            } else {
                ""
            },
        );
        println!("simulate: FAILED seed={seed} {violation}");
        return ExitCode::FAILURE;
    }
    let missing = totals.sightings.missing();
    if totals.seeds >= LONG_RUN_SEEDS
        && !arguments.client
        && !arguments.fleets
        && !missing.is_empty()
    {
        println!("simulate: FAILED never seen: {missing:?} {}", totals.line(elapsed));
        return ExitCode::FAILURE;
    }
    println!("simulate: ok {}", totals.line(elapsed));
    ExitCode::SUCCESS
}

fn regressions() -> Vec<u64> {
    let lines = REGRESSIONS.lines().filter_map(|line| line.split('#').next());
    lines.filter_map(|seed| seed.trim().parse().ok()).collect()
}

impl Totals {
    fn add(&mut self, seed: u64, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        let instances = u32::try_from(report.instances).unwrap_or(u32::MAX);
        self.lived += report.simulated * instances;
        self.instances += u64::from(instances);
        self.faults += report.faults;
        self.sightings.add(&report.sightings);
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
