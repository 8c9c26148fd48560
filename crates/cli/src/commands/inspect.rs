//! `ls`, `show` and `who`.

use std::process::ExitCode;

use spindle::{Holding, LockState};

use crate::arguments::{Form, Listed};
use crate::failure::{Code, Result};
use crate::fleets::print;
use crate::output::{Output, notice};
use crate::place::Place;
use crate::readers::{KIND, Readers};
use crate::record::Record;

pub async fn ls(place: &Place, out: &Output, listed: &Listed) -> Result<ExitCode> {
    let prefix = &listed.prefix;
    let mut locks = place.locks.list().prefix(prefix).page_rows(1_000);
    let mut rows = Vec::new();
    while let Some(row) = locks.next().await? {
        // A line of JSON is printed at once, but for a gate's, which takes the readers after it.
        if out.form == Form::Jsonl && !row.name.starts_with(KIND) {
            out.rows(&Readers::records(&std::mem::take(&mut rows)))?;
            out.json_line(&Record::new(&row))?;
        } else {
            rows.push(row);
        }
    }
    let records = Readers::records(&rows);
    if records.is_empty() && out.form == Form::Table {
        notice(&format!("no lock of table `{}` begins with `{prefix}`", place.table));
        return Ok(ExitCode::SUCCESS);
    }
    print(out, records, listed)?;
    Ok(ExitCode::SUCCESS)
}

pub async fn show(place: &Place, out: &Output, name: &str) -> Result<ExitCode> {
    let state = place.locks.inspect(name).await?;
    let record = readers(place, &state).await?.record(&state);
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
    let readers = readers(place, &state).await?;
    match state.holder().filter(|_| readers.is_held(&state)) {
        Some(id) => {
            out.one(&id, || format!("{}\n", crate::output::printable(id)))?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(Code::No.exit()),
    }
}

/// Reads the readers for whom the holder of this gate waits; another row has none.
async fn readers(place: &Place, state: &LockState) -> Result<Readers> {
    if !state.is_held() || !state.name.starts_with(KIND) {
        return Ok(Readers::default());
    }
    Ok(Readers::among(&place.rows(&format!("{}/", state.name), 1_000).await?))
}
