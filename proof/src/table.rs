//! The lock table on Spanner as an executable specification: what each act means, and no more.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{
    Act, Answer, Observation, Rejection, Row, Seen, Timestamp, Writer, takeover_key,
};

/// The lock under proof.
pub const LOCK: &str = "job";

/// One row. A takeover row has no heartbeat, which is what tells it from a lock row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// When the holder last said that it lives.
    pub heartbeat: Option<Timestamp>,
    /// The commit timestamp of the transaction that began the term.
    pub token: Timestamp,
    /// Whose term it is.
    pub writer: Writer,
    /// The holder's lease.
    pub lease: Option<Duration>,
}

/// Everything Spanner keeps: rows by key, and a clock that never hands out a timestamp twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// Shared by all worlds in which they are the same: most steps change no row.
    rows: Arc<Vec<(Arc<str>, Record)>>,
    last: Timestamp,
    /// Whether the table has the column that keeps the holder's lease.
    pub lease_column: bool,
}

/// A request as it arrives: an act, and what its sender would write of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// What is asked for.
    pub act: Act,
    /// The sender's lease.
    pub lease: Duration,
}

impl Table {
    /// A table with these rows.
    pub fn new(lease_column: bool, rows: impl IntoIterator<Item = (Arc<str>, Record)>) -> Table {
        let mut table = Table { rows: Arc::default(), last: Timestamp::EPOCH, lease_column };
        for (key, record) in rows {
            table.put(key, record);
        }
        table
    }

    /// The row of the key.
    pub fn get(&self, key: &str) -> Option<&Record> {
        let at = self.rows.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        Some(&self.rows[at].1)
    }

