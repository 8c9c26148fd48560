//! `demo`: a database, three contenders that are a fleet too, and now and then a kill.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rand::RngExt as _;
use spindle::{CancellationToken, Database, Ddl, LockTable, Spindle};
use spindle_emulator::Emulator;
use spindle_fleet::{Member, RwLock, Semaphore, Shard};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::arguments::{Common, Demo};
use crate::failure::{Code, Failure, Result};
use crate::output::to_stdout;

const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
const LOCKS: [&str; 6] = ["billing", "mail", "reports/daily", "shard-0", "shard-1", "shard-2"];
/// The lock that goes to the highest rank: the first node has the highest.
const RANKED: &str = "scheduler";
/// The fleet: its group, the shards that it shares, a semaphore, and a lock to read and write under.
const GROUP: &str = "workers";
const SHARDS: (&str, usize) = ("emails", 6);
const PERMITS: (&str, usize) = ("api", 2);
const READ_AND_WRITTEN: &str = "catalogue";
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const LEASE: &str = "3s";

/// A killed node comes back after this.
const AWAY: Duration = Duration::from_secs(5);

/// Nobody watches for longer.
const KILL_EVERY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// From one poll of the locks to the next.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn demo(demo: &Demo) -> Result<ExitCode> {
    let emulator = start(demo.port).await.map_err(|error| {
        Failure::new(Code::Usage, format!("start a database: {error}"))
            .cure("choose another port with --port, or none")
    })?;
    let created = emulator.create_database(DATABASE, LockTable::ddl(Ddl::GoogleSql)).await;
    created.map_err(|error| Failure::new(Code::Missing, error.message()))?;
    let address = emulator.address().to_string();
    to_stdout(
        "A database of this program's own runs until you press Ctrl-C. In another terminal:\n\n",
    )?;
    to_stdout(&commands(&address, called().as_deref()))?;
    let mut fleet = Fleet { address: address.clone(), nodes: BTreeMap::new() };
    for node in NODES {
        fleet.start(node)?;
    }
    let table = LockTable::new(Database::at(emulator.endpoint(), DATABASE), "locktable");
    let end = async {
        match demo.limit {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        failed = fleet.disturb(&table, demo.kill_every.min(KILL_EVERY_MAX)) => failed?,
        failed = report(&table) => failed?,
        () = end => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    to_stdout("The demonstration is over; nothing of it is left.\n")?;
    drop(fleet);
    emulator.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The commands to try; `alias` is for a shell that does not find this program.
fn commands(address: &str, alias: Option<&str>) -> String {
    let alias = alias.map(|path| format!("  alias spindle='{path}'\n")).unwrap_or_default();
    let ((shards, _), (permits, _)) = (SHARDS, PERMITS);
    format!(
        "{alias}  export SPANNER_EMULATOR_HOST={address}
  export SPINDLE_DATABASE={DATABASE}
  spindle watch                      # live; q ends it
  spindle ls                         # also with --output json
  spindle show billing
  spindle history billing
  spindle members {GROUP}
  spindle shards {GROUP}/{shards}
  spindle permits {permits}
  spindle readers {READ_AND_WRITTEN}          # now and then a writer waits, and writes
  spindle show {RANKED}             # this lock goes to the highest rank
  spindle serve                      # a page at http://127.0.0.1:9464/
  spindle doctor
  spindle run backup -- sleep 30     # holds a lock of its own

"
    )
}

/// The path of this program if a shell that is told `spindle` does not find it.
fn called() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    let found = std::env::var_os("PATH").is_some_and(|directories| {
        std::env::split_paths(&directories).any(|directory| directory.join("spindle").is_file())
    });
    (!found).then(|| path.display().to_string().replace('\'', "'\\''"))
}

/// On the ports of Google's emulator if both are free, so that `spindle init` finds it as well.
async fn start(port: Option<u16>) -> io::Result<Emulator> {
    match port {
        Some(port) => Emulator::builder().port(port).start().await,
        None => match Emulator::builder().port(9010).rest(9020).start().await {
            Err(_) => Emulator::start().await,
            started => started,
        },
    }
}

struct Fleet {
    address: String,
    nodes: BTreeMap<&'static str, Child>,
}

impl Fleet {
    fn start(&mut self, node: &'static str) -> Result<()> {
        let child = Command::new(std::env::current_exe()?)
            .args(["contend", node, "--lease", LEASE, "--database", DATABASE])
            .env("SPANNER_EMULATOR_HOST", &self.address)
            // The node ends when this end of the pipe does.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        self.nodes.insert(node, child);
        Ok(())
    }

    /// Kills one node after the other, each time whoever holds some lock.
    async fn disturb(&mut self, table: &LockTable, every: Duration) -> Result<()> {
        loop {
            sleep(every.mul_f64(rand::rng().random_range(0.5..1.5))).await;
            let lock = LOCKS[rand::rng().random_range(0..LOCKS.len())];
            let Ok(state) = table.inspect(lock).await else { continue };
            let Some(node) = NODES.into_iter().find(|node| state.holder() == Some(*node)) else {
                continue;
            };
            let Some(mut child) = self.nodes.remove(node) else { continue };
            to_stdout(&format!("-- {node} is killed; it held `{lock}` and maybe others\n"))?;
            child.kill().await?;
            sleep(AWAY).await;
            to_stdout(&format!("-- {node} is back\n"))?;
            self.start(node)?;
        }
    }
}

/// Says who gained and who lost, and how long a lock was without a holder.
async fn report(table: &LockTable) -> Result<()> {
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    loop {
        let mut locks = table.list();
        while let Ok(Some(lock)) = locks.next().await {
            // Rows of the fleet come and go in numbers.
            if lock.fleet().is_some() {
                continue;
            }
            let record = crate::record::Record::new(&lock);
            let holder = record.holder.clone().filter(|_| record.is_held());
            if known.get(&lock.name) != Some(&holder) {
                let by = match &holder {
                    Some(holder) => holder.clone(),
                    None => format!("nobody: {}", record.holding()),
                };
                to_stdout(&format!("`{}` is held by {by}\n", lock.name))?;
                known.insert(lock.name, holder);
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// One node: contends for every lock, and resigns one now and then.
pub async fn contend(common: &Common, id: &str, lease: Duration) -> Result<ExitCode> {
    let database = common.database.clone().unwrap_or_default();
    let table = LockTable::new(database, &common.table);
    let cancel = CancellationToken::new();
    let mut locks: Vec<Spindle> = Vec::new();
    let mut running = Vec::new();
    for name in LOCKS {
        let info = format!("process {}", std::process::id());
        let lock = table.lock(name).id(id).lease(lease).info(info).build()?;
        running.push(lock.run(cancel.clone()));
        locks.push(lock);
    }
    let ranked = table.lock(RANKED).id(id).lease(lease).by_rank(rank(id)).preempt().build()?;
    running.push(ranked.run(cancel.clone()));
    let member = Member::new(&table, GROUP).id(id).lease(lease).build()?;
    let semaphore = Semaphore::new(&table, PERMITS.0, PERMITS.1).id(id).lease(lease).build()?;
    let mut work = JoinSet::new();
    work.spawn(share(member, cancel.clone()));
    work.spawn(call(semaphore, cancel.clone()));
    let catalogue = RwLock::new(&table, READ_AND_WRITTEN).id(id).lease(lease).build()?;
    work.spawn(read_and_write(catalogue, cancel.clone()));
    let mut byte = [0];
    let mut stdin = tokio::io::stdin();
    let mut tired_at = Instant::now() + pause();
    loop {
        tokio::select! {
            // Its end says that the demonstration has ended.
            _ = stdin.read(&mut byte) => break,
            () = sleep_until(tired_at) => {
                tired_at = Instant::now() + pause();
                if let Some(lock) = locks.iter().find(|lock| lock.has_lock().is_some()) {
                    lock.resign().await?;
                }
            }
        }
    }
    cancel.cancel();
    for running in running {
        running.await?;
    }
    for ended in work.join_all().await {
        ended?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Is a member, and has its part of the shards.
async fn share(member: Member, cancel: CancellationToken) -> Result<()> {
    let shards = member.shards(SHARDS.0, SHARDS.1);
    let task = |shard: Shard| async move { shard.cancelled().await };
    tokio::try_join!(member.run(cancel.clone()), shards.run(cancel, task))?;
    Ok(())
}

/// Has a permit for some seconds, and then wants the next.
async fn call(semaphore: Semaphore, cancel: CancellationToken) -> Result<()> {
    let calls = async {
        loop {
            if let Ok(permit) = semaphore.acquire().await {
                sleep(some_seconds(2..8)).await;
                permit.release().await;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    cancel.run_until_cancelled(calls).await;
    Ok(())
}

/// Reads for some seconds, again and again, and writes now and then.
async fn read_and_write(catalogue: RwLock, cancel: CancellationToken) -> Result<()> {
    let turns = async {
        loop {
            if rand::rng().random_bool(0.2) {
                if let Ok(writing) = catalogue.write().await {
                    sleep(some_seconds(1..4)).await;
                    let _ = writing.release().await;
                }
            } else if let Ok(reading) = catalogue.read().await {
                sleep(some_seconds(2..8)).await;
                let _ = reading.release().await;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    cancel.run_until_cancelled(turns).await;
    Ok(())
}

fn rank(id: &str) -> u32 {
    let place = NODES.iter().rev().position(|node| *node == id);
    place.and_then(|place| u32::try_from(place + 1).ok()).unwrap_or(0)
}

fn some_seconds(range: Range<u64>) -> Duration {
    Duration::from_secs(rand::rng().random_range(range))
}

/// Until a node resigns a lock.
fn pause() -> Duration {
    some_seconds(10..40)
}
