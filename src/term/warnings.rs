//! Warnings of all locks of a table: one line for a cause, and then one a minute at most.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle_protocol::Moment;

use super::health::Failing;

/// Logs one line. A subscriber that panics costs that line and nothing else.
pub fn say(line: impl FnOnce()) {
    // The panic hook has reported it, and a log that fails can't say so in the log.
    let _ = catch_unwind(AssertUnwindSafe(line));
}

/// How long a cause gathers locks before its first line.
const GATHERS_FOR: Duration = Duration::from_secs(1);

/// The least time from one line of a cause to the next.
const PAUSE: Duration = Duration::from_secs(60);

/// The text of a warning, and the word for its reason.
pub(crate) type Cause = (&'static str, String);

type Line = Box<dyn FnOnce(&Concerned) + Send>;

/// The warnings of a table's locks.
///
/// The line of a cause waits for [`GATHERS_FOR`], so that it tells how many locks it concerns. The loop that
/// had it wait wakes to write it, and the others don't. A table that runs one lock has nothing to
/// gather, and tells at once.
#[derive(Default)]
pub(crate) struct Warnings {
    gathered: Mutex<Gathered>,
    /// True while lines wait that no loop is to write. The next one that turns takes that over. All loops
    /// look at it each time, and must not wait for each other.
    lacks_writer: AtomicBool,
}

#[derive(Default)]
struct Gathered {
    loops: usize,
    causes: BTreeMap<Cause, Told>,
}

/// A cause, and what the log says of it.
struct Told {
    since: Moment,
    count: u64,
    /// The earliest moment of the next line.
    due: Moment,
    /// The next line.
    pending: Option<Line>,
    /// The locks since the last line.
    locks: BTreeSet<Arc<str>>,
    /// The most locks of a line.
    most: usize,
    /// The requests that go on failing, by their locks.
    failing: HashSet<(Arc<str>, Failing)>,
    /// True if the last line told that it goes on.
    is_open: bool,
}

/// How many locks a warning concerns, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Concerned {
    /// The locks since the last line of this cause.
    pub(crate) locks: usize,
    pub(crate) count: u64,
    pub(crate) lasting: Duration,
}

impl Warnings {
    /// Returns true if the loop that asks is to write what waits from now on.
    pub(super) fn takes_writer(&self) -> bool {
        self.lacks_writer.load(Ordering::Relaxed)
            && self.lacks_writer.swap(false, Ordering::Relaxed)
    }

    /// Notes that another loop is to write what waits.
    pub(super) fn needs_writer(&self) {
        self.lacks_writer.store(true, Ordering::Relaxed);
    }

    /// Notes that a loop of a lock begins.
    pub(super) fn joins(&self) {
        self.gathered().loops += 1;
    }

    /// Notes that nobody wants this lock any more, so that nothing of it fails.
    pub(super) fn rests(&self, lock: &str) {
        for told in self.gathered().causes.values_mut() {
            told.failing.retain(|(failing, _)| **failing != *lock);
            told.is_open &= !told.failing.is_empty();
        }
    }

    /// Notes that a loop of a lock is over. The last one writes all that was gathered.
    pub(super) fn leaves(&self, lock: &str, now: Moment) {
        self.rests(lock);
        let mut gathered = self.gathered();
        gathered.loops -= 1;
        if gathered.loops > 0 {
            return;
        }
        let lines = gathered.causes.values_mut().filter_map(|told| told.line(now));
        let lines: Vec<_> = lines.collect();
        drop(gathered);
        write(lines);
    }

    /// Warns of something that is over when it is told.
    pub(crate) fn warn(
        &self,
        cause: Cause,
        lock: &Arc<str>,
        now: Moment,
        line: impl FnOnce(&Concerned) + Send + 'static,
    ) {
        self.note(cause, lock, now, None, Box::new(line));
    }

    /// Warns of something that goes on until [`Warnings::works`] says that it is over.
    pub(super) fn fails(
        &self,
        cause: Cause,
        (lock, what): (&Arc<str>, Failing),
        now: Moment,
        line: impl FnOnce(&Concerned) + Send + 'static,
    ) {
        self.note(cause, lock, now, Some(what), Box::new(line));
    }

