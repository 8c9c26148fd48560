//! Processes that hold by themselves and die: the agent of their host releases for them.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fork::{Fork, fork};
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle::google_cloud_spanner::client::Spanner;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::health::Failing;
use spindle::{
    CancellationToken, Database, Ddl, FencingToken, LockTable, Spindle, Term, TermChange,
};

use crate::on_socket::{OnSocket, in_a_process, own_path};
use crate::world::{DATABASE, Running, TIME_LIMIT, World, until};

/// Short enough to be waited for, and longer than a busy machine keeps a process from its turn.
const LEASE: Duration = Duration::from_secs(9);

/// A holder's write under its fence, where the database has such a table.
pub const ORDERS: &str = "CREATE TABLE orders (
  id STRING(MAX) NOT NULL,
  lock STRING(MAX) NOT NULL,
  token INT64 NOT NULL,
  written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

/// A process that holds one lock.
pub struct Holder {
    pub running: Running,
    pub token: FencingToken,
    /// Its number where this test looks from.
    process: Pid,
}

impl Holder {
    pub async fn start(world: &World, agent: &OnSocket, lock: &str) -> Holder {
        Holder::begin(world, Some(&agent.socket), lock, LEASE, false).await
    }

    /// One that the agent of this socket releases for, in a PID namespace of its own or in this one.
    pub async fn begin(
        world: &World,
        socket: Option<&Path>,
        lock: &str,
        lease: Duration,
        unshared: bool,
    ) -> Holder {
        let (endpoint, lease) = (world.emulator.endpoint(), lease.as_millis().to_string());
        let mut variables = vec![
            ("HOLDER_ENDPOINT", endpoint.as_ref()),
            ("HOLDER_LOCK", lock.as_ref()),
            ("HOLDER_LEASE", lease.as_ref()),
        ];
        variables.extend(socket.map(|socket| ("HOLDER_SOCKET", socket.as_os_str())));
        let part = "exits::a_holder_in_a_process_of_its_own";
        let mut running = in_a_process(part, &variables, unshared);
        let line = running.says("holds ").await;
        let token = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        let process = process(&running, unshared);
        Holder { running, token, process }
    }

    pub fn process(&self) -> Pid {
        self.process
    }

    /// The process of a child, and whether it believes that it holds.
    pub async fn forks(&mut self, how: &str) -> (Pid, bool) {
        self.running.told(how).await;
        let line = self.running.says("child ").await;
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|word| *word == "child").unwrap();
        (Pid::from_raw(words[at + 1].parse().unwrap()), words[at + 2] == "true")
    }
}

/// The process itself, and not the one that made its namespace.
pub fn process(running: &Running, unshared: bool) -> Pid {
    let id = running.child.id().unwrap();
    let children = || std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let id = if unshared { children().trim().parse().unwrap() } else { id };
    Pid::from_raw(id.cast_signed())
}

