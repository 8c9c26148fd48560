//! The record of a job: the last slot that was started, in a row of the job's own.

use std::fmt;
use std::time::Duration;

use super::calendar::{text_of, time_of};
use crate::{Row, Timestamp, Writer};

/// Begins each record that this version reads.
const VERSION: &str = "job1";

/// The slots before the last one that a row keeps, in `info`.
const PAST_MAX: usize = 10;

/// One slot of a job: `job1 <slot> <state> <starts>/<attempts> <began> <ended> <writer>`.
///
/// It stands in the `writer` of the job's row while it is the last one, and in its `info`, one a line,
/// after that. The row's token is when it was written, and its `lease_ms` for how long no start follows
/// from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The time for which the run was scheduled.
    pub slot: Timestamp,
    /// How it stands.
    pub state: SlotState,
    /// So many times it was started.
    pub starts: u32,
    /// So many times it may be.
    pub attempts: u32,
    /// When the last start began; none while the row's own token says so.
    pub began: Option<Timestamp>,
    /// When it ended; none while the row's own token says so, or while nobody has said.
    pub ended: Option<Timestamp>,
    /// The writer of the term that started it last.
    pub by: Writer,
}

/// How a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotState {
    /// It was started, and no end of it is recorded: it runs, or is to be tried again.
    Open,
    /// A run of it ended well.
    Done,
    /// All of its attempts failed.
    Failed,
}

/// The record in a row, as far as this version understands it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// There is no row.
    Nothing,
    /// There is a row, and no record in it that this version knows.
    Unreadable,
    /// This slot.
    Slot(Record),
}

impl SlotState {
    fn as_str(self) -> &'static str {
        match self {
            SlotState::Open => "open",
            SlotState::Done => "done",
            SlotState::Failed => "failed",
        }
    }
}

impl Record {
    /// Returns the text for the row's `writer`.
    pub fn to_writer(&self) -> Writer {
        Writer::from(&*self.to_string())
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Record> {
        let mut words = text.splitn(7, ' ');
        let mut word = || words.next();
        if word()? != VERSION {
            return None;
        }
        let slot = time_of(word()?)?;
        let state = word()?;
        let states = [SlotState::Open, SlotState::Done, SlotState::Failed];
        let state = states.into_iter().find(|it| it.as_str() == state)?;
        let (starts, attempts) = word()?.split_once('/')?;
        let (starts, attempts) = (starts.parse().ok()?, attempts.parse().ok()?);
        let mut time = || match word()? {
            "-" => Some(None),
            text => time_of(text).map(Some),
        };
        let (began, ended) = (time()?, time()?);
        let by = Writer::from(word().filter(|by| !by.is_empty())?);
        Some(Record { slot, state, starts, attempts, began, ended, by })
    }

    /// Returns the slots before the last one, the latest first, as `info` has them.
    pub fn past(info: Option<&str>) -> Vec<Record> {
        info.unwrap_or_default().lines().filter_map(Record::parse).collect()
    }

    /// Returns the record with the times that its row's own token says, which is this.
    pub fn timed(self, token: Timestamp) -> Record {
        let ended = self.ended.or(self.began.map(|_| token));
        Record { began: self.began.or(Some(token)), ended, ..self }
    }

    /// Returns the text for `info` once another slot takes the place of this one, which was written at
    /// `written`.
    pub(super) fn becomes_past(self, written: Timestamp, info: Option<&str>) -> String {
        let last = self.timed(written);
        let before = Record::past(info).into_iter();
        let lines = std::iter::once(last).chain(before).take(PAST_MAX);
        lines.map(|it| it.to_string()).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { slot, state, starts, attempts, began, ended, by } = self;
        let time = |time: &Option<Timestamp>| time.map_or("-".to_string(), text_of);
        let (slot, state) = (text_of(*slot), state.as_str());
        let (began, ended) = (time(began), time(ended));
        write!(f, "{VERSION} {slot} {state} {starts}/{attempts} {began} {ended} {by}")
    }
}

impl Recorded {
    /// Returns the record of a job's row. Nobody holds it, so it is as a released one.
    pub fn by(row: Option<&Row>) -> Recorded {
        let Some(row) = row else { return Recorded::Nothing };
        let record = Record::parse(row.writer.as_str()).filter(|_| row.is_released());
        record.map_or(Recorded::Unreadable, Recorded::Slot)
    }
}

/// Returns from when on a job's row lets the slot that it tells be started again.
pub fn not_before(row: &Row) -> Timestamp {
    row.token + row.lease.unwrap_or_default()
}

/// Returns the slot of a period that is nearest to Spanner's read timestamp: the multiples of the period
/// since 1970 in UTC.
///
/// The nearest, not the last: a timer that fires a millisecond early would name the slot before.
pub fn nearest(period: Duration, read_at: Timestamp) -> Timestamp {
    let period = i128::try_from(period.as_nanos()).unwrap_or(i128::MAX).max(1);
    let now = i128::from(read_at.0);
    let slot = (now + period / 2).div_euclid(period) * period;
    Timestamp(i64::try_from(slot).unwrap_or(i64::MAX))
}
