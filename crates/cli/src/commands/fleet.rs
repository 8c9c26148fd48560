//! `members`, `permits` and `readers`: the rows of fleets, as what they are.

use std::process::ExitCode;

use serde::Serialize;

use crate::arguments::Listed;
use crate::failure::{Code, Failure, Result};
use crate::fleets::print;
use crate::output::{Cell, Line, Output, notice};
use crate::place::Place;
use crate::readers::{KIND, role};
use crate::record::Record;

pub async fn rows(place: &Place, prefix: &str) -> Result<Vec<Record>> {
    place.records(prefix, 1_000).await
}

/// Lists the fleets of a kind, one line each.
pub async fn fleets(place: &Place, out: &Output, kind: &str, what: &str) -> Result<ExitCode> {
    let records = rows(place, &format!("spindle:{kind}:")).await?;
    if records.is_empty() && out.form.is_for_people() {
        return Ok(nothing(place, what));
    }
    print(out, records, &Listed::default())?;
    Ok(ExitCode::SUCCESS)
}

fn nothing(place: &Place, what: &str) -> ExitCode {
    notice(&format!("no {what} in table `{}`", place.table));
    ExitCode::SUCCESS
}

pub fn none(kind: &str, name: &str) -> Failure {
    let text = format!("{kind} `{name}`: no such row is there");
    Failure::new(Code::No, text).cure("`spindle ls spindle:` lists the rows of all fleets")
}

/// The part of a row's name that comes after the name of its fleet.
pub fn last_part(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

#[derive(Serialize)]
struct Member {
    group: String,
    id: String,
    since: Option<String>,
    heartbeat_age_ms: Option<u128>,
    info: Option<String>,
    #[serde(skip)]
    record: Record,
}

impl Line for Member {
    const HEAD: &'static [&'static str] = &["GROUP", "MEMBER", "FOR", "HEARTBEAT", "INFO"];

    fn cells(&self) -> Vec<Cell> {
        let dash = || "-".to_string();
        vec![
            Cell::plain(self.group.clone()),
            Cell::plain(self.id.clone()),
            Cell::plain(self.record.duration().unwrap_or_else(dash)),
            Cell::plain(self.record.heartbeat().unwrap_or_else(dash)),
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
                info,
                record,
            }
        })
        .collect();
    if let (Some(group), true) = (group, members.is_empty()) {
        return Err(none("live members of group", group));
    }
    if members.is_empty() && out.form.is_for_people() {
        return Ok(nothing(place, "live members"));
    }
    out.rows(&members)?;
    Ok(ExitCode::SUCCESS)
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
    const HEAD: &'static [&'static str] = &[
        "ROLE",
        "NAME",
        "HOLDER",
        "STATE",
        "FOR",
        "LEASE",
        "HEARTBEAT",
        "INFO",
        "TOKEN",
        "IN LINE",
    ];
    const GOES_FIRST: &'static [&'static str] = Record::GOES_FIRST;
    const WIDE: usize = Record::WIDE;

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
    if out.form.is_for_people() {
        let used = rows.iter().filter(|row| row.record.is_held()).count();
        let rows = rows.len();
        notice(&format!("{used} used; {rows} have a row: one that nobody had yet has none"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells who reads and who writes, or waits to write.
pub async fn readers(place: &Place, out: &Output, name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else { return fleets(place, out, "rw", "readers and writers").await };
    let gate = format!("{KIND}{name}");
    // Other names may begin alike.
    let mut records = rows(place, &gate).await?;
    records.retain(|record| record.fleet.as_ref() == Some(&gate));
    if records.is_empty() {
        return Err(none("readers and writers", name));
    }
    let row = |record: Record| {
        let role = role(&record.name);
        let part = if role == "reader" { last_part(&record.name) } else { "-" };
        Row { role, part: part.to_string(), record }
    };
    out.rows(&records.into_iter().map(row).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}
