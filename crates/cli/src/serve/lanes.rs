//! The terms of the last hour of each lock that somebody has on the screen.
//!
//! One task reads them, one old version after the other and at most ten a second for all viewers
//! together. It does not read again what it has read, or what a poll has shown.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use spindle::{
    FencingToken, LockState, LockTable,
    operate::{History, HistoryEnd, PastTerm},
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::poller::{Poller, rfc3339};
use crate::commands::history::{Term, in_words_of_end};

/// The time that a lane shows.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Before each stale read: a little more than a tenth of a second.
const PACE: Duration = Duration::from_millis(105);

/// After a read that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Reads that may fail, one after the other, before a lane is left as it is.
const FAILURES_MAX: u32 = 3;

/// A lane is on somebody's screen for this long after a page asked for it.
const WANTED: Duration = Duration::from_secs(60);

/// Terms of one lane: who changes hands each second fills no memory.
const TERMS_MAX: usize = 300;

/// From one event about a lane to the next while it is being read.
const TOLD: Duration = Duration::from_secs(1);

pub struct Lanes {
    table: LockTable,
    poller: Arc<Poller>,
    lanes: Mutex<BTreeMap<String, Lane>>,
    wanted: Notify,
}

/// The knowledge of one lock's past.
#[derive(Default)]
struct Lane {
    /// The latest first.
    terms: Vec<PastTerm>,
    /// The poll for which the terms are complete; nothing before the first walk has ended.
    complete_for: Option<Known>,
    complete_at: Option<DateTime<Utc>>,
    /// Why there is nothing earlier, in words.
    end: Option<String>,
    wanted_at: Option<Instant>,
    walk: Option<Walk>,
}

/// As much of a poll as tells whether a term has ended since.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known(Option<FencingToken>, bool);

/// A way back from a poll to what is known already.
struct Walk {
    history: History,
    known: Known,
    read_at: DateTime<Utc>,
    found: Vec<PastTerm>,
    failures: u32,
    told_at: Instant,
}

/// A lane as the page gets it.
#[derive(Serialize)]
pub struct Drawn {
    name: String,
    terms: Vec<Term>,
    /// Until when all terms are known.
    at: Option<String>,
    loading: bool,
    end: Option<String>,
}

impl Known {
    fn new(state: &LockState) -> Known {
        Known(state.token, state.is_held())
    }
}

impl Lanes {
    pub fn new(table: LockTable, poller: Arc<Poller>) -> Lanes {
        Lanes { table, poller, lanes: Mutex::default(), wanted: Notify::new() }
    }

    /// The lanes of these locks as far as they are known; the rest comes as events.
    pub fn want(&self, names: impl IntoIterator<Item = String>) -> Vec<Drawn> {
        let snapshot = self.poller.snapshot();
        let mut lanes = self.lanes();
        let there = names.into_iter().filter(|name| snapshot.states.contains_key(name));
        let drawn = there.map(|name| {
            let lane = lanes.entry(name.clone()).or_default();
            lane.wanted_at = Some(Instant::now());
            lane.drawn(&name)
        });
        let drawn = drawn.collect();
        drop(lanes);
        self.wanted.notify_one();
        drawn
    }

    /// Reads what is wanted, for ever.
    pub async fn walk(self: Arc<Lanes>) {
        loop {
            let polled = self.poller.polled();
            let Some((name, mut walk)) = self.next() else {
                tokio::select! {
                    () = polled => {}
                    () = self.wanted.notified() => {}
                }
                continue;
            };
            let failed = walk.step().await.is_err();
            self.put_back(&name, walk);
            if failed {
                sleep(PAUSE).await;
            }
        }
    }

    /// The lane to read next: of those on a screen, the one that has got least.
    fn next(&self) -> Option<(String, Walk)> {
        let snapshot = self.poller.snapshot();
        let mut lanes = self.lanes();
        lanes.retain(|name, lane| lane.was_wanted(WINDOW) && snapshot.states.contains_key(name));
        for (name, lane) in lanes.iter_mut().filter(|(_, lane)| lane.was_wanted(WANTED)) {
            if lane.walk.is_none()
                && let Some(state) = snapshot.states.get(name)
                && lane.complete_for.as_ref() != Some(&Known::new(state))
            {
                lane.walk = Some(Walk::new(&self.table, state, lane.terms.first()));
            }
        }
        let walking = lanes.iter_mut().filter(|(_, lane)| lane.was_wanted(WANTED));
        let walking = walking.filter_map(|(name, lane)| {
            let got = lane.walk.as_ref()?.found.len();
            Some((got, name, lane))
        });
        let (_, name, lane) = walking.min_by_key(|(got, ..)| *got)?;
        Some((name.clone(), lane.walk.take()?))
    }