/// The holder's end. Not a test of its own.
#[test]
#[ignore = "a part of the others"]
fn a_holder_in_a_process_of_its_own() {
    let Ok(endpoint) = std::env::var("HOLDER_ENDPOINT") else { return };
    let variable = |name: &str| std::env::var(name).unwrap();
    let mut table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    if let Some(socket) = std::env::var_os("HOLDER_SOCKET") {
        table = table.release_on_exit(socket);
    }
    let lease = Duration::from_millis(variable("HOLDER_LEASE").parse().unwrap());
    let lock = table.lock(variable("HOLDER_LOCK")).lease(lease).build().unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (cancel, mut changes) = (CancellationToken::new(), lock.watch());
    let _running = lock.run(cancel.clone());
    let Some(TermChange::Gained(term)) = runtime.block_on(changes.next()) else {
        panic!("no term")
    };
    println!("holds {}", term.token());
    runtime.spawn(writes(variable("HOLDER_ENDPOINT"), term));
    for order in std::io::stdin().lock().lines() {
        match order.unwrap().as_str() {
            "abort" => std::process::abort(),
            // `panic=abort` ends a panic so.
            "panic" => {
                std::panic::set_hook(Box::new(|_| std::process::abort()));
                panic!("as it is told");
            }
            "exit" => std::process::exit(1),
            "dump" => {
                let all = rlim_t::MAX;
                // Where it may not, there is nothing to dump.
                let _ = setrlimit(Resource::RLIMIT_CORE, all, all);
                let folder = dump_of(std::process::id());
                std::fs::create_dir(&folder).unwrap();
                std::env::set_current_dir(&folder).unwrap();
                let kept = std::hint::black_box(vec![1_u8; 50 << 20]);
                println!("dumps {}", kept.len());
                std::process::abort();
            }
            "eat" => loop {
                std::mem::forget(vec![1_u8; 16 << 20]);
            },
            "return" => return,
            "exec" => {
                drop(std::os::unix::process::CommandExt::exec(Command::new("sleep").arg("99")))
            }
            "spawn" => {
                let mut child = Command::new("sleep").arg("99").spawn().unwrap();
                println!("child {} false", child.id());
                // It outlives this process, which is killed.
                std::thread::spawn(move || child.wait());
            }
            how => forks(&lock, how == "fork and close"),
        }
    }
}

/// Where a process dumps its core.
pub fn dump_of(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("spindle-dump-{process}"))
}

/// Writes under the fence, again and again.
async fn writes(endpoint: String, term: Term) {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await.unwrap();
    let client = spanner.database_client(DATABASE).build().await.unwrap();
    for n in 0.. {
        let id = format!("{}/{n}", term.lock());
        let order = Mutation::new_insert_builder("orders").set("id").to(id);
        let order = order.set("lock").to(term.lock().to_string());
        let token = i64::try_from(term.token().as_nanoseconds()).unwrap();
        let order =
            order.set("token").to(token).set("written").to("spanner.commit_timestamp()").build();
        // A test may have no such table, and the term may be over.
        if term.fence().write(&client, [order]).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Makes a child that works on, with the stream to the agent or without.
fn forks(lock: &Spindle, closes: bool) {
    // Only this thread goes on in the child, so that it may not print.
    let (mut told, tells) = std::io::pipe().unwrap();
    match fork().unwrap() {
        Fork::Child => {
            let believes = lock.has_lock().is_some();
            std::io::Write::write_all(&mut { tells }, &[u8::from(believes)]).unwrap();
            let files = std::fs::read_dir("/proc/self/fd").unwrap();
            let files: Vec<i32> =
                files.filter_map(|file| file.unwrap().file_name().to_str()?.parse().ok()).collect();
            for file in files.into_iter().filter(|file| closes && *file > 2) {
                // The directory's own is closed already.
                let _ = nix::unistd::close(file);
            }
            std::thread::sleep(TIME_LIMIT);
            std::process::exit(0);
        }
        Fork::Parent(child) => {
            drop(tells);
            let mut believes = [0];
            std::io::Read::read_exact(&mut told, &mut believes).unwrap();
            println!("child {child} {}", believes == [1]);
        }
    }
}

/// Waits until each term is older than its lease by Spanner's clock, and was renewed since.
pub async fn grow_old(world: &World, locks: &[&str], lease: Duration) {
    world.emulator.advance(lease);
    for lock in locks {
        until("it is renewed", async || {
            let state = world.table.inspect(lock).await.unwrap();
            state.heartbeat_age.is_some_and(|age| age < lease / 2)
        })
        .await;
    }
}

pub async fn token(world: &World, lock: &str) -> FencingToken {
    world.table.inspect(lock).await.unwrap().token.unwrap()
}

#[tokio::test]
async fn the_lock_of_a_process_that_dies_is_released_however_it_dies() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "dies").await;
    let ways = ["killed", "abort", "panic", "exit", "return", "fork and close", "fork"];
    let mut holders = Vec::new();
    for way in ways {
        holders.push(Holder::start(&world, &agent, way).await);
    }
    agent.says("spindle_agent_watched 7").await;
    grow_old(&world, &ways, LEASE).await;
    let mut children = Vec::new();
    for (way, holder) in ways.iter().zip(&mut holders) {
        if way.starts_with("fork") {
            let (child, believes) = holder.forks(way).await;
            assert!(!believes, "the agent may release as soon as its parent is gone");
            children.push(child);
        }
        match *way {
            "abort" | "panic" | "exit" | "return" => holder.running.told(way).await,
            _ => holder.running.signal(Signal::SIGKILL),
        }
    }
    agent.says("spindle_agent_exited_total 6").await;
    for (way, holder) in ways.into_iter().zip(holders) {
        let is_released = token(&world, way).await > holder.token;
        assert_eq!(is_released, way != "fork", "{way}: a child that has the stream works on");
    }
    for child in children {
        kill(child, Signal::SIGKILL).unwrap();
    }
}

