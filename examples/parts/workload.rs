//! The work under way in a fleet: told by the tasks, drawn as a picture, and judged by what they wrote.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{Error, Term};
use tokio::time::{Instant, sleep};

use crate::server::Failure;

pub const LEASE: Duration = Duration::from_secs(2);
/// From one column of the picture to the next.
const COLUMN: Duration = Duration::from_millis(250);
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub const TABLE: &str = "CREATE TABLE marks (
    id STRING(MAX) NOT NULL,
    piece INT64,
    token STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

/// The book of the pieces of work and their workers, kept by the tasks.
#[derive(Clone, Default)]
pub struct Workload(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    at_work: BTreeMap<usize, &'static str>,
    starts: usize,
    wrong: Vec<String>,
}

/// A task at work, until this is dropped.
pub struct AtWork {
    workload: Workload,
    piece: usize,
    id: &'static str,
}

impl Workload {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(&self, piece: usize, id: &'static str) -> AtWork {
        let mut book = self.book();
        if let Some(other) = book.at_work.insert(piece, id) {
            book.wrong.push(format!("{id} was at work on {piece} beside {other}"));
        }
        book.starts += 1;
        AtWork { workload: self.clone(), piece, id }
    }

    /// One that crashed is at work no more.
    pub fn forget(&self, id: &str) {
        self.book().at_work.retain(|_, other| *other != id);
    }

    /// How many tasks have begun.
    pub fn starts(&self) -> usize {
        self.book().starts
    }

    pub fn check(&self) -> Result<(), Failure> {
        match self.book().wrong.first() {
            Some(wrong) => Err(wrong.clone().into()),
            None => Ok(()),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let AtWork { workload, piece, id } = self;
        let mut book = workload.book();
        if book.at_work.get(piece) == Some(id) {
            book.at_work.remove(piece);
        }
    }
}

/// The workers of each piece, column by column.
#[derive(Default)]
pub struct Picture {
    pub workload: Workload,
    columns: Vec<BTreeMap<usize, &'static str>>,
    events: Vec<(usize, &'static str)>,
}

impl Picture {
    /// Draws until it has been so for three columns.
    pub async fn until(
        &mut self,
        event: &'static str,
        is_so: impl Fn(&BTreeMap<usize, &'static str>) -> bool,
    ) -> Result<(), Failure> {
        self.events.push((self.columns.len(), event));
        let start = Instant::now();
        let mut steady = 0;
        while steady < 3 {
            if start.elapsed() > TIME_LIMIT {
                return Err(format!("{event}: nobody came to work as they should").into());
            }
            sleep(COLUMN).await;
            let at_work = self.workload.book().at_work.clone();
            steady = if is_so(&at_work) { steady + 1 } else { 0 };
            self.columns.push(at_work);
        }
        Ok(())
    }

    pub fn print(&self, pieces: usize) {
        for piece in 0..pieces {
            let cells = self.columns.iter().map(|at_work| at_work.get(&piece).unwrap_or(&"."));
            println!("{piece:>3} {}", cells.copied().collect::<String>());
        }
        for (column, event) in &self.events {
            println!("    {}^ {event}", " ".repeat(*column));
        }
        println!("one column is {COLUMN:?}, a lease {LEASE:?}");
    }
}

/// Writes one mark after the other under the term, until it is to stop. An error says that the term is over.
pub async fn work(client: &DatabaseClient, piece: usize, term: &Term) -> Result<(), Error> {
    for number in 0.. {
        tokio::select! {
            () = term.cancelled() => break,
            () = sleep(Duration::from_millis(100)) => {}
        }
        let mark = Mutation::new_insert_builder("marks")
            .set("id")
            .to(format!("{piece}-{}-{number}", term.token()))
            .set("piece")
            .to(i64::try_from(piece).unwrap_or(i64::MAX))
            .set("token")
            .to(term.token().to_string())
            .set("written")
            .to("spanner.commit_timestamp()")
            .build();
        match term.fence().write(client, [mark]).await {
            Err(error) if error.is_fenced() => return Err(error),
            // A write that fails shows as a mark that is missing, and harms nobody.
            _ => {}
        }
    }
    Ok(())
}

/// Nobody may have written after the next one had begun. The table is read without the library.
pub async fn judge(client: &DatabaseClient, least: usize) -> Result<(), Failure> {
    let columns = vec!["piece", "token", "written"];
    let read = ReadRequest::builder("marks", columns).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut marks: Vec<(i64, (i64, i32), String)> = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        let written: Timestamp = row.get("written")?;
        marks.push((row.get("piece")?, (written.seconds(), written.nanos()), row.get("token")?));
    }
    marks.sort();
    for pair in marks.windows(2) {
        let [(one, _, before), (other, _, after)] = pair else { continue };
        // Tokens of this century have the same number of digits.
        if one == other && before > after {
            return Err(format!("{one}: a write under {after} after one under {before}").into());
        }
    }
    println!("{} fenced writes, none of them late", marks.len());
    if marks.len() < least { Err("too few writes to tell".into()) } else { Ok(()) }
}