    fn put_back(&self, name: &str, walk: Walk) {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get_mut(name) else { return };
        let drawn = lane.take(name, walk);
        drop(lanes);
        if let Some(drawn) = drawn {
            self.poller.tell("lane", &drawn);
        }
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<String, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn was_wanted(&self, within: Duration) -> bool {
        self.wanted_at.is_some_and(|at| at.elapsed() < within)
    }

    /// Takes a walk back, and says what there is to tell of it.
    fn take(&mut self, name: &str, mut walk: Walk) -> Option<Drawn> {
        if walk.has_failed() && self.complete_for.is_some() {
            // It may have left a gap before the known terms. The next walk begins anew.
            return Some(self.drawn(name));
        }
        if let Some(end) = walk.end() {
            self.terms = merged(&walk.found, &self.terms, walk.read_at);
            // The walk that found the known part has said what comes before it.
            if self.complete_for.is_none() {
                self.end = Some(end);
            }
            self.complete_for = Some(walk.known);
            self.complete_at = Some(walk.read_at);
            return Some(self.drawn(name));
        }
        let tells = walk.told_at.elapsed() >= TOLD;
        if tells {
            walk.told_at = Instant::now();
        }
        self.walk = Some(walk);
        tells.then(|| self.drawn(name))
    }

    fn drawn(&self, name: &str) -> Drawn {
        let walk = self.walk.as_ref();
        let partly = walk.map(|walk| merged(&walk.found, &self.terms, walk.read_at));
        Drawn {
            name: name.to_string(),
            terms: partly
                .as_ref()
                .unwrap_or(&self.terms)
                .iter()
                .map(|term| Term::new(term, None))
                .collect(),
            at: rfc3339(self.complete_at),
            loading: self.complete_for.is_none(),
            end: self.end.clone(),
        }
    }
}

impl Walk {
    /// From the poll back to the latest term that is known, or for an hour.
    fn new(table: &LockTable, state: &LockState, known: Option<&PastTerm>) -> Walk {
        let since_known =
            known.and_then(|term| (state.read_at - term.token.to_datetime()).to_std().ok());
        Walk {
            history: table.history_from(state).since(since_known.unwrap_or(WINDOW)).pace(PACE),
            known: Known::new(state),
            read_at: state.read_at,
            found: Vec::new(),
            failures: 0,
            told_at: Instant::now(),
        }
    }

    /// One term further back.
    async fn step(&mut self) -> spindle::Result<()> {
        match self.history.next().await {
            Ok(term) => {
                self.failures = 0;
                self.found.extend(term);
                Ok(())
            }
            Err(error) => {
                self.failures += 1;
                Err(error)
            }
        }
    }

    /// Returns true if its reads failed so often that it goes no further.
    fn has_failed(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Why it goes no further, in words.
    fn end(&self) -> Option<String> {
        if self.has_failed() {
            return Some("the terms before could not be read".to_string());
        }
        if self.found.len() >= TERMS_MAX {
            return Some(format!("before that there were more than {TERMS_MAX} terms"));
        }
        let end = self.history.ended()?;
        Some(match end {
            HistoryEnd::Covered => String::new(),
            end => in_words_of_end(end, WINDOW),
        })
    }
}

/// Returns what was found, before what was known; both the latest first.
fn merged(found: &[PastTerm], known: &[PastTerm], now: DateTime<Utc>) -> Vec<PastTerm> {
    let mut terms: Vec<PastTerm> = found.to_vec();
    for term in known {
        match terms.iter_mut().find(|newer| newer.token == term.token) {
            // A walk that ends there doesn't ask what was before.
            Some(newer) => newer.vacancy = newer.vacancy.or(term.vacancy),
            None => terms.push(term.clone()),
        }
    }
    terms.truncate(TERMS_MAX);
    terms.retain(|term| {
        term.end.is_none_or(|end| (now - end).to_std().is_ok_and(|ago| ago < WINDOW) || end > now)
    });
    terms
}
