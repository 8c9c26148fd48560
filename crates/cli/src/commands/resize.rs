//! `shards --resize`: another count of shards for a running fleet.

use std::process::ExitCode;

use serde::Serialize;
use spindle_fleet::ShardCount;

use crate::arguments::Resize;
use crate::confirm::confirm;
use crate::failure::{Code, Failure, Result};
use crate::output::{Output, printable};
use crate::place::Place;

/// The move that was made.
#[derive(Serialize)]
struct Moved<'a> {
    name: &'a str,
    shards: usize,
    before: Option<usize>,
    draining: bool,
}

/// Reads the count of these shards, `GROUP/NAME`, if any is named.
pub async fn count(place: &Place, name: &str) -> Result<Option<ShardCount>> {
    let (group, shards) = parts(name)?;
    Ok(ShardCount::read(&place.locks, group, shards).await?)
}

/// Moves the shards, `GROUP/NAME`, to another count.
pub async fn resize(place: &Place, out: &Output, name: &str, resize: &Resize) -> Result<ExitCode> {
    let Resize { resize: to, confirmation } = resize;
    let to = to.unwrap_or_default();
    let (group, shards) = parts(name)?;
    let Some(count) = ShardCount::read(&place.locks, group, shards).await? else {
        let text = format!("shards `{name}`: no member has shared them yet");
        return Err(Failure::new(Code::No, text).cure("`spindle shards` lists those there are"));
    };
    let stops = "All of its shards stop before any of the new ones starts.";
    let name = printable(name);
    confirm(confirmation, &format!("Move `{name}` to {to} shards? It shares {count}. {stops}"))?;
    let act = ShardCount::resize(&place.locks, group, shards, to);
    let moved = act.await.map_err(|error| {
        let is_unknown = error.is_outcome_unknown();
        let failure = Failure::from(error);
        if is_unknown { failure.cure("repeat it, which does no harm") } else { failure }
    })?;
    let ShardCount { shards, before, is_draining: draining, .. } = moved;
    out.one(&Moved { name: &name, shards, before, draining }, || {
        let expect = match draining {
            true => "the members stop all shards first; `spindle shards` shows it",
            false => "so it did before; nothing was done",
        };
        format!("shards `{name}`: the group shares {moved}\n{expect}\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The group and the name; a group may have shards of several names.
fn parts(name: &str) -> Result<(&str, &str)> {
    name.split_once('/').ok_or_else(|| {
        let text = format!("shards `{name}`: expected GROUP/NAME");
        Failure::new(Code::Usage, text).cure("`spindle shards` lists those there are")
    })
}
