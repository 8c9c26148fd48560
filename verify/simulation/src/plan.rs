//! The plan that a seed stands for.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use spindle_protocol::Timing;

use crate::overload::Overload;

/// Names that something careless could take for each other.
const NAMES: [&str; 8] =
    ["job", "job_1", "job_12345", "Job", "job%", "j_b", "job_179500000000000000x", "ジョブ"];

/// The name of the lock that scheduled runs share.
pub(crate) const NIGHTLY: &str = "nightly";

/// A fleet, and what befalls it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed that it follows from.
    pub seed: u64,
    /// The locks with their contenders.
    pub locks: Vec<LockPlan>,
    /// How long things go wrong.
    pub fault_phase: Duration,
    /// How far Spanner's timestamps may be ahead of true time.
    pub uncertainty: Duration,
    /// How often a fault of an instance, a server or a network begins: the mean time between two.
    pub fault_every: Duration,
    /// How likely a request goes wrong, from 0 to 1, while the network is bad.
    pub loss: f64,
    /// How long a request takes each way at most, while the network is well.
    pub delay_max: Duration,
    /// True if a fresh flow takes the place of one that is silent, as it does where the library makes
    /// its own connections.
    pub reconnects: bool,
    /// The server's trouble, where that is all that goes wrong.
    pub overload: Option<Overload>,
    /// True if somebody edits and deletes rows. Then I1 is not promised, and not checked.
    pub has_manual_edits: bool,
    /// True if requests go through the real client and server.
    pub through_client: bool,
    /// True if the contenders of different locks share processes, and with them a batcher.
    pub together: bool,
    /// Those who hold by the library's own ways, which takes a server.
    pub callers: Vec<CallerPlan>,
}

/// A process that holds a lock now and then.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// One of the plan's locks.
    pub lock: usize,
    /// The member.
    pub member: MemberPlan,
}

/// One lock.
#[derive(Clone, Debug)]
pub struct LockPlan {
    /// Its name.
    pub name: String,
    /// The members that want it.
    pub members: Vec<MemberPlan>,
}

/// One slot of the fleet, which another process takes after a crash.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    /// Its own id; two may share one.
    pub id: String,
    /// By which it lives.
    pub timing: Timing,
    /// How fast its clock runs, within the margin.
    pub rate: f64,
}

impl Plan {
    /// The plan of a seed.
    pub fn from_seed(seed: u64) -> Plan {
        Plan::from_seed_through(seed, false)
    }

    /// The plan of a seed, through the real client whatever the seed says.
    pub fn from_seed_through(seed: u64, client: bool) -> Plan {
        let mut random = SmallRng::seed_from_u64(seed);
        let through_client = random.random_bool(0.05) || client;
        let (locks_max, members_max) = if through_client { (3, 6) } else { (20, 50) };
        // Small fleets meet every fault more often, large ones meet each other.
        let lock_count = skewed(&mut random, locks_max);
        let member_count = lock_count + skewed(&mut random, members_max - lock_count + 1) - 1;
        let lease_base = Duration::from_millis(match random.random_range(0..4) {
            0 => random.random_range(1_000..5_000),
            1 => random.random_range(5_000..20_000),
            _ => random.random_range(20_000..120_000),
        });
        let mixed = random.random_bool(0.4);
        let mut locks: Vec<LockPlan> = (0..lock_count)
            .map(|index| LockPlan { name: lock_name(index), members: Vec::new() })
            .collect();
        for index in 0..member_count.max(2) {
            let lease =
                if mixed { lease_base.mul_f64(random.random_range(0.5..2.0)) } else { lease_base };
            // The last shares its id with another, as two processes of one host may.
            let id = format!("node-{}", if index + 1 == member_count { 0 } else { index });
            // A rate within the margin of 1 %, with room for the rounding of timers.
            let rate = random.random_range(0.9905..1.0095);
            let member = MemberPlan { id, timing: timing(lease, &mut random), rate };
            locks[index % lock_count].members.push(member);
        }
        let leases = random.random_range(30..200);
        let leases = if through_client { leases / 4 } else { leases };
        let callers = callers(through_client, lock_count, lease_base, &mut random);
        Plan {
            seed,
            locks,
            fault_phase: lease_base * leases,
            uncertainty: Duration::from_millis(if random.random() {
                0
            } else {
                random.random_range(1..8)
            }),
            fault_every: lease_base.mul_f64(random.random_range(0.1..3.0)),
            loss: random.random_range(0.02..0.6),
            delay_max: lease_base.mul_f64(random.random_range(0.001..0.02)),
            // Of chance of its own, so that the rest of a seed's plan stays as it is.
            reconnects: !SmallRng::seed_from_u64(!seed ^ 7).random_bool(0.1),
            overload: None,
            has_manual_edits: random.random_bool(0.2),
            through_client,
            // Of chance of its own, so that the rest of a seed's plan stays as it is.
            together: SmallRng::seed_from_u64(!seed).random_bool(0.3),
            callers,
        }
    }

