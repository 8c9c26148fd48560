//! `members`, `shards`, `permits` and `readers`: the rows of fleets, as what they are.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;

use serde::Serialize;

use crate::arguments::Form;
use crate::failure::{Code, Failure, Result};
use crate::fleets::print;
use crate::output::{Cell, Line, Output, notice};
use crate::place::Place;
use crate::readers::KIND;
use crate::record::Record;

/// Why nobody has a shard whose row is not there, or was never held.
const NEVER_HELD: &str = "nobody has had it";

async fn rows(place: &Place, prefix: &str) -> Result<Vec<Record>> {
    place.records(prefix, 1_000).await
}

/// Lists the fleets of a kind, one line each.
async fn fleets(place: &Place, out: &Output, kind: &str, what: &str) -> Result<ExitCode> {
    let records = rows(place, &format!("spindle:{kind}:")).await?;
    if records.is_empty() && out.form == Form::Table {
        return Ok(nothing(place, what));
    }
    print(out, records, "", false)?;
    Ok(ExitCode::SUCCESS)
}

fn nothing(place: &Place, what: &str) -> ExitCode {
    notice(&format!("no {what} in table `{}`", place.table));
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
    rank: Option<u32>,
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
    let live = rows(place, &prefix).await?.into_iter().filter(Record::is_held);
    let members: Vec<Member> = live
        .map(|record| {
            let fleet = record.fleet.as_deref().unwrap_or_default();
            let info = record.info.clone();
            Member {
                group: fleet.strip_prefix(KIND).unwrap_or(fleet).to_string(),
                id: last_part(&record.name).to_string(),
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
fn declared<N: FromStr>(info: &str, word: &str) -> Option<N> {
    info.strip_prefix(word)?.split(' ').next()?.parse().ok()
}

#[derive(Serialize)]
struct Share {
    #[serde(flatten)]
    owner: Owner,
    count: usize,
    shards: Vec<u64>,
}

/// The owner of some shards, or the reason why they have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Owner {
    /// Nothing for the shards that nobody has.
    member: Option<String>,
    /// Of a shard that waits for its next owner.
    reserved_for: Option<String>,
    /// `leaving`, `restarting`, or `sharing` of a member; nothing where there is none.
    state: Option<&'static str>,
    /// Why nobody has the shards.
    why: Option<String>,
}

impl Owner {
    /// Returns who has the shard of this row; `sharing` are the rows of those that share the shards.
    fn of(shard: Record, sharing: &[Record]) -> Owner {
        let row_of = |id: &str| sharing.iter().find(|row| last_part(&row.name) == id);
        let is_back = |id: &str| row_of(id).is_some_and(Record::is_held);
        let is_promised = |id: &str| row_of(id).is_some_and(|row| row.state == "promised");
        let why = match (shard.state, shard.holder) {
            ("held", Some(id)) => {
                let state = if is_back(&id) { "sharing" } else { "leaving" };
                return Owner { member: Some(id), state: Some(state), ..Owner::default() };
            }
            ("promised", _) => {
                let reserved_for = shard.reserved_for;
                let restarts = reserved_for.as_deref().is_some_and(is_promised);
                let state = restarts.then_some("restarting");
                return Owner { reserved_for, state, ..Owner::default() };
            }
            ("expired", Some(id)) => format!("the lease of {id} ran out"),
            ("evicted", _) => "evicted, and the lease runs on".to_string(),
            ("never_held", _) => NEVER_HELD.to_string(),
            ("released", _) => "released, and taken by nobody since".to_string(),
            (state, _) => state.to_string(),
        };
        Owner { why: Some(why), ..Owner::default() }
    }
}

impl Line for Share {
    const HEAD: &'static [&'static str] = &["MEMBER", "COUNT", "SHARDS"];

    fn cells(&self) -> Vec<Cell> {
        let Owner { member, reserved_for, state, why } = &self.owner;
        let member = match (member, reserved_for, state) {
            (Some(member), _, Some("leaving")) => format!("{member} (leaving)"),
            (Some(member), ..) => member.clone(),
            (None, Some(id), Some("restarting")) => format!("{id} (restarting)"),
            (None, Some(id), _) => format!("reserved for {id}"),
            (None, None, _) => format!("vacant: {}", why.as_deref().unwrap_or(NEVER_HELD)),
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
    // A group may have shards of several names.
    if !name.contains('/') {
        let text = format!("shards `{name}`: expected GROUP/NAME");
        return Err(Failure::new(Code::Usage, text).cure("`spindle shards` lists those there are"));
    }
    let pieces = rows(place, &format!("spindle:shard:{name}/")).await?;
    let sharing = rows(place, &format!("spindle:share:{name}/")).await?;
    if pieces.is_empty() && sharing.is_empty() {
        return Err(none("shards", name));
    }
    out.rows(&shares(pieces, sharing))?;
    Ok(ExitCode::SUCCESS)
}

fn shares(pieces: Vec<Record>, sharing: Vec<Record>) -> Vec<Share> {
    let mut owners = BTreeMap::<Owner, Vec<u64>>::new();
    let mut count = 0;
    for record in sharing.iter().filter(|record| record.is_held()) {
        // A member that shares and has none yet is worth a line.
        let (member, state) = (Some(last_part(&record.name).to_string()), Some("sharing"));
        owners.insert(Owner { member, state, ..Owner::default() }, Vec::new());
        let declared = record.info.as_deref().and_then(|info| declared(info, "shards "));
        count = count.max(declared.unwrap_or(0));
    }
    // A shard that nobody ever had has no row. No fleet has more than 10,000.
    let nobody = Owner { why: Some(NEVER_HELD.to_string()), ..Owner::default() };
    let mut shards: BTreeMap<u64, Owner> =
        (0..count.min(10_000)).map(|shard| (shard, nobody.clone())).collect();
    for record in pieces {
        let Ok(shard) = last_part(&record.name).parse() else { continue };
        shards.insert(shard, Owner::of(record, &sharing));
    }
    for (shard, owner) in shards {
        owners.entry(owner).or_default().push(shard);
    }
    let share = |(owner, shards): (_, Vec<u64>)| Share { owner, count: shards.len(), shards };
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
struct Row {
    /// `permit`, `writer` or `reader`.
    role: &'static str,
    /// The permit's number, or the reader's name.
    part: String,
    #[serde(flatten)]
    record: Record,
}

impl Line for Row {
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
    let records = rows(place, &format!("spindle:permit:{name}/")).await?;
    if records.is_empty() {
        return Err(none("permits", name));
    }
    let row =
        |record: Record| Row { role: "permit", part: last_part(&record.name).to_string(), record };
    let mut rows: Vec<Row> = records.into_iter().map(row).collect();
    rows.sort_by_key(|row| row.part.parse::<u64>().unwrap_or(u64::MAX));
    out.rows(&rows)?;
    if out.form == Form::Table {
        let used = rows.iter().filter(|row| row.record.is_held()).count();
        let rows = rows.len();
        notice(&format!("{used} used; {rows} have a row: one that nobody had yet has none"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells who reads and who writes, or waits to write.
pub async fn readers(place: &Place, out: &Output, name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else { return fleets(place, out, "rw", "readers and writers").await };
    let writer_row = format!("{KIND}{name}");
    // Other names may begin alike.
    let mut records = rows(place, &writer_row).await?;
    records.retain(|record| record.fleet.as_ref() == Some(&writer_row));
    if records.is_empty() {
        return Err(none("readers and writers", name));
    }
    let row = |record: Record| {
        let (role, part) = if record.name == writer_row {
            ("writer", "-")
        } else {
            ("reader", last_part(&record.name))
        };
        Row { role, part: part.to_string(), record }
    };
    out.rows(&records.into_iter().map(row).collect::<Vec<_>>())?;
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

    /// A row of the shards `orders/emails`, by the name's end, the state, and the holder or who it is
    /// reserved for.
    fn row(name: &str, state: &'static str, id: Option<&str>) -> Record {
        let id = id.map(str::to_string);
        let (holder, reserved_for) = if state == "promised" { (None, id) } else { (id, None) };
        Record {
            name: name.to_string(),
            fleet: None,
            state,
            holder,
            reserved_for,
            since: None,
            since_ms: None,
            token: None,
            lease_ms: None,
            heartbeat_age_ms: None,
            info: None,
            next: String::new(),
        }
    }

    #[test]
    fn each_line_says_who_leaves_and_why_shards_are_vacant() {
        let pieces = vec![
            row("shard/0", "held", Some("a")),
            row("shard/1", "held", Some("gone")),
            row("shard/2", "promised", Some("back")),
            row("shard/3", "promised", Some("a")),
            row("shard/4", "released", None),
            row("shard/5", "expired", Some("dead")),
            row("shard/6", "evicted", None),
            row("shard/7", "never_held", None),
        ];
        let sharing =
            vec![row("share/a", "held", Some("a")), row("share/back", "promised", Some("back"))];
        let told: Vec<String> = shares(pieces, sharing)
            .iter()
            .map(|share| format!("{} {}", share.cells()[0].text, ranges(&share.shards)))
            .collect();
        let expected = [
            "vacant: evicted, and the lease runs on 6",
            "vacant: nobody has had it 7",
            "vacant: released, and taken by nobody since 4",
            "vacant: the lease of dead ran out 5",
            "reserved for a 3",
            "back (restarting) 2",
            "a 0",
            "gone (leaving) 1",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_rank_is_read_from_an_info_that_declares_one() {
        let rank = |info| declared::<u32>(info, "rank ");
        assert_eq!(rank("rank 3"), Some(3));
        assert_eq!(rank("rank 0 and more"), Some(0));
        assert_eq!(rank("ranking 3"), None);
        assert_eq!(rank("rank 4294967296"), None, "the library knows no such rank");
    }
}