    fn note(
        &self,
        cause: Cause,
        lock: &Arc<str>,
        now: Moment,
        failing: Option<Failing>,
        line: Line,
    ) {
        let mut gathered = self.gathered();
        gathered.causes.retain(|_, told| told.is_remembered(now));
        let gathers_for = if gathered.loops > 1 { GATHERS_FOR } else { Duration::ZERO };
        let told = gathered.causes.entry(cause).or_insert_with(|| Told::new(now, gathers_for));
        if told.count == 0 {
            told.since = now;
        }
        told.count += 1;
        let waits = told.pending.replace(line).is_some();
        told.locks.insert(Arc::clone(lock));
        told.failing.extend(failing.map(|what| (Arc::clone(lock), what)));
        let line = if told.due <= now { told.line(now) } else { None };
        if !waits && line.is_none() {
            self.needs_writer();
        }
        drop(gathered);
        write(line);
    }

    /// Notes that what failed for this lock works. Returns what is over, if no lock fails any more.
    pub(super) fn works(&self, lock: &Arc<str>, what: Failing, now: Moment) -> Option<Concerned> {
        let mut gathered = self.gathered();
        let (mut over, mut lines) = (None, Vec::new());
        for told in gathered.causes.values_mut() {
            if !told.failing.remove(&(Arc::clone(lock), what)) || !told.failing.is_empty() {
                continue;
            }
            if told.most == 0 {
                lines.extend(told.line(now));
                told.is_open = true;
            }
            if mem::take(&mut told.is_open) {
                // Its end tells what was gathered since the last line, too.
                told.pending = None;
                told.locks.clear();
                let (locks, count) = (told.most, mem::take(&mut told.count));
                over = Some(Concerned { locks, count, lasting: now.since(told.since) });
            }
        }
        drop(gathered);
        write(lines);
        over
    }

    /// Writes the lines that are due. Returns when the next one is.
    pub(crate) fn turns(&self, now: Moment) -> Option<Moment> {
        let mut gathered = self.gathered();
        gathered.causes.retain(|_, told| told.is_remembered(now));
        let due = gathered.causes.values_mut().filter(|told| told.due <= now);
        let lines: Vec<_> = due.filter_map(|told| told.line(now)).collect();
        let pending = gathered.causes.values().filter(|told| told.pending.is_some());
        let next = pending.map(|told| told.due).min();
        drop(gathered);
        write(lines);
        next
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        // Nothing that is done under it can panic halfway.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn new(now: Moment, gathers_for: Duration) -> Told {
        Told {
            since: now,
            count: 0,
            due: now + gathers_for,
            pending: None,
            locks: BTreeSet::new(),
            most: 0,
            failing: HashSet::new(),
            is_open: false,
        }
    }

    /// Returns the line that was gathered, if there is one.
    fn line(&mut self, now: Moment) -> Option<(Line, Concerned)> {
        let line = self.pending.take()?;
        let locks = mem::take(&mut self.locks).len();
        self.most = self.most.max(locks);
        self.due = now + PAUSE;
        self.is_open = !self.failing.is_empty();
        Some((line, Concerned { locks, count: self.count, lasting: now.since(self.since) }))
    }

    /// Returns false once it goes on no more, and the next line may be written at once.
    fn is_remembered(&self, now: Moment) -> bool {
        now < self.due || self.pending.is_some() || !self.failing.is_empty()
    }
}

