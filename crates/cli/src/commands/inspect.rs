//! `ls`, `show` and `who`.

use std::process::ExitCode;

use spindle::Holding;

use crate::arguments::{Form, Ls, SortBy};
use crate::failure::{Code, Result};
use crate::fleets::print;
use crate::output::{Output, notice};
use crate::place::Place;
use crate::readers::{KIND, Readers};
use crate::record::Record;

pub async fn ls(place: &Place, out: &Output, asked: &Ls) -> Result<ExitCode> {
    let Ls { listed, state, sort_by } = asked;
    let prefix = &listed.prefix;
    let is_stream = out.form == Form::Jsonl && state.is_none() && sort_by.is_none();
    let mut locks = place.locks.list().prefix(prefix).page_rows(1_000);
    let mut rows = Vec::new();
    while let Some(row) = locks.next().await? {
        // A line of JSON is printed at once, but for a gate's, which takes the readers after it.
        if is_stream && !row.name.starts_with(KIND) {
            out.rows(&Readers::records(&std::mem::take(&mut rows)))?;
            out.json_line(&Record::new(&row))?;
        } else {
            rows.push(row);
        }
    }
    let mut records = Readers::records(&rows);
    records.retain(|record| state.is_none_or(|state| record.state == state));
    if records.is_empty() && out.form.is_for_people() {
        let table = &place.table;
        let of = state.map_or(String::new(), |state| format!(" and is {}", state.as_str()));
        notice(&format!("no lock of table `{table}` begins with `{prefix}`{of}"));
        return Ok(ExitCode::SUCCESS);
    }
    match sort_by {
        None => print(out, records, listed)?,
        Some(field) => {
            sort(&mut records, *field);
            out.rows(&records)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Those without such a field come last.
fn sort(records: &mut [Record], by: SortBy) {
    match by {
        SortBy::Name => records.sort_by(|a, b| a.name.cmp(&b.name)),
        SortBy::Holder => records.sort_by_cached_key(|it| (it.holder.is_none(), it.holder.clone())),
        SortBy::State => records.sort_by_key(|it| it.state),
        SortBy::Since => records.sort_by_key(|it| (it.since_ms.is_none(), it.since_ms)),
        SortBy::Heartbeat => {
            records.sort_by_key(|it| std::cmp::Reverse(it.heartbeat_age_ms));
        }
    }
}

pub async fn show(place: &Place, out: &Output, name: &str) -> Result<ExitCode> {
    let state = place.locks.inspect(name).await?;
    let record = Readers::of(&place.locks, &state).await?.record(&state);
    out.one(&record, || record.in_words())?;
    if state.holding == Holding::NeverHeld {
        let table = &place.table;
        let rule = "`spindle ls` lists those there are";
        notice(&format!("no row of table `{table}` has this name; {rule}"));
        return Ok(Code::No.exit());
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn who(place: &Place, out: &Output, name: &str) -> Result<ExitCode> {
    let state = place.locks.inspect(name).await?;
    let readers = Readers::of(&place.locks, &state).await?;
    match state.holder().filter(|_| readers.is_held(&state)) {
        Some(id) => {
            out.one(&id, || format!("{}\n", crate::output::printable(id)))?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(Code::No.exit()),
    }
}
