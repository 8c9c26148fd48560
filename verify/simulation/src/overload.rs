//! A server that can't do for a while what is asked of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, sleep, sleep_until};

use crate::machine::lock;
use crate::network::Rpc;
use crate::timeline::Judged;
use crate::world::World;

/// A server that does one and a half times what is asked of it, but for a while.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// Its trouble then.
    pub trouble: Trouble,
    /// The cost of a fresh connection with its session, in transactions. It is nothing where others
    /// than those that are in trouble make them.
    pub connection: f64,
}

/// The trouble of a server.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// It does nothing for so long, and then all that was asked.
    Stall(Duration),
    /// It does only this part of what is asked of it while it is well, for so long.
    Slow(f64, Duration),
}

/// The server's time, in which it serves one transaction or read after another as they come.
#[derive(Debug)]
pub(crate) struct Capacity {
    turn: Turn<()>,
    state: Mutex<State>,
    connection: f64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// For one of them.
    time: Duration,
    free_at: Instant,
    /// How many have come.
    count: u32,
}

impl Capacity {
    /// As much as is asked for, so far.
    pub(crate) fn new(overload: Option<Overload>) -> Capacity {
        let state = State { time: Duration::ZERO, free_at: Instant::now(), count: 0 };
        let connection = overload.map_or(0.0, |overload| overload.connection);
        Capacity { turn: Turn::default(), state: Mutex::new(state), connection }
    }

    /// Has each take so long from here on.
    fn takes(&self, time: Duration) {
        lock(&self.state).time = time;
    }

    /// Serves none for so long.
    fn stalls(&self, long: Duration) {
        let mut state = lock(&self.state);
        state.free_at = state.free_at.max(Instant::now()) + long;
    }

    /// Waits until a request is served, in its turn. Whoever sent it may be gone by then. A transaction
    /// is paid for as it begins.
    pub(crate) async fn serve(&self, rpc: Rpc) {
        let part = match rpc {
            Rpc::Read | Rpc::Begin => 1.0,
            Rpc::Commit | Rpc::Rollback => 0.0,
            Rpc::Connect => self.connection,
        };
        let came = Instant::now();
        lock(&self.state).count += u32::from(part > 0.0);
        if part == 0.0 || lock(&self.state).time.is_zero() {
            return;
        }
        let _turn = self.turn.lock().await;
        let served_at = {
            let mut state = lock(&self.state);
            // Timers are rounded, and that must not add up.
            state.free_at = state.free_at.max(came) + state.time.mul_f64(part);
            state.free_at
        };
        sleep_until(served_at).await;
    }
}

/// Has all locks held, then the server in trouble for a while, and all held again.
pub(crate) async fn run(world: &Arc<World>, overload: Overload) -> Judged {
    let (capacity, lease) = (&world.network.capacity, world.plan.longest_lease());
    sleep(lease * 2).await;
    let before = lock(&capacity.state).count;
    sleep(lease).await;
    let needed = lease / (lock(&capacity.state).count - before);
    capacity.takes(needed.div_f64(1.5));
    sleep(lease).await;
    all_held(world, Duration::ZERO).await?;
    match overload.trouble {
        Trouble::Stall(long) => capacity.stalls(long),
        Trouble::Slow(part, long) => {
            capacity.takes(needed.div_f64(part));
            sleep(long).await;
            capacity.takes(needed.div_f64(1.5));
        }
    }
    sleep(lease * 3).await;
    world.end_fault_phase();
    all_held(world, world.plan.limit()).await
}

async fn all_held(world: &World, limit: Duration) -> Judged {
    let locks = world.plan.locks.len();
    let held = || world.holders().len();
    let instead = || format!("{} of {locks} locks are held", held());
    world.until(limit, Duration::from_secs(1), || held() == locks, instead).await
}
