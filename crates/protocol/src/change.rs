//! The meaning of each act on the lock table: which rows it reads, when it is refused, what it
//! writes.
//!
//! Defined once. The library, the simulation and the model read the rows of [`Change::reads`], ask
//! [`Change::judge`], and carry the writes out. A change is judged by its own rows alone, so that
//! one transaction can carry many of them.

use std::time::Duration;

use crate::fleet::Count;
use crate::job::{self, RecordChange};
use crate::line::{self, Place};
use crate::{
    Act, Cell, Column, Rejection, Row, Seen, StoredRow, Succession, TermId, Timestamp, Write,
    WriteKind, Writer, takeover_key,
};

/// One change of the rows of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Begins a term where there is no row.
    Insert {
        /// The term's writer.
        writer: Writer,
        /// The holder's lease and info.
        holder: Holder,
    },
    /// Begins a term in place of `seen`.
    Takeover {
        /// The row as it was observed.
        seen: Row,
        /// The term's writer.
        writer: Writer,
        /// The holder's lease and info.
        holder: Holder,
        /// The place in line that it has waited for in vain.
        passes: Option<Place>,
    },
    /// Extends a term's lease.
    Heartbeat {
        /// The term.
        term: TermId,
        /// True if it reads who stands first in line, too.
        looks: bool,
    },
    /// Writes a place in line: a hint, which touches no cell that identifies a term.
    Mark {
        /// The place.
        place: Place,
    },
    /// Ends a term by its holder's hand.
    Release {
        /// The term.
        term: TermId,
        /// The succession to the term.
        next: Succession,
    },
    /// Ends whatever term there is; contenders still wait out its lease.
    Evict {
        /// The text left in `info`.
        info: Option<String>,
    },
    /// Frees the lock at once, from any holder.
    Seize {
        /// The succession to the term.
        next: Succession,
        /// The text left in `info`.
        info: Option<String>,
    },
    /// Makes the change only if the row names the holder and has the token that are expected, so that
    /// it ends no other term.
    Expecting {
        /// The holder and the token that the row has to have.
        expected: Expected,
        /// The change.
        change: Box<Change>,
    },
    /// Deletes the lock row, if it is still as it was seen, its takeover row, and others of the lock.
    Remove {
        /// The row as it was seen; none if there was none.
        seen: Option<Row>,
        /// The keys of rows that go if they are takeover rows: what others left, or a lock row that
        /// was deleted by hand.
        takeovers: Vec<String>,
    },
    /// Names the count of a group's shards, in a row that nobody holds. Its `writer` names it, since a
    /// table may lack `info`.
    NameCount {
        /// The row as it was seen; none if there was none.
        seen: Option<Row>,
        /// The count.
        count: Count,
    },
    /// Begins or ends a term of a job together with the record of its slot, which stands in the job's
    /// own row. Of a fence, the caller's own writes are the end.
    Job {
        /// The begin, the release or the fence.
        term: Box<Change>,
        /// The change of the record.
        record: RecordChange,
    },
    /// Records the last slot of a job as failed, since its last start was lost.
    FailSlot {
        /// The job's row as it was seen.
        seen: Row,
        /// The key of the lock's row, and the row, seen without a term: if it still is so, no start runs.
        lock: (String, Option<Row>),
    },
    /// Writes nothing: the condition of a fenced write of the term.
    Fence {
        /// The term.
        term: TermId,
    },
    /// Begins a reader's term, in a row of the reader's own, where nobody writes or waits to.
    ///
    /// A writer that ended without a release is released: its fence fails from then on (I3).
    BeginRead {
        /// The gate and the write lock, by their keys, as each was observed to be vacant; none where
        /// there was no row.
        vacant: Box<[(String, Option<Row>); 2]>,
        /// The reader's own row as it was observed; none if there was none.
        seen: Option<Row>,
        /// The term's writer.
        writer: Writer,
        /// The holder's lease and info.
        holder: Holder,
    },
    /// Ends a reader's term: its row goes.
    EndRead {
        /// The term.
        term: TermId,
    },
    /// Begins a term of the write lock, for who holds the gate and has waited for the readers. Their
    /// rows go, and with them their fences (I3).
    BeginWrite {
        /// The key of the gate, and the term that keeps new readers out there.
        gate: (String, TermId),
        /// The readers' rows as they were observed to be vacant, by their keys.
        readers: Vec<(String, Row)>,
        /// The begin of an ordinary lock.
        begin: Box<Change>,
    },
}

