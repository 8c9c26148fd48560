//! `members`, `shards`, `permits` and `readers`: the rows of fleets, as what they are.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;
use spindle::LockState;

use crate::arguments::Form;
use crate::failure::{Code, Failure, Result};
use crate::fleets::grouped;
use crate::output::{Cell, Line, Output};
use crate::place::Place;
use crate::record::Record;

async fn rows(place: &Place, prefix: &str) -> Result<Vec<LockState>> {
    let mut listing = place.locks.list().prefix(prefix).page_rows(1_000);
    let mut rows = Vec::new();
    while let Some(state) = listing.next().await? {
        rows.push(state);
    }
    Ok(rows)
}

/// Lists the fleets of a kind, one line each.
async fn fleets(place: &Place, out: &Output, kind: &str, what: &str) -> Result<ExitCode> {
    let states = rows(place, &format!("spindle:{kind}:")).await?;
    if states.is_empty() && out.form == Form::Table {
        return Ok(nothing(place, what));
    }
    let records: Vec<Record> = states.iter().map(Record::new).collect();
    if out.form == Form::Table {
        out.table(&grouped(records, "", false))?;
    } else {
        out.rows(&records)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(place: &Place, what: &str) -> ExitCode {
    eprintln!("no {what} in table `{}`", place.table);
    ExitCode::SUCCESS
}

fn none(kind: &str, name: &str) -> Failure {
    let text = format!("{kind} `{name}`: no such row is there");
    Failure::new(Code::No, text).cure("`spindle ls spindle:` lists the rows of all fleets")
}

/// The part of a row's name that comes after the name of its fleet.
fn last_part(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

#[derive(Serialize)]
struct Member {
    group: String,
    id: String,
    since: Option<String>,
    heartbeat_age_ms: Option<u128>,
    /// Of a contender for a ranked lock.
    rank: Option<u64>,
    info: Option<String>,
    #[serde(skip)]
    record: Record,
}

impl Line for Member {
    const HEAD: &'static [&'static str] = &["GROUP", "MEMBER", "FOR", "HEARTBEAT", "RANK", "INFO"];

    fn cells(&self) -> Vec<Cell> {
        let dash = || "-".to_string();
        vec![
            Cell::plain(self.group.clone()),
            Cell::plain(self.id.clone()),
            Cell::plain(self.record.duration().unwrap_or_else(dash)),
            Cell::plain(self.record.heartbeat().unwrap_or_else(dash)),
            Cell::plain(self.rank.map_or_else(dash, |rank| rank.to_string())),
            Cell::plain(self.info.clone().unwrap_or_default()),
        ]
    }
}

/// Lists the live members of a group, or of all groups.
pub async fn members(place: &Place, out: &Output, group: Option<&str>) -> Result<ExitCode> {
    const KIND: &str = "spindle:member:";
    let prefix = group.map_or_else(|| KIND.to_string(), |group| format!("{KIND}{group}/"));
    let states = rows(place, &prefix).await?;
    let live = states.iter().filter(|state| state.is_held());
    let members: Vec<Member> = live
        .map(|state| {
            let record = Record::new(state);
            let fleet = state.fleet().unwrap_or_default();
            let info = state.info.clone();
            Member {
                group: fleet.strip_prefix(KIND).unwrap_or(fleet).to_string(),
                id: last_part(&state.name).to_string(),
                since: record.since.clone(),
                heartbeat_age_ms: record.heartbeat_age_ms,
                rank: info.as_deref().and_then(|info| declared(info, "rank ")),
                info,
                record,
            }
        })
        .collect();
    if let (Some(group), true) = (group, members.is_empty()) {
        return Err(none("live members of group", group));
    }
    if members.is_empty() && out.form == Form::Table {
        return Ok(nothing(place, "live members"));
    }
    out.rows(&members)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the number that an info declares after a word.
fn declared(info: &str, word: &str) -> Option<u64> {
    info.strip_prefix(word)?.split(' ').next()?.parse().ok()
}

#[derive(Serialize)]
struct Share {
    /// Nothing for the shards that nobody has.
    member: Option<String>,
    /// Of a shard that waits for its next owner.
    reserved_for: Option<String>,
    count: usize,
    shards: Vec<u64>,
}

impl Line for Share {
    const HEAD: &'static [&'static str] = &["MEMBER", "COUNT", "SHARDS"];

    fn cells(&self) -> Vec<Cell> {
        let member = match (&self.member, &self.reserved_for) {
            (Some(member), _) => member.clone(),
            (None, Some(id)) => format!("reserved for {id}"),
            (None, None) => "vacant".to_string(),
        };
        vec![
            Cell::plain(member),
            Cell::plain(self.count.to_string()),
            Cell::plain(ranges(&self.shards)),
        ]
    }
}

/// Tells who has which of the shards.
pub async fn shards(place: &Place, out: &Output, name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else { return fleets(place, out, "shard", "shards").await };
    let pieces = rows(place, &format!("spindle:shard:{name}/")).await?;
    let sharing = rows(place, &format!("spindle:share:{name}/")).await?;
    if pieces.is_empty() && sharing.is_empty() {
        return Err(none("shards", name));
    }
    let shared = shares(&pieces, &sharing);
    out.rows(&shared)?;
    Ok(ExitCode::SUCCESS)
}

fn shares(pieces: &[LockState], sharing: &[LockState]) -> Vec<Share> {
    let mut owners = BTreeMap::<(Option<String>, Option<String>), Vec<u64>>::new();
    // A member that shares and has none yet is worth a line.
    for state in sharing.iter().filter(|state| state.is_held()) {
        owners.insert((Some(last_part(&state.name).to_string()), None), Vec::new());
    }
    let number = |state: &LockState| last_part(&state.name).parse::<u64>().ok();
    let declared = |state: &LockState| declared(state.info.as_deref()?, "shards ");
    let live = sharing.iter().filter(|state| state.is_held());
    // A shard that nobody ever had has no row. No fleet has more than 10,000.
    let count = live.filter_map(declared).max().unwrap_or(0).min(10_000);
    let mut states: BTreeMap<u64, Option<Record>> = (0..count).map(|shard| (shard, None)).collect();
    let known = pieces.iter().filter_map(|state| Some((number(state)?, Some(Record::new(state)))));
    states.extend(known);
    for (shard, record) in states {
        let owner = record.map_or((None, None), |record| {
            let holder = if record.is_held() { record.holder } else { None };
            (holder, record.reserved_for)
        });
        owners.entry(owner).or_default().push(shard);
    }
    let share = |((member, reserved_for), shards): (_, Vec<u64>)| Share {
        member,
        reserved_for,
        count: shards.len(),
        shards,
    };
    owners.into_iter().map(share).collect()
}

/// The numbers, in order, as people write them: `0-3, 7`.
fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[derive(Serialize)]
struct Seat {
    /// `permit`, `writer` or `reader`.
    role: &'static str,
    /// The permit's number, or the reader's name.
    part: String,
    #[serde(flatten)]
    record: Record,
}

impl Line for Seat {
    const HEAD: &'static [&'static str] =
        &["ROLE", "NAME", "HOLDER", "STATE", "FOR", "LEASE", "HEARTBEAT", "INFO"];

    fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::plain(self.role), Cell::plain(self.part.clone())];
        cells.extend(self.record.cells().into_iter().skip(1));
        cells
    }
}

