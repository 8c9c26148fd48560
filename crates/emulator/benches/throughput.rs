//! How fast the emulator is, and what it leaves behind: `cargo bench -p spindle-emulator`.
//!
//! Prints a line `NAME: ok KEY=VALUE …` for each measurement. Asserts no figure, only that nothing
//! was lost on the way.

#![allow(clippy::unwrap_used, reason = "a benchmark stops at what it did not expect")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use google_cloud_spanner::builder::SpannerBuilderExt;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner};
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::statement::Statement;
use google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle_emulator::sql::{InTransaction, Parameter, Parameters, Prepared, Statements, execute};
use spindle_emulator::{Emulator, engine};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::Instant;

const DATABASE: &str = "projects/p/instances/i/databases/d";
const DDL: &str = "CREATE TABLE counter (id INT64 NOT NULL, value INT64) PRIMARY KEY (id)";
const RUN: Duration = Duration::from_secs(5);

fn main() {
    // `cargo test --all-targets` starts benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // Client and server on one thread, as `#[tokio::test]` runs them, or on all.
    let one = Builder::new_current_thread().enable_all().build().unwrap();
    let all = Builder::new_multi_thread().enable_all().build().unwrap();
    all.block_on(readiness());
    // Before the others, whose memory the allocator keeps: it would hide what the databases take.
    all.block_on(many_databases(1_000));
    one.block_on(single_row_commits("one-thread", 64));
    all.block_on(single_row_commits("all-threads", 64));
    one.block_on(commits_on_the_program("one-thread", 64));
    all.block_on(commits_on_the_program("all-threads", 64));
    one.block_on(point_queries_over_grpc(1_000_000));
    all.block_on(async {
        contended_row(16).await;
        without_network(64).await;
        statements_in_one_transaction(10_000).await;
        point_queries(1_000_000).await;
    });
}

/// From nothing to the first reply, as a test that starts an emulator of its own pays for it.
async fn readiness() {
    let mut started = Vec::new();
    let mut answered = Vec::new();
    for _ in 0..50 {
        let begin = Instant::now();
        let emulator = Emulator::start().await.unwrap();
        emulator.create_database(DATABASE, DDL).await.unwrap();
        started.push(begin.elapsed());
        let client = connect(&emulator.endpoint()).await;
        drop(client.single_use().build().execute_read(value_of(1)).await.unwrap());
        answered.push(begin.elapsed());
        emulator.stop().await;
    }
    let (started, answered) = (median(&mut started), median(&mut answered));
    println!(
        "ready: ok listening_ms={:.3} first_reply_ms={:.3} samples=50",
        millis(started),
        millis(answered)
    );
}

/// Client and server in this process.
async fn single_row_commits(threads: &str, tasks: i64) {
    let emulator = Emulator::start().await.unwrap();
    emulator.create_database(DATABASE, DDL).await.unwrap();
    let client = connect(&emulator.endpoint()).await;
    let name = format!("single-row-commits-{threads}");
    commit_rows(&name, client, tasks, &[std::process::id()]).await;
    emulator.stop().await;
}

/// The server is the program, in a process of its own, on all threads.
async fn commits_on_the_program(threads: &str, tasks: i64) {
    let ddl = concat!(env!("CARGO_TARGET_TMPDIR"), "/throughput.sql");
    std::fs::write(ddl, DDL).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_spindle-emulator"))
        .args(["--port", "0", "--database", DATABASE, "--ddl", ddl])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let address = first.trim().strip_prefix("export SPANNER_EMULATOR_HOST=").unwrap();
    let client = connect(&format!("http://{address}")).await;
    let name = format!("program-single-row-commits-{threads}");
    commit_rows(&name, client, tasks, &[std::process::id(), program.id()]).await;
    program.kill().unwrap();
    program.wait().unwrap();
}

/// Repeats work in so many tasks; gives how often, and how often a second.
async fn repeat<F: Future<Output = ()> + Send + 'static>(
    tasks: i64,
    work: impl Fn(i64) -> F + Clone + Send + 'static,
) -> (u64, f64) {
    let begin = Instant::now();
    let mut workers = JoinSet::new();
    for id in 0..tasks {
        let work = work.clone();
        workers.spawn(async move {
            let mut count = 0_u64;
            while begin.elapsed() < RUN {
                work(id).await;
                count += 1;
            }
            count
        });
    }
    let count = workers.join_all().await.into_iter().sum();
    (count, count as f64 / begin.elapsed().as_secs_f64())
}

