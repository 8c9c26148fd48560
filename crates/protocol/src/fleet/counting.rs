//! Decides from when on the members that share shards count, by their rows.

use std::time::Duration;

use crate::{Timestamp, Timing};

/// A join counts after so many of the lease's default polls.
const POLLS: u32 = 3;
/// It counts after so many leases beside a row that ran out.
const LEASES: u32 = 2;
/// A row that ran out is remembered for so many leases.
const REMEMBERED_LEASES: u32 = 10;

/// The join of a live member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Join {
    /// The token of its term.
    pub since: Timestamp,
    /// True if its term displaced an earlier one of its id that had run out unreleased.
    pub ran_out: bool,
}

/// Returns after what time a join counts where nothing is amiss: three of the lease's default polls.
pub fn usual_settling(lease: Duration) -> Duration {
    Timing::from_lease(lease).poll_interval * POLLS
}

/// Returns from when on each of these live members counts, in their order; `ran_out` has the times at
/// which rows of the group ran out unreleased.
///
/// - A join counts after three polls. It counts after two leases if a row ran out before that, at most
///   ten leases before the join: members that die again and again move less.
/// - Where no live member counts, all do, once the first of them has been there for a poll. Nobody is
///   there whom they could disturb.
///
/// All members of a group that see the same agree. A member that counts goes on to count, whoever
/// comes and goes, but for one case. Where a row that ran out is taken again or deleted, the first member
/// has counted from earlier on than it seemed. One that joined since then and counted at once settles
/// after all, for up to two leases. It keeps its shards meanwhile.
pub fn counts_from(joins: &[Join], ran_out: &[Timestamp], lease: Duration) -> Vec<Timestamp> {
    let displaced = joins.iter().filter(|join| join.ran_out).map(|join| join.since);
    let ran_out: Vec<Timestamp> = ran_out.iter().copied().chain(displaced).collect();
    let settled = |join: &Join| {
        let usual = join.since + usual_settling(lease);
        let is_near =
            |at: &Timestamp| *at <= usual && join.since <= *at + lease * REMEMBERED_LEASES;
        if ran_out.iter().any(is_near) { usual.max(join.since + lease * LEASES) } else { usual }
    };
    let settled: Vec<Timestamp> = joins.iter().map(settled).collect();
    let (Some(first), Some(first_counts)) =
        (joins.iter().map(|join| join.since).min(), settled.iter().min().copied())
    else {
        return settled;
    };
    let begun = first + Timing::from_lease(lease).poll_interval;
    let of = |(join, settled): (&Join, Timestamp)| match join.since <= first_counts {
        true => join.since.max(begun),
        false => settled,
    };
    joins.iter().zip(settled).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn at(seconds: u32) -> Timestamp {
        Timestamp(1_000_000_000_000) + Duration::from_secs(1) * seconds
    }

    fn joined(since: u32) -> Join {
        Join { since: at(since), ran_out: false }
    }

    /// After how many seconds the last of these counts.
    fn settles(joins: &[Join], ran_out: &[u32]) -> u64 {
        let ran_out: Vec<Timestamp> = ran_out.iter().map(|seconds| at(*seconds)).collect();
        let last = joins.last().unwrap();
        counts_from(joins, &ran_out, LEASE).last().unwrap().since(last.since).as_secs()
    }

    #[test]
    fn a_join_counts_after_three_polls_and_after_two_leases_beside_a_row_that_ran_out() {
        let old = joined(0);
        assert_eq!(settles(&[old, joined(500)], &[]), 3);
        assert_eq!(settles(&[old, joined(500)], &[400]), 20);
        assert_eq!(settles(&[old, joined(500)], &[399]), 3, "eleven leases ago");
        assert_eq!(settles(&[old, joined(500)], &[503]), 20, "before it counted");
        assert_eq!(settles(&[old, joined(500)], &[504]), 3, "it counted before");
        assert_eq!(settles(&[old, joined(500)], &[410, 430, 450]), 20, "however many");
    }

    #[test]
    fn a_term_that_displaced_one_of_its_own_id_says_that_a_row_ran_out() {
        let again = Join { ran_out: true, ..joined(500) };
        assert_eq!(settles(&[joined(0), again], &[]), 20);
        assert_eq!(settles(&[joined(0), again, joined(600)], &[]), 20, "for others, too");
        assert_eq!(settles(&[joined(0), again, joined(601)], &[]), 3);
    }

    #[test]
    fn where_no_live_member_counts_all_do_a_poll_after_the_first_came() {
        assert_eq!(settles(&[joined(500)], &[]), 1);
        assert_eq!(settles(&[joined(500), joined(501)], &[]), 0);
        assert_eq!(settles(&[joined(500), joined(503)], &[]), 0);
        assert_eq!(settles(&[joined(500), joined(504)], &[]), 3, "the first one counts");
        // All others died at once, and those that come instead wait for nobody.
        assert_eq!(settles(&[joined(500), joined(515)], &[490]), 0);
        assert_eq!(settles(&[joined(500), joined(521)], &[490]), 20);
        assert_eq!(counts_from(&[], &[at(1)], LEASE), []);
    }

    #[test]
    fn one_that_counted_at_once_settles_where_a_row_that_ran_out_is_taken_again() {
        let joins = [joined(500), joined(519)];
        assert_eq!(settles(&joins, &[495]), 0, "the first one counts from 520 on");
        assert_eq!(
            settles(&joins, &[]),
            3,
            "the row is gone, and the first one has counted from 503 on"
        );
        let again = Join { ran_out: true, ..joined(521) };
        let counts = counts_from(&[joins[0], joins[1], again], &[], LEASE);
        assert_eq!(counts[..2], [at(501), at(539)]);
    }

    /// A join later than any moment at which another one counts is told from those before it.
    #[test]
    fn one_that_counts_goes_on_to_count_whoever_comes_and_goes() {
        let joins = [500, 501, 503, 504, 520].map(joined);
        for ran_out in [&[][..], &[at(490)], &[at(502)], &[at(507)]] {
            for now in (500..560).map(at) {
                let here = |join: &&Join| join.since <= now;
                let joins: Vec<Join> = joins.iter().filter(here).copied().collect();
                let dead: Vec<Timestamp> =
                    ran_out.iter().copied().filter(|it| *it <= now).collect();
                let counts = counts_from(&joins, &dead, LEASE);
                let later = now + Duration::from_secs(7);
                let all: Vec<Timestamp> =
                    ran_out.iter().copied().filter(|it| *it <= later).collect();
                for gone in 0..joins.len() {
                    let mut left = joins.clone();
                    left.remove(gone);
                    left.push(Join { since: later, ran_out: false });
                    let mut before = counts.clone();
                    before.remove(gone);
                    let after = counts_from(&left, &all, LEASE);
                    for (before, after) in before.iter().zip(after).filter(|(it, _)| **it <= now) {
                        assert!(after <= later, "{before:?} {after:?} at {now:?} without {gone}");
                    }
                }
            }
        }
    }
}