    /// The plan of a seed for three processes that contend for hundreds of locks each.
    pub fn of_many(seed: u64, locks: usize) -> Plan {
        let mut random = SmallRng::seed_from_u64(seed);
        let lease = Duration::from_secs(random.random_range(5..30));
        let lock = |index| {
            let member = |process| MemberPlan {
                id: format!("node-{process}"),
                timing: Timing { poll_interval: lease / 5, ..Timing::from_lease(lease) },
                rate: 1.0,
            };
            LockPlan { name: format!("many-{index:04}"), members: (0..3).map(member).collect() }
        };
        Plan {
            locks: (0..locks).map(lock).collect(),
            fault_phase: lease * random.random_range(15..25),
            fault_every: lease.mul_f64(random.random_range(0.2..0.6)),
            delay_max: lease.mul_f64(random.random_range(0.001..0.02)),
            through_client: false,
            together: true,
            callers: Vec::new(),
            ..Plan::from_seed(seed)
        }
    }

    /// The plan of a seed for holders of one lock each, on a server that can't do what they ask.
    pub fn of_overload(seed: u64, holders: usize, overload: Overload) -> Plan {
        let lease = Duration::from_secs(10);
        let lock = |index| {
            let (id, timing) = (format!("node-{index}"), Timing::from_lease(lease));
            let member = MemberPlan { id, timing, rate: 1.0 };
            LockPlan { name: format!("held-{index:03}"), members: vec![member] }
        };
        Plan {
            locks: (0..holders).map(lock).collect(),
            delay_max: Duration::from_millis(10),
            loss: 0.0,
            reconnects: true,
            overload: Some(overload),
            has_manual_edits: false,
            through_client: false,
            together: false,
            callers: Vec::new(),
            ..Plan::from_seed(seed)
        }
    }

    /// Returns how many batchers each process has, as one that has locks on several runtimes.
    pub fn batchers(&self) -> usize {
        // Of chance of its own, so that the plans stay as they are.
        SmallRng::seed_from_u64(!self.seed ^ 9).random_range(1..=4)
    }

    /// The longest lease of the fleet.
    pub fn longest_lease(&self) -> Duration {
        let members = self.locks.iter().flat_map(|lock| &lock.members);
        let callers = self.callers.iter().map(|caller| &caller.member);
        members.chain(callers).map(|member| member.timing.lease).max().unwrap_or_default()
    }

    /// Returns the bound within which every lock must have a holder once nothing goes wrong any
    /// more (I5). It counts leases: one until the row is vacant, and one for a resigned holder that
    /// backs off. Another lease is for a lock that is reserved. Then come an attempt and a poll, and Spanner's 10 s for a transaction that somebody left
    /// open. The last part is the longest pause after polls and attempts that failed, 10 s each (I8).
    pub fn limit(&self) -> Duration {
        self.longest_lease() * 5 + Duration::from_secs(40)
    }
}

fn callers(
    through_client: bool,
    locks: usize,
    lease: Duration,
    random: &mut SmallRng,
) -> Vec<CallerPlan> {
    let count = if through_client { random.random_range(1..4) } else { 0 };
    let caller = |index| {
        let rate = random.random_range(0.9905..1.0095);
        let timing = timing(lease.mul_f64(random.random_range(0.5..1.5)), random);
        let member = MemberPlan { id: format!("caller-{index}"), timing, rate };
        CallerPlan { lock: random.random_range(0..locks), member }
    };
    (0..count).map(caller).collect()
}

fn timing(lease: Duration, random: &mut SmallRng) -> Timing {
    let mut timing = Timing::from_lease(lease);
    // A contender of a long lease that looks every second would be most of what is simulated.
    timing.poll_interval = lease / random.random_range(3..8);
    timing
}

fn lock_name(index: usize) -> String {
    NAMES.get(index).map_or_else(|| format!("lock-{index}"), |name| (*name).to_string())
}

/// From 1 to `max`, small ones more often.
fn skewed(random: &mut SmallRng, max: usize) -> usize {
    let share: f64 = random.random::<f64>().powi(4);
    1 + ((max as f64) * share) as usize
}