/// Not under the lock: who writes logs may block.
fn write(lines: impl IntoIterator<Item = (Line, Concerned)>) {
    for (line, concerned) in lines {
        say(|| line(&concerned));
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.gathered().causes.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Moment {
        Moment(Duration::from_secs_f64(seconds))
    }

    /// The lines of some locks, each `locks/count`.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Lines {
        fn take(&self) -> Vec<String> {
            mem::take(&mut self.0.lock().unwrap())
        }
    }

    struct Locks(Warnings, Lines, Vec<Arc<str>>);

    fn locks(count: usize) -> Locks {
        let warnings = Warnings::default();
        (0..count).for_each(|_| warnings.joins());
        let names = (0..count).map(|lock| Arc::from(format!("{lock}"))).collect();
        Locks(warnings, Lines::default(), names)
    }

    impl Locks {
        fn fails(&self, lock: usize, at: f64) {
            let lines = self.1.clone();
            let cause = ("requests fail", "timeout".to_string());
            self.0.fails(cause, (&self.2[lock], Failing::Writes), seconds(at), move |it| {
                lines.0.lock().unwrap().push(format!("{}/{}", it.locks, it.count));
            });
        }

        fn works(&self, lock: usize, at: f64) -> Option<(usize, u64)> {
            let over = self.0.works(&self.2[lock], Failing::Writes, seconds(at));
            over.map(|over| (over.locks, over.count))
        }

        /// The lines that a turn writes at this time.
        fn turn(&self, at: f64) -> Vec<String> {
            self.0.turns(seconds(at));
            self.1.take()
        }
    }

    #[test]
    fn many_locks_are_one_line_then_one_a_minute_and_one_end() {
        let locks = locks(500);
        (0..500).for_each(|lock| locks.fails(lock, 0.0));
        assert_eq!(locks.0.turns(seconds(0.9)), Some(seconds(1.0)));
        assert!(locks.turn(0.9).is_empty());
        assert_eq!(locks.turn(1.0), ["500/500"]);
        for at in 1..=60 {
            (0..500).for_each(|lock| locks.fails(lock, f64::from(at)));
        }
        assert!(locks.turn(60.9).is_empty());
        assert_eq!(locks.turn(61.0), ["500/30500"]);
        (0..500).for_each(|lock| locks.fails(lock, 62.0));
        (0..499).for_each(|lock| assert_eq!(locks.works(lock, 63.0), None));
        assert_eq!(locks.works(499, 63.0), Some((500, 31_000)));
        assert!(locks.turn(600.0).is_empty() && locks.0.gathered().causes.is_empty());
    }

    #[test]
    fn one_lock_is_told_at_once() {
        let locks = locks(1);
        locks.fails(0, 0.0);
        assert_eq!(locks.1.take(), ["1/1"]);
        assert_eq!(locks.works(0, 0.1), Some((1, 1)));
    }

    #[test]
    fn failures_that_come_and_go_are_one_line_a_minute() {
        let locks = locks(2);
        locks.fails(0, 0.0);
        assert_eq!(locks.works(0, 0.1), Some((1, 1)), "the line comes before its end");
        assert_eq!(locks.1.take(), ["1/1"]);
        for at in 1..60 {
            locks.fails(at % 2, at as f64);
            assert_eq!(locks.works(at % 2, at as f64 + 0.1), None);
        }
        assert!(locks.turn(60.0).is_empty());
        assert_eq!(locks.turn(60.1), ["2/59"]);
        assert!(locks.turn(120.0).is_empty());
    }

    #[test]
    fn one_loop_is_to_write_a_line_that_waits() {
        let locks = locks(500);
        assert!(!locks.0.takes_writer());
        (0..500).for_each(|lock| locks.fails(lock, 0.0));
        assert!(locks.0.takes_writer());
        (0..500).for_each(|lock| locks.fails(lock, 0.5));
        assert!(!locks.0.takes_writer());
        assert_eq!(locks.turn(1.0), ["500/1000"]);
        locks.fails(0, 2.0);
        assert!(locks.0.takes_writer());
        locks.0.needs_writer();
        assert!(locks.0.takes_writer(), "it leaves, and another one is to write");
    }

    #[test]
    fn the_last_loop_writes_what_was_gathered() {
        let locks = locks(2);
        (0..2).for_each(|lock| locks.fails(lock, 0.0));
        locks.0.leaves("0", seconds(0.1));
        assert!(locks.1.take().is_empty());
        locks.0.leaves("1", seconds(0.2));
        assert_eq!(locks.1.take(), ["2/2"]);
    }
}
