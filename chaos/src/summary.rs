//! A run in figures.

use std::collections::BTreeMap;

use crate::checker::{Evidence, Term, Violation, late_lines, phase, terms};
use crate::history::{Event, Fault, Outcome, Phase, Record};

pub struct Figures {
    pub terms: Vec<Term>,
    pub minutes: f64,
    pub faults: BTreeMap<Fault, usize>,
    pub outcomes: BTreeMap<String, usize>,
    pub unfenced_late: usize,
    /// The share of the run in which somebody held, by what it claimed.
    pub availability: f64,
    /// How long nobody held between two terms, in milliseconds, sorted; by what ended the first.
    pub takeovers: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    pub fn of(evidence: &Evidence) -> Figures {
        let terms = terms(&evidence.records);
        let begin = phase(&evidence.records, Phase::Storm).unwrap_or(0);
        let last = evidence.records.last().map_or(begin, |record| record.at);
        let end = phase(&evidence.records, Phase::End).unwrap_or(last);
        let mut faults = BTreeMap::new();
        let mut outcomes = BTreeMap::new();
        let mut attempts = 0;
        for record in &evidence.records {
            match &record.event {
                Event::Fault { fault, .. } => *faults.entry(*fault).or_default() += 1,
                Event::Outcome { outcome, .. } => {
                    *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
                }
                Event::Attempt { .. } => attempts += 1,
                _ => {}
            }
        }
        let answered: usize = outcomes.values().sum();
        outcomes.insert("NeverAnswered".to_string(), attempts - answered);
        Figures {
            minutes: (end.saturating_sub(begin)) as f64 / 60e9,
            availability: availability(&terms, begin, end),
            takeovers: takeovers(&terms, &evidence.records),
            unfenced_late: late_lines(&evidence.unfenced).len(),
            terms,
            faults,
            outcomes,
        }
    }

    fn count(&self, faults: &[Fault]) -> usize {
        faults.iter().filter_map(|fault| self.faults.get(fault)).sum()
    }

    fn outcome(&self, outcome: Outcome) -> usize {
        self.outcomes.get(&format!("{outcome:?}")).copied().unwrap_or(0)
    }

    /// The last line.
    pub fn verdict(&self, violations: &[Violation]) -> String {
        let mut all: Vec<f64> = self.takeovers.values().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let verdict = match violations.len() {
            0 => "ok".to_string(),
            broken => format!("FAILED violations={broken}"),
        };
        format!(
            "chaos: {verdict} minutes={:.1} terms={} kills={} stops={} cuts={} restarts={} \
             late_writes_refused={} unfenced_late_writes={} availability={:.1}% \
             takeover_p50={:.0}ms takeover_p99={:.0}ms",
            self.minutes,
            self.terms.len(),
            self.count(&[Fault::Kill]),
            self.count(&[Fault::Stop]),
            self.count(&[Fault::Cut, Fault::Silence, Fault::Slow, Fault::Lossy]),
            self.count(&[Fault::Restart, Fault::Outage]),
            self.outcome(Outcome::Fenced),
            self.unfenced_late,
            self.availability * 100.0,
            percentile(&all, 0.5),
            percentile(&all, 0.99),
        )
    }

    /// For a person: what was done, what became of it.
    pub fn summary(&self, seed: Option<u64>, violations: &[Violation]) -> String {
        let mut text = String::new();
        let mut line = |line: String| text.extend([line.as_str(), "\n"]);
        if let Some(seed) = seed {
            line(format!("seed {seed}"));
        }
        line(format!("{:.1} minutes, {} terms", self.minutes, self.terms.len()));
        line("\nwhat was done".to_string());
        for (fault, count) in &self.faults {
            line(format!("  {:<14} {count:>6}", format!("{fault:?}")));
        }
        line("\nwhat became of the fenced writes".to_string());
        for (outcome, count) in &self.outcomes {
            line(format!("  {outcome:<14} {count:>6}"));
        }
        line(format!("\nlate writes that the plain file took: {}", self.unfenced_late));
        line(format!("somebody held for {:.1} % of the time", self.availability * 100.0));
        line("\nhow long nobody held, by what ended the term (ms)".to_string());
        line(format!("  {:<14} {:>6} {:>8} {:>8} {:>8}", "", "count", "p50", "p99", "most"));
        for (cause, gaps) in &self.takeovers {
            line(format!(
                "  {cause:<14} {:>6} {:>8.0} {:>8.0} {:>8.0}",
                gaps.len(),
                percentile(gaps, 0.5),
                percentile(gaps, 0.99),
                percentile(gaps, 1.0),
            ));
        }
        line(format!("\nviolations: {}", violations.len()));
        for violation in violations {
            line(format!("  {violation}"));
        }
        text
    }
}

/// The smallest of which at least this share are no greater; 0 of nothing.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn availability(terms: &[Term], begin: u64, end: u64) -> f64 {
    let mut held = 0;
    let mut until = begin;
    for term in terms {
        let (from, to) = (term.begin.max(until), term.last.min(end));
        held += to.saturating_sub(from);
        until = until.max(to);
    }
    held as f64 / end.saturating_sub(begin).max(1) as f64
}

fn takeovers(terms: &[Term], records: &[Record]) -> BTreeMap<String, Vec<f64>> {
    let mut takeovers: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for pair in terms.windows(2) {
        let [earlier, later] = pair else { continue };
        let gap = later.begin.saturating_sub(earlier.last) as f64 / 1e6;
        takeovers.entry(cause(earlier, records)).or_default().push(gap);
    }
    for gaps in takeovers.values_mut() {
        gaps.sort_by(f64::total_cmp);
    }
    takeovers
}

/// The last thing that was done to the holder, or to the server, in its term.
fn cause(term: &Term, records: &[Record]) -> String {
    const NEARLY: u64 = 200_000_000;
    let first = records.partition_point(|record| record.at < term.begin);
    let done = records[first..].iter().take_while(|record| record.at <= term.last + NEARLY);
    let cause = done.filter_map(|record| match &record.event {
        Event::Fault { fault: Fault::Join | Fault::Leave, .. } => None,
        Event::Fault { fault, on } if on.as_ref().is_none_or(|on| *on == term.who) => Some(fault),
        _ => None,
    });
    cause.last().map_or("Unprovoked".to_string(), |fault| format!("{fault:?}"))
}