/// A holder's lease and info.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Its lease.
    pub lease: Duration,
    /// Its own text.
    pub info: Option<String>,
}

/// The term that an operator means: by its holder's id, its token, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Expected {
    /// The holder's id, if it has to be this one.
    pub holder: Option<String>,
    /// The token in the row, if it has to be this one.
    pub token: Option<Timestamp>,
}

impl Expected {
    /// As [`Change::judge`] of the change, if the row is of the term that is meant.
    fn judge(
        &self,
        change: &Change,
        lock: &str,
        found: &[StoredRow],
    ) -> Result<Vec<Write>, Rejection> {
        let Expected { holder, token } = self;
        let lock_row = found.iter().find(|row| row.key == lock);
        let row = lock_row.map(StoredRow::row);
        let id = row.as_ref().and_then(|row| row.writer.id());
        let is_holder = holder.is_none() || holder.as_deref() == id;
        let is_token = token.is_none() || *token == row.as_ref().map(|row| row.token);
        if is_holder && is_token { change.judge(lock, found) } else { Err(changed(lock_row)) }
    }
}

/// The reads of a change: rows by their exact keys, with these columns beside the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reads {
    /// The keys.
    pub keys: Vec<String>,
    /// The columns.
    pub columns: &'static [Column],
}

/// The columns that identify a term. A heartbeat reads no more, so that it contends with no other
/// column.
const TERM: &[Column] = &[Column::Token, Column::Writer];

/// The columns that identify one heartbeat of one term, and tell a lock row from a takeover row.
const HEARTBEAT: &[Column] = &[Column::Heartbeat, Column::Token, Column::Writer];

/// The same, and the holder's own text: who ends another's term is told which one it was.
const DEPOSE: &[Column] = &[Column::Heartbeat, Column::Token, Column::Writer, Column::Info];

/// The columns that identify a term, and its takeover row.
const RELEASE: &[Column] = &[Column::Token, Column::Writer, Column::Displaced];

/// The columns that identify one heartbeat of one term, and its takeover row.
const REMOVE: &[Column] = &[Column::Heartbeat, Column::Token, Column::Writer, Column::Displaced];

/// The same, who waits first, and what says that the row was seized: that is told, and decides nothing.
pub(crate) const TAKEOVER: &[Column] = &[
    Column::Heartbeat,
    Column::Token,
    Column::Writer,
    Column::Displaced,
    Column::Info,
    Column::Next,
];

/// As for a release, and who waits first.
const HAND_OVER: &[Column] = &[Column::Token, Column::Writer, Column::Displaced, Column::Next];

/// The columns that identify a term, and who waits first.
const LOOK: &[Column] = &[Column::Token, Column::Writer, Column::Next];

impl Act {
    /// Returns the change that the act asks for; none for an observation.
    pub fn change(&self, holder: &Holder) -> Option<Change> {
        let holder = || holder.clone();
        match self.clone() {
            Act::Observe => None,
            Act::Insert { writer } => Some(Change::Insert { writer, holder: holder() }),
            Act::Takeover { seen, writer, passes } => {
                Some(Change::Takeover { seen, writer, holder: holder(), passes })
            }
            Act::Heartbeat { term, looks } => Some(Change::Heartbeat { term, looks }),
            Act::Mark { place } => Some(Change::Mark { place }),
            Act::Release { term, next } => Some(Change::Release { term, next }),
        }
    }
}

