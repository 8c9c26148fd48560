//! The cost and the pace of many locks, and of fleets: printed with units, asserted nowhere.
//!
//! ```text
//! cargo bench --bench many -- locks 10000 600          # so many in one process, held for so many seconds
//! cargo bench --bench many -- asked 100000 10 60       # asked for at a lease of 10 s, watched for 60 s
//! cargo bench --bench many -- heal 10000 600           # in each of two processes; so long is an outage
//! cargo bench --bench many -- fleets
//! cargo bench --bench many -- join 20 1000             # members, shards
//! cargo bench --bench many -- killed 1000              # shards
//! cargo bench --bench many -- group 200                # members
//! cargo bench --bench many -- permits 100 64           # permits, tasks
//! cargo bench --bench many -- readers 100
//! tests/any_spanner/on_google measure google 2 1000 10 180   # processes, locks, lease, seconds
//! tests/any_spanner/on_google measure abandoned 20           # processes that die in a transaction
//! ```
//!
//! Real time, release build, lease 10 s and the default poll interval of 1 s unless said otherwise.
//! The embedded Spanner is a process of its own, which counts the requests. Each member of a fleet has
//! a connection and a batcher of its own, as a process has. `google` and `abandoned` run on Google's
//! own emulator, which the script starts.

mod google;
mod group;
mod heal;
mod killed;
mod locks;
#[path = "../parts/mod.rs"]
mod parts;
mod permits;
mod readers;
mod relay;
mod shards;
mod sharing;

use std::time::Duration;

use spindle::LockTable;
use tokio::time::{Instant, sleep};

use crate::locks::{LOOK, Locks, until_held};
use crate::parts::{Failure, Part, Server, arguments, load};

const LEASE: Duration = Duration::from_secs(10);
/// The default for a lease of this length.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// When a measurement is given up.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn main() -> Result<(), Failure> {
    let arguments = arguments();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(act(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn seconds(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(text.parse()?))
}

/// Is what its arguments say: a part of a benchmark, or the whole of one.
async fn act(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        ["server"] => Server::serve(LockTable::ddl(spindle::Ddl::GoogleSql)).await,
        ["holder", endpoint, name, count, lease] => {
            locks::hold(endpoint, name, count.parse()?, seconds(lease)?).await
        }
        ["member", endpoint, shards] => killed::member(endpoint, shards.parse()?).await,
        ["acquire", endpoint, permits, tasks] => {
            permits::acquire(endpoint, permits.parse()?, tasks.parse()?).await
        }
        ["commit", endpoint, tasks] => permits::commit(endpoint, tasks.parse()?).await,
        ["abandon", endpoint] => google::abandon(endpoint).await,
        ["google", processes, locks, lease, watched] => {
            let (processes, locks) = (processes.parse()?, locks.parse()?);
            google::contended(processes, locks, seconds(lease)?, seconds(watched)?).await
        }
        ["abandoned", trials] => google::abandoned(trials.parse()?).await,
        ["locks", locks, watched] => measure(locks.parse()?, seconds(watched)?).await,
        ["asked", locks, lease, over] => {
            asked(locks.parse()?, seconds(lease)?, seconds(over)?).await
        }
        ["heal", locks, outage] => heal::measure(locks.parse()?, seconds(outage)?).await,
        ["join", ..] | ["killed", ..] | ["group", ..] | ["permits", ..] | ["readers", ..] => {
            println!("lease {LEASE:?}, {}", load());
            fleets(arguments).await?;
            println!("{}", load());
            Ok(())
        }
        ["fleets"] => {
            println!("lease {LEASE:?}, {}", load());
            fleets(&["join", "20", "1000"]).await?;
            fleets(&["killed", "1000"]).await?;
            fleets(&["group", "200"]).await?;
            fleets(&["permits", "100", "64"]).await?;
            fleets(&["readers", "100"]).await?;
            println!("{}", load());
            Ok(())
        }
        [] => measure(1_000, Duration::from_secs(20)).await,
        _ => Err(format!("no benchmark {arguments:?}").into()),
    }
}

async fn fleets(arguments: &[&str]) -> Result<(), Failure> {
    let mut server = Server::start()?;
    match *arguments {
        ["join", members, shards] => {
            shards::join(&mut server, members.parse()?, shards.parse()?).await
        }
        ["killed", shards] => killed::measure(&server, shards.parse()?).await,
        ["group", members] => group::measure(&mut server, members.parse()?).await,
        ["permits", permits, tasks] => {
            permits::measure(&server, permits.parse()?, tasks.parse()?).await
        }
        ["readers", readers] => readers::measure(&server, readers.parse()?).await,
        _ => Err(format!("no benchmark {arguments:?}").into()),
    }
}

async fn measure(locks: usize, watched: Duration) -> Result<(), Failure> {
    let mut server = Server::start()?;
    println!("{locks} locks, lease {LEASE:?}, {}", load());
    held_at_once(&mut server, locks, watched).await?;
    kill_to_held(&mut server, locks).await
}

