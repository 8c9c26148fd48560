//! The cost of many locks in one process: printed with units, asserted nowhere.
//!
//! ```text
//! cargo bench --bench many -- 10000 600
//! ```
//!
//! The first number is how many locks there are, the second for how many seconds they are watched
//! while held. Real time, release build, lease 10 s, the embedded Spanner in a process of its own,
//! which counts the requests.
//!
//! `cargo bench --bench many -- asked 100000 10 60` asks for 100,000 locks at a lease of 10 s and
//! prints, each second for 60 s, how many are held and how many were lost.

#[path = "parts/counts.rs"]
mod counts;
mod parts;
#[path = "parts/serve.rs"]
mod serve;

use std::collections::BTreeMap;
use std::time::Duration;

use spindle::{CancellationToken, FencingToken, LockTable, RunHandle, Spindle};
use tokio::time::{Instant, sleep};

use crate::counts::counts;
use crate::parts::{Failure, Part, load};
use crate::serve::{DATABASE, serve};

const LEASE: Duration = Duration::from_secs(10);
/// The default for a lease of this length.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often each lock is looked at, where terms that end are counted.
const LOOK: Duration = Duration::from_millis(250);
/// When a measurement is given up.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn main() -> Result<(), Failure> {
    // The harness of `cargo bench` adds an option of its own.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => runtime.block_on(serve(LockTable::DDL)),
        ["holder", endpoint, locks] => runtime.block_on(hold(endpoint, locks.parse()?)),
        ["asked", locks, lease, seconds] => {
            let [lease, over] = [lease, seconds].map(|text| text.parse().map(Duration::from_secs));
            runtime.block_on(asked(locks.parse()?, lease?, over?))
        }
        [locks, seconds] => {
            runtime.block_on(measure(locks.parse()?, Duration::from_secs(seconds.parse()?)))
        }
        _ => runtime.block_on(measure(1_000, Duration::from_secs(20))),
    }
}

/// A process that holds all the locks and is there to be killed.
async fn hold(endpoint: &str, locks: usize) -> Result<(), Failure> {
    let fleet = Fleet::start(endpoint, locks, LEASE)?;
    fleet.until_held(locks).await?;
    println!("holds");
    std::future::pending().await
}

async fn measure(locks: usize, watched: Duration) -> Result<(), Failure> {
    let mut server = Part::start(&["server"])?;
    let endpoint = server.line()?;
    println!("{locks} locks, lease {LEASE:?}, {}", load());
    held_at_once(&mut server, &endpoint, locks, watched).await?;
    kill_to_held(&mut server, &endpoint, locks).await
}

async fn held_at_once(
    server: &mut Part,
    endpoint: &str,
    locks: usize,
    watched: Duration,
) -> Result<(), Failure> {
    let before = counts(server)?;
    let start = Instant::now();
    let fleet = Fleet::start(endpoint, locks, LEASE)?;
    fleet.until_held(locks).await?;
    let requests = total(&counts(server)?) - total(&before);
    println!(
        "many-at-once: ok locks={locks} held_after_s={:.1} requests={requests}",
        start.elapsed().as_secs_f64()
    );
    let tokens: Vec<_> = fleet.locks.iter().map(|(lock, _)| lock.has_lock()).collect();
    let (before, cpu, start) = (total(&counts(server)?), cpu()?, Instant::now());
    sleep(watched).await;
    let over = start.elapsed().as_secs_f64();
    let requests = total(&counts(server)?) - before;
    let kept =
        fleet.locks.iter().zip(&tokens).filter(|((lock, _), then)| lock.has_lock() == **then);
    println!(
        "many-held: ok locks={locks} seconds={over:.0} lost={} requests_a_second={:.1} cpu_percent={:.1} memory_mib={}",
        locks - kept.count(),
        requests as f64 / over,
        (self::cpu()? - cpu) / over * 100.0,
        resident_kib()? / 1024
    );
    let start = Instant::now();
    fleet.stop().await?;
    println!("many-released: ok locks={locks} after_s={:.1}", start.elapsed().as_secs_f64());
    Ok(())
}

async fn kill_to_held(server: &mut Part, endpoint: &str, locks: usize) -> Result<(), Failure> {
    let mut holder = Part::start(&["holder", endpoint, &locks.to_string()])?;
    holder.line()?;
    let of_holder = rate(server, POLL_INTERVAL * 20).await?;
    let fleet = Fleet::start(endpoint, locks, LEASE)?;
    sleep(LEASE).await;
    let of_both = rate(server, POLL_INTERVAL * 20).await?;
    println!(
        "many-waiting: ok locks={locks} requests_a_poll={:.1}",
        (of_both - of_holder) * POLL_INTERVAL.as_secs_f64()
    );
    // SIGKILL, on Unix. The lease counts from the last heartbeat, up to half a lease earlier: so
    // what follows may be negative.
    holder.child.kill()?;
    let start = Instant::now();
    fleet.until_held(1).await?;
    let first = start.elapsed().as_secs_f64() - LEASE.as_secs_f64();
    fleet.until_held(locks).await?;
    let all = start.elapsed().as_secs_f64() - LEASE.as_secs_f64();
    println!(
        "many-killed: ok locks={locks} first_held_after_lease_plus_s={first:.2} all_held_after_lease_plus_s={all:.2}"
    );
    println!("{}", load());
    fleet.stop().await
}

