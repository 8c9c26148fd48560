//! Drills in real processes: each way to die, with an agent that releases and without, side by side.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::statement::Statement;
use spindle::{CancellationToken, Ddl, LockTable, RunHandle, Spindle, TermChange};
use spindle_emulator::Emulator;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::exits::{Holder, ORDERS, dump_of, grow_old};
use crate::on_socket::{NAMESPACE, OnSocket, own_path};
use crate::world::{TIME_LIMIT, World, until};

const LEASE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(500);

/// How often each way is tried, with the agent and without.
const TIMES: usize = 5;

/// The agent's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Released,
    /// It is alive, or a child has its stream: never released.
    Alive,
    /// The lease runs out, though it is dead.
    Lapses,
}

use Expected::{Alive, Lapses, Released};

/// The ways to die, and not to.
const WAYS: [(&str, Expected); 21] = [
    ("kill -9", Released),
    ("abort", Released),
    ("OOM kill in a cgroup", Released),
    ("panic under panic=abort", Released),
    ("exit without a release", Released),
    ("end of main without a release", Released),
    ("core dump of 50 MB", Released),
    ("sibling PID namespace, kill -9", Released),
    ("fork, the child closes the socket; kill -9", Released),
    ("fork, the child keeps the socket; kill -9", Alive),
    ("a started program works on; kill -9", Alive),
    ("exec", Alive),
    ("stopped", Alive),
    ("stopped by ptrace", Alive),
    ("agent restarted before, kill -9", Released),
    ("agent stopped for 2 s, kill -9", Released),
    ("both stopped, kill -9, agent goes on after 2 s", Released),
    ("agent killed before, kill -9", Lapses),
    ("agent of another table, kill -9", Lapses),
    ("no agent, kill -9", Lapses),
    ("crash within a lease of the begin", Lapses),
];

/// One lock of a drill: who holds it, and who is to hold it next.
struct Pair {
    name: String,
    holder: Holder,
    next: Spindle,
    cancel: CancellationToken,
    running: RunHandle,
}

/// Times from the death to the next leader's fenced write.
fn summary(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    format!("{:.2}, {:.2}", times[times.len() / 2], times[times.len() - 1])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "takes minutes: nightly"]
async fn each_way_to_die_with_an_agent_and_without() {
    let other = LockTable::ddl(Ddl::GoogleSql).replace("locktable", "other");
    let world =
        World::with(&format!("{};\n{other};\n{ORDERS}", LockTable::ddl(Ddl::GoogleSql))).await;
    let client = client(&world.emulator).await;
    let chosen = std::env::var("DRILL").unwrap_or_default();
    let mut table = format!(
        "| the holder | without an agent: median, worst, s | with one: median, worst, s | released by it, of {TIMES} |\n\
         | --- | --- | --- | --- |\n"
    );
    let mut released_alive = 0;
    for (way, expected) in WAYS.into_iter().filter(|(way, _)| way.contains(&chosen)) {
        let Some((with, without, released)) = drill(&world, &client, way).await else {
            let _ = writeln!(table, "| {way} | not to be had here | | |");
            continue;
        };
        let wanted = if expected == Released { TIMES } else { 0 };
        assert_eq!(released, wanted, "{way}: {with:?}");
        released_alive += if expected == Alive { released } else { 0 };
        let (without, with) = (summary(without), summary(with));
        println!("{way}: {without} without an agent, {with} with one");
        let _ = writeln!(table, "| {way} | {without} | {with} | {released} |");
    }
    let stale = stale(&client).await;
    println!(
        "exits: ok stale_fenced_writes={stale} releases_of_the_living={released_alive}\n{table}"
    );
    assert_eq!(stale, 0);
}

async fn client(emulator: &Emulator) -> DatabaseClient {
    let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await.unwrap();
    spanner.database_client(crate::world::DATABASE).build().await.unwrap()
}

/// Returns true if this user may make a namespace; mostly root may.
async fn may_unshare() -> bool {
    let tried = Command::new("unshare").args(NAMESPACE).arg("true").output().await;
    tried.is_ok_and(|tried| tried.status.success())
}

