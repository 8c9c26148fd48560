//! The things that a world has seen, so that one in which nothing happens is recognised.

use std::fmt;

use strum::{EnumCount, IntoEnumIterator as _};

/// Something that must happen somewhere in a long run, or it proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumCount, strum::EnumIter)]
pub enum CoverageGoal {
    /// A lock without a row was taken.
    Inserted,
    /// A lock was taken over.
    TookOver,
    /// Two wanted to take over the same term, and one lost.
    LostRace,
    /// A term began whose begin had an unknown outcome and had been applied.
    UnknownApplied,
    /// A begin had an unknown outcome and had not been applied.
    UnknownNotApplied,
    /// A write was applied after its sender had given up.
    AppliedLate,
    /// A heartbeat or release of a term that was over was refused.
    RefusedInTerm,
    /// The database aborted a transaction by itself; those that a fault aborts don't count.
    Aborted,
    /// A holder crashed.
    HolderCrashed,
    /// A holder was paused past its lease, and woke up.
    LateWake,
    /// A holder's machine was suspended past the lease, and woke up.
    LateWakeFromSuspend,
    /// A holder was cut off from Spanner while it ran.
    HolderCutOff,
    /// The flow of a process died while it had a term.
    FlowDied,
    /// A fresh flow took the place of one that was silent.
    FlowSwitched,
    /// A request was answered on a flow whose place another had taken.
    AnsweredAfterSwitch,
    /// A term was given up and its row released.
    Released,
    /// A named successor took the lock.
    SuccessorTook,
    /// A contender took a place in line.
    TookPlace,
    /// The first in line took the lock, which the release had left to it.
    TookInTurn,
    /// An evicted term was taken over.
    EvictedTook,
    /// The takeover row of a dead peer was written over.
    WroteOver,
    /// The past of a lock was told as it was: a term was released.
    ToldRelease,
    /// It was handed to a successor.
    ToldHandOver,
    /// It was evicted.
    ToldEviction,
    /// It was seized.
    ToldSeizure,
    /// Its lease ran out.
    ToldLeaseRanOut,
    /// It was never heard of after its begin.
    ToldUnheard,
    /// A takeover deleted the takeover row of the term before.
    DeletedFormer,
    /// A contender waited because the holder's lease is longer than its own.
    LongerLease,
    /// A fenced write committed.
    FencedWrite,
    /// A fenced write of a term that was over was refused or aborted.
    FencedOff,
    /// A term ended because of the renew deadline.
    OutOfContact,
    /// A term ended by its expiry.
    Expired,
    /// A term ended because the row was another's.
    Superseded,
    /// The server was restarted.
    Restarted,
    /// The server was unreachable for longer than a lease.
    LongOutage,
    /// Somebody deleted a row.
    RowDeleted,
    /// They edited a token.
    TokenEdited,
    /// They edited a heartbeat.
    HeartbeatEdited,
    /// All rows were lost.
    DataLost,
    /// A lock was seized.
    Seized,
    /// Requests went through the real client and server.
    ThroughClient,
    /// Somebody waited for the lock and got it.
    Acquired,
    /// Somebody tried for the lock and got it.
    Tried,
    /// A task was run while its process led.
    Led,
    /// A slot of a job ran, and its end was recorded.
    RanOnce,
    /// One was skipped, for another had run it or a later one.
    SkippedRun,
    /// One was started again.
    RanAgain,
    /// One was recorded as failed.
    RanInVain,
    /// A holder was seen by `inspect`.
    Inspected,
    /// Locks were listed.
    Listed,
    /// A change of holders was observed.
    Observed,
    /// The tool evicted a holder.
    Deposed,
    /// The tool seized a lock.
    SeizedByTool,
    /// Several locks were looked at by one read.
    ReadTogether,
    /// Several locks were written in one commit.
    WrittenTogether,
    /// A lock that cooled down was taken when that was over.
    /// The tool removed the row of a vacant lock.
    RemovedByTool,
    /// A member with shards died.
    MemberCrashed,
    /// A member gave all its shards up and left.
    MemberLeft,
    /// A member decided by views that were old.
    StaleViews,
    /// A shard was taken by the member for which it was released.
    HandedOver,
    /// A shard was taken by the member that had left for a restart.
    KeptShard,
    /// A shard was taken by another, since that one had left it alone.
    PromiseLapsed,
    /// A shard whose owner had died was taken.
    ShardOfTheDeadTaken,
    /// A shard's task did not stop and was aborted.
    ShardTaskAborted,
    /// A shard's task ended by itself.
    ShardTaskFailed,
    /// A write under a shard's earlier term was refused.
    LateWorkRefused,
    /// A member joined a settled fleet, and no more moved than it got.
    JoinMovedItsShare,
    /// A member came and went all the time, and nothing moved.
    CameAndWent,
    /// A member died soon after each join, and no shard was left alone for long.
    DiedAgainAndAgain,
    /// A member whose last term had run out came again, and counted two leases later.
    JoinWaited,
    /// A member could take no shard, and none was left alone for long.
    UnableStarvedNone,
    /// Half of the members left at the same moment, and their shards were soon at work elsewhere.
    LeftTogether,
    /// A running fleet was moved to another count of shards, and none was left alone for long.
    Resized,
    /// One of a semaphore's permits was taken.
    PermitTaken,
    /// A permit was taken by the process that it was left to.
    PermitInTurn,
    /// Several read at the same time.
    ReadersTogether,
    /// A reader began after a writer that had ended without a release.
    DeadWriterReleased,
    /// A reader began in the time that a writer had promised to readers.
    ReadersTurn,
    /// A writer that waited stopped a reader.
    WriterStoppedReaders,
    /// The highest rank that lives came to lead.
    HighestRankLed,
}

/// How often each was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage([u64; CoverageGoal::COUNT]);

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage([0; CoverageGoal::COUNT])
    }
}

impl Coverage {
    /// Counts one.
    pub fn saw(&mut self, goal: CoverageGoal) {
        self.0[goal as usize] += 1;
    }

    /// How often this was seen.
    pub fn count(&self, goal: CoverageGoal) -> u64 {
        self.0[goal as usize]
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Coverage) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }

    /// Returns what was never seen.
    pub fn missing(&self) -> Vec<CoverageGoal> {
        CoverageGoal::iter().filter(|goal| self.count(*goal) == 0).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, goal) in CoverageGoal::iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            write!(f, "{separator}{goal:?}={}", self.count(goal))?;
        }
        Ok(())
    }
}
