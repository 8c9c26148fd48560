//! `history`: the terms of a lock so far.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use spindle::job::JobState;
use spindle::operate::{Cause, HistoryEnd, PastTerm};

use super::doctor::wall_clock;
use crate::arguments::{Form, History};
use crate::drawing;
use crate::failure::{Code, Failure, Result};
use crate::output::{Cell, Line, Output, Paint, notice, printable};
use crate::place::Place;
use crate::record::in_words;

/// A term as the output shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Term {
    pub holder: String,
    pub token: String,
    /// In RFC 3339, by Spanner's clock.
    pub begin: String,
    /// At the latest, where a lease ran out or a row was deleted; null if the term goes on.
    pub end: Option<String>,
    pub lasted_ms: Option<i64>,
    /// `released`, `handed_to`, `evicted`, `seized`, `lease_ran_out`,
    /// `before_heartbeat` or `unknown`; null if the term goes on.
    pub cause: Option<&'static str>,
    /// More of the cause: to whom, until when, by whom and why.
    pub detail: Option<String>,
    /// For how long the lock was there for the taking before; null where that is not known.
    pub vacancy_ms: Option<u128>,
    pub info: Option<String>,
    /// The slot of a job whose last start this term was, where the job's record still tells it.
    pub slot: Option<TermSlot>,
}

/// A slot of a job that a term ran.
#[derive(Clone, Debug, Serialize)]
pub struct TermSlot {
    /// The time for which it was scheduled, in RFC 3339.
    pub time: String,
    /// `running`, `open`, `done` or `failed`.
    pub state: &'static str,
    pub start: u32,
    pub attempts: u32,
}

impl TermSlot {
    /// Returns the slot that this term started last.
    fn of(term: &PastTerm, job: &JobState) -> Option<TermSlot> {
        let mut records = job.last.iter().chain(&job.past);
        let record = records.find(|record| record.began == term.token.to_datetime())?;
        Some(TermSlot {
            time: rfc3339(record.slot),
            state: record.state.as_str(),
            start: record.starts,
            attempts: record.attempts,
        })
    }

    fn in_words(&self) -> String {
        let TermSlot { time, state, start, attempts } = self;
        format!("slot {time} is {state}: start {start} of {attempts}")
    }
}

impl Term {
    /// Returns the term as the output shows it; `job` is the job that goes by the lock's name, if any.
    pub fn new(term: &PastTerm, job: Option<&JobState>) -> Term {
        let (cause, detail) = term.cause.as_ref().map_or((None, None), |cause| {
            let (name, detail) = in_fields(cause);
            (Some(name), detail)
        });
        Term {
            holder: term.holder.clone(),
            token: term.token.to_string(),
            begin: rfc3339(term.token.to_datetime()),
            end: term.end.map(rfc3339),
            lasted_ms: term.end.map(|end| (end - term.token.to_datetime()).num_milliseconds()),
            cause,
            detail,
            vacancy_ms: term.vacancy.map(|vacancy| vacancy.as_millis()),
            info: term.info.clone(),
            slot: job.and_then(|job| TermSlot::of(term, job)),
        }
    }

    pub fn end_in_words(&self) -> String {
        let cause = match self.cause {
            None => "holds".to_string(),
            Some("before_heartbeat") => "ended before its first heartbeat".to_string(),
            Some("unknown") => "unknown: the row was deleted later".to_string(),
            Some(cause) => cause.replace('_', " "),
        };
        let detail = self.detail.as_ref().map(|detail| format!(" {}", printable(detail)));
        let slot = self.slot.as_ref().map(|slot| format!(", {}", slot.in_words()));
        format!("{cause}{}{}", detail.unwrap_or_default(), slot.unwrap_or_default())
    }
}

fn in_fields(cause: &Cause) -> (&'static str, Option<String>) {
    let by = |by: &Option<String>, reason: &Option<String>| match (by, reason) {
        (Some(by), Some(reason)) => Some(format!("by {by}: {reason}")),
        (Some(by), None) => Some(format!("by {by}")),
        (None, reason) => reason.clone(),
    };
    match cause {
        Cause::Released => ("released", None),
        Cause::HandedTo { to, .. } => ("handed_to", Some(to.clone())),
        Cause::Evicted { by: who, reason, .. } => ("evicted", by(who, reason)),
        Cause::Seized { by: who, reason, .. } => ("seized", by(who, reason)),
        Cause::LeaseRanOut => ("lease_ran_out", None),
        Cause::BeforeHeartbeat => ("before_heartbeat", None),
        Cause::Unknown => ("unknown", None),
        _ => ("other", None),
    }
}