/// Returns the times with the agent and without, and how many locks the agent released. None where the way can't
/// be tried here.
async fn drill(
    world: &World,
    client: &DatabaseClient,
    way: &str,
) -> Option<(Vec<f64>, Vec<f64>, usize)> {
    let unshared = way.contains("namespace");
    if way.contains("cgroup") && group().is_none() || unshared && !may_unshare().await {
        return None;
    }
    let arguments: &[&str] =
        if way.contains("another table") { &["--table", "other"] } else { &[] };
    let socket = own_path("drill");
    let mut agent = Some(OnSocket::in_namespace(world, socket.clone(), arguments, unshared).await);
    if way == "no agent, kill -9" {
        agent.take().unwrap().killed().await;
    }
    let mut pairs = Vec::new();
    for n in 0..TIMES * 2 {
        let name = format!("{way}/{n}");
        let socket = (n < TIMES).then_some(&*socket);
        let holder = Holder::begin(world, socket, &name, LEASE, unshared).await;
        let next = world.table.lock(&name).lease(LEASE).poll_interval(POLL).build().unwrap();
        let cancel = CancellationToken::new();
        pairs.push((name, holder, next, cancel));
    }
    if let Some(agent) = agent.as_ref().filter(|_| arguments.is_empty()) {
        agent.says(&format!("spindle_agent_watched {TIMES}")).await;
    }
    if !way.contains("within a lease") {
        let names: Vec<&str> = pairs.iter().map(|(name, ..)| &**name).collect();
        grow_old(world, &names, LEASE).await;
    }
    // Only now, since Spanner's time went on by a lease.
    let start = |(name, holder, next, cancel): (String, Holder, Spindle, CancellationToken)| {
        let running = next.run(cancel.clone());
        Pair { name, holder, next, cancel, running }
    };
    let mut pairs: Vec<Pair> = pairs.into_iter().map(start).collect();
    for pair in &pairs {
        until("it stands by", async || pair.next.health().is_ready()).await;
    }
    befalls_the_agent(world, way, &mut agent, &socket).await;
    let stopped = agent.as_ref().filter(|_| way.contains("2 s")).map(OnSocket::pid);
    stopped.inspect(|agent| kill(*agent, Signal::SIGSTOP).unwrap());
    let (mut left, mut times) = (Vec::new(), Vec::new());
    let mut watching = tokio::task::JoinSet::new();
    for (n, pair) in pairs.iter_mut().enumerate() {
        let began = Instant::now();
        left.extend(dies(way, &mut pair.holder).await);
        let (next, client, name) = (pair.next.clone(), client.clone(), pair.name.clone());
        watching.spawn(async move { (n < TIMES, leads(next, &client, &name, began).await) });
        // The next ones poll in step: each dies at a phase of its own.
        sleep(POLL * 2 / 9).await;
    }
    if let Some(agent) = stopped {
        sleep(Duration::from_secs(2)).await;
        kill(agent, Signal::SIGCONT).unwrap();
    }
    while let Some(time) = watching.join_next().await {
        times.push(time.unwrap());
    }
    let mut released = 0;
    if let Some(agent) = &agent {
        released = agent.counts("spindle_agent_exited_total").await;
    }
    for process in left {
        // It may be gone, and most dump nothing.
        let _ = kill(process, Signal::SIGKILL);
        let _ = std::fs::remove_dir_all(dump_of(process.as_raw().cast_unsigned()));
    }
    for Pair { cancel, running, .. } in pairs {
        cancel.cancel();
        running.await.unwrap();
    }
    let of = |with: bool| times.iter().filter(|it| it.0 == with).map(|it| it.1).collect();
    Some((of(true), of(false), released))
}

/// The agent's misfortune before anybody dies.
async fn befalls_the_agent(world: &World, way: &str, agent: &mut Option<OnSocket>, socket: &Path) {
    if way.starts_with("agent restarted") {
        agent.take().unwrap().killed().await;
        let again = OnSocket::at(world, socket.to_path_buf(), &[]).await;
        again.says(&format!("spindle_agent_watched {TIMES}")).await;
        *agent = Some(again);
    } else if way.starts_with("agent killed") {
        agent.take().unwrap().killed().await;
    }
}

