//! A run line by line: who held which lock when, and what was done to whom.

use crate::checks::{Evidence, terms};
use crate::history::{Event, Failure, Record};

/// Returns a line for each term, fault, phase and deploy, by its second of the run. A violation names tokens,
/// which stand here, too.
pub fn lines(evidence: &Evidence) -> Result<String, Failure> {
    let (begin, _) = evidence.span();
    let second = |at: u64| at.saturating_sub(begin) as f64 / 1e9;
    let mut lines = Vec::new();
    for (lock, part) in evidence.by_lock()?.iter().enumerate() {
        for term in terms(&part.records) {
            let (last, bound) = (second(term.last), second(term.bound));
            let why = term.why.as_deref().unwrap_or("not told");
            let what = format!(
                "lock {lock}: {} ({}) holds under {} to {last:.3} s, at most {bound:.3} s; its end: {why}",
                term.who, term.pid, term.token
            );
            lines.push((term.begin, what));
        }
    }
    lines.extend(evidence.records.iter().filter_map(|record| Some((record.at, befell(record)?))));
    lines.sort();
    Ok(lines.iter().map(|(at, what)| format!("{:9.3} s  {what}\n", second(*at))).collect())
}

/// Tells what is no worker's own act.
fn befell(record: &Record) -> Option<String> {
    let on = |on: &Option<String>| on.as_ref().map_or(String::new(), |on| format!(" {on}"));
    let lock = record.lock.map_or(String::new(), |lock| format!(", lock {lock}"));
    Some(match &record.event {
        Event::Fault { fault, on: whom } => format!("{fault:?}{}{lock}", on(whom)),
        Event::Over { fault, on: whom } => format!("{fault:?}{} is over{lock}", on(whom)),
        Event::Phase(phase) => format!("phase {phase:?}"),
        Event::Deploy(deploy) => format!("deploy {deploy:?}"),
        Event::Started | Event::Exited => {
            format!("{} ({}) {:?}", record.who, record.pid, record.event)
        }
        Event::Settled | Event::Unsettled => format!("{:?}", record.event),
        _ => return None,
    })
}
