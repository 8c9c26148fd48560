//! The flows on which requests go. Each fails by itself, and a fresh one works.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::SmallRng;
use tokio::time::{Instant, sleep, sleep_until};

use crate::machine::lock;

/// One client with its one connection.
#[derive(Debug, Default)]
pub(crate) struct Flow(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_dead: bool,
    held_until: Option<Instant>,
    late_by: Duration,
}

/// A fault of flows, from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FlowFault {
    /// They swallow what flows, in both directions.
    Die,
    /// They hold what flows for so long, and deliver it then.
    Hang(Duration),
    /// They deliver so late, in each direction.
    Late(Duration),
}

impl FlowFault {
    /// Draws one that befalls the flows of a process.
    pub(crate) fn any(random: &mut SmallRng, longest_lease: Duration) -> FlowFault {
        match random.random_range(0..4) {
            0 => FlowFault::Hang(longest_lease.mul_f64(random.random_range(0.0..1.5))),
            1 => FlowFault::Late(longest_lease.mul_f64(random.random_range(0.0..0.3))),
            _ => FlowFault::Die,
        }
    }
}

impl Flow {
    /// Carries something one way, which takes so long on a flow that is well. False if it is lost.
    pub(crate) async fn carries(&self, takes: Duration) -> bool {
        let takes = takes + lock(&self.0).late_by;
        if !takes.is_zero() {
            sleep(takes).await;
        }
        loop {
            let State { is_dead, held_until, .. } = *lock(&self.0);
            match held_until {
                _ if is_dead => return false,
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return true,
            }
        }
    }

    fn fails(&self, fault: FlowFault) {
        let mut state = lock(&self.0);
        match fault {
            FlowFault::Die => state.is_dead = true,
            FlowFault::Hang(long) => {
                state.held_until = state.held_until.max(Some(Instant::now() + long));
            }
            FlowFault::Late(by) => state.late_by = by,
        }
    }
}

/// The flows that each process has.
#[derive(Debug)]
pub(crate) struct Flows(Mutex<Vec<Vec<Weak<Flow>>>>);

impl Flows {
    pub(crate) fn new(lines: usize) -> Flows {
        Flows(Mutex::new(vec![Vec::new(); lines]))
    }

    /// Opens one more, on which all is well.
    pub(crate) fn open(&self, line: usize) -> Arc<Flow> {
        let flow = Arc::<Flow>::default();
        let mut flows = lock(&self.0);
        flows[line].retain(|flow| flow.strong_count() > 0);
        flows[line].push(Arc::downgrade(&flow));
        flow
    }

    /// Has those fail that a process has now.
    pub(crate) fn fail(&self, line: usize, fault: FlowFault) {
        lock(&self.0)[line].iter().filter_map(Weak::upgrade).for_each(|flow| flow.fails(fault));
    }

    /// All is well on them from here on, but on those that are dead if these `stay_dead`.
    pub(crate) fn heal(&self, stay_dead: bool) {
        for flow in lock(&self.0).iter().flatten().filter_map(Weak::upgrade) {
            let mut state = lock(&flow.0);
            *state = State { is_dead: state.is_dead && stay_dead, ..State::default() };
        }
    }
}
