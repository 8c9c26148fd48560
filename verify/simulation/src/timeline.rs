//! The time of a world, its chance, and all that has happened so far.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use spindle::CancellationToken;
use spindle_emulator::engine::Database;
use spindle_judge::Outcome;
use tokio::time::{Instant, sleep};

use crate::checks::{Invariant, Violation};
use crate::coverage::{Coverage, CoverageGoal};
use crate::machine::lock;
use crate::report::Report;
use crate::rows::LEDGER;
use crate::told;
use crate::trace::Trace;

/// The first invariant that is broken, if one is.
pub(crate) type Judged = Result<(), (Invariant, String)>;

#[derive(Debug)]
pub(crate) struct Timeline {
    started: Instant,
    random: Mutex<SmallRng>,
    tally: Mutex<Tally>,
    told: Mutex<told::Ledger>,
    /// The first one; what follows from it is no news.
    violation: Mutex<Option<Violation>>,
    /// Cancelled by the first violation.
    pub(crate) failed: CancellationToken,
    fault_phase_over: CancellationToken,
    closing: CancellationToken,
}

#[derive(Debug)]
struct Tally {
    trace: Trace,
    coverage: Coverage,
    faults: u64,
}

impl Timeline {
    pub(crate) fn new(seed: u64, prints: bool) -> Timeline {
        let tally = Tally { trace: Trace::new(prints), coverage: Coverage::default(), faults: 0 };
        Timeline {
            started: Instant::now(),
            random: Mutex::new(SmallRng::seed_from_u64(seed.rotate_left(32))),
            tally: Mutex::new(tally),
            told: Mutex::default(),
            violation: Mutex::default(),
            failed: CancellationToken::new(),
            fault_phase_over: CancellationToken::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Virtual time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Draws from the one source of chance.
    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut SmallRng) -> T) -> T {
        draw(&mut lock(&self.random))
    }

    pub(crate) fn saw(&self, goal: CoverageGoal) {
        lock(&self.tally).coverage.saw(goal);
    }

    /// Something happens to `who`.
    pub(crate) fn note(&self, who: usize, what: &(impl Hash + Debug)) {
        let now = self.now();
        lock(&self.tally).trace.note(now, who, what);
    }

    /// Something happens to `who` that a replay does not tell.
    pub(crate) fn count(&self, who: usize, what: &impl Hash) {
        let now = self.now();
        lock(&self.tally).trace.count(now, who, what);
    }

    /// Something happens, which a replay tells in these words.
    pub(crate) fn tell(&self, what: &str) {
        let now = self.now();
        lock(&self.tally).trace.tell(now, what);
    }

    /// Something goes wrong with a process, its network or the server.
    pub(crate) fn fault(&self, who: usize, what: &(impl Hash + Debug)) {
        lock(&self.tally).faults += 1;
        self.note(who, what);
    }

    /// An invariant is broken, which ends the world.
    pub(crate) fn fail(&self, invariant: Invariant, what: String) {
        let violation = Violation { invariant, at: self.now(), what };
        lock(&self.violation).get_or_insert(violation);
        self.failed.cancel();
    }

    /// An invariant was judged.
    pub(crate) fn expect(&self, invariant: Invariant, found: Result<(), impl Display>) {
        if let Err(what) = found {
            self.fail(invariant, what.to_string());
        }
    }

    /// Several invariants were judged, up to the first that is broken.
    pub(crate) fn judged(&self, judged: Judged) {
        if let Err((invariant, what)) = judged {
            self.fail(invariant, what);
        }
    }

    /// Waits until it `is_so`, and says what there is instead if it isn't within the limit (I5).
    pub(crate) async fn until(
        &self,
        limit: Duration,
        pause: Duration,
        is_so: impl Fn() -> bool,
        instead: impl Fn() -> String,
    ) -> Judged {
        let since = self.now();
        while !is_so() {
            if self.now() > since + limit {
                return Err((Invariant::I5, format!("after {limit:?} {}", instead())));
            }
            sleep(pause).await;
        }
        Ok(())
    }

    pub(crate) fn is_fault_phase(&self) -> bool {
        !self.fault_phase_over.is_cancelled()
    }

    pub(crate) fn fault_phase_is_over(&self) {
        self.fault_phase_over.cancel();
    }

    /// Sleeps for `duration`, but no longer than the fault phase lasts.
    pub(crate) async fn wait_in_fault_phase(&self, duration: Duration) {
        tokio::select! {
            biased;
            () = self.fault_phase_over.cancelled() => sleep(Duration::from_millis(1)).await,
            () = sleep(duration) => {}
        }
    }

    /// Cancelled when whoever ends stays away.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_cancelled()
    }

    /// A caller was told what became of the write of this serial number.
    pub(crate) fn told(&self, serial: i64, told: Outcome) {
        lock(&self.told).insert(serial, told);
    }

    /// Compares what callers were told with what was committed.
    pub(crate) fn compare_told(&self, database: &Database) -> Result<(), String> {
        let rows = database.rows(LEDGER).unwrap_or_default();
        told::compare(&lock(&self.told), &rows)
    }

    /// Returns how it went so far.
    pub(crate) fn report(&self, instances: usize, repeats: bool) -> Report {
        let tally = lock(&self.tally);
        Report {
            violation: lock(&self.violation).clone(),
            simulated: self.now(),
            instances,
            faults: tally.faults,
            coverage: tally.coverage,
            trace: tally.trace.hash(),
            repeats,
        }
    }
}
