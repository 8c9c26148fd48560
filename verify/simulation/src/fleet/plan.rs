//! The plan of a fleet that a seed stands for.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// The name of the lock of those with ranks. It counts as the only shard of its world.
pub(super) const CHIEF: &str = "chief";

/// Members that share shards and permits, and what befalls them.
#[derive(Clone, Debug)]
pub struct FleetPlan {
    /// The seed that it follows from.
    pub seed: u64,
    /// How fast the clock of each process runs, within the margin.
    pub rates: Vec<f64>,
    /// How many members there are. They are spread over the processes.
    pub members: usize,
    /// True if requests go through the client and the embedded server, which draw from the system's
    /// chance.
    pub through_client: bool,
    /// How long a request or an answer may be under way while the network is well.
    pub delay_max: Duration,
    /// Their kind of work.
    pub subject: Subject,
    /// The rank of each, where they have ranks.
    pub ranks: Vec<u32>,
    /// True if those hand over to a higher rank.
    pub preempts: bool,
    /// How many shards they share.
    pub shards: usize,
    /// How many permits they compete for.
    pub permits: usize,
    /// How many callers of each member want one of the permits.
    pub callers: usize,
    /// The lease of all members.
    pub lease: Duration,
    /// From one poll of a member to the next.
    pub poll: Duration,
    /// For how long members that leave keep their shards for themselves, if they do.
    pub restart: Option<Duration>,
    /// True if the group is moved to other counts of shards again and again.
    pub moves: bool,
    /// How long things go wrong.
    pub fault_phase: Duration,
    /// How far Spanner's timestamps may be ahead of true time.
    pub uncertainty: Duration,
    /// The mean time between two faults.
    pub fault_every: Duration,
    /// How likely a request goes wrong, from 0 to 1, while the network is bad.
    pub loss: f64,
    /// The trials once nothing goes wrong any more.
    pub trials: Vec<Trial>,
}

/// The work of the members of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// They share shards, and compete for permits.
    Shards,
    /// They read and write under one lock.
    ReadersWriters,
    /// They contend for one lock, each by its rank.
    Ranks,
}

/// Something that a settled fleet has to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trial {
    /// A member joins, and another leaves.
    JoinAndLeave,
    /// A member joins and leaves every few seconds.
    ComeAndGo,
    /// A member joins and dies every few seconds.
    CrashLoop,
    /// A member joins that can take no shard.
    Unable,
    /// Half of the members leave at the same moment.
    LeaveTogether,
    /// The group is moved to another count of shards, and back.
    Resize,
}

impl Subject {
    fn of(seed: u64) -> Subject {
        // Of chance of its own, so that the plans stay as they are.
        match SmallRng::seed_from_u64(!seed ^ 3).random_range(0..4) {
            0..2 => Subject::Shards,
            2 => Subject::ReadersWriters,
            _ => Subject::Ranks,
        }
    }
}

impl FleetPlan {
    /// Returns true if the seed stands for a fleet of members rather than for one of locks.
    pub fn is_of(seed: u64) -> bool {
        // Of chance of its own, so that the other seeds' plans stay as they are.
        SmallRng::seed_from_u64(!seed ^ 2).random_bool(0.05)
    }

    /// Returns true if the seed's fleet ought to be a [`big`](FleetPlan::big) one.
    pub fn is_big(&self) -> bool {
        // Of chance of its own, so that the plans stay as they are.
        let is_big = SmallRng::seed_from_u64(!self.seed ^ 7).random_bool(0.1);
        is_big && self.subject == Subject::Shards && !self.through_client
    }

    /// The same with at least a hundred members, who share some processes, and at least 256 shards.
    pub fn big(self, members_max: usize, shards_max: usize) -> FleetPlan {
        let mut random = SmallRng::seed_from_u64(!self.seed ^ 8);
        let members = random.random_range(100..=members_max.max(100));
        let processes = members / random.random_range(5..=20);
        let lease = Duration::from_millis(random.random_range(8_000..15_000));
        FleetPlan {
            rates: (0..processes).map(|_| random.random_range(0.9905..1.0095)).collect(),
            members,
            subject: Subject::Shards,
            through_client: false,
            shards: random.random_range(256..=shards_max.max(256)),
            callers: 0,
            lease,
            poll: lease / random.random_range(4..7),
            fault_phase: lease * random.random_range(3..6),
            fault_every: lease.mul_f64(random.random_range(0.05..0.3)),
            // Each trial takes long, and most are about one member.
            trials: vec![Trial::JoinAndLeave],
            ..self
        }
    }

