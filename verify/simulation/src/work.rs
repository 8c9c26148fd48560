//! Work under a term, as the world sees it.

use std::sync::Arc;
use std::time::Duration;

use spindle::Term;

use crate::coverage::CoverageGoal;
use crate::world::World;

/// Work under a term, for as long as it goes on.
pub(crate) struct WorkSpan {
    world: Arc<World>,
    number: u64,
}

impl Drop for WorkSpan {
    fn drop(&mut self) {
        let now = self.world.now();
        self.world.check(|checks| {
            checks.work_ended(self.number, now);
            Vec::new()
        });
    }
}

impl World {
    /// Work begins under a term; it is over when what is given back is dropped.
    pub(crate) fn go_to_work(self: &Arc<World>, term: &Term) -> WorkSpan {
        let now = self.now();
        let mut number = 0;
        self.check(|checks| {
            number = checks.work_began(term, self.processes(), now);
            Vec::new()
        });
        WorkSpan { world: Arc::clone(self), number }
    }

    pub(crate) fn run_began(&self, term: &Term, at_least: Duration) {
        let now = self.now();
        self.check(|checks| {
            checks.run_began(term, at_least, now);
            Vec::new()
        });
    }

    pub(crate) fn wrote_fenced(&self, term: &Term, at_nanoseconds: u64) {
        let now = self.now();
        self.check(|checks| {
            checks.wrote_fenced(term, at_nanoseconds, now);
            vec![CoverageGoal::FencedWrite]
        });
    }
}
