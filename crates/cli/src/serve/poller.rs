//! The table at the last poll, and the viewers that are told of it.
//!
//! All viewers and scrapes share the polls: there is one a second at the most, and none while
//! nobody wants to know.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::sse::Event;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::Serialize;
use spindle::job::JobState;
use spindle::{LockState, LockTable};
use spindle_protocol::StoredRow;
use spindle_protocol::fleet::CountNamed;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::answers::event;
use crate::commands::doctor::wall_clock;
use crate::commands::shards::Of;
use crate::jobs::SlotLine;
use crate::readers::Readers;
use crate::record::{Record, is_late};

/// From one poll to the next.
pub const PERIOD: Duration = Duration::from_secs(1);

/// The names of all shards begin so, and the key of the row that has their count ends so.
const SHARDS: &str = "spindle:shard:";
const COUNT: &str = "/count";

/// Rows of one read: a table of as many locks is one read.
const PAGE_ROWS: u32 = 10_000;

/// Events that wait for a slow viewer; one that is slower is cut off, and comes back by itself.
const BACKLOG: usize = 16;

/// The result of a poll.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// When the poll was over.
    pub at: Option<Instant>,
    pub read_at: Option<DateTime<Utc>>,
    pub states: BTreeMap<String, LockState>,
    pub jobs: BTreeMap<String, JobState>,
    pub readers: Readers,
    pub shown: BTreeMap<String, Shown>,
    /// Why the poll failed; then the rest is of the one before.
    pub trouble: Option<String>,
    pub polls: u64,
    pub failures: u64,
}

impl Snapshot {
    /// Returns the last slot of each job.
    fn slots(&self) -> Vec<SlotLine> {
        self.jobs.values().map(SlotLine::last).collect()
    }
}

/// A lock as the page shows it: its record without what changes from poll to poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    record: Record,
    /// When the last heartbeat came of a holder whose next one is late.
    late_since: Option<String>,
}

impl Shown {
    fn new(state: &LockState, record: Record) -> Shown {
        let age = state.heartbeat_age.filter(|_| record.is_held() && is_late(state));
        let late_since =
            age.and_then(|age| state.read_at.checked_sub_signed(TimeDelta::from_std(age).ok()?));
        let record = Record {
            since_ms: None,
            lost_ms: None,
            heartbeat_age_ms: None,
            next_in_line_ms: None,
            next: String::new(),
            ..record
        };
        Shown { record, late_since: rfc3339(late_since) }
    }
}

pub struct Poller {
    table: LockTable,
    /// Viewers at the same time: others are to get an answer, too.
    viewers_max: usize,
    /// Locked during a poll.
    polling: Arc<tokio::sync::Mutex<()>>,
    inner: Mutex<Inner>,
    viewer_came: Notify,
    polled: Notify,
}

#[derive(Default)]
struct Inner {
    snapshot: Arc<Snapshot>,
    viewers: Vec<mpsc::Sender<Event>>,
    /// The first message to a new viewer, made once for each poll.
    whole: Option<Event>,
    closed: bool,
}

#[derive(Serialize)]
struct Whole<'a> {
    at: Option<String>,
    trouble: Option<&'a str>,
    locks: Vec<&'a Shown>,
    /// The last slot of each job.
    jobs: Vec<SlotLine>,
}

#[derive(Serialize)]
struct Change<'a> {
    at: Option<String>,
    trouble: Option<&'a str>,
    changed: Vec<&'a Shown>,
    gone: Vec<&'a str>,
    /// All of them, if one has changed.
    jobs: Option<Vec<SlotLine>>,
}

impl Poller {
    pub fn new(table: LockTable, viewers_max: usize) -> Poller {
        Poller {
            table,
            viewers_max,
            polling: Arc::default(),
            inner: Mutex::default(),
            viewer_came: Notify::new(),
            polled: Notify::new(),
        }
    }

