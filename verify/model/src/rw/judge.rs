//! The onlooker: what each commit did, and which fences hold.

use spindle_protocol::line::Place;
use spindle_protocol::rw::is_left_to_readers;
use spindle_protocol::{Change, Row, StoredRow, TermId, Timestamp, Writer};

use super::party::{GATE, WRITE_LOCK, pace};
use crate::notes::{Notes, noted};
use crate::table::Table;

/// The record that the invariants are judged by; nothing in the world depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct History {
    begun: Vec<Begun>,
    top: Timestamp,
    pub(super) notes: Notes<Goal, Invariant>,
}

/// A term that an owner may be told of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Begun {
    key: String,
    term: TermId,
}

// The invariants that are judged by a commit.
noted! {
    always: pub(super) enum Invariant {
        I2: "I2 each term's token is later than every earlier one's",
        I4: "I4 no request changes the row of another's term",
        Stops: "a writer, waiting too, stops new readers",
        Waits: "a writer begins where nobody reads",
        Exceeds: "from a writer's token on no fence of a reader holds",
    }
}

noted! {
    sometimes: pub(super) enum Goal {
        ReadTogether: "two read at once",
        WriterBegan: "a writer began",
        WriterWaited: "a writer waited for a reader",
        ReaderAfterWriter: "a reader began after a writer",
        TookPlace: "a reader took the place of all readers",
        LeftToReaders: "a reader began in the time that was promised to readers",
        DeadWriterReleased: "a reader released a writer that had ended without a release",
        DeadGateReleased: "a reader released a gate that had ended without a release",
        DeadReaderDeleted: "a writer deleted the row of a reader that had ended without a release",
        DiedWaiting: "a writer died that waited for readers",
        GateLost: "a writer began no term, since its gate was not its own any more",
        WroteOn: "a writer was at work though its gate was lost",
        ReaderRefused: "a reader was too late for a writer",
        LateRead: "a reader's begin landed after its sender gave up",
        LateWrite: "a writer's begin landed after its sender gave up",
    }
}

impl Begun {
    /// Returns true if a fenced write of the term would commit at this instant.
    fn holds(&self, table: &Table) -> bool {
        let row = table.get(&self.key).map(StoredRow::row);
        row.is_some_and(|row| row.token == self.term.token && row.writer == self.term.writer)
    }
}

fn is_taken(row: &Row, now: Timestamp) -> bool {
    row.vacant_from("", pace().lease) > now
}

impl History {
    fn begins(&mut self, key: &str, token: Timestamp, writer: &Writer) {
        if token <= self.top {
            self.notes.breaks(Invariant::I2);
        }
        self.top = token;
        let term = TermId { token, writer: writer.clone() };
        self.begun.push(Begun { key: key.to_string(), term });
    }

    /// Judges a commit by the table before it and after it.
    pub(super) fn judge(
        &mut self,
        key: &str,
        change: &Change,
        (before, after): (&Table, &Table),
        (now, at): (Timestamp, Timestamp),
    ) {
        match change {
            Change::BeginRead { writer, .. } => {
                self.judge_reader(before, now);
                self.begins(key, at, writer);
            }
            Change::BeginWrite { begin, .. } => {
                let readers: Vec<Row> = readers(before).map(|(_, row)| row).collect();
                if readers.iter().any(|row| is_taken(row, now)) {
                    self.notes.breaks(Invariant::Waits);
                }
                if !readers.is_empty() {
                    self.notes.meet(Goal::DeadReaderDeleted);
                }
                self.notes.meet(Goal::WriterBegan);
                self.judge_begin(key, begin, before, now);
                if let Change::Insert { writer, .. } | Change::Takeover { writer, .. } = &**begin {
                    self.begins(WRITE_LOCK, at, writer);
                }
                if self.fences(after).1 > 0 {
                    self.notes.breaks(Invariant::Exceeds);
                }
            }
            Change::Insert { .. } | Change::Takeover { .. } => {
                self.judge_begin(key, change, before, now);
            }
            Change::Heartbeat { term, .. }
            | Change::Release { term, .. }
            | Change::EndRead { term } => {
                let found = before.get(key).map(StoredRow::row);
                let is_own = |row: Row| row.token == term.token && row.writer == term.writer;
                if !found.is_some_and(is_own) {
                    self.notes.breaks(Invariant::I4);
                }
            }
            Change::Mark { place: Place { waiter, .. } } if waiter.starts_with('/') => {
                self.notes.meet(Goal::TookPlace);
            }
            _ => {}
        }
    }

    fn judge_reader(&mut self, before: &Table, now: Timestamp) {
        for key in [GATE, WRITE_LOCK] {
            let Some(row) = before.get(key).map(StoredRow::row) else { continue };
            if is_left_to_readers(&row) {
                self.notes.meet(Goal::LeftToReaders);
            } else if is_taken(&row, now) {
                self.notes.breaks(Invariant::Stops);
            }
            let (dead, released) = (!row.is_released(), row.is_released());
            match key {
                GATE if dead => self.notes.meet(Goal::DeadGateReleased),
                WRITE_LOCK if dead => self.notes.meet(Goal::DeadWriterReleased),
                WRITE_LOCK if released => self.notes.meet(Goal::ReaderAfterWriter),
                _ => {}
            }
        }
    }

    /// A begin displaces nobody whose lease runs, but a former term of its own instance.
    fn judge_begin(&mut self, key: &str, change: &Change, before: &Table, now: Timestamp) {
        let (Change::Insert { writer, .. } | Change::Takeover { writer, .. }) = change else {
            return;
        };
        let instance = |writer: &Writer| writer.nonce().map(|nonce| nonce.instance);
        let found = before.get(key).map(StoredRow::row);
        let is_own = |row: &Row| {
            let place = instance(writer).map(|nonce| format!("#{nonce:016x}"));
            let is_promised = |place| row.is_released() && row.writer.as_str().ends_with(place);
            instance(&row.writer) == instance(writer) || place.as_deref().is_some_and(is_promised)
        };
        if found.is_some_and(|row| is_taken(&row, now) && !is_own(&row)) {
            self.notes.breaks(Invariant::I4);
        }
    }

    /// Returns how many writers' and how many readers' fenced writes would commit at this instant.
    pub(super) fn fences(&self, table: &Table) -> (usize, usize) {
        let held = self.begun.iter().filter(|begun| begun.holds(table));
        let (writers, readers): (Vec<_>, Vec<_>) = held.partition(|begun| begun.key == WRITE_LOCK);
        (writers.len(), readers.len())
    }

    /// Forgets the terms whose rows are another's, or gone: no row ever has an old token again.
    pub(super) fn forget(&mut self, table: &Table) {
        self.begun.retain(|begun| begun.holds(table));
    }
}

/// The rows of all readers.
pub(super) fn readers(table: &Table) -> impl Iterator<Item = (String, Row)> {
    let rows = table.rows().filter(|row| row.key.starts_with("rw/reader") && !row.is_takeover());
    rows.map(|row| (row.key.clone(), row.row()))
}
