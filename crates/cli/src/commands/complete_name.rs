//! The names that a shell offers where the command line wants one.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use tokio::time::timeout;

use crate::arguments::{Arguments, Common};
use crate::failure::Result;
use crate::fleets::RESERVED;
use crate::output::{printable, to_stdout};
use crate::place::Place;

/// A key that shows nothing for longer seems to be broken.
const LIMIT: Duration = Duration::from_secs(2);

/// More than anybody reads.
const NAMES_MAX: usize = 1_000;

/// Stands for the word that is completed. No word has it, since none can be typed with it.
const CURSOR: &str = "\0";

/// The things that a place of the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lock,
    Job,
    /// Fleets whose rows have names that begin so.
    Fleet(&'static str),
}

/// Prints the names that the last word may become: none if it is no name, or if they can't be read.
pub async fn complete(mut words: Vec<OsString>) -> Result<ExitCode> {
    let word = words.pop().and_then(|word| word.into_string().ok()).unwrap_or_default();
    if let Some((common, kind)) = asked(words).filter(|_| !word.starts_with('-'))
        && let Ok(Ok(names)) = timeout(LIMIT, names(&common, kind, &word)).await
    {
        // Nobody can type a name that isn't shown as it is.
        let lines = names.iter().filter(|name| printable(name) == **name);
        to_stdout(&lines.map(|name| format!("{name}\n")).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what the word after these names, and in which database.
fn asked(mut words: Vec<OsString>) -> Option<(Common, Kind)> {
    words.push(CURSOR.into());
    // A line that isn't complete yet is no error.
    let matches = Arguments::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    let mut commands = Vec::new();
    let mut at = &matches;
    while let Some((command, inner)) = at.subcommand() {
        commands.push(command);
        at = inner;
    }
    let is_here = |id: &str| has_cursor(at, id);
    let kind = match commands[..] {
        ["job", _] if is_here("name") => Kind::Job,
        ["members"] if is_here("group") => Kind::Fleet("spindle:member:"),
        ["shards"] if is_here("name") => Kind::Fleet("spindle:shard:"),
        ["permits"] if is_here("name") => Kind::Fleet("spindle:permit:"),
        ["readers"] if is_here("name") => Kind::Fleet("spindle:rw:"),
        [_] if is_here("name") || is_here("prefix") => Kind::Lock,
        _ => return None,
    };
    Some((Common::from_arg_matches(at).ok()?, kind))
}

fn has_cursor(matches: &ArgMatches, id: &str) -> bool {
    let values = matches.try_get_raw(id).ok().flatten();
    values.is_some_and(|mut values| values.any(|value| value == CURSOR))
}

/// Reads the names that begin so.
async fn names(common: &Common, kind: Kind, word: &str) -> Result<Vec<String>> {
    let place = Place::reach(common).await?;
    if kind == Kind::Job {
        let names = place.locks.jobs().await?.into_iter().map(|job| job.name);
        return Ok(names.filter(|name| name.starts_with(word)).collect());
    }
    let mut names = Vec::new();
    let of = if let Kind::Fleet(of) = kind { of } else { "" };
    // The rows of fleets are offered to whoever asks for them, as `ls` does it.
    let are_all = kind != Kind::Lock || word.starts_with(RESERVED);
    let mut locks = place.locks.list().prefix(format!("{of}{word}")).page_rows(1_000);
    while names.len() < NAMES_MAX
        && let Some(row) = locks.next().await?
    {
        let name = if of.is_empty() { Some(&*row.name) } else { row.fleet() };
        let name = name.filter(|name| are_all || !name.starts_with(RESERVED));
        let name = name.and_then(|name| name.strip_prefix(of)).map(str::to_string);
        if names.last() != name.as_ref() {
            names.extend(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_wanted_where_the_command_line_has_room_for_one() {
        let asked = |line: &str| {
            let words = format!("spindle -d d {line}");
            let asked = asked(words.split_whitespace().map(OsString::from).collect());
            asked.map(|(common, kind)| (common.database.unwrap(), kind))
        };
        let locks = "show, who, wait, wait --for held, history, history --since 5m, watch, ls, rm, rm -y, \
                     evict, seize --reason x, resign-to, run, run --try, show -d e";
        for line in locks.split(',') {
            let database = if line.ends_with(" e") { "e" } else { "d" };
            assert_eq!(asked(line), Some((database.to_string(), Kind::Lock)), "{line}");
        }
        for (line, kind) in [
            ("job slots", Kind::Job),
            ("job rm", Kind::Job),
            ("members", Kind::Fleet("spindle:member:")),
            ("shards", Kind::Fleet("spindle:shard:")),
            ("permits", Kind::Fleet("spindle:permit:")),
            ("readers", Kind::Fleet("spindle:rw:")),
        ] {
            assert_eq!(asked(line), Some(("d".to_string(), kind)), "{line}");
        }
        let none = ", job, show a, resign-to a, show -o, history --since, run a --, doctor, rm --wrong, serve";
        for line in none.split(',') {
            assert_eq!(asked(line), None, "{line}");
        }
    }
}