async fn held_at_once(server: &mut Server, count: usize, watched: Duration) -> Result<(), Failure> {
    let before = server.requests()?;
    let start = Instant::now();
    let mut locks = Locks::start(&server.endpoint, "many", count, LEASE)?;
    locks.until_held(count).await?;
    println!(
        "many-at-once: ok locks={count} held_after_s={:.1} requests={}",
        start.elapsed().as_secs_f64(),
        server.requests()? - before
    );
    locks.lost = 0;
    let (before, cpu, start) = (server.requests()?, cpu()?, Instant::now());
    sleep(watched).await;
    let over = start.elapsed().as_secs_f64();
    let requests = server.requests()? - before;
    locks.look();
    println!(
        "many-held: ok locks={count} seconds={over:.0} lost={} requests_a_second={:.1} cpu_percent={:.1} memory_mib={}",
        locks.lost,
        requests as f64 / over,
        (self::cpu()? - cpu) / over * 100.0,
        resident_kib()? / 1024
    );
    let start = Instant::now();
    locks.stop().await?;
    println!("many-released: ok locks={count} after_s={:.1}", start.elapsed().as_secs_f64());
    Ok(())
}

async fn kill_to_held(server: &mut Server, count: usize) -> Result<(), Failure> {
    let (locks, lease) = (count.to_string(), LEASE.as_secs().to_string());
    let mut holder = [Part::start(&["holder", &server.endpoint, "many", &locks, &lease])?];
    until_held(&mut holder, count, TIME_LIMIT).await?;
    let of_holder = rate(server, POLL_INTERVAL * 20).await?;
    let mut locks = Locks::start(&server.endpoint, "many", count, LEASE)?;
    sleep(LEASE).await;
    let of_both = rate(server, POLL_INTERVAL * 20).await?;
    println!(
        "many-waiting: ok locks={count} requests_a_poll={:.1}",
        (of_both - of_holder) * POLL_INTERVAL.as_secs_f64()
    );
    // SIGKILL, on Unix. The lease counts from the last heartbeat, up to a third of a lease earlier: so
    // what follows may be negative.
    holder[0].child.kill()?;
    let start = Instant::now();
    locks.until_held(1).await?;
    let first = start.elapsed().as_secs_f64() - LEASE.as_secs_f64();
    locks.until_held(count).await?;
    let all = start.elapsed().as_secs_f64() - LEASE.as_secs_f64();
    println!(
        "many-killed: ok locks={count} first_held_after_lease_plus_s={first:.2} all_held_after_lease_plus_s={all:.2}"
    );
    println!("{}", load());
    locks.stop().await
}

/// Asks for more locks than may be held, and says what comes of it.
async fn asked(count: usize, lease: Duration, over: Duration) -> Result<(), Failure> {
    let mut server = Server::start()?;
    let server_id = server.part.child.id();
    println!("{count} locks, lease {lease:?}, {}", load());
    let mut locks = Locks::start(&server.endpoint, "many", count, lease)?;
    let (start, mut held, mut next) = (Instant::now(), 0, Duration::from_secs(1));
    let [mut half, mut since] = [(0, 0.0, 0.0), (0, 0.0, 0.0)];
    while start.elapsed() < over {
        sleep(LOOK).await;
        held = locks.look();
        if start.elapsed() < next {
            continue;
        }
        next = start.elapsed() + Duration::from_secs(1);
        let counts = server.part.counts()?;
        let now = (counts.values().sum::<u64>(), cpu()?, cpu_of(server_id)?);
        if start.elapsed() < over / 2 {
            half = now;
        }
        println!(
            "{:.0} s: held={held} lost={} requests={} cpu_s={:.1} server_cpu_s={:.1} {counts:?}",
            start.elapsed().as_secs_f64(),
            locks.lost,
            now.0 - since.0,
            now.1 - since.1,
            now.2 - since.2,
        );
        locks.say_troubles();
        since = now;
    }
    let seconds = over.as_secs_f64() / 2.0;
    println!(
        "many-asked: ok locks={count} lease_s={} seconds={} held={held} lost={} \
         second_half: requests_a_second={:.0} cpu_percent={:.0} server_cpu_percent={:.0}",
        lease.as_secs(),
        over.as_secs(),
        locks.lost,
        (since.0 - half.0) as f64 / seconds,
        (since.1 - half.1) / seconds * 100.0,
        (since.2 - half.2) / seconds * 100.0,
    );
    println!("{}", load());
    Ok(())
}

async fn rate(server: &mut Server, over: Duration) -> Result<f64, Failure> {
    let (before, start) = (server.requests()?, Instant::now());
    sleep(over).await;
    Ok((server.requests()? - before) as f64 / start.elapsed().as_secs_f64())
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
