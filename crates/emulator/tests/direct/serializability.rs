//! A check that transactions, by what they saw of each other, could have run one by one.
//!
//! Many tasks run random transactions over few rows, and over an index of them. Every write leaves
//! a value of its own, so each value that is read tells whose it is. From that follows who must come
//! before whom. The writer of a value comes before its reader, and a reader before the writer of the
//! next value. Writers of one cell come by their commit timestamps. The transactions are serializable
//! exactly if there is no circle in this, and Cloud Spanner promises more: that the timestamps follow
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle_emulator::engine::*;

use crate::random::Random;

/// Rows that are always there, and that everybody fights for.
const HOT_ROWS: u64 = 8;
/// The two columns of values, each of which is a place of its own.
const COLUMNS: [&str; 2] = ["first", "second"];
const ALL_COLUMNS: [&str; 3] = ["id", "first", "second"];
/// Rows that come into being, at most once each, so that ranges have phantoms to miss.
const SLOTS: u64 = 4;
/// How many transactions share the same slots before the next ones are used.
const PER_WINDOW: u64 = 64;

/// A cell: its row, and which of the columns it is in.
type Place = (u64, usize);

/// The transaction that wrote a value; 0 is what was there at first, or that nothing was.
type Writer = u32;

/// The record of one transaction.
#[derive(Default)]
struct Record {
    reads: Vec<(Place, Writer)>,
    writes: Vec<Place>,
    /// True if a read showed a row twice.
    saw_twice: bool,
    /// Its place in time; `None` if it only read, at a moment that nobody told.
    timestamp: Option<Timestamp>,
}

struct Run {
    database: Database,
    history: Mutex<Vec<Record>>,
    transactions: u64,
    aborted: std::sync::atomic::AtomicU64,
}

fn write(kind: WriteKind, (key, column): Place, writer: Writer) -> Mutation {
    let cells = [("id", (key as i64).into()), (COLUMNS[column], i64::from(writer).into())];
    Mutation::write(kind, "cell", cells)
}

fn hot_place(random: &mut Random) -> Place {
    (random.below(HOT_ROWS), usize::from(random.one_in(2)))
}

/// One that comes into being, in the window of the transaction of this number.
fn slot(number: u64, random: &mut Random) -> Place {
    (Look::window(number).keys.start + random.below(SLOTS), 1)
}

fn key(id: u64) -> Key {
    Key(vec![KeyPart::Ascending(Value::Int64(id as i64))])
}

/// Reads one row, all the slots of a window with those that are empty, or the first rows by an index
/// that the slots are not in.
struct Look {
    read: Read,
    keys: std::ops::Range<u64>,
}

impl Look {
    fn hot(random: &mut Random) -> Look {
        let id = random.below(HOT_ROWS);
        let read = Read { exclusive: random.one_in(8), ..Read::row("cell", ALL_COLUMNS, key(id)) };
        Look { read, keys: id..id + 1 }
    }

    fn index() -> Look {
        let read = Read { index: Some("by_first".into()), ..Read::all("cell", ALL_COLUMNS) };
        Look { read, keys: 0..HOT_ROWS }
    }

    fn window(number: u64) -> Look {
        let first = HOT_ROWS + number / PER_WINDOW * SLOTS;
        let range = KeyRange { start: key(first), end: key(first + SLOTS) };
        let read = Read { keys: vec![range], ..Read::all("cell", ALL_COLUMNS) };
        Look { read, keys: first..first + SLOTS }
    }

    fn note(&self, rows: &[Vec<Value>], record: &mut Record) {
        let seen: BTreeMap<i64, &[Value]> =
            rows.iter().map(|row| (number(&row[0]), &row[1..])).collect();
        record.saw_twice |= seen.len() < rows.len();
        for place in self.keys.clone().flat_map(|id| [(id, 0), (id, 1)]) {
            // Its own writes tell nothing about the others.
            if !record.writes.contains(&place) {
                let writer = seen.get(&(place.0 as i64)).map_or(0, |row| number(&row[place.1]));
                record.reads.push((place, Writer::try_from(writer).unwrap()));
            }
        }
    }
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int64(number) => *number,
        Value::Null => 0,
        other => panic!("not a number: {other}"),
    }
}

impl Run {
    async fn new(transactions: u64) -> Arc<Run> {
        let database = Database::default();
        let ddl = "
            CREATE TABLE cell (id INT64 NOT NULL, first INT64, second INT64) PRIMARY KEY (id);
            CREATE NULL_FILTERED INDEX by_first ON cell (first) STORING (second)";
        database.change_schema(&spindle_emulator::sql::parse_ddl(ddl).unwrap()).unwrap();
        let rows: Vec<_> = (0..HOT_ROWS).map(|id| write(WriteKind::Insert, (id, 0), 0)).collect();
        database.apply(&rows).await.unwrap();
        // The first record stands for what was there before.
        let history = Mutex::new(vec![Record::default()]);
        let aborted = std::sync::atomic::AtomicU64::new(0);
        Arc::new(Run { database, history, transactions, aborted })
    }