impl Change {
    /// Returns what to read before the change can be judged.
    pub fn reads(&self, lock: &str) -> Reads {
        let lock_and = |keys: &[String]| {
            let lock = std::iter::once(lock.to_string());
            lock.chain(keys.iter().cloned()).collect()
        };
        match self {
            Change::Mark { .. } => Reads { keys: lock_and(&[]), columns: &[Column::Next] },
            Change::Heartbeat { looks: true, .. } => Reads { keys: lock_and(&[]), columns: LOOK },
            Change::Release { next: Succession::InLine { .. }, .. } => {
                Reads { keys: lock_and(&[]), columns: HAND_OVER }
            }
            Change::Insert { .. }
            | Change::Heartbeat { .. }
            | Change::EndRead { .. }
            | Change::Fence { .. } => Reads { keys: lock_and(&[]), columns: TERM },
            Change::Takeover { seen, .. } => {
                Reads { keys: lock_and(&[takeover_key(lock, seen.token)]), columns: TAKEOVER }
            }
            Change::Release { .. } => Reads { keys: lock_and(&[]), columns: RELEASE },
            Change::Evict { .. } | Change::Seize { .. } => {
                Reads { keys: lock_and(&[]), columns: DEPOSE }
            }
            Change::NameCount { .. } => Reads { keys: lock_and(&[]), columns: HEARTBEAT },
            Change::FailSlot { lock: (lock, _), .. } => {
                Reads { keys: lock_and(std::slice::from_ref(lock)), columns: HEARTBEAT }
            }
            Change::Expecting { change, .. } => change.reads(lock),
            Change::Remove { takeovers, .. } => {
                Reads { keys: lock_and(takeovers), columns: REMOVE }
            }
            Change::Job { term, record } => {
                let mut reads = term.reads(lock);
                reads.keys.push(record.key().to_string());
                Reads { columns: job::columns(term, record), ..reads }
            }
            Change::BeginRead { vacant, .. } => {
                let others = vacant.each_ref().map(|(key, _)| key.clone());
                Reads { keys: lock_and(&others), columns: HEARTBEAT }
            }
            Change::BeginWrite { gate, readers, begin } => {
                let Reads { mut keys, columns } = begin.reads(lock);
                keys.push(gate.0.clone());
                keys.extend(readers.iter().map(|(key, _)| key.clone()));
                Reads { keys, columns: if columns == TERM { HEARTBEAT } else { columns } }
            }
        }
    }

    /// Returns what to write, now that these rows were found under the keys of
    /// [`reads`](Change::reads); or why nothing is written.
    pub fn judge(&self, lock: &str, found: &[StoredRow]) -> Result<Vec<Write>, Rejection> {
        let row = |key: &str| found.iter().find(|row| row.key == key);
        let lock_row = row(lock);
        match self {
            Change::Insert { writer, holder } => match lock_row {
                Some(found) => Err(changed(Some(found))),
                None => Ok(vec![begin(lock, WriteKind::Insert, writer, holder)]),
            },
            Change::Takeover { seen, writer, holder, passes } => {
                unchanged(lock_row, Some(seen))?;
                let key = takeover_key(lock, seen.token);
                // A peer may have left a row under this key: it decides nothing, the lock row does.
                let is_there = row(&key).is_some();
                let kind = if is_there { WriteKind::InsertOrUpdate } else { WriteKind::Insert };
                let mut begin = begin(lock, WriteKind::Update, writer, holder);
                begin.cells.push((Column::Displaced, Cell::Time(seen.token)));
                // Any other place stays: who has it still waits.
                begin.cells.extend(line::cleared(lock_row, writer, passes.as_ref()));
                let mut writes = own_takeover_row(lock_row);
                writes.extend([takeover_row(key, kind, writer), begin]);
                Ok(writes)
            }
            Change::Heartbeat { term, .. } => {
                term.check(lock_row)?;
                let cells = vec![(Column::Heartbeat, Cell::CommitTimestamp)];
                Ok(vec![Write { key: lock.into(), kind: WriteKind::Update, cells }])
            }
            Change::Release { term, next } => {
                term.check(lock_row)?;
                let (next, moved) = line::succession(lock_row, &term.writer, next);
                let mut release = release(lock, WriteKind::Update, &next, None);
                release.cells.push((Column::Displaced, Cell::Null));
                release.cells.extend(moved);
                let mut writes = own_takeover_row(lock_row);
                writes.push(release);
                Ok(writes)
            }
            Change::Mark { place } => {
                let cells = vec![line::taken(lock_row, place)?];
                Ok(vec![Write { key: lock.into(), kind: WriteKind::Update, cells }])
            }
            Change::Evict { info } => {
                lock_row.and_then(|row| row.writer.id()).ok_or(Rejection::Needless)?;
                Ok(vec![evict(lock, info.as_deref())])
            }
            Change::Seize { next, info } => seize(lock, lock_row, next, info.as_deref()),
            Change::Expecting { expected, change } => expected.judge(change, lock, found),
            Change::Remove { seen, takeovers } => {
                unchanged(lock_row, seen.as_ref())?;
                let others = takeovers.iter().filter_map(|key| row(key));
                let others = others.filter(|row| row.is_takeover() && row.key != lock);
                let writes = own_takeover_row(lock_row).into_iter();
                let writes = writes.chain(lock_row.into_iter().chain(others).map(delete));
                some(writes.collect())
            }
            Change::NameCount { seen, count } => {
                unchanged(lock_row, seen.as_ref())?;
                let kind = if seen.is_some() { WriteKind::Update } else { WriteKind::Insert };
                Ok(vec![free(lock, kind, &count.to_writer(), None, None)])
            }
            Change::Job { term, record } => {
                let mut writes = term.judge(lock, found)?;
                let job_row = row(record.key());
                writes.extend(term.judge_record(record, job_row)?);
                Ok(writes)
            }
            Change::FailSlot { seen, lock: (key, vacant) } => unchanged(row(key), vacant.as_ref())
                .and_then(|()| job::given_up(lock, lock_row, seen)),
            Change::Fence { term } => term.check(lock_row).map(|()| Vec::new()),
            Change::BeginRead { .. } | Change::EndRead { .. } | Change::BeginWrite { .. } => {
                self.judge_shared(lock, found)
            }
        }
    }