    /// Every row, in the order of the keys.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.rows.iter().map(|(key, record)| (&**key, record))
    }

    /// Writes a row, whether it exists or not.
    pub fn put(&mut self, key: Arc<str>, record: Record) {
        match self.rows.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(at) => Arc::make_mut(&mut self.rows)[at].1 = record,
            Err(at) => Arc::make_mut(&mut self.rows).insert(at, (key, record)),
        }
    }

    /// Removes the rows that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&str, &Record) -> bool) {
        Arc::make_mut(&mut self.rows).retain(|(key, record)| keep(key, record));
    }

    /// The lock row, as the protocol sees it.
    pub fn lock(&self) -> Option<Row> {
        let record = self.get(LOCK)?;
        Some(Row {
            heartbeat: record.heartbeat?,
            token: record.token,
            writer: record.writer.clone(),
            lease: record.lease,
        })
    }

    /// Writes the lock row.
    pub fn set_lock(&mut self, row: Row) {
        let Row { heartbeat, token, writer, lease } = row;
        let lease = lease.filter(|_| self.lease_column);
        self.put(LOCK.into(), Record { heartbeat: Some(heartbeat), token, writer, lease });
    }

    /// A strong read's timestamp: it sees every commit so far and none to come.
    pub fn read_timestamp(&self, now: Timestamp) -> Timestamp {
        self.last.max(now)
    }

    /// A commit's timestamp: after every timestamp given so far.
    pub fn commit_timestamp(&mut self, now: Timestamp) -> Timestamp {
        self.last = Timestamp(self.last.max(now).0 + 1);
        self.last
    }

    /// Carries out one request, atomically, at Spanner's time `now`.
    pub fn carry_out(&mut self, now: Timestamp, request: &Request) -> Answer {
        match &request.act {
            Act::Observe => Answer::Observed(Observation {
                row: self.lock(),
                read_at: self.read_timestamp(now),
            }),
            Act::Insert { writer } => match self.lock() {
                None => self.begin(now, writer, request.lease),
                Some(_) => Answer::Rejected(Rejection::Changed(None)),
            },
            Act::Takeover { seen, writer, over_leftover } => {
                if let Some(changed) = self.unless(|row| row.is_same_beat(seen)) {
                    return changed;
                }
                let key = takeover_key(LOCK, seen.token);
                if self.get(&key).is_some() && !over_leftover {
                    return Answer::Rejected(Rejection::TakeoverRowExists);
                }
                self.put(key.into(), takeover_row(seen.token, writer.clone()));
                self.begin(now, writer, request.lease)
            }
            Act::Heartbeat { token, writer } => {
                let row = self.lock();
                if let Some(changed) = self.unless(|row| is_term(row, *token, writer)) {
                    return changed;
                }
                let at = self.commit_timestamp(now);
                self.rewrite(row, |row| row.heartbeat = at);
                Answer::Applied { at }
            }
            Act::Release { token, writer, successor } => {
                let row = self.lock();
                if let Some(changed) = self.unless(|row| is_term(row, *token, writer)) {
                    return changed;
                }
                let at = self.commit_timestamp(now);
                self.rewrite(row, |row| release(row, at, successor.as_ref()));
                Answer::Applied { at }
            }
            Act::Sweep { before } => {
                self.sweep(*before);
                Answer::Applied { at: self.commit_timestamp(now) }
            }
        }
    }

    /// Whether a fenced write of the term would commit: the check is part of its transaction.
    pub fn fence_holds(&self, token: Timestamp, writer: &Writer) -> bool {
        self.lock().is_some_and(|row| is_term(&row, token, writer))
    }

    /// The tool's eviction: contenders still wait out the lease.
    pub fn evict(&mut self, now: Timestamp) {
        let row = self.lock();
        let at = self.commit_timestamp(now);
        self.rewrite(row, |row| {
            row.token = at;
            row.writer = Writer::nobody();
        });
    }

    /// The tool's seizure: somebody begins a term at once.
    pub fn seize(&mut self, now: Timestamp, writer: &Writer, lease: Duration) {
        self.begin(now, writer, lease);
    }

    fn begin(&mut self, now: Timestamp, writer: &Writer, lease: Duration) -> Answer {
        let at = self.commit_timestamp(now);
        let writer = writer.clone();
        self.set_lock(Row { heartbeat: at, token: at, writer, lease: Some(lease) });
        Answer::Applied { at }
    }

    /// The rejection of a request whose condition does not hold of the lock row.
    fn unless(&self, condition: impl Fn(&Row) -> bool) -> Option<Answer> {
        let row = self.lock();
        if row.as_ref().is_some_and(condition) {
            return None;
        }
        let seen = row.map(|row| Seen { token: row.token, writer: row.writer });
        Some(Answer::Rejected(Rejection::Changed(seen)))
    }

    fn rewrite(&mut self, row: Option<Row>, change: impl FnOnce(&mut Row)) {
        if let Some(mut row) = row {
            change(&mut row);
            self.set_lock(row);
        }
    }

    /// Found by range, checked row by row, removed by exact key (I6).
    fn sweep(&mut self, before: Timestamp) {
        Arc::make_mut(&mut self.rows).retain(|(key, record)| {
            let token = displaced_token(key).filter(|_| record.heartbeat.is_none());
            token.is_none_or(|token| token >= before)
        });
    }
}

/// A takeover row.
pub fn takeover_row(token: Timestamp, writer: Writer) -> Record {
    Record { heartbeat: None, token, writer, lease: None }
}

/// The token that a takeover row of the lock displaced, if the key is one's.
pub fn displaced_token(key: &str) -> Option<Timestamp> {
    let digits = key.strip_prefix(LOCK)?.strip_prefix('_')?;
    let token = Timestamp(digits.parse().ok()?);
    (takeover_key(LOCK, token) == key && digits.len() == 19).then_some(token)
}

fn is_term(row: &Row, token: Timestamp, writer: &Writer) -> bool {
    row.token == token && row.writer == *writer
}

fn release(row: &mut Row, at: Timestamp, successor: Option<&(String, Duration)>) {
    row.heartbeat = Timestamp::EPOCH;
    row.token = at;
    row.writer = match successor {
        Some((id, _)) => Writer::successor(id),
        None => Writer::nobody(),
    };
    row.lease = successor.map(|(_, grace)| *grace);
}