    /// Returns what was seen last, without a request.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.inner().snapshot)
    }

    /// Returns the content of the table, polled again if the last poll was longer ago than
    /// `age_max`. One that failed is repeated after the period of polls at the latest.
    pub async fn poll(self: &Arc<Poller>, age_max: Duration) -> Arc<Snapshot> {
        let polling = Arc::clone(&self.polling).lock_owned().await;
        let snapshot = self.snapshot();
        let age_max = if snapshot.trouble.is_some() { age_max.min(PERIOD) } else { age_max };
        if snapshot.at.is_some_and(|at| at.elapsed() < age_max) {
            return snapshot;
        }
        let poller = Arc::clone(self);
        // The caller may be dropped, as a probe is that waits no longer. Its poll ends all the same, so that others
        // learn what came of it.
        let poll = tokio::spawn(async move {
            let _polling = polling;
            let read = read(&poller.table).await;
            let snapshot = poller.publish(read, Instant::now());
            poller.polled.notify_waiters();
            snapshot
        });
        poll.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// Resolves after the next poll that ends from now on.
    pub fn polled(&self) -> Notified<'_> {
        self.polled.notified()
    }

    /// Polls for as long as somebody watches.
    pub async fn follow(self: Arc<Poller>) {
        loop {
            let came = self.viewer_came.notified();
            if !self.inner().has_viewers() {
                came.await;
                continue;
            }
            let snapshot = self.poll(PERIOD).await;
            if let Some(at) = snapshot.at {
                sleep_until(at + PERIOD).await;
            }
        }
    }

    /// A stream of events: all that is there, then what changes. None if there are too many.
    pub async fn watch(self: &Arc<Poller>) -> Option<mpsc::Receiver<Event>> {
        self.poll(PERIOD).await;
        let (sender, events) = mpsc::channel(BACKLOG);
        let mut inner = self.inner();
        inner.has_viewers();
        if inner.closed || inner.viewers.len() >= self.viewers_max {
            return None;
        }
        let whole = inner.whole();
        // There is room: nothing else was sent yet.
        sender.try_send(whole).ok()?;
        inner.viewers.push(sender);
        drop(inner);
        self.viewer_came.notify_one();
        Some(events)
    }

    /// Tells every viewer.
    pub fn tell(&self, name: &str, data: &impl Serialize) {
        let mut inner = self.inner();
        if inner.has_viewers() {
            inner.send(&event(name, data));
        }
    }

    /// Ends every stream of events.
    pub fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.viewers.clear();
    }

    fn publish(&self, read: Result<Table, spindle::Error>, at: Instant) -> Arc<Snapshot> {
        let mut inner = self.inner();
        let before = Arc::clone(&inner.snapshot);
        let mut after = Snapshot {
            at: Some(at),
            polls: before.polls + 1,
            failures: before.failures,
            ..Snapshot::default()
        };
        match read {
            Ok(Table { states, jobs, read_at }) => {
                after.jobs = jobs;
                after.readers = Readers::among(states.values());
                let shown = |(name, state): (&String, _)| {
                    (name.clone(), Shown::new(state, after.readers.record(state)))
                };
                after.shown = states.iter().map(shown).collect();
                (after.states, after.read_at) = (states, Some(read_at));
            }
            Err(error) => {
                after.failures += 1;
                after.trouble = Some(error.to_string());
                after.states = before.states.clone();
                after.jobs = before.jobs.clone();
                after.readers = before.readers.clone();
                after.shown = before.shown.clone();
                after.read_at = before.read_at;
            }
        }
        let after = Arc::new(after);
        inner.snapshot = Arc::clone(&after);
        inner.whole = None;
        if inner.has_viewers() {
            inner.send(&event("change", &change(&before, &after)));
        }
        after
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns true if anybody is left, once those that went are forgotten.
    fn has_viewers(&mut self) -> bool {
        self.viewers.retain(|viewer| !viewer.is_closed());
        !self.viewers.is_empty()
    }

    fn send(&mut self, event: &Event) {
        self.viewers.retain(|viewer| viewer.try_send(event.clone()).is_ok());
    }

    fn whole(&mut self) -> Event {
        let snapshot = &self.snapshot;
        let make = || {
            let (trouble, locks) = (snapshot.trouble.as_deref(), snapshot.shown.values().collect());
            let jobs = snapshot.slots();
            event("all", &Whole { at: rfc3339(snapshot.read_at), trouble, locks, jobs })
        };
        self.whole.get_or_insert_with(make).clone()
    }
}

fn change<'a>(before: &'a Snapshot, after: &'a Snapshot) -> Change<'a> {
    let is_new = |(name, shown): &(&String, &Shown)| before.shown.get(*name) != Some(*shown);
    let is_gone = |name: &&String| !after.shown.contains_key(*name);
    Change {
        at: rfc3339(after.read_at),
        trouble: after.trouble.as_deref(),
        changed: after.shown.iter().filter(is_new).map(|(_, shown)| shown).collect(),
        gone: before.shown.keys().filter(is_gone).map(String::as_str).collect(),
        jobs: Some(after.slots()).filter(|slots| *slots != before.slots()),
    }
}

pub fn rfc3339(at: Option<DateTime<Utc>>) -> Option<String> {
    at.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// A table as it was read.
struct Table {
    states: BTreeMap<String, LockState>,
    jobs: BTreeMap<String, JobState>,
    read_at: DateTime<Utc>,
}

async fn read(table: &LockTable) -> Result<Table, spindle::Error> {
    let mut listing = table.list().page_rows(PAGE_ROWS);
    let (mut states, mut read_at) = (BTreeMap::new(), None);
    while let Some(state) = listing.next().await? {
        read_at = Some(state.read_at);
        states.insert(state.name.clone(), state);
    }
    let jobs = listing.jobs(&states).into_iter().map(|job| (job.name.clone(), job)).collect();
    forget_left_behind(table, &mut states).await;
    // A table without locks tells no time of Spanner's.
    Ok(Table { states, jobs, read_at: read_at.unwrap_or_else(wall_clock) })
}

/// Forgets the shards that moves have left behind: nobody is to have them. Their rows don't tell. The rows of the
/// counts do, all by one read, and none where no shard is vacant.
async fn forget_left_behind(table: &LockTable, states: &mut BTreeMap<String, LockState>) {
    let vacant = states.values().filter(|state| !state.is_held());
    let fleets = vacant.filter_map(LockState::fleet).filter(|fleet| fleet.starts_with(SHARDS));
    let fleets: BTreeSet<&str> = fleets.collect();
    if fleets.is_empty() {
        return;
    }
    let key = |fleet: &str| format!("{fleet}{COUNT}");
    let rows = fleets.iter().fold(table.rows(), |rows, fleet| rows.key(key(fleet)));
    // Without them, all shards are shown.
    let Ok(found) = rows.read().await else { return };
    let count = |full: &StoredRow| match CountNamed::by(Some(&full.row())) {
        CountNamed::Count(count) => {
            Some((full.key.strip_suffix(COUNT)?.to_string(), Of::new(Some(count.into())).end()?))
        }
        CountNamed::Nothing | CountNamed::Unreadable => None,
    };
    let counts: BTreeMap<String, usize> = found.rows.iter().filter_map(count).collect();
    let is_left = |state: &LockState| {
        let count = counts.get(state.fleet()?)?;
        let (_, number) = state.name.rsplit_once('/')?;
        Some(number.parse::<usize>().ok()? >= *count)
    };
    states.retain(|_, state| state.is_held() || is_left(state) != Some(true));
}