/// Waits until the next one leads, and has written under its fence.
async fn leads(next: Spindle, client: &DatabaseClient, name: &str, began: Instant) -> f64 {
    let mut changes = next.watch();
    let gained = timeout(TIME_LIMIT, changes.next()).await.expect("nobody leads");
    let Some(TermChange::Gained(term)) = gained else { panic!("no term") };
    term.fence().write(client, [order(name, term.token().as_nanoseconds())]).await.unwrap();
    began.elapsed().as_secs_f64()
}

fn order(lock: &str, token: u64) -> Mutation {
    let id = format!("{lock}/next");
    let order = Mutation::new_insert_or_update_builder("orders").set("id").to(id);
    let order = order.set("lock").to(lock.to_string());
    order
        .set("token")
        .to(i64::try_from(token).unwrap())
        .set("written")
        .to("spanner.commit_timestamp()")
        .build()
}

/// Writes under a lower token after one under a higher.
async fn stale(client: &DatabaseClient) -> usize {
    let sql = "SELECT lock, token FROM orders ORDER BY lock, written";
    let reading = client.single_use().build();
    let mut rows = reading.execute_query(Statement::builder(sql).build()).await.unwrap();
    let mut orders: Vec<(String, i64)> = Vec::new();
    while let Some(row) = rows.next().await.transpose().unwrap() {
        orders.push((row.get("lock").unwrap(), row.get("token").unwrap()));
    }
    assert!(orders.len() > TIMES, "{}", orders.len());
    orders.windows(2).filter(|two| two[0].0 == two[1].0 && two[0].1 > two[1].1).count()
}

/// Has the holder die in this way; returns the processes that are left.
async fn dies(way: &str, holder: &mut Holder) -> Vec<Pid> {
    let process = holder.process();
    let mut left = vec![process];
    let told = match way {
        "abort" => Some("abort"),
        "panic under panic=abort" => Some("panic"),
        "exit without a release" => Some("exit"),
        "end of main without a release" => Some("return"),
        "core dump of 50 MB" => Some("dump"),
        "exec" => Some("exec"),
        _ if way.contains("cgroup") => {
            let group = group().unwrap();
            std::fs::write(group.join("cgroup.procs"), process.to_string()).unwrap();
            Some("eat")
        }
        _ => None,
    };
    if let Some(told) = told {
        holder.running.told(told).await;
        return left;
    }
    match way {
        "fork, the child closes the socket; kill -9" => {
            left.push(holder.forks("fork and close").await.0);
        }
        "fork, the child keeps the socket; kill -9" => left.push(holder.forks("fork").await.0),
        "a started program works on; kill -9" => left.push(holder.forks("spawn").await.0),
        "stopped by ptrace" => {
            // A tracer is a thread; the process is stopped for as long as that one traces its threads.
            std::thread::spawn(move || {
                for thread in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
                    let thread = thread.unwrap().file_name().to_str().unwrap().parse().unwrap();
                    ptrace::attach(Pid::from_raw(thread)).unwrap();
                    waitpid(Pid::from_raw(thread), Some(WaitPidFlag::__WALL)).unwrap();
                }
                std::thread::sleep(LEASE * 2);
            });
            return left;
        }
        _ => {}
    }
    if way == "stopped" || way.starts_with("both stopped") {
        kill(process, Signal::SIGSTOP).unwrap();
    }
    if way != "stopped" {
        kill(process, Signal::SIGKILL).unwrap();
    }
    left
}

/// A cgroup of 200 MB for the memory of those in it, where one can be made.
fn group() -> Option<PathBuf> {
    let limit = (200_u64 << 20).to_string();
    for (root, limits) in [
        ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]),
        ("/sys/fs/cgroup", ["memory.max", "memory.swap.max"]),
    ] {
        let group = Path::new(root).join("spindle-drill");
        let _there_already = std::fs::create_dir(&group);
        if std::fs::write(group.join(limits[0]), &limit).is_ok() {
            // Without swap there is nothing to bound.
            let _ = std::fs::write(group.join(limits[1]), &limit);
            return Some(group);
        }
    }
    None
}
