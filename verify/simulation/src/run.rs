//! The life of one world, from its fleet's start to its report.

use std::cell::RefCell;
use std::panic;
use std::sync::{Arc, Once};

use tokio::runtime::Builder;

use crate::callers::Caller;
use crate::checks::{self, Invariant, Violation};
use crate::coverage::CoverageGoal;
use crate::instance::Instance;
use crate::plan::Plan;
use crate::report::Report;
use crate::world::World;
use crate::{nemesis, overload, tool};

/// Lives the plan; with `prints`, tells every event.
pub fn run(plan: &Plan, prints: bool) -> Report {
    in_virtual_time(plan.seed, plan.through_client, live(plan, prints))
}

thread_local! {
    /// The first panic of the world that lives on this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has panics noted, too: whoever spawned a task may not ask what became of it.
fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let prints = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANIC.with_borrow_mut(|first| _ = first.get_or_insert_with(|| panic.to_string()));
            prints(panic);
        }));
    });
}

/// Lives a life on one thread, in virtual time.
pub(crate) fn in_virtual_time(
    seed: u64,
    through_client: bool,
    life: impl Future<Output = Report>,
) -> Report {
    note_panics();
    PANIC.take();
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    if through_client {
        // Looking for input between any two steps would take a fifth of the time.
        builder.enable_io();
    }
    // The library's draws come from the seed, too.
    spindle::simulation::draw_from(seed.rotate_left(16));
    let report = builder.build().expect("a runtime on this thread alone").block_on(life);
    let panic = PANIC.take().map(|what| Violation {
        invariant: Invariant::NoPanic,
        at: report.simulated,
        what,
    });
    // Whatever else is broken may follow from it.
    Report { violation: panic.or(report.violation), ..report }
}

async fn live(plan: &Plan, prints: bool) -> Report {
    let world = Arc::new(World::new(plan, prints).await);
    if plan.through_client {
        world.saw(CoverageGoal::ThroughClient);
        tokio::spawn(tool::work(Arc::clone(&world)));
    }
    for index in 0..plan.callers.len() {
        let caller = Caller::new(&world, index);
        tokio::spawn(caller.clone().live());
        tokio::spawn(caller.live());
    }
    let live = |it: &Arc<Instance>| tokio::spawn(Arc::clone(it).live(Arc::clone(&world)));
    let fleet: Vec<_> = world.instances().iter().map(live).collect();
    let whole = async {
        let settled = match plan.overload {
            Some(overload) => overload::run(&world, overload).await,
            None => {
                nemesis::run(&world).await;
                checks::settles(&world).await
            }
        };
        world.judged(settled);
        world.finish().await;
    };
    tokio::select! {
        biased;
        () = world.failed.cancelled() => {}
        () = whole => {}
    }
    fleet.iter().for_each(tokio::task::JoinHandle::abort);
    world.report()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Timeline;

    fn outcome(task: impl FnOnce() + Send + 'static) -> Option<Invariant> {
        let life = async {
            let _ = tokio::spawn(async { task() }).await;
            Timeline::new(1, false).report(1, true)
        };
        in_virtual_time(1, false, life).violation.map(|violation| violation.invariant)
    }

    #[test]
    fn a_panic_that_nobody_asks_after_fails_its_world_and_no_other() {
        assert_eq!(outcome(|| panic!("as a bug does")), Some(Invariant::NoPanic));
        assert_eq!(outcome(|| ()), None);
        // As the users' tasks fail that a plan has.
        assert_eq!(outcome(|| panic::resume_unwind(Box::new("on purpose"))), None);
    }
}