async fn commit_rows(name: &str, client: DatabaseClient, tasks: i64, processes: &[u32]) {
    let computed = computed_seconds(processes);
    let (commits, rate) = repeat(tasks, move |id| {
        let transaction = client.write_only_transaction().build();
        async move { drop(transaction.write_at_least_once(vec![set(id, 1)]).await.unwrap()) }
    })
    .await;
    let each = (computed_seconds(processes) - computed) * 1e6 / commits as f64;
    println!("{name}: ok tasks={tasks} per_second={rate:.0} processor_us_each={each:.0}");
}

async fn contended_row(tasks: i64) {
    let emulator = Emulator::start().await.unwrap();
    let database = emulator.create_database(DATABASE, DDL).await.unwrap();
    let client = connect(&emulator.endpoint()).await;
    client.write_only_transaction().build().write_at_least_once(vec![set(1, 0)]).await.unwrap();
    let attempts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&attempts);
    let (commits, rate) =
        repeat(tasks, move |_| increment(client.clone(), Arc::clone(&counted))).await;
    let row = database.rows("counter").unwrap().remove(0);
    let committed = engine::Value::Int64(i64::try_from(commits).unwrap());
    assert_eq!(row["value"], committed, "an increment was lost");
    println!(
        "read-modify-write-of-one-row: ok tasks={tasks} per_second={rate:.0} none_lost_of={commits} \
         attempts={}",
        attempts.load(Ordering::Relaxed)
    );
    emulator.stop().await;
}

async fn increment(client: DatabaseClient, attempts: Arc<AtomicU64>) {
    let increment = move |transaction: ReadWriteTransaction| {
        attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut rows = transaction.execute_read(value_of(1)).await?;
            let row = rows.next().await.transpose()?.unwrap();
            transaction.buffer([set(1, row.get::<i64>("value").unwrap() + 1)])
        }
    };
    client.read_write_transaction().build().run(increment).await.unwrap();
}

