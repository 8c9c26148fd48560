//! Contending by rank: a place among the members of a lock, and turns.
//!
//! Ranks decide about time alone. Whatever the members seem to be, the lock is taken by the
//! ordinary protocol, or left to others for a while.

mod contender;
mod row;

pub(crate) use contender::RankedContender;
