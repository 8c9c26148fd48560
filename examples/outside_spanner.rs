//! Fencing what isn't Spanner: a file and a SQLite database, both of which refuse a late writer.
//!
//! ```text
//! cargo run --example outside_spanner
//! ```

#[path = "parts/server.rs"]
mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rusqlite::Connection;
use spindle::google_cloud_spanner::client::Spanner;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, FencingToken, HighWaterMark, LockTable, RunHandle, Spindle};
use tokio::time::{sleep, timeout};

use crate::server::Server;

const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
const LEASE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let place = std::env::temp_dir().join(format!("spindle-outside-{}", std::process::id()));
    let told = match std::fs::create_dir_all(&place) {
        Ok(()) => tell(&place).await,
        Err(error) => Err(error.into()),
    };
    // Nobody needs what was left behind.
    let _ = std::fs::remove_dir_all(&place);
    match told {
        Ok(verdict) => {
            println!("{verdict}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("outside_spanner: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tell(place: &Path) -> Result<String, Failure> {
    let spanner = Server::start(DATABASE, LockTable::DDL).await?;
    let (a, _a_runs) = contend(&spanner, "a")?;
    let first = held(&a).await?;
    println!("a leads under {first}");

    let file = LedgerFile::open(place.join("ledger.txt"))?;
    let sqlite = place.join("ledger.sqlite");
    let database = Connection::open(&sqlite)?;
    database.execute_batch(
        "CREATE TABLE ledger (id INTEGER PRIMARY KEY, line TEXT NOT NULL, fence INTEGER NOT NULL);
         INSERT INTO ledger VALUES (1, 'opened', 0);",
    )?;
    file.append(&first.to_string(), "a: on time")??;
    expect(set_line(&database, first, "a: on time")?, true, "a's write on time to SQLite")?;
    println!("a writes to the file and to SQLite");

    let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
    let (b, _b_runs) = contend(&spanner, "b")?;
    table.seize("ledger").for_contender("b").await?;
    let second = held(&b).await?;
    println!("b was given the lock, and leads under {second}");
    file.append(&second.to_string(), "b: on time")??;
    expect(set_line(&database, second, "b: on time")?, true, "b's write on time to SQLite")?;

    // Process a wakes from a pause in the middle of its work. It has the token in its hand, and
    // nobody has told it.
    let refused = file.append(&first.to_string(), "a: late")?;
    match refused {
        Err(error) if error.is_fenced() => println!("the file refuses a's late write: {error}"),
        other => return Err(format!("the file did not refuse a's late write: {other:?}").into()),
    }
    expect(set_line(&database, first, "a: late")?, false, "a's late write to SQLite")?;
    println!("SQLite changes no row for a's late write");
    // A file that is opened again remembers: the mark is kept with what it guards.
    drop(file);
    let file = LedgerFile::open(place.join("ledger.txt"))?;
    let Err(_) = file.append(&first.to_string(), "a: later still")? else {
        return Err("the file forgot what it had seen".into());
    };
    judge(&spanner.endpoint(), place, second).await
}

/// A file that takes lines from leaders. It stands for a service: tokens come in as headers.
struct LedgerFile {
    path: PathBuf,
    mark: HighWaterMark,
}

impl LedgerFile {
    /// The mark goes on from the last line's token.
    fn open(path: PathBuf) -> Result<LedgerFile, Failure> {
        let written = if path.exists() { std::fs::read_to_string(&path)? } else { String::new() };
        let mark = match written.lines().last().and_then(|line| line.split_once(' ')) {
            Some((token, _)) => HighWaterMark::starting_at(token.parse()?),
            None => HighWaterMark::new(),
        };
        Ok(LedgerFile { path, mark })
    }

    /// Looks at the token and writes before anyone else may.
    fn append(&self, header: &str, line: &str) -> Result<spindle::Result<()>, Failure> {
        let token = FencingToken::from_header_value(header.as_bytes())?;
        let written = self.mark.admit_to(token, || {
            let mut file = std::fs::File::options().create(true).append(true).open(&self.path)?;
            writeln!(file, "{token} {line}")
        });
        match written {
            Ok(wrote) => Ok(Ok(wrote?)),
            Err(refused) => Ok(Err(refused)),
        }
    }
}

/// One statement compares the mark and raises it.
fn set_line(database: &Connection, token: FencingToken, line: &str) -> Result<bool, Failure> {
    let changed = database.execute(
        "UPDATE ledger SET line = :line, fence = :token WHERE id = 1 AND fence <= :token",
        rusqlite::named_params! { ":line": line, ":token": token.as_nanoseconds().cast_signed() },
    )?;
    Ok(changed == 1)
}

fn expect(found: bool, expected: bool, what: &str) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{what}: applied: {found}").into()) }
}

/// Judges what is there, read without the library.
async fn judge(endpoint: &str, place: &Path, second: FencingToken) -> Result<String, Failure> {
    let written = std::fs::read_to_string(place.join("ledger.txt"))?;
    let lines: Vec<_> = written.lines().filter_map(|line| line.split_once(' ')).collect();
    if lines.iter().map(|(_, line)| *line).ne(["a: on time", "b: on time"]) {
        return Err(format!("the file says: {written}").into());
    }
    let database = Connection::open(place.join("ledger.sqlite"))?;
    let (line, fence): (String, i64) =
        database.query_row("SELECT line, fence FROM ledger", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if line != "b: on time" {
        return Err(format!("SQLite says: {line}").into());
    }
    // The token that both have seen last is the one that Spanner has for the lock.
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    let client = spanner.database_client(DATABASE).build().await?;
    let keys = KeySet::builder().add_key(key!["ledger"]).build();
    let read = ReadRequest::builder("locktable", vec!["token"]).with_keys(keys).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let token: Timestamp = rows.next().await.ok_or("the lock has no row")??.get("token")?;
    let token = token.seconds() * 1_000_000_000 + i64::from(token.nanos());
    if fence != token || lines[1].0 != token.to_string() || second.to_string() != lines[1].0 {
        return Err(format!("Spanner has {token}, SQLite {fence}, the file {}", lines[1].0).into());
    }
    Ok("outside_spanner: ok file_refused=2/2 sqlite_refused=1/1".to_string())
}

fn contend(spanner: &Server, id: &str) -> Result<(Spindle, RunHandle), Failure> {
    let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
    let lock = table.lock("ledger").id(id).lease(LEASE).build()?;
    let running = lock.run(CancellationToken::new());
    Ok((lock, running))
}

async fn held(lock: &Spindle) -> Result<FencingToken, Failure> {
    let holding = async {
        loop {
            if let Some(token) = lock.has_lock() {
                return token;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    Ok(timeout(PATIENCE, holding).await.map_err(|_| format!("{} never led", lock.id()))?)
}