/// Tells who has which of the permits.
pub async fn permits(place: &Place, out: &Output, name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else { return fleets(place, out, "permit", "permits").await };
    let states = rows(place, &format!("spindle:permit:{name}/")).await?;
    if states.is_empty() {
        return Err(none("permits", name));
    }
    let mut seats: Vec<Seat> = states
        .iter()
        .map(|state| Seat {
            role: "permit",
            part: last_part(&state.name).to_string(),
            record: Record::new(state),
        })
        .collect();
    seats.sort_by_key(|seat| seat.part.parse::<u64>().unwrap_or(u64::MAX));
    out.rows(&seats)?;
    if out.form == Form::Table {
        let used = seats.iter().filter(|seat| seat.record.is_held()).count();
        eprintln!("{used} used; {} have a row: one that nobody had yet has none", seats.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells who reads and who writes, or waits to write.
pub async fn readers(place: &Place, out: &Output, name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else { return fleets(place, out, "rw", "readers and writers").await };
    let gate = format!("spindle:rw:{name}");
    // Other names may begin alike.
    let mut states = rows(place, &gate).await?;
    states.retain(|state| state.fleet() == Some(&gate));
    if states.is_empty() {
        return Err(none("readers and writers", name));
    }
    let is_writer = |state: &LockState| state.name == gate;
    let reading = states.iter().filter(|state| !is_writer(state) && state.is_held()).count();
    let seats: Vec<Seat> = states
        .iter()
        .map(|state| {
            let (mut record, is_writer) = (Record::new(state), is_writer(state));
            if is_writer && record.is_held() && reading > 0 {
                // Its second commit comes once no reader is left.
                record.next = format!("waits for {reading} readers to end, and writes then");
                record.state = "waiting";
            }
            let part = if is_writer { "-" } else { last_part(&state.name) };
            let role = if is_writer { "writer" } else { "reader" };
            Seat { role, part: part.to_string(), record }
        })
        .collect();
    out.rows(&seats)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_rank_is_read_from_an_info_that_declares_one() {
        assert_eq!(declared("rank 3", "rank "), Some(3));
        assert_eq!(declared("rank 0 and more", "rank "), Some(0));
        assert_eq!(declared("ranking 3", "rank "), None);
    }
}