    /// The plan of a seed.
    pub fn from_seed(seed: u64) -> FleetPlan {
        let mut random = SmallRng::seed_from_u64(seed);
        // Of chance of its own, so that the plans stay as they are.
        let mut chances = SmallRng::seed_from_u64(!seed ^ 4);
        let members = random.random_range(2..6);
        let lease = Duration::from_millis(random.random_range(3_000..15_000));
        // A rate within the margin of 1 %, with room for the rounding of timers.
        let rates = (0..members).map(|_| random.random_range(0.9905..1.0095)).collect();
        let trials = [Trial::JoinAndLeave, Trial::ComeAndGo, Trial::CrashLoop, Trial::Unable];
        let trials = trials.into_iter().filter(|_| random.random_bool(0.3));
        let together = SmallRng::seed_from_u64(!seed ^ 9).random_bool(0.3);
        let moves = SmallRng::seed_from_u64(!seed ^ 11).random_bool(0.3);
        let trials = trials.chain(together.then_some(Trial::LeaveTogether));
        let trials = trials.chain(moves.then_some(Trial::Resize)).collect();
        FleetPlan {
            seed,
            rates,
            members,
            through_client: SmallRng::seed_from_u64(!seed ^ 5).random_bool(0.2),
            delay_max: Duration::from_millis(
                SmallRng::seed_from_u64(!seed ^ 6).random_range(0..25),
            ),
            subject: Subject::of(seed),
            ranks: (0..members).map(|_| chances.random_range(0..4)).collect(),
            preempts: chances.random_bool(0.75),
            shards: random.random_range(1..48),
            permits: random.random_range(1..5),
            callers: random.random_range(0..3),
            lease,
            poll: lease / random.random_range(4..7),
            restart: SmallRng::seed_from_u64(!seed ^ 10).random_bool(0.3).then_some(lease),
            moves,
            fault_phase: lease * random.random_range(4..11),
            uncertainty: Duration::from_millis(random.random_range(0..8)),
            fault_every: lease.mul_f64(random.random_range(0.2..1.5)),
            loss: random.random_range(0.02..0.4),
            trials,
        }
    }

    /// How many shards there are; a lock by rank counts as one.
    pub(crate) fn pieces(&self) -> usize {
        if self.subject == Subject::Shards { self.shards } else { 1 }
    }

    /// The key of a shard, or of what counts as one.
    pub(crate) fn piece(&self, shard: usize) -> String {
        match self.subject {
            Subject::Shards => format!("spindle:shard:fleet/work/{shard}"),
            // There is one lock.
            Subject::Ranks => CHIEF.to_string(),
            Subject::ReadersWriters => "spindle:rw:catalogue".to_string(),
        }
    }

    /// The keys of all shards.
    pub(crate) fn all_pieces(&self) -> Vec<String> {
        (0..self.pieces()).map(|shard| self.piece(shard)).collect()
    }

    /// How long a member has to be there until it counts.
    pub(crate) fn settled(&self) -> Duration {
        spindle_protocol::Timing::from_lease(self.lease).poll_interval * 3
    }

    /// How long a task has to stop.
    pub(crate) fn stop_limit(&self) -> Duration {
        self.lease / 4
    }

    /// Returns the bound within which every shard must be at work once nothing goes wrong any more.
    ///
    /// It counts two leases until anyone may take it, one for a term that died, and the pauses: 10 s
    /// after reads that failed, 10 s after attempts that failed, Spanner's 10 s for a transaction
    /// that somebody left open, and that of a task that failed here.
    pub fn limit(&self) -> Duration {
        self.lease * 4 + Duration::from_secs(40)
    }

    /// Returns the bound within which they must be shared evenly: no pause before a shard is handed
    /// over to a member that did not take it is longer than all that has happened so far.
    pub fn limit_until_even(&self) -> Duration {
        self.limit() * 2 + self.fault_phase * 2 + self.longest_settling()
    }

    /// How long a member may have to be there until it counts, after those that died early.
    pub(crate) fn longest_settling(&self) -> Duration {
        self.lease * 10
    }
}
