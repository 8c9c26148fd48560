//! `shards`: who has which, who is about to, and why nobody has the rest.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use spindle_fleet::ShardCount;
use spindle_protocol::Timestamp;
use spindle_protocol::fleet::{Declaration, Join, SHARDS_MAX, counts_from, usual_settling};

use super::fleet::{fleets, last_part, none, rows};
use super::resize;
use crate::failure::Result;
use crate::output::{Cell, Line, Output, notice};
use crate::place::Place;
use crate::record::{LEASE_ASSUMED, Record, State, in_words};

/// Why nobody has a shard that was never held, or that a move left behind for long.
const NO_ROW: &str = "no row tells who had it";
/// Records tell how long ago something was; this is the time from which that is counted.
const NOW: Timestamp = Timestamp(i64::MAX / 2);

/// A live member that shares the shards.
struct Member {
    weight: u32,
    /// `sharing`, or `joining` if it doesn't count yet, or `waiting` if that is since a row ran out.
    state: &'static str,
    counts_in: Option<Duration>,
}

/// The live members, by their ids.
type Members = BTreeMap<String, Member>;

#[derive(Serialize)]
struct Share {
    #[serde(flatten)]
    owner: Owner,
    /// Of a live member.
    weight: Option<u32>,
    /// Of a member that doesn't count yet.
    counts_in_ms: Option<u128>,
    count: usize,
    shards: Vec<usize>,
    /// So many shards the group shares.
    of: usize,
    /// So many it shares until all of them are given up, if a move waits for that.
    draining_from: Option<usize>,
}

/// The owner of some shards, or the reason why they have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Owner {
    /// Nothing for the shards that nobody has.
    member: Option<String>,
    /// Of a shard that waits for its next owner.
    reserved_for: Option<String>,
    /// `joining`, `waiting`, `sharing`, `leaving` or `restarting` of a member; nothing where there is
    /// none.
    state: Option<&'static str>,
    /// Why nobody has the shards.
    why: Option<String>,
}