    /// Returns the writer of the term that it begins or ends, or is a condition of.
    fn writer(&self) -> Option<&Writer> {
        match self {
            Change::Insert { writer, .. } | Change::Takeover { writer, .. } => Some(writer),
            Change::Release { term, .. } | Change::Fence { term } => Some(&term.writer),
            _ => None,
        }
    }

    /// Returns the writes to the record that goes along with the begin, the end or the fence of a term.
    fn judge_record(
        &self,
        record: &RecordChange,
        job_row: Option<&StoredRow>,
    ) -> Result<Vec<Write>, Rejection> {
        let writer = self.writer().ok_or_else(|| changed(job_row))?;
        let strict = matches!(self, Change::Fence { .. });
        record.judge(writer, job_row, strict)
    }

    /// As [`judge`](Change::judge), for a lock that many read.
    fn judge_shared(&self, lock: &str, found: &[StoredRow]) -> Result<Vec<Write>, Rejection> {
        let row = |key: &str| found.iter().find(|row| row.key == key);
        let lock_row = row(lock);
        match self {
            Change::BeginRead { vacant, seen, writer, holder } => {
                for (key, vacant) in vacant.iter() {
                    unchanged(row(key), vacant.as_ref())?;
                }
                unchanged(lock_row, seen.as_ref())?;
                let kind = if seen.is_some() { WriteKind::Update } else { WriteKind::Insert };
                let mut writes = vec![begin(lock, kind, writer, holder)];
                // By its writer too: a heartbeat that a manual edit has set leaves the term in it.
                let is_over = |row: &Row| row.is_released() && row.writer.id().is_none();
                for (key, vacant) in vacant.iter() {
                    if vacant.as_ref().is_some_and(|vacant| !is_over(vacant)) {
                        writes.push(release(key, WriteKind::Update, &Succession::Anyone, None));
                    }
                }
                Ok(writes)
            }
            Change::EndRead { term } => {
                term.check(lock_row)?;
                some(lock_row.into_iter().map(delete).collect())
            }
            Change::BeginWrite { gate: (gate, term), readers, begin } => {
                term.check(row(gate))?;
                let mut writes = begin.judge(lock, found)?;
                for (key, seen) in readers {
                    // One that has left since is gone.
                    let Some(found) = row(key) else { continue };
                    unchanged(Some(found), Some(seen))?;
                    writes.push(delete(found));
                }
                Ok(writes)
            }
            // Of an ordinary lock, which is judged above.
            _ => Err(changed(lock_row)),
        }
    }
}

impl Holder {
    fn cells(&self) -> [(Column, Cell); 2] {
        let info = self.info.as_deref().map_or(Cell::Null, |info| Cell::Text(info.into()));
        [(Column::LeaseMs, Cell::milliseconds(self.lease)), (Column::Info, info)]
    }
}

impl TermId {
    /// Refuses a row that is not of this term: token *and* writer, never the heartbeat (I4).
    fn check(&self, found: Option<&StoredRow>) -> Result<(), Rejection> {
        let is_ours = |row: &StoredRow| row.token == Some(self.token) && row.writer == self.writer;
        if found.is_some_and(is_ours) { Ok(()) } else { Err(changed(found)) }
    }
}