/// Asks for more locks than may be held, and says what comes of it.
async fn asked(locks: usize, lease: Duration, over: Duration) -> Result<(), Failure> {
    let mut server = Part::start(&["server"])?;
    let endpoint = server.line()?;
    let server_id = server.child.id();
    println!("{locks} locks, lease {lease:?}, {}", load());
    let fleet = Fleet::start(&endpoint, locks, lease)?;
    let (start, mut lost, mut next) = (Instant::now(), 0, Duration::from_secs(1));
    let mut tokens = vec![None::<FencingToken>; locks];
    let [mut half, mut since] = [(0, 0.0, 0.0), (0, 0.0, 0.0)];
    while start.elapsed() < over {
        sleep(LOOK).await;
        for ((lock, _), before) in fleet.locks.iter().zip(&mut tokens) {
            let now = lock.has_lock();
            lost += usize::from(before.is_some() && now != *before);
            *before = now;
        }
        if start.elapsed() < next {
            continue;
        }
        next = start.elapsed() + Duration::from_secs(1);
        let counts = counts(&mut server)?;
        let now = (total(&counts), cpu()?, cpu_of(server_id)?);
        if start.elapsed() < over / 2 {
            half = now;
        }
        println!(
            "{:.0} s: held={} lost={lost} requests={} cpu_s={:.1} server_cpu_s={:.1} {counts:?}",
            start.elapsed().as_secs_f64(),
            tokens.iter().flatten().count(),
            now.0 - since.0,
            now.1 - since.1,
            now.2 - since.2,
        );
        if std::env::var_os("TROUBLES").is_some() {
            for (trouble, count) in fleet.troubles() {
                println!("    {count} x {trouble}");
            }
        }
        since = now;
    }
    let seconds = over.as_secs_f64() / 2.0;
    println!(
        "many-asked: ok locks={locks} lease_s={} seconds={} held={} lost={lost} \
         second_half: requests_a_second={:.0} cpu_percent={:.0} server_cpu_percent={:.0}",
        lease.as_secs(),
        over.as_secs(),
        tokens.iter().flatten().count(),
        (since.0 - half.0) as f64 / seconds,
        (since.1 - half.1) / seconds * 100.0,
        (since.2 - half.2) / seconds * 100.0,
    );
    println!("{}", load());
    Ok(())
}

/// All the locks, of one table in this process.
struct Fleet {
    locks: Vec<(Spindle, RunHandle)>,
    cancel: CancellationToken,
}

impl Fleet {
    fn start(endpoint: &str, locks: usize, lease: Duration) -> Result<Fleet, Failure> {
        let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
        let cancel = CancellationToken::new();
        let start = |n| {
            let lock = table.lock(format!("many-{n}")).lease(lease).build()?;
            let running = lock.run(cancel.clone());
            Ok((lock, running))
        };
        let locks = (0..locks).map(start).collect::<Result<_, Failure>>()?;
        Ok(Fleet { locks, cancel })
    }

    fn held(&self) -> usize {
        self.locks.iter().filter(|(lock, _)| lock.has_lock().is_some()).count()
    }

    fn troubles(&self) -> BTreeMap<String, usize> {
        let mut troubles = BTreeMap::new();
        for (lock, _) in &self.locks {
            if let Some(trouble) = lock.health().trouble {
                let error: &dyn std::error::Error = &trouble.error;
                let causes = std::iter::successors(Some(error), |error| error.source());
                let text: Vec<_> = causes.map(ToString::to_string).collect();
                let text = text.join(": ").replace(&format!("`{}`", lock.name()), "`many`");
                *troubles.entry(text).or_default() += 1;
            }
        }
        troubles
    }

    async fn until_held(&self, locks: usize) -> Result<(), Failure> {
        let start = Instant::now();
        let mut most = 0;
        while self.held() < locks {
            if start.elapsed() > TIME_LIMIT {
                return Err(format!(
                    "{} of {locks} held after {TIME_LIMIT:?}, {most} at most",
                    self.held()
                )
                .into());
            }
            most = most.max(self.held());
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn stop(self) -> Result<(), Failure> {
        self.cancel.cancel();
        for (_, running) in self.locks {
            running.await?;
        }
        Ok(())
    }
}

async fn rate(server: &mut Part, over: Duration) -> Result<f64, Failure> {
    let (before, start) = (total(&counts(server)?), Instant::now());
    sleep(over).await;
    Ok((total(&counts(server)?) - before) as f64 / start.elapsed().as_secs_f64())
}

fn total(counts: &BTreeMap<String, u64>) -> u64 {
    counts.iter().filter(|(what, _)| *what != "sessions").map(|(_, count)| count).sum()
}

/// The seconds of CPU that this process has used.
fn cpu() -> Result<f64, Failure> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// The same of another process, from Linux's hundredths of a second.
fn cpu_of(process: u32) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name of a program")?;
    let hundredths = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(hundredths.sum::<Result<u64, _>>()? as f64 / 100.0)
}

fn resident_kib() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB").parse()?)
}
