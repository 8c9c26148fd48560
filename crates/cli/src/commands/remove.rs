//! `rm`.

use std::process::ExitCode;

use serde::Serialize;

use crate::arguments::Confirmation;
use crate::confirm::confirm;
use crate::failure::{Code, Result};
use crate::output::{Output, printable};
use crate::place::Place;

#[derive(Serialize)]
struct Removed<'a> {
    name: &'a str,
    removed: bool,
    /// The text of the row, which may say who evicted the last holder, and why.
    info: Option<String>,
}

pub async fn remove(
    place: &Place,
    out: &Output,
    name: &str,
    confirmation: &Confirmation,
) -> Result<ExitCode> {
    let question = format!(
        "Delete the row of lock `{name}`? Only if nobody holds it. The next term's token is \
         greater than every earlier one all the same."
    );
    confirm(confirmation, &question)?;
    let info = place.locks.inspect(name).await?.info;
    let removed = place.locks.remove(name).await?;
    let info = info.filter(|info| removed && !info.is_empty());
    out.one(&Removed { name, removed, info: info.clone() }, || match (removed, &info) {
        (true, None) => {
            format!("lock `{name}`: its row is deleted; the next contender makes a new one\n")
        }
        (true, Some(info)) => format!(
            "lock `{name}`: its row is deleted, which said `{}`; the next contender makes a new \
             one\n",
            printable(info)
        ),
        (false, _) => {
            format!("lock `{name}`: there is no row, nor a takeover row any more; `spindle ls` lists the locks there are\n")
        }
    })?;
    Ok(if removed { ExitCode::SUCCESS } else { Code::No.exit() })
}
