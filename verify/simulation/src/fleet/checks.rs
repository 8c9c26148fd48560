//! The watch over a fleet: the work on each shard, the holders of permits, the readers and writers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spindle::Term;
use spindle_judge::Mode;

use crate::checks::{AtWork, Invariant};
use crate::timeline::Timeline;

/// The key of readers' and writers' terms, which are of one lock.
const SHARED: &str = "readers and writers";
/// The keys of permits begin so.
const PERMITS: &str = "spindle:permit:";

/// Everything that watches a fleet.
#[derive(Debug)]
pub(crate) struct FleetChecks {
    timeline: Arc<Timeline>,
    at_work: AtWork,
    /// The life that works each shard.
    owners: BTreeMap<usize, u64>,
    /// Of how many shards each of them is one.
    counts: BTreeMap<usize, usize>,
    /// When the last work on a shard ended.
    left: Vec<Duration>,
    /// How often a task of a shard has begun.
    starts: usize,
    longest_gap: Duration,
    /// The life, and its work under way, by the number of the entry.
    lives: BTreeMap<u64, (u64, What)>,
    permits_max: usize,
    /// Since when each of those who wait for a lock has waited, and its life.
    asks: BTreeMap<u64, (u64, Duration)>,
    asked: u64,
    /// How many have read at the same time, at the most.
    together: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Shard(usize),
    Permit(usize),
    Read,
    Write,
}

impl FleetChecks {
    pub(crate) fn new(shards: usize, permits: usize, timeline: &Arc<Timeline>) -> FleetChecks {
        FleetChecks {
            timeline: Arc::clone(timeline),
            at_work: AtWork::new(timeline),
            owners: BTreeMap::new(),
            counts: BTreeMap::new(),
            left: vec![Duration::ZERO; shards],
            starts: 0,
            longest_gap: Duration::ZERO,
            lives: BTreeMap::new(),
            permits_max: permits,
            asks: BTreeMap::new(),
            asked: 0,
            together: 0,
        }
    }

    /// A life begins to work a shard, or has got a permit; the number is to be given back.
    pub(crate) fn begins(&mut self, life: u64, what: What, term: &Term) -> u64 {
        let mode = if what == What::Read { Mode::Shared } else { Mode::Exclusive };
        let lock = match what {
            What::Read | What::Write => SHARED,
            What::Shard(number) if number < self.left.len() => term.lock(),
            What::Permit(number) if number < self.permits_max => term.lock(),
            What::Shard(_) | What::Permit(_) => {
                self.timeline.fail(Invariant::I6, format!("there is no {what:?}"));
                return 0;
            }
        };
        let token = term.token().as_nanoseconds();
        let increased = self.at_work.published(lock, token, mode);
        let increased = increased.map_err(|disorder| format!("lock `{lock}`: {disorder}"));
        self.timeline.expect(Invariant::I2, increased);
        let (entry, alone) = self.at_work.begins(lock, term, mode);
        self.timeline.expect(Invariant::I1, alone);
        self.lives.insert(entry, (life, what));
        match what {
            What::Shard(number) => {
                self.starts += 1;
                self.owners.insert(number, life);
                let gap = self.timeline.now().saturating_sub(self.left[number]);
                self.longest_gap = self.longest_gap.max(gap);
            }
            What::Permit(_) => {
                let (held, most) = (self.at_work.valid(PERMITS), self.permits_max);
                if held > most {
                    let what = format!("{held} permits are held; at most {most}");
                    self.timeline.fail(Invariant::I1, what);
                }
            }
            What::Read => {
                let reads = |(_, of): &&(u64, What)| *of == What::Read;
                self.together = self.together.max(self.lives.values().filter(reads).count());
            }
            What::Write => {}
        }
        entry
    }

    /// How many have read at the same time, at the most.
    pub(crate) fn together(&self) -> usize {
        self.together
    }

    /// Somebody asks for a lock, and waits; the number is to be given back.
    pub(crate) fn asks(&mut self, life: u64) -> u64 {
        self.asked += 1;
        self.asks.insert(self.asked, (life, self.timeline.now()));
        self.asked
    }

    /// Somebody waits no more.
    pub(crate) fn is_answered(&mut self, ask: u64) {
        self.asks.remove(&ask);
    }

    /// The lives that wait, and since when.
    pub(crate) fn asked_since(&self) -> &BTreeMap<u64, (u64, Duration)> {
        &self.asks
    }

    /// The work is over, or the permit is about to be given back. Says whose it was.
    pub(crate) fn ends(&mut self, entry: u64) -> Option<(u64, What)> {
        // One that died has taken it along already.
        let (life, what) = self.lives.remove(&entry)?;
        let ended = self.close(entry, what);
        self.timeline.expect(Invariant::I7, ended);
        Some((life, what))
    }

    /// A process has died, and all its work with it.
    pub(crate) fn died(&mut self, life: u64) {
        self.asks.retain(|_, (of, _)| *of != life);
        let dead: Vec<u64> =
            self.lives.iter().filter(|(_, (of, _))| *of == life).map(|(entry, _)| *entry).collect();
        for entry in dead {
            if let Some((_, what)) = self.lives.remove(&entry) {
                // How late it was is no matter: the dead do nothing.
                let _ = self.close(entry, what);
            }
        }
    }

    fn close(&mut self, entry: u64, what: What) -> Result<(), String> {
        if let What::Shard(number) = what {
            self.owners.remove(&number);
            self.counts.remove(&number);
            self.left[number] = self.timeline.now();
        }
        self.at_work.ends(entry)
    }

    /// A write under a fence was committed.
    pub(crate) fn wrote(&mut self, term: &Term, at: u64) {
        let is_shared = term.lock().starts_with("spindle:rw:");
        let lock = if is_shared { SHARED } else { term.lock() };
        self.at_work.wrote(lock, term.token().as_nanoseconds(), at);
    }

    /// The life that works each shard.
    pub(crate) fn owners(&self) -> &BTreeMap<usize, u64> {
        &self.owners
    }

    /// A shard that has just begun is one of so many. It is at work beside none of another count.
    pub(crate) fn is_one_of(&mut self, shard: usize, count: usize) {
        let other = self.counts.iter().find(|(_, other)| **other != count);
        if let Some((beside, other)) = other {
            let what = format!("shard {shard} of {count} began beside shard {beside} of {other}");
            self.timeline.fail(Invariant::Moves, what);
        }
        self.counts.insert(shard, count);
    }

    pub(crate) fn starts(&self) -> usize {
        self.starts
    }

    /// Forgets how long shards were left alone so far.
    pub(crate) fn forget_gaps(&mut self) {
        self.longest_gap = Duration::ZERO;
    }

    /// The longest time for which a shard was left alone.
    pub(crate) fn longest_gap(&self) -> Duration {
        let now = self.timeline.now();
        let idle = (0..self.left.len()).filter(|shard| !self.owners.contains_key(shard));
        let open = idle.map(|shard| now.saturating_sub(self.left[shard])).max();
        self.longest_gap.max(open.unwrap_or_default())
    }
}