impl Line for Term {
    const HEAD: &'static [&'static str] =
        &["BEGIN", "HOLDER", "LASTED", "VACANT BEFORE", "END", "TOKEN"];
    const GOES_FIRST: &'static [&'static str] = &["TOKEN", "VACANT BEFORE", "LASTED"];

    fn cells(&self) -> Vec<Cell> {
        let milliseconds = |milliseconds: u64| in_words(Duration::from_millis(milliseconds));
        let lasted = self.lasted_ms.and_then(|lasted| u64::try_from(lasted).ok());
        let vacancy = self.vacancy_ms.and_then(|vacancy| u64::try_from(vacancy).ok());
        let at_the_latest =
            matches!(self.cause, Some("lease_ran_out" | "before_heartbeat" | "unknown"))
                .then_some("≤");
        let lasted = lasted.map_or_else(|| "-".to_string(), milliseconds);
        let paint = match self.cause {
            None => Paint::Good,
            Some("released" | "handed_to") => Paint::Plain,
            Some(_) => Paint::Bad,
        };
        vec![
            Cell::plain(self.begin.clone()),
            Cell::name(self.holder.clone()),
            Cell::plain(format!("{}{lasted}", at_the_latest.unwrap_or_default())),
            Cell::plain(vacancy.map_or_else(|| "-".to_string(), milliseconds)),
            Cell::painted(self.end_in_words(), paint),
            Cell::plain(self.token.clone()),
        ]
    }
}

pub async fn history(place: &Place, out: &Output, asked: &History) -> Result<ExitCode> {
    let job = job(place, &asked.lock.name).await?;
    let mut history = place.locks.history(&asked.lock.name).since(asked.since);
    let mut terms = Vec::new();
    while let Some(term) = history.next().await? {
        if out.form == Form::Jsonl {
            out.json_line(&Term::new(&term, job.as_ref()))?;
        }
        terms.push(term);
    }
    let end = history.ended().unwrap_or(HistoryEnd::Covered);
    if terms.is_empty() && out.form.is_for_people() {
        let name = &asked.lock.name;
        notice(&format!("lock `{name}`: no term is known; `spindle ls` lists the locks there are"));
    } else if out.form != Form::Jsonl {
        out.rows(&terms.iter().map(|term| Term::new(term, job.as_ref())).collect::<Vec<_>>())?;
    }
    notice(&in_words_of_end(end, asked.since));
    if let Some(file) = &asked.svg {
        draw(file, &asked.lock.name, &terms, job.as_ref())?;
    }
    let was_never_held = terms.is_empty() && end == HistoryEnd::NoRow;
    Ok(if was_never_held { Code::No.exit() } else { ExitCode::SUCCESS })
}

/// Returns the job that goes by the name of a lock; none for a row of a fleet.
async fn job(place: &Place, lock: &str) -> Result<Option<JobState>> {
    match place.locks.job(lock).await {
        Err(error) if error.is_config() => Ok(None),
        found => Ok(found?),
    }
}

/// Why there is nothing earlier.
pub fn in_words_of_end(end: HistoryEnd, since: Duration) -> String {
    match end {
        HistoryEnd::Covered => format!("all of the last {}", in_words(since)),
        HistoryEnd::NoRow => "before that the lock had no row: never held, or deleted".to_string(),
        HistoryEnd::Forgotten => "Spanner no longer has what was before: a database keeps old \
             versions for its version_retention_period, an hour unless changed"
            .to_string(),
        HistoryEnd::OtherSchema => {
            "before that the table, or a column of it, did not exist".to_string()
        }
        HistoryEnd::Edited => "before that somebody edited the row by hand".to_string(),
        HistoryEnd::TooManyChanges => {
            "before that the row changed more than four times between two terms".to_string()
        }
        _ => "nothing is known of what was before".to_string(),
    }
}

fn draw(file: &Path, name: &str, terms: &[PastTerm], job: Option<&JobState>) -> Result<()> {
    let now = terms.first().map_or_else(wall_clock, |term| term.end.unwrap_or_else(wall_clock));
    let words = |term: &PastTerm| {
        let shown = Term::new(term, job);
        format!("{} from {}: {}", shown.holder, shown.begin, shown.end_in_words())
    };
    let picture = drawing::picture(name, terms, now, words);
    svg::save(file, &picture).map_err(|error| {
        let text = format!("file `{}`: write the drawing: {error}", file.display());
        Failure::new(Code::System, text).cure("choose a file in a folder that is there, for --svg")
    })
}

fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}