#[tokio::test]
async fn a_program_that_the_dead_process_has_started_keeps_its_lease() {
    let world = World::start().await;
    let agent = OnSocket::start(&world, "started").await;
    let (mut starts, dies) = (
        Holder::start(&world, &agent, "starts").await,
        Holder::start(&world, &agent, "dies").await,
    );
    agent.says("spindle_agent_watched 2").await;
    grow_old(&world, &["starts", "dies"], LEASE).await;
    let (child, _) = starts.forks("spawn").await;
    starts.running.signal(Signal::SIGKILL);
    dies.running.signal(Signal::SIGKILL);
    agent.says("spindle_agent_exited_total 1").await;
    assert!(token(&world, "dies").await > dies.token);
    assert_eq!(token(&world, "starts").await, starts.token, "what it started works on");
    kill(child, Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn an_agent_that_comes_late_or_comes_back_is_told_of_all_instances() {
    let other = LockTable::ddl(Ddl::GoogleSql).replace("locktable", "other");
    let world = World::with(&format!("{};\n{other}", LockTable::ddl(Ddl::GoogleSql))).await;
    let socket = own_path("late");
    let table = LockTable::new(Database::at(world.emulator.endpoint(), DATABASE), "locktable");
    let table = table.release_on_exit(&socket);
    let lock = table.lock("a").lease(Duration::from_secs(60)).build().unwrap();
    let cancel = CancellationToken::new();
    let running = lock.run(cancel.clone());
    let trouble = async |why: &str| {
        until(why, async || {
            lock.health().trouble.is_some_and(|trouble| trouble.error.to_string().contains(why))
        })
        .await;
        let health = lock.health();
        assert!(health.is_ready() && health.is_alive(), "the lock works as ever: {health:?}");
        assert_eq!(health.trouble.map(|trouble| trouble.what), Some(Failing::Agent));
    };
    until("it holds", async || lock.has_lock().is_some()).await;
    trouble("No such file").await;
    let agent = OnSocket::at(&world, socket.clone(), &["--table", "other"]).await;
    trouble("table: `locktable` there and `other` here").await;
    agent.killed().await;
    for _ in 0..2 {
        let agent = OnSocket::at(&world, socket.clone(), &[]).await;
        agent.says("spindle_agent_watched 1").await;
        until("nothing is the matter", async || lock.health().trouble.is_none()).await;
        agent.killed().await;
        trouble("ended").await;
    }
    let agent = OnSocket::at(&world, socket.clone(), &[]).await;
    agent.says("spindle_agent_watched 1").await;
    // One that stays keeps the stream.
    let (other, end) = (table.lock("b").build().unwrap(), CancellationToken::new());
    let stays = other.run(end.clone());
    agent.says("spindle_agent_watched 2").await;
    cancel.cancel();
    running.await.unwrap();
    agent.says("spindle_agent_watched 1").await;
    end.cancel();
    stays.await.unwrap();
    agent.says("spindle_agent_watched 0").await;
}
