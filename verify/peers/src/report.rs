//! The figures as one table, with units.

use std::fmt::Write as _;
use std::time::Duration;

use crate::single::Rounds;
use crate::{Compare, many, millis, single};

/// The figures of one library.
pub struct Measured {
    pub name: &'static str,
    pub single: single::Figures,
    pub many: many::Figures,
}

/// Returns the mean number of runnable threads in the last minute.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_string()
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len().checked_sub(1)? / 2;
    Some(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle], sorted[middle + 1])
    })
}

pub fn worst(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

pub fn tables(measured: &[Measured], options: &Compare) -> String {
    let (lease, rounds) = (millis(options.lease_ms).as_secs_f64(), options.rounds);
    let corner = format!("lease {lease} s, {rounds} rounds: median, worst");
    let mut text = row(&corner, measured.iter().map(|it| it.name.to_string()));
    text += &row("---", measured.iter().map(|_| "---".to_string()));
    text += &single_rows(measured, millis(options.lease_ms));
    text += &many_rows(measured);
    text
}

fn single_rows(measured: &[Measured], lease: Duration) -> String {
    type Pick = fn(&single::Figures) -> &Rounds;
    let faults: [(&str, Pick); 3] = [
        ("killed", |it| &it.crash),
        ("stopped", |it| &it.pause),
        ("asked to go", |it| &it.hand_over),
    ];
    let mut text = row(
        "holder killed: from the kill to the next holder's commit, s",
        measured.iter().map(|it| pair(&it.single.killed.seconds, Duration::from_secs(1))),
    );
    for (fault, pick) in faults {
        let since = if fault == "asked to go" { "its end" } else { "its last heartbeat" };
        let unit = if fault == "asked to go" { Duration::from_secs(1) } else { lease };
        let name = if fault == "asked to go" { "s" } else { "leases" };
        let cells = measured.iter().map(|it| {
            let rounds = pick(&it.single);
            let never =
                if rounds.never > 0 { format!("; never: {}", rounds.never) } else { String::new() };
            format!("{}{never}", pair(&rounds.seconds, unit))
        });
        text += &row(
            &format!("holder {fault}: from {since} to the next holder's commit, {name}"),
            cells,
        );
        let told = measured.iter().map(|it| pair(&pick(&it.single).told, unit));
        text += &row(&format!("the same, to when the next holder's program is told, {name}"), told);
    }
    text += &row(
        "requests of a holder, per lease",
        measured.iter().map(|it| format!("{:.1}", it.single.holder_requests)),
    );
    text += &row(
        "requests of a contender, per lease",
        measured.iter().map(|it| format!("{:.1}", it.single.contender_requests)),
    );
    text += &row(
        "asking whether one holds, ns",
        measured.iter().map(|it| format!("{:.0}", it.single.cost_ns)),
    );
    text += &row(
        "after a stop past the lease, believes to hold while another does: without asking, by its call",
        measured.iter().map(|it| {
            let of = it.single.rounds - it.single.pause.never;
            format!("{} of {of}, {} of {of}", it.single.believed, it.single.believed_by_call)
        }),
    );
    text += &row(
        "for how long, s",
        measured.iter().map(|it| pair(&it.single.beliefs, Duration::from_secs(1))),
    );
    text
}

fn many_rows(measured: &[Measured]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let locks = first.many.locks;
    let each = |cell: fn(&many::Figures) -> String| measured.iter().map(move |it| cell(&it.many));
    let mut text = String::new();
    text += &row(
        &format!("{locks} locks in one process: all held after, s"),
        each(|it| match it.all_held {
            Some(seconds) => format!("{seconds:.1}"),
            None => format!("not all: {}", it.held.0),
        }),
    );
    text += &row(
        &format!("{locks} locks: requests/s of the holder, of a contender for all"),
        each(|it| {
            let contender = it.contender_requests_per_second.unwrap_or_default();
            format!("{:.0}, {contender:.0}", it.requests_per_second)
        }),
    );
    text += &row(
        &format!("{locks} locks: resident memory, MiB; processor, % of a core"),
        each(|it| format!("{:.0}; {:.1}", it.memory_mib, it.processor_share * 100.0)),
    );
    text +=
        &row(&format!("{locks} locks: terms lost without a fault"), each(|it| it.lost.to_string()));
    text += &row(
        &format!(
            "{locks} locks, their process killed: from the last heartbeat to the next commit, leases"
        ),
        each(|it| {
            let never = if it.never > 0 { format!("; never: {}", it.never) } else { String::new() };
            format!("{}{never}", pair(&it.crash, it.lease))
        }),
    );
    text
}

pub fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let mut line = format!("| {name} |");
    for cell in cells {
        let _ = write!(line, " {cell} |");
    }
    line + "\n"
}

/// Median and worst in units of `unit`.
fn pair(seconds: &[f64], unit: Duration) -> String {
    let scaled: Vec<f64> = seconds.iter().map(|it| it / unit.as_secs_f64()).collect();
    match (median(&scaled), worst(&scaled)) {
        (Some(median), Some(worst)) if worst.is_finite() => format!("{median:.2}, {worst:.2}"),
        (Some(median), Some(_)) => format!("{median:.2}, not over when the run ended"),
        _ => "-".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_in_the_middle_of_two() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_pair_says_median_and_worst_in_its_unit() {
        assert_eq!(pair(&[5.0, 10.0, 20.0], Duration::from_secs(5)), "2.00, 4.00");
        assert_eq!(
            pair(&[1.0, f64::INFINITY, f64::INFINITY], Duration::from_secs(1)),
            "inf, not over when the run ended"
        );
        assert_eq!(pair(&[], Duration::from_secs(1)), "-");
    }
}
