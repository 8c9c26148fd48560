//! The record of a slot, as people and programs read it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use spindle_protocol::job::{self, Record};
use spindle_protocol::{Row, Timestamp};

use super::slot::time;

/// One slot of a job, as its row tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotRecord {
    /// The time for which it was scheduled.
    pub slot: DateTime<Utc>,
    /// How it stands.
    pub state: SlotState,
    /// So many times it was started.
    pub starts: u32,
    /// So many times it may be.
    pub attempts: u32,
    /// The id of the instance that started it last.
    pub by: String,
    /// When it was started last, by Spanner's clock.
    pub began: DateTime<Utc>,
    /// When the end of that start was recorded; nothing if it runs, or if its end was lost.
    pub ended: Option<DateTime<Utc>>,
    /// From when on it may be started again, if it is open.
    pub not_before: Option<DateTime<Utc>>,
}

/// How a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SlotState {
    /// It runs, or the lease of the node that ran it has not run out.
    Running,
    /// No run of it has ended well so far: it is to be tried again, if somebody calls.
    Open,
    /// A run of it has ended well.
    Done,
    /// All its attempts failed.
    Failed,
}

impl SlotState {
    /// Returns the state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            SlotState::Running => "running",
            SlotState::Open => "open",
            SlotState::Done => "done",
            SlotState::Failed => "failed",
        }
    }
}

impl SlotRecord {
    /// Returns how long the last start took, by Spanner's clock, if its end was recorded.
    pub fn took(&self) -> Option<Duration> {
        self.ended.and_then(|ended| (ended - self.began).to_std().ok())
    }

    /// Returns the record of the last slot, in the job's row; a held lock means that it runs.
    pub(crate) fn last(record: &Record, row: &Row, is_held: bool) -> SlotRecord {
        let mut last = SlotRecord::past(&record.clone().timed(row.token));
        let has_ended = record.began.is_some();
        if record.state == job::SlotState::Open {
            let is_lost = !has_ended && !is_held && record.starts >= record.attempts;
            last.state = match (has_ended, is_held) {
                (false, true) => SlotState::Running,
                // Nobody has recorded it yet.
                _ if is_lost => SlotState::Failed,
                _ => SlotState::Open,
            };
            last.not_before = (last.state == SlotState::Open).then(|| time(job::not_before(row)));
        }
        last
    }

    /// Returns the record of a slot before the last one.
    pub(crate) fn past(record: &Record) -> SlotRecord {
        SlotRecord {
            slot: time(record.slot),
            state: match record.state {
                job::SlotState::Open => SlotState::Open,
                job::SlotState::Done => SlotState::Done,
                job::SlotState::Failed => SlotState::Failed,
            },
            starts: record.starts,
            attempts: record.attempts,
            by: record.by.id().unwrap_or_default().to_string(),
            began: time(record.began.unwrap_or(Timestamp::EPOCH)),
            ended: record.ended.map(time),
            not_before: None,
        }
    }
}

impl fmt::Display for SlotRecord {
    /// Says it for people, such as `slot 2026-11-27T02:00:00Z is done: start 1 of 3, by node-a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlotRecord { slot, state, starts, attempts, by, .. } = self;
        let slot = slot.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        let state = state.as_str();
        write!(f, "slot {slot} is {state}: start {starts} of {attempts}, by {by}")
    }
}
