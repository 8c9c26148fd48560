//! The onlooker: what each commit did, and which fences hold.

use spindle_protocol::rw::is_left_to_readers;
use spindle_protocol::{Change, Row, StoredRow, TermId, Timestamp, Writer};

use super::party::{READERS, WRITER_ROW, pace};
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
    }
}

noted! {
    sometimes: pub(super) enum Goal {
        ReadTogether: "two read at once",
        WriterBegan: "a writer began",
        WriterWaited: "a writer waited for a reader",
        ReaderAfterWriter: "a reader began after a writer",
        LeftToReaders: "a reader began in the time that a writer had left to readers",
        DeadWriterReleased: "a reader released a writer that had ended without a release",
        DeadReaderDeleted: "a writer deleted the row of a reader that had ended without a release",
        DiedBetween: "a writer died between its two commits",
        ReaderRefused: "a reader was too late for the writer's first commit",
        SecondUnknown: "a writer learned late that its second commit was applied",
        LateRead: "a reader's begin landed after its sender gave up",
        LateSecond: "a writer's second commit landed after its sender gave up",
        EitherReleased: "a release met the second term before its owner had heard of it",
    }
}

impl Begun {
    /// Returns true if a fenced write of the term would commit at this instant.
    fn holds(&self, table: &Table) -> bool {
        let row = table.get(&self.key).map(StoredRow::row);
        row.is_some_and(|row| row.token == self.term.token && row.writer == self.term.writer)
    }
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

    /// Judges a commit by the table before it.
    pub(super) fn judge(
        &mut self,
        key: &str,
        change: &Change,
        before: &Table,
        now: Timestamp,
        at: Timestamp,
    ) {
        let writer_row = before.get(WRITER_ROW).map(StoredRow::row);
        let is_taken = |row: &Row| row.vacant_from("", pace().lease) > now;
        match change {
            Change::BeginRead { writer, .. } => {
                match writer_row.as_ref().filter(|row| is_taken(row)) {
                    Some(row) if is_left_to_readers(row) => self.notes.meet(Goal::LeftToReaders),
                    Some(_) => self.notes.breaks(Invariant::Stops),
                    None => {}
                }
                if writer_row.as_ref().is_some_and(|row| !row.is_released()) {
                    self.notes.meet(Goal::DeadWriterReleased);
                }
                if writer_row.is_some_and(|row| row.is_released()) {
                    self.notes.meet(Goal::ReaderAfterWriter);
                }
                self.begins(key, at, writer);
            }
            Change::BeginWrite { first, .. } => {
                let readers: Vec<Row> = readers(before).map(|(_, row)| row).collect();
                if readers.iter().any(is_taken) {
                    self.notes.breaks(Invariant::Waits);
                }
                if !readers.is_empty() {
                    self.notes.meet(Goal::DeadReaderDeleted);
                }
                self.notes.meet(Goal::WriterBegan);
                if let Some(second) = first.writer.second() {
                    self.begins(WRITER_ROW, at, &second);
                }
            }
            Change::Takeover { writer, .. } => {
                let instance = |writer: &Writer| writer.nonce().map(|nonce| nonce.instance);
                // An instance need not wait for what it left itself.
                let is_own = |row: &Row| instance(&row.writer) == instance(writer);
                if writer_row.as_ref().is_some_and(|row| is_taken(row) && !is_own(row)) {
                    self.notes.breaks(Invariant::I4);
                }
            }
            Change::Heartbeat { term, .. }
            | Change::Release { term, .. }
            | Change::EndRead { term } => self.judge_owner(key, term, before),
            Change::KeepWriting { first } => self.judge_owner(key, first, before),
            Change::EndWriting { first, .. } => {
                if writer_row.is_some_and(|row| first.second_in(row.token, &row.writer).is_some()) {
                    self.notes.meet(Goal::EitherReleased);
                }
                self.judge_owner(key, first, before);
            }
            _ => {}
        }
    }

    /// The row that is changed must be of the same attempt, whichever of its commits wrote it.
    fn judge_owner(&mut self, key: &str, term: &TermId, before: &Table) {
        let attempt = |writer: &Writer| {
            writer.nonce().map(|nonce| (nonce.instance, nonce.attempt & 0xffff_ffff))
        };
        let found = before.get(key).map(StoredRow::row);
        let own = attempt(&term.writer);
        let is_own = found.is_some_and(|row| {
            own.is_some() && attempt(&row.writer) == own && row.token >= term.token
        });
        if !is_own {
            self.notes.breaks(Invariant::I4);
        }
    }

    /// Returns how many writers' and how many readers' fenced writes would commit at this instant.
    pub(super) fn fences(&self, table: &Table) -> (usize, usize) {
        let held = self.begun.iter().filter(|begun| begun.holds(table));
        let (writers, readers): (Vec<_>, Vec<_>) = held.partition(|begun| begun.key == WRITER_ROW);
        (writers.len(), readers.len())
    }

    /// Forgets the terms whose rows are another's, or gone: no row ever has an old token again.
    pub(super) fn forget(&mut self, table: &Table) {
        self.begun.retain(|begun| begun.holds(table));
    }
}

/// The rows of all readers.
pub(super) fn readers(table: &Table) -> impl Iterator<Item = (String, Row)> {
    let rows = table.rows().filter(|row| row.key.starts_with(READERS));
    rows.map(|row| (row.key.clone(), row.row()))
}