    async fn go(self: &Arc<Run>, tasks: u64, seed: u64) {
        let next = Arc::new(std::sync::atomic::AtomicU64::new(1));
        let workers: Vec<_> = (0..tasks)
            .map(|task| {
                let (run, next) = (Arc::clone(self), Arc::clone(&next));
                tokio::spawn(async move {
                    let mut random = Random(seed.wrapping_add(task << 32));
                    loop {
                        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if number > run.transactions {
                            return;
                        }
                        run.transaction(number, &mut random).await;
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
    }

    /// Runs one transaction until it commits or fails for good.
    async fn transaction(&self, number: u64, random: &mut Random) {
        if random.one_in(8) {
            return self.read_only(number, random).await;
        }
        let optimistic = random.one_in(3);
        let mut options = ReadWriteOptions {
            concurrency: if optimistic {
                Concurrency::Optimistic
            } else {
                Concurrency::Pessimistic
            },
            previous: None,
        };
        loop {
            let id = self.database.begin(&options);
            match self.attempt(id, number, random).await {
                Ok(record) => return self.remember(number, record),
                Err(error) if error.code() == Code::Aborted => {
                    self.aborted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    options.previous = Some(id);
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::AlreadyExists, "{error}");
                    self.database.rollback(id).unwrap();
                    return;
                }
            }
        }
    }

    async fn attempt(&self, id: TransactionId, number: u64, random: &mut Random) -> Result<Record> {
        let writer = Writer::try_from(number).unwrap();
        let mut record = Record::default();
        let (mut mutations, mut later) = (Vec::new(), Vec::new());
        for _ in 0..=random.below(4) {
            match random.below(16) {
                0 => self.look(id, &Look::index(), &mut record).await?,
                1..8 => self.look(id, &Look::hot(random), &mut record).await?,
                8..10 => self.look(id, &Look::window(number), &mut record).await?,
                10..12 => {
                    let place = hot_place(random);
                    self.database.write(id, &[write(WriteKind::Update, place, writer)]).await?;
                    record.writes.push(place);
                }
                12..14 => {
                    let place = hot_place(random);
                    mutations.push(write(WriteKind::Update, place, writer));
                    later.push(place);
                }
                14 => {
                    let place = slot(number, random);
                    self.database.write(id, &[write(WriteKind::Insert, place, writer)]).await?;
                    record.writes.push(place);
                }
                _ => {
                    let place = slot(number, random);
                    mutations.push(write(WriteKind::InsertOrUpdate, place, writer));
                    later.push(place);
                }
            }
            if random.one_in(2) {
                tokio::task::yield_now().await;
            }
        }
        let committed = self.database.commit(id, &mutations).await?;
        record.writes.extend(later);
        record.timestamp = (!record.writes.is_empty()).then_some(committed.timestamp);
        Ok(record)
    }

    async fn look(&self, id: TransactionId, look: &Look, record: &mut Record) -> Result<()> {
        let rows = self.database.read(id, look.read.clone()).await?;
        look.note(&rows, record);
        Ok(())
    }

    async fn read_only(&self, number: u64, random: &mut Random) {
        let moment = self.database.read_timestamp(TimestampBound::Strong).unwrap();
        let mut record = Record { timestamp: Some(moment), ..Record::default() };
        for look in [Look::hot(random), Look::index(), Look::window(number)] {
            let rows = self.database.read_at(moment, look.read.clone()).await.unwrap();
            look.note(&rows, &mut record);
            tokio::task::yield_now().await;
        }
        self.remember(number, record);
    }

    /// Makes sure that the index has the rows that the table has, as far as it has such.
    async fn check_index(&self) {
        let moment = self.database.read_timestamp(TimestampBound::Strong).unwrap();
        let read = async |read| self.database.read_at(moment, read).await.unwrap();
        let mut rows = read(Read::all("cell", ALL_COLUMNS)).await;
        rows.retain(|row| !row[1].is_null());
        let mut entries = read(Look::index().read).await;
        entries.sort();
        assert_eq!(entries, rows);
    }

    fn remember(&self, number: u64, record: Record) {
        let mut history = self.history.lock().unwrap();
        let at = usize::try_from(number).unwrap();
        if history.len() <= at {
            history.resize_with(at + 1, Record::default);
        }
        history[at] = record;
    }
}

/// The verdict on a history.
#[derive(Debug)]
struct Verdict {
    edges: usize,
    /// Transactions of which none can be the first.
    in_circles: usize,
    /// Dependencies that go against the timestamps.
    against_time: usize,
    /// Transactions that saw a row twice.
    saw_twice: usize,
}

fn judge(history: &[Record]) -> Verdict {
    let mut versions: BTreeMap<Place, Vec<(Timestamp, Writer)>> = BTreeMap::new();
    for (writer, record) in history.iter().enumerate() {
        for place in &record.writes {
            let timestamp = record.timestamp.unwrap();
            versions.entry(*place).or_default().push((timestamp, writer as Writer));
        }
    }
    let mut after: Vec<Vec<Writer>> = vec![Vec::new(); history.len()];
    let mut next_version = BTreeMap::new();
    for (place, versions) in &mut versions {
        versions.sort_unstable();
        versions.dedup();
        let mut previous = 0;
        for (_, writer) in versions {
            after[previous as usize].push(*writer);
            next_version.insert((*place, previous), *writer);
            previous = *writer;
        }
    }
    for (reader, record) in history.iter().enumerate() {
        let reader = reader as Writer;
        for (place, writer) in &record.reads {
            if *writer != reader {
                after[*writer as usize].push(reader);
            }
            match next_version.get(&(*place, *writer)) {
                Some(overwriter) if *overwriter != reader => {
                    after[reader as usize].push(*overwriter);
                }
                _ => {}
            }
        }
    }
    let time = |number: Writer| history[number as usize].timestamp;
    let dependencies = || {
        let from = after.iter().enumerate();
        from.flat_map(|(from, to)| to.iter().map(move |to| (from as Writer, *to)))
    };
    // A read at a moment comes after a write of that moment.
    let is_against_time = |(from, to): (Writer, Writer)| {
        time(from).zip(time(to)).is_some_and(|(from_time, to_time)| {
            from_time > to_time || from_time == to_time && !history[to as usize].writes.is_empty()
        })
    };
    Verdict {
        edges: dependencies().count(),
        in_circles: in_circles(&after),
        against_time: dependencies().filter(|edge| is_against_time(*edge)).count(),
        saw_twice: history.iter().filter(|record| record.saw_twice).count(),
    }
}

/// How many remain when those that nobody has to precede are taken away again and again.
fn in_circles(after: &[Vec<Writer>]) -> usize {
    let mut before = vec![0_u32; after.len()];
    after.iter().flatten().for_each(|to| before[*to as usize] += 1);
    let mut free: Vec<usize> = (0..after.len()).filter(|number| before[*number] == 0).collect();
    let mut taken = 0;
    while let Some(number) = free.pop() {
        taken += 1;
        for to in &after[number] {
            before[*to as usize] -= 1;
            if before[*to as usize] == 0 {
                free.push(*to as usize);
            }
        }
    }
    after.len() - taken
}

async fn check(transactions: u64, tasks: u64, seed: u64) -> Verdict {
    let started = tokio::time::Instant::now();
    let run = Run::new(transactions).await;
    tokio::time::timeout(Duration::from_secs(86_400), run.go(tasks, seed)).await.unwrap();
    run.check_index().await;
    let verdict = judge(&run.history.lock().unwrap());
    println!(
        "serializability: transactions={transactions} tasks={tasks} seed={seed} \
         aborted={} dependencies={} in_circles={} against_time={} saw_twice={} in {:.1?}",
        run.aborted.load(std::sync::atomic::Ordering::Relaxed),
        verdict.edges,
        verdict.in_circles,
        verdict.against_time,
        verdict.saw_twice,
        started.elapsed(),
    );
    verdict
}

fn assert_serializable(verdict: &Verdict) {
    let found = (verdict.in_circles, verdict.against_time, verdict.saw_twice);
    assert_eq!(found, (0, 0, 0), "{verdict:?}");
}

#[tokio::test(start_paused = true)]
async fn transactions_are_serializable_in_the_order_of_their_timestamps() {
    for seed in 1..=5 {
        assert_serializable(&check(2_000, 16, seed).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_on_several_threads_are_serializable_too() {
    assert_serializable(&check(4_000, 16, 6).await);
}

/// A lost update: both read what was there first, and both wrote.
#[test]
fn the_check_notices_a_circle_and_an_order_against_time() {
    let writer = |second| Record {
        reads: vec![((1, 0), 0)],
        writes: vec![(1, 0)],
        timestamp: Some(Timestamp::from_micros(second)),
        ..Record::default()
    };
    let verdict = judge(&[Record::default(), writer(1), writer(2)]);
    assert!(verdict.in_circles > 0 && verdict.against_time > 0, "{verdict:?}");
    let mut second = writer(2);
    second.reads[0].1 = 1;
    assert_serializable(&judge(&[Record::default(), writer(1), second]));
}

/// `cargo test --release --workspace --test direct a_million -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; a run of its own"]
async fn a_million_transactions_are_serializable() {
    for seed in 1..=10 {
        assert_serializable(&check(100_000, 16, seed).await);
    }
}

/// `cargo test --workspace --test direct a_minute -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; a run of its own"]
async fn a_minute_of_transactions_is_serializable() {
    let started = tokio::time::Instant::now();
    let first: u32 = std::process::id();
    for seed in (u64::from(first)..).take_while(|_| started.elapsed().as_secs() < 60) {
        assert_serializable(&check(10_000, 16, seed).await);
    }
}
