//! `jobs` and `job`.

use std::process::ExitCode;

use serde::Serialize;

use crate::arguments::Confirmation;
use crate::confirm::confirm;
use crate::failure::{Code, Result};
use crate::jobs::SlotLine;
use crate::output::{Output, notice};
use crate::place::Place;

#[derive(Serialize)]
struct Forgotten<'a> {
    job: &'a str,
    removed: bool,
}

/// Lists the jobs with their last slots.
pub async fn jobs(place: &Place, out: &Output) -> Result<ExitCode> {
    let lines: Vec<_> = place.locks.jobs().await?.iter().map(SlotLine::last).collect();
    if lines.is_empty() && out.form.is_for_people() {
        notice(&format!("no job has a record in table `{}`", place.table));
        return Ok(ExitCode::SUCCESS);
    }
    out.rows(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the slots of one job that its row tells, the latest first.
pub async fn slots(place: &Place, out: &Output, name: &str) -> Result<ExitCode> {
    let Some(job) = place.locks.job(name).await? else {
        notice(&format!(
            "job `{name}`: no slot of it was started so far; `spindle jobs` lists them"
        ));
        return Ok(Code::No.exit());
    };
    out.rows(&SlotLine::all(&job))?;
    Ok(ExitCode::SUCCESS)
}

/// Forgets the record of a job.
pub async fn remove(
    place: &Place,
    out: &Output,
    name: &str,
    confirmation: &Confirmation,
) -> Result<ExitCode> {
    let question = format!(
        "Forget the record of job `{name}`? A slot that was run may be run again then, if a node calls \
         for it."
    );
    confirm(confirmation, &question)?;
    let removed = place.locks.remove_job(name).await?;
    out.one(&Forgotten { job: name, removed }, || {
        if removed {
            format!("job `{name}`: its record is forgotten; its lock stays\n")
        } else {
            format!("job `{name}`: there is no record; `spindle jobs` lists those there are\n")
        }
    })?;
    Ok(if removed { ExitCode::SUCCESS } else { Code::No.exit() })
}
