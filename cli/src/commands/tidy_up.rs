//! `rm` and `sweep`.

use std::process::ExitCode;

use serde::Serialize;

use crate::arguments::Confirmation;
use crate::confirm::confirm;
use crate::failure::Result;
use crate::output::Output;
use crate::place::Place;

#[derive(Serialize)]
struct Swept {
    rows: u64,
}

pub async fn sweep(place: &Place, out: &Output, confirmation: &Confirmation) -> Result<ExitCode> {
    let table = &place.table;
    let question = format!(
        "Remove the takeover rows of table `{table}` that no lock needs any more? No lock is \
         touched."
    );
    confirm(confirmation, &question)?;
    let rows = place.locks.sweep().await?;
    out.one(&Swept { rows }, || format!("removed {rows} takeover rows\n"))?;
    Ok(ExitCode::SUCCESS)
}
