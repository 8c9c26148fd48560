//! The changes of a job's record, in the commits that begin and that end a term.

use std::time::Duration;

use super::record::{Record, Recorded, SlotState};
use crate::change::{TAKEOVER, changed, unchanged};
use crate::{Cell, Change, Column, Rejection, Row, StoredRow, Timestamp, Write, WriteKind, Writer};

/// A change of a job's record, carried out with the begin or the end of a term, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordChange {
    /// Counts a start.
    Begin {
        /// The key of the job's row.
        key: String,
        /// The job's row as it was observed; none if there was none.
        seen: Option<Row>,
        /// The slot that is started.
        slot: Timestamp,
        /// So many times it may be started.
        attempts: u32,
        /// How long no start follows, should this one fail.
        pause: Duration,
    },
    /// Records how the last start ended.
    End {
        /// The key of the job's row.
        key: String,
        /// How it ended.
        ending: Ending,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Well: the slot is done.
    Done,
    /// Not well: the slot is open again, or failed if no attempt is left.
    Failed,
}

/// The columns of a release beside those of its term: `lease_ms` has the pause. No heartbeat, so that it
/// contends with none.
const END: &[Column] =
    &[Column::Token, Column::Writer, Column::LeaseMs, Column::Displaced, Column::Next];

/// The columns of a fenced end: no heartbeat and no place in line contends with it.
const FENCED_END: &[Column] = &[Column::Token, Column::Writer];

/// Returns the columns of a change of both rows.
pub(crate) fn columns(term: &Change, record: &RecordChange) -> &'static [Column] {
    match (term, record) {
        // `info` has the slots before.
        (_, RecordChange::Begin { .. }) => TAKEOVER,
        (Change::Fence { .. }, RecordChange::End { .. }) => FENCED_END,
        (_, RecordChange::End { .. }) => END,
    }
}

impl RecordChange {
    /// Returns the key of the job's row.
    pub fn key(&self) -> &str {
        match self {
            RecordChange::Begin { key, .. } | RecordChange::End { key, .. } => key,
        }
    }

    /// Returns the writes to the job's row, which was found so, for a term of this writer.
    ///
    /// A release needs none: what an operator has removed, or another has recorded, stays. A fence is
    /// `strict`: it refuses, since the caller's own writes depend on the record.
    pub(crate) fn judge(
        &self,
        writer: &Writer,
        found: Option<&StoredRow>,
        strict: bool,
    ) -> Result<Vec<Write>, Rejection> {
        match self {
            RecordChange::Begin { key, seen, slot, attempts, pause } => {
                unchanged(found, seen.as_ref())?;
                let (record, past) = started(*slot, *attempts, writer, found)?;
                let kind = if found.is_some() { WriteKind::Update } else { WriteKind::Insert };
                let mut write = written(key, kind, &record, Cell::milliseconds(*pause));
                write.cells.extend(past.map(|past| (Column::Info, Cell::Text(past))));
                Ok(vec![write])
            }
            RecordChange::End { key, ending } => {
                let record = found.and_then(|row| ended(*ending, writer, row));
                match record {
                    Some((record, pause)) => {
                        Ok(vec![written(key, WriteKind::Update, &record, pause)])
                    }
                    None if strict => Err(changed(found)),
                    None => Ok(Vec::new()),
                }
            }
        }
    }
}

/// Returns the record of a start, and the slots before where it is the first of its own.
fn started(
    slot: Timestamp,
    attempts: u32,
    by: &Writer,
    found: Option<&StoredRow>,
) -> Result<(Record, Option<String>), Rejection> {
    let state = SlotState::Open;
    let first =
        Record { slot, state, starts: 1, attempts, began: None, ended: None, by: by.clone() };
    let Some(row) = found else { return Ok((first, None)) };
    match Recorded::by(Some(&row.row())) {
        Recorded::Slot(last) if last.slot == slot => {
            let (starts, attempts) = (last.starts + 1, attempts.min(last.attempts));
            Ok((Record { starts, attempts, ..first }, None))
        }
        Recorded::Slot(last) => {
            let past = last.becomes_past(row.row().token, row.info.as_deref());
            Ok((first, Some(past)))
        }
        Recorded::Nothing | Recorded::Unreadable => Err(changed(found)),
    }
}

/// Returns the record once the last start, by this writer, has ended so, and the `lease_ms` beside it;
/// nothing where the row doesn't wait for that.
fn ended(ending: Ending, by: &Writer, row: &StoredRow) -> Option<(Record, Cell)> {
    let Recorded::Slot(last) = Recorded::by(Some(&row.row())) else { return None };
    let state = match (last.state, ending) {
        _ if last.by != *by => return None,
        // Others may have given up what ended well after all.
        (SlotState::Open | SlotState::Failed, Ending::Done) => SlotState::Done,
        (SlotState::Open, Ending::Failed) if last.starts < last.attempts => SlotState::Open,
        (SlotState::Open, Ending::Failed) => SlotState::Failed,
        (SlotState::Done, _) | (SlotState::Failed, Ending::Failed) => return None,
    };
    let began = last.began.or(row.token);
    // The pause that the begin has named counts from here.
    let pause = match (state, row.lease_ms) {
        (SlotState::Open, Some(pause)) => Cell::Milliseconds(pause),
        _ => Cell::Null,
    };
    Some((Record { state, began, ..last }, pause))
}

/// Returns the write that records a slot as failed whose last start was lost; or why not.
pub(crate) fn given_up(
    key: &str,
    found: Option<&StoredRow>,
    seen: &Row,
) -> Result<Vec<Write>, Rejection> {
    unchanged(found, Some(seen))?;
    let row = found.map(StoredRow::row);
    match (Recorded::by(row.as_ref()), row) {
        (Recorded::Slot(last), Some(row)) if last.state == SlotState::Open => {
            let began = last.began.or(Some(row.token));
            let record = Record { state: SlotState::Failed, began, ..last };
            Ok(vec![written(key, WriteKind::Update, &record, Cell::Null)])
        }
        _ => Err(Rejection::Needless),
    }
}

fn written(key: &str, kind: WriteKind, record: &Record, pause: Cell) -> Write {
    let cells = vec![
        (Column::Heartbeat, Cell::Epoch),
        (Column::Token, Cell::CommitTimestamp),
        (Column::Writer, Cell::Text(record.to_string())),
        (Column::LeaseMs, pause),
    ];
    Write { key: key.into(), kind, cells }
}