/// The engine alone, as a simulator uses it.
async fn without_network(tasks: i64) {
    let database = engine::Database::default();
    database.change_schema(&spindle_emulator::sql::parse_ddl(DDL).unwrap()).unwrap();
    let (_, rate) = repeat(tasks, move |id| {
        let database = database.clone();
        async move {
            let cells = [("id", id.into()), ("value", 1_i64.into())];
            let kind = engine::WriteKind::InsertOrUpdate;
            let write = [engine::Mutation::write(kind, "counter", cells)];
            database.apply(&write).await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    println!("engine-single-row-commits: ok tasks={tasks} per_second={rate:.0}");
}

/// Many statements that write in one transaction, on the engine itself.
async fn statements_in_one_transaction(count: i64) {
    let database = engine::Database::default();
    database.change_schema(&spindle_emulator::sql::parse_ddl(DDL).unwrap()).unwrap();
    let begin = Instant::now();
    let id = database.begin(&engine::ReadWriteOptions::default());
    for number in 0..count {
        let insert = format!("INSERT INTO counter (id, value) VALUES ({number}, 1)");
        run(&mut InTransaction::new(&database, engine::Handle::ReadWrite(id)), &insert).await;
    }
    database.commit(id, &[]).await.unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    println!("dml-in-one-transaction: ok statements={count} seconds={seconds:.3}");
}

/// Makes a table of rows and an index on it.
async fn fill(database: &engine::Database, count: i64) {
    let ddl = format!("{DDL}; CREATE INDEX by_value ON counter (value)");
    database.change_schema(&spindle_emulator::sql::parse_ddl(&ddl).unwrap()).unwrap();
    for first in (0..count).step_by(10_000) {
        let insert = |id: i64| {
            let cells = [("id", id.into()), ("value", (-id).into())];
            engine::Mutation::write(engine::WriteKind::Insert, "counter", cells)
        };
        let rows: Vec<_> = (first..count.min(first + 10_000)).map(insert).collect();
        database.apply(&rows).await.unwrap();
    }
}

/// How one row is queried: by its key and by an index.
const POINT_QUERIES: [(&str, &str, i64); 2] = [
    ("key", "SELECT id FROM counter WHERE id = @p", 1),
    ("index", "SELECT id FROM counter WHERE value = @p", -1),
];

/// Queries for one row, beside reads of one row, on the engine.
async fn point_queries(count: i64) {
    const QUERIES: i64 = 10_000;
    let database = engine::Database::default();
    fill(&database, count).await;
    let moment = database.read_timestamp(engine::TimestampBound::Strong).unwrap();
    let table = database.schema().table("counter").unwrap().clone();
    let micros = |begin: Instant| begin.elapsed().as_secs_f64() * 1e6 / QUERIES as f64;
    let begin = Instant::now();
    for number in 0..QUERIES {
        let key = table.key([(number * 97 % count).into()]).unwrap();
        let read = engine::Read::row("counter", ["id"], key);
        assert_eq!(database.read_at(moment, read).await.unwrap().len(), 1);
    }
    let read = micros(begin);
    let statements = Statements::default();
    for (what, query, sign) in POINT_QUERIES {
        let begin = Instant::now();
        for number in 0..QUERIES {
            let value = sign * (number * 97 % count);
            let value = Parameter::Typed(engine::Type::Int64, value.into());
            let parameters = Parameters::from_iter([("p", value)]);
            let mut access = InTransaction::new(&database, engine::Handle::ReadOnly(moment));
            let statement = statements.prepare(query).unwrap();
            let outcome = execute(&statement, &parameters, &mut access).await.unwrap();
            assert_eq!(outcome.rows.len(), 1);
        }
        let each = micros(begin);
        println!(
            "point-query-by-{what}: ok rows={count} each_us={each:.1} a_point_read_us={read:.1}"
        );
    }
}

/// The same from one task of a client.
async fn point_queries_over_grpc(count: i64) {
    const QUERIES: i64 = 5_000;
    let emulator = Emulator::start().await.unwrap();
    let database = emulator.create_database(DATABASE, "").await.unwrap();
    fill(&database, count).await;
    let client = connect(&emulator.endpoint()).await;
    let micros = |begin: Instant| begin.elapsed().as_secs_f64() * 1e6 / QUERIES as f64;
    let begin = Instant::now();
    for number in 0..QUERIES {
        let read = value_of(number * 97 % count);
        let mut rows = client.single_use().build().execute_read(read).await.unwrap();
        assert!(rows.next().await.unwrap().is_ok());
    }
    let read = micros(begin);
    for (what, query, sign) in POINT_QUERIES {
        let begin = Instant::now();
        for number in 0..QUERIES {
            let value = sign * (number * 97 % count);
            let query = Statement::builder(query).add_param("p", value).build();
            let mut rows = client.single_use().build().execute_query(query).await.unwrap();
            assert!(rows.next().await.unwrap().is_ok());
        }
        let each = micros(begin);
        println!(
            "grpc-point-query-by-{what}: ok rows={count} each_us={each:.1} a_point_read_us={read:.1}"
        );
    }
    emulator.stop().await;
}

async fn run(access: &mut InTransaction<'_>, text: &str) {
    let statement = Prepared::new(text).unwrap();
    execute(&statement, &Parameters::default(), access).await.unwrap();
}

async fn many_databases(count: usize) {
    let emulator = Emulator::start().await.unwrap();
    let name = |number| format!("projects/p/instances/i/databases/d{number}");
    let round = async || {
        for number in 0..count {
            let database = emulator.create_database(&name(number), DDL).await.unwrap();
            let cells = [("id", 1_i64.into()), ("value", 1_i64.into())];
            let insert = engine::Mutation::write(engine::WriteKind::Insert, "counter", cells);
            database.apply(&[insert]).await.unwrap();
        }
        let full = resident_kib();
        for number in 0..count {
            assert!(emulator.drop_database(&name(number)));
        }
        full
    };
    // The first round pays for what the allocator keeps.
    round().await;
    let before = resident_kib();
    let full = round().await;
    let after = resident_kib();
    match (before, full, after) {
        (Some(before), Some(full), Some(after)) => println!(
            "memory: ok databases={count} before_kib={before} full_kib={full} after_kib={after}"
        ),
        _ => println!("memory: not known on this system"),
    }
    emulator.stop().await;
}

/// The memory that this process occupies.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The processor time of processes so far; NaN where the system doesn't say.
fn computed_seconds(processes: &[u32]) -> f64 {
    let schedstat = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let tasks = |process: &u32| std::fs::read_dir(format!("/proc/{process}/task"));
    let Ok(threads) = processes.iter().map(tasks).collect::<Result<Vec<_>, _>>() else {
        return f64::NAN;
    };
    threads.into_iter().flatten().flatten().filter_map(schedstat).sum::<f64>() / 1e9
}

async fn connect(endpoint: &str) -> DatabaseClient {
    let spanner = Spanner::builder()
        .with_endpoint(endpoint)
        .with_channel_pool(StaticChannelPoolConfig::new(1))
        .build()
        .await
        .unwrap();
    spanner.database_client(DATABASE).build().await.unwrap()
}

fn set(id: i64, value: i64) -> Mutation {
    let mutation = Mutation::new_insert_or_update_builder("counter").set("id").to(id);
    mutation.set("value").to(value).build()
}

fn value_of(id: i64) -> ReadRequest {
    ReadRequest::builder("counter", ["value"])
        .with_keys(KeySet::builder().add_key(key![id]).build())
        .build()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(durations: &mut [Duration]) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}