/// Tells who has which of the shards.
pub async fn shards(place: &Place, out: &Output, name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else { return fleets(place, out, "shard", "shards").await };
    let count = resize::count(place, name).await?;
    let pieces = rows(place, &format!("spindle:shard:{name}/")).await?;
    let sharing = rows(place, &format!("spindle:share:{name}/")).await?;
    if pieces.is_empty() && sharing.is_empty() && count.is_none() {
        return Err(none("shards", name));
    }
    out.rows(&shares(pieces, &sharing, Of::new(count)))?;
    if let (true, Some(count)) = (out.form.is_for_people(), count) {
        notice(&format!("the group shares {count}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn shares(pieces: Vec<Record>, sharing: &[Record], named: Of) -> Vec<Share> {
    let members = members(sharing);
    let mut owners = BTreeMap::<Owner, Vec<usize>>::new();
    for (id, member) in &members {
        // One that shares and has none yet is worth a line.
        owners.insert(Owner::member(id.clone(), Some(member)), Vec::new());
    }
    let declared = sharing.iter().filter(|row| row.is_held()).filter_map(declaration);
    // While the row of the count is missing.
    let declared = declared.map(|it| it.count).max().unwrap_or(0).min(SHARDS_MAX);
    let Of { count: of, draining_from } = named;
    let count = named.end().unwrap_or(declared);
    let nobody = Owner::vacant(NO_ROW, &members);
    let mut shards: BTreeMap<usize, Owner> =
        (0..count).map(|shard| (shard, nobody.clone())).collect();
    for record in pieces {
        let Ok(shard) = last_part(&record.name).parse() else { continue };
        // One that a move left behind.
        if of.is_some() && shard >= count && !record.is_held() {
            continue;
        }
        shards.insert(shard, Owner::of(record, &members, sharing));
    }
    for (shard, mut owner) in shards {
        if draining_from.is_some() && owner.why.is_some() {
            owner.why = Some("the move waits until all shards are given up".to_string());
        }
        owners.entry(owner).or_default().push(shard);
    }
    let share = |(owner, shards): (Owner, Vec<usize>)| {
        let member = owner.member.as_deref().and_then(|id| members.get(id));
        let counts_in_ms = member.and_then(|member| member.counts_in).map(|it| it.as_millis());
        let weight = member.map(|member| member.weight);
        let (of, count) = (of.unwrap_or(declared), shards.len());
        Share { owner, weight, counts_in_ms, count, shards, of, draining_from }
    };
    owners.into_iter().map(share).collect()
}

fn declaration(row: &Record) -> Option<Declaration> {
    Declaration::read(row.info.as_deref()?)
}

/// Judges by the rows, as the members do.
fn members(sharing: &[Record]) -> Members {
    let (live, others): (Vec<&Record>, Vec<&Record>) =
        sharing.iter().partition(|row| row.is_held() && row.holder.is_some());
    let Some(lease) = live.first().map(|row| lease(row)) else { return Members::new() };
    let join = |row: &&Record| {
        let ran_out = declaration(row).is_some_and(|it| it.ran_out);
        Join { since: ago(row.since_ms.unwrap_or_default()), ran_out }
    };
    let joins: Vec<Join> = live.iter().map(join).collect();
    let ran_out: Vec<Timestamp> = others.into_iter().filter_map(ran_out).collect();
    let counts_from = counts_from(&joins, &ran_out, lease);
    let member = |((row, join), counts_from): ((&Record, Join), Timestamp)| {
        let state = match counts_from <= NOW {
            true => "sharing",
            false if counts_from <= join.since + usual_settling(lease) => "joining",
            false => "waiting",
        };
        let weight = declaration(row).map_or(1, |it| it.weight);
        let counts_in = (counts_from > NOW).then(|| counts_from.since(NOW));
        (last_part(&row.name).to_string(), Member { weight, state, counts_in })
    };
    live.into_iter().zip(joins).zip(counts_from).map(member).collect()
}

/// Returns when the term in a row ran out unreleased, if it did.
fn ran_out(row: &Record) -> Option<Timestamp> {
    row.last_holder.as_ref().filter(|_| row.state == State::Expired)?;
    let heard = ago(i64::try_from(row.heartbeat_age_ms?).unwrap_or(i64::MAX));
    Some(heard + lease(row))
}

fn ago(milliseconds: i64) -> Timestamp {
    Timestamp(NOW.0.saturating_sub(milliseconds.saturating_mul(1_000_000)))
}

fn lease(row: &Record) -> Duration {
    let milliseconds = row.lease_ms.and_then(|lease| u64::try_from(lease).ok());
    milliseconds.map_or(LEASE_ASSUMED, Duration::from_millis)
}

impl Owner {
    /// Returns who has the shard of this row; `sharing` are the rows of those that share the shards.
    fn of(shard: Record, members: &Members, sharing: &[Record]) -> Owner {
        let is_promised = |id: &str| {
            sharing.iter().any(|row| last_part(&row.name) == id && row.state == State::Promised)
        };
        match (shard.state, shard.holder.or(shard.last_holder)) {
            (State::Held, Some(id)) => {
                let member = members.get(&id);
                Owner::member(id, member)
            }
            (State::Promised, _) => {
                let reserved_for = shard.reserved_for;
                let restarts = reserved_for.as_deref().is_some_and(is_promised);
                let state = restarts.then_some("restarting");
                Owner { reserved_for, state, ..Owner::default() }
            }
            (State::Expired, Some(id)) => {
                Owner::vacant(&format!("the lease of {id} ran out"), members)
            }
            (State::Evicted, _) => {
                let why = Some("evicted, and the lease runs on".to_string());
                Owner { why, ..Owner::default() }
            }
            (State::NeverHeld, _) => Owner::vacant(NO_ROW, members),
            (State::Released, _) => Owner::vacant("released, and taken by nobody since", members),
            (state, _) => Owner { why: Some(state.as_str().to_string()), ..Owner::default() },
        }
    }

    fn member(id: String, member: Option<&Member>) -> Owner {
        let state = Some(member.map_or("leaving", |member| member.state));
        Owner { member: Some(id), state, ..Owner::default() }
    }

    /// Returns the owner of a shard that is free, and also says why no member takes it.
    fn vacant(why: &str, members: &Members) -> Owner {
        let obstacle = match members.values().find(|member| member.state == "sharing") {
            Some(_) => "",
            None if members.is_empty() => "; no member is live",
            None => "; no live member counts yet",
        };
        Owner { why: Some(format!("{why}{obstacle}")), ..Owner::default() }
    }
}

/// The count of the shards, as far as a row names one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Of {
    count: Option<usize>,
    draining_from: Option<usize>,
}

impl Of {
    pub fn new(named: Option<ShardCount>) -> Of {
        let draining = named.filter(|named| named.is_draining);
        let count = named.map(|named| named.shards);
        Of { count, draining_from: draining.and_then(|named| named.before) }
    }

    /// Returns the number of shards that somebody is to have, or to give up in a move that goes on. A vacant one beyond
    /// was left behind by a move.
    pub fn end(self) -> Option<usize> {
        self.count.max(self.draining_from)
    }
}

impl Line for Share {
    const HEAD: &'static [&'static str] = &["MEMBER", "WEIGHT", "COUNT", "SHARDS"];

    fn cells(&self) -> Vec<Cell> {
        let Owner { member, reserved_for, state, why } = &self.owner;
        let counts_in = self.counts_in_ms.and_then(|it| u64::try_from(it).ok());
        let counts_in = in_words(Duration::from_millis(counts_in.unwrap_or_default()));
        let member = match (member, reserved_for, state) {
            (Some(member), _, Some("leaving")) => format!("{member} (leaving)"),
            (Some(member), _, Some(state @ ("joining" | "waiting"))) => {
                format!("{member} ({state}, counts in {counts_in})")
            }
            (Some(member), ..) => member.clone(),
            (None, Some(id), Some("restarting")) => format!("{id} (restarting)"),
            (None, Some(id), _) => format!("reserved for {id}"),
            (None, None, _) => format!("vacant: {}", why.as_deref().unwrap_or(NO_ROW)),
        };
        let weight = self.weight.map_or_else(|| "-".to_string(), |weight| weight.to_string());
        vec![
            Cell::plain(member),
            Cell::plain(weight),
            Cell::plain(self.count.to_string()),
            Cell::plain(ranges(&self.shards)),
        ]
    }
}

/// The numbers, in order, as people write them: `0-3, 7`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges(&[]), "");
    }

    /// A row of the shards `orders/emails`, by the name's end, the state, and the holder or who it is
    /// reserved for.
    fn row(name: &str, state: State, id: Option<&str>) -> Record {
        let id = id.map(str::to_string);
        let (holder, last_holder, reserved_for) = match state {
            State::Promised => (None, None, id),
            State::Expired => (None, id, None),
            _ => (id, None, None),
        };
        Record {
            name: name.to_string(),
            fleet: None,
            state,
            holder,
            last_holder,
            reserved_for,
            since: None,
            since_ms: Some(900_000),
            lost: None,
            lost_ms: None,
            token: None,
            lease_ms: Some(10_000),
            heartbeat_age_ms: Some(1_000),
            info: None,
            next_in_line: None,
            next_in_line_since: None,
            next_in_line_ms: None,
            next: String::new(),
        }
    }

    /// A member's row: so many seconds old, heard of so long ago.
    fn member(id: &str, state: State, since: i64, heard: u128, info: &str) -> Record {
        Record {
            since_ms: Some(since * 1_000),
            heartbeat_age_ms: Some(heard * 1_000),
            info: Some(info.to_string()),
            ..row(&format!("share/{id}"), state, Some(id))
        }
    }

    fn told(pieces: Vec<Record>, sharing: &[Record]) -> Vec<String> {
        let lines = shares(pieces, sharing, Of::default());
        let text = |share: &Share| {
            let cells = share.cells();
            format!("{} | {} | {}", cells[0].text, cells[1].text, cells[3].text)
        };
        lines.iter().map(text).collect()
    }

    #[test]
    fn each_line_says_who_leaves_and_why_shards_are_vacant() {
        let pieces = vec![
            row("shard/0", State::Held, Some("a")),
            row("shard/1", State::Held, Some("gone")),
            row("shard/2", State::Promised, Some("back")),
            row("shard/3", State::Promised, Some("a")),
            row("shard/4", State::Released, None),
            row("shard/5", State::Expired, Some("dead")),
            row("shard/6", State::Evicted, None),
            row("shard/7", State::NeverHeld, None),
        ];
        let sharing = [
            row("share/a", State::Held, Some("a")),
            row("share/back", State::Promised, Some("back")),
        ];
        let expected = [
            "vacant: evicted, and the lease runs on | - | 6",
            "vacant: no row tells who had it | - | 7",
            "vacant: released, and taken by nobody since | - | 4",
            "vacant: the lease of dead ran out | - | 5",
            "reserved for a | - | 3",
            "back (restarting) | - | 2",
            "a | 1 | 0",
            "gone (leaving) | - | 1",
        ];
        assert_eq!(told(pieces, &sharing), expected);
    }

    #[test]
    fn a_member_that_has_just_come_is_shown_as_joining_and_beside_a_row_that_ran_out_as_waiting() {
        let shards = || {
            ["a", "a", "a"]
                .iter()
                .enumerate()
                .map(|(at, id)| row(&format!("shard/{at}"), State::Held, Some(id)))
        };
        let a = member("a", State::Held, 500, 1, "shards 3 weight 3");
        let again = member("e", State::Held, 4, 1, "shards 3 weight 2 ran-out");
        let expected = ["a | 3 | 0-2", "e (waiting, counts in 16s) | 2 | "];
        assert_eq!(told(shards().collect(), &[a.clone(), again]), expected);
        let new = member("new", State::Held, 1, 1, "shards 3");
        let expected = ["a | 3 | 0-2", "new (joining, counts in 2.0s) | 1 | "];
        assert_eq!(told(shards().collect(), &[a.clone(), new.clone()]), expected);
        // Under random ids the rows of the dead tell.
        let dead = member("x1", State::Expired, 40, 35, "shards 3");
        let expected = ["a | 3 | 0-2", "new (waiting, counts in 19s) | 1 | "];
        assert_eq!(told(shards().collect(), &[a, dead, new]), expected);
    }

    #[test]
    fn a_move_shows_the_shards_that_are_to_stop_and_none_that_an_earlier_one_left_behind() {
        let told = |count: usize, draining_from: Option<usize>| -> Vec<String> {
            let pieces = vec![
                row("shard/0", State::Held, Some("a")),
                row("shard/1", State::Released, None),
                row("shard/2", State::Held, Some("a")),
                row("shard/3", State::Released, None),
            ];
            let sharing = [row("share/a", State::Held, Some("a"))];
            let shares = shares(pieces, &sharing, Of { count: Some(count), draining_from });
            assert!(shares.iter().all(|share| share.of == count), "of {count}");
            let line =
                |share: &Share| format!("{} {}", share.cells()[0].text, ranges(&share.shards));
            shares.iter().map(line).collect()
        };
        let vacant = "vacant: the move waits until all shards are given up 1";
        assert_eq!(told(1, Some(3)), [vacant, "a 0, 2"]);
        assert_eq!(told(1, None), ["a 0, 2"]);
        assert_eq!(told(2, None), ["vacant: released, and taken by nobody since 1", "a 0, 2"]);
    }

    #[test]
    fn a_vacant_shard_also_says_if_no_member_can_take_it() {
        let free = || {
            vec![row("shard/0", State::Released, None), row("shard/1", State::Expired, Some("x"))]
        };
        let dead = member("x", State::Expired, 40, 35, "shards 3");
        let expected = [
            "vacant: released, and taken by nobody since; no member is live | - | 0",
            "vacant: the lease of x ran out; no member is live | - | 1",
        ];
        assert_eq!(told(free(), &[dead]), expected);
        let new = member("new", State::Held, 0, 0, "shards 3");
        let expected = [
            "vacant: no row tells who had it; no live member counts yet | - | 2",
            "vacant: released, and taken by nobody since; no live member counts yet | - | 0",
            "vacant: the lease of x ran out; no live member counts yet | - | 1",
            "new (joining, counts in 1.0s) | 1 | ",
        ];
        assert_eq!(told(free(), &[new]), expected);
    }
}
