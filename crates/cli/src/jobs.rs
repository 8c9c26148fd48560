//! One job, in the fields that every command uses.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use spindle::LockBuilder;
use spindle::job::{Job, JobState, SlotRecord, SlotState};

use crate::output::{Cell, Line, Paint, printable};
use crate::record::in_words;

/// The choices of who runs a job, where they are named.
pub struct JobChoices {
    pub attempts: Option<u32>,
    pub retry_pause: Option<Duration>,
    pub at_most: Option<Duration>,
    pub skip_if_running: bool,
}

impl JobChoices {
    /// Returns the job of this lock.
    pub fn job(&self, lock: LockBuilder) -> Job {
        let mut job = lock.job();
        if let Some(attempts) = self.attempts {
            job = job.attempts(attempts);
        }
        if let Some(pause) = self.retry_pause {
            job = job.retry_pause(pause);
        }
        if let Some(limit) = self.at_most {
            job = job.at_most(limit);
        }
        if self.skip_if_running { job.skip_if_running() } else { job }
    }
}

/// A slot of a job as the output shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotLine {
    pub job: String,
    /// The time for which it was scheduled, in RFC 3339.
    pub slot: Option<String>,
    /// `running`, `open`, `done`, `failed`, or `unreadable`.
    pub state: &'static str,
    pub starts: u32,
    pub attempts: u32,
    /// The id of the instance that started it last.
    pub by: Option<String>,
    /// By Spanner's clock.
    pub began: Option<String>,
    pub took_ms: Option<u128>,
    /// From when on it may be started again, if it is open.
    pub not_before: Option<String>,
}

impl SlotLine {
    /// Returns the last slot of a job.
    pub fn last(job: &JobState) -> SlotLine {
        match &job.last {
            Some(last) => SlotLine::of(&job.name, last),
            None => SlotLine {
                job: job.name.clone(),
                slot: None,
                state: "unreadable",
                starts: 0,
                attempts: 0,
                by: None,
                began: None,
                took_ms: None,
                not_before: None,
            },
        }
    }

    /// Returns all slots that the row tells, the latest first.
    pub fn all(job: &JobState) -> Vec<SlotLine> {
        let past = job.past.iter().map(|past| SlotLine::of(&job.name, past));
        std::iter::once(SlotLine::last(job)).chain(past).collect()
    }

    fn of(job: &str, slot: &SlotRecord) -> SlotLine {
        SlotLine {
            job: job.to_string(),
            slot: Some(rfc3339(slot.slot)),
            state: slot.state.as_str(),
            starts: slot.starts,
            attempts: slot.attempts,
            by: Some(slot.by.clone()),
            began: Some(rfc3339(slot.began)),
            took_ms: slot.took().map(|took| took.as_millis()),
            not_before: slot.not_before.map(rfc3339),
        }
    }
}

impl Line for SlotLine {
    const HEAD: &'static [&'static str] = &["JOB", "SLOT", "STATE", "START", "TOOK", "BY"];
    const GOES_FIRST: &'static [&'static str] = &["TOOK", "START"];

    fn cells(&self) -> Vec<Cell> {
        let took = self.took_ms.and_then(|took| u64::try_from(took).ok());
        let took = took.map_or("-".to_string(), |took| in_words(Duration::from_millis(took)));
        let paint = match self.state {
            "running" => Paint::Good,
            "failed" | "unreadable" => Paint::Bad,
            _ => Paint::Plain,
        };
        let none = || "-".to_string();
        vec![
            Cell::name(printable(&self.job)),
            Cell::plain(self.slot.clone().unwrap_or_else(none)),
            Cell::painted(self.state, paint),
            Cell::plain(format!("{} of {}", self.starts, self.attempts)),
            Cell::plain(took),
            Cell::plain(printable(self.by.as_deref().unwrap_or("-"))),
        ]
    }
}

/// Returns true if all attempts of its last slot failed.
pub fn has_failed(job: &JobState) -> bool {
    job.last.as_ref().is_some_and(|last| last.state == SlotState::Failed)
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
