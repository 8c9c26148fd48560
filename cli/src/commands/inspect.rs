//! `ls`, `show` and `who`.

use std::process::ExitCode;

use spindle::Standing;

use crate::arguments::Form;
use crate::failure::{Code, Result};
use crate::fleets::grouped;
use crate::output::Output;
use crate::place::Place;
use crate::record::Record;

pub async fn ls(place: &Place, out: &Output, prefix: &str, all: bool) -> Result<ExitCode> {
    let mut locks = place.locks.list().prefix(prefix).page_rows(1_000);
    let mut records = Vec::new();
    while let Some(lock) = locks.next().await? {
        let record = Record::new(&lock);
        if out.form == Form::Jsonl {
            out.json_line(&record)?;
        } else {
            records.push(record);
        }
    }
    if out.form == Form::Jsonl {
        return Ok(ExitCode::SUCCESS);
    }
    if records.is_empty() && out.form == Form::Table {
        eprintln!("no lock of table `{}` begins with `{prefix}`", place.table);
        return Ok(ExitCode::SUCCESS);
    }
    match out.form {
        Form::Table => out.table(&grouped(records, prefix, all))?,
        Form::Json | Form::Jsonl => out.rows(&records)?,
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn show(place: &Place, out: &Output, name: &str) -> Result<ExitCode> {
    let state = place.locks.inspect(name).await?;
    let record = Record::new(&state);
    out.one(&record, || record.in_words())?;
    if state.standing == Standing::NeverHeld {
        let table = &place.table;
        eprintln!("no row of table `{table}` has this name; `spindle ls` lists those there are");
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn who(place: &Place, out: &Output, name: &str) -> Result<ExitCode> {
    match place.locks.inspect(name).await?.holder() {
        Some(id) => {
            out.one(&id, || format!("{}\n", crate::output::printable(id)))?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(Code::No.exit()),
    }
}