/// Refuses a row that is not as it was observed, or not as absent.
pub(crate) fn unchanged(found: Option<&StoredRow>, seen: Option<&Row>) -> Result<(), Rejection> {
    let same = match (found, seen) {
        (Some(found), Some(seen)) => found.row().is_same_heartbeat(seen),
        (None, None) => true,
        _ => false,
    };
    if same { Ok(()) } else { Err(changed(found)) }
}

pub(crate) fn changed(found: Option<&StoredRow>) -> Rejection {
    Rejection::Changed(found.map(StoredRow::row).map(Seen::from))
}

fn begin(lock: &str, kind: WriteKind, writer: &Writer, holder: &Holder) -> Write {
    let term = [
        (Column::Heartbeat, Cell::CommitTimestamp),
        (Column::Token, Cell::CommitTimestamp),
        (Column::Writer, Cell::Text(writer.as_str().into())),
    ];
    let cells = term.into_iter().chain(holder.cells()).collect();
    Write { key: lock.into(), kind, cells }
}

/// The heartbeat stays NULL: that tells a takeover row from a lock row.
fn takeover_row(key: String, kind: WriteKind, writer: &Writer) -> Write {
    let cells = vec![
        (Column::Token, Cell::CommitTimestamp),
        (Column::Writer, Cell::Text(writer.as_str().into())),
    ];
    Write { key, kind, cells }
}

/// Returns the deletion of the takeover row that the lock row names, there or not: by its exact key,
/// which is no lock's name (I6).
fn own_takeover_row(lock_row: Option<&StoredRow>) -> Vec<Write> {
    let named = lock_row.and_then(|row| Some((&row.key, row.displaced?)));
    let key = named.map(|(lock, displaced)| takeover_key(lock, displaced));
    key.map(|key| Write { key, kind: WriteKind::Delete, cells: Vec::new() }).into_iter().collect()
}

fn release(lock: &str, kind: WriteKind, next: &Succession, info: Option<&str>) -> Write {
    free(lock, kind, &next.writer(), next.grace(), info)
}

/// Writes a row that nobody holds. The token changes, so that a late heartbeat of a term can't revive
/// it.
fn free(
    lock: &str,
    kind: WriteKind,
    writer: &Writer,
    grace: Option<Duration>,
    info: Option<&str>,
) -> Write {
    let cells = vec![
        (Column::Heartbeat, Cell::Epoch),
        (Column::Token, Cell::CommitTimestamp),
        (Column::Writer, Cell::Text(writer.as_str().into())),
        (Column::LeaseMs, grace.map_or(Cell::Null, Cell::milliseconds)),
        (Column::Info, info.map_or(Cell::Null, |info| Cell::Text(info.into()))),
    ];
    Write { key: lock.into(), kind, cells }
}

/// The heartbeat and the lease stay as they are: contenders still wait them out (I1).
fn evict(lock: &str, info: Option<&str>) -> Write {
    let cells = vec![
        (Column::Token, Cell::CommitTimestamp),
        (Column::Writer, Cell::Text(Writer::nobody().as_str().into())),
        (Column::Info, info.map_or(Cell::Null, |info| Cell::Text(info.into()))),
    ];
    Write { key: lock.into(), kind: WriteKind::Update, cells }
}

/// As a release, by somebody else's hand.
fn seize(
    lock: &str,
    found: Option<&StoredRow>,
    next: &Succession,
    info: Option<&str>,
) -> Result<Vec<Write>, Rejection> {
    let is_free =
        found.is_none_or(|found| found.row().is_released() && found.writer == Writer::nobody());
    if is_free && *next == Succession::Anyone {
        return Err(Rejection::Needless);
    }
    let kind = if found.is_some() { WriteKind::Update } else { WriteKind::Insert };
    Ok(vec![release(lock, kind, next, info)])
}

fn delete(row: &StoredRow) -> Write {
    Write { key: row.key.clone(), kind: WriteKind::Delete, cells: Vec::new() }
}

fn some(writes: Vec<Write>) -> Result<Vec<Write>, Rejection> {
    if writes.is_empty() { Err(Rejection::Needless) } else { Ok(writes) }
}
