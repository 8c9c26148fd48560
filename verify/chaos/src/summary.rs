//! A run in figures.

use std::collections::BTreeMap;

use crate::checks::{Evidence, Term, Violation, phase, terms, written_after};
use crate::deploys::DeployFigures;
use crate::history::{Event, Failure, Fault, FaultKind, Outcome, Phase, Record};
use crate::setup::{READERS, Target, WRITERS, agent_of};

pub struct Figures {
    pub target: Target,
    pub terms: usize,
    pub minutes: f64,
    pub faults: BTreeMap<Fault, usize>,
    pub outcomes: BTreeMap<String, usize>,
    pub unfenced_late: usize,
    /// The share of the run in which somebody held, by what it claimed; the average of all locks.
    pub availability: f64,
    /// How long nobody held between two terms, in milliseconds, sorted; by what ended the first.
    pub takeovers: BTreeMap<String, Vec<f64>>,
    /// From the last fault to a write under the last of the locks, in seconds.
    pub all_written_after: Option<f64>,
    /// How long a side waited for its turn, in milliseconds, sorted.
    pub waits: BTreeMap<usize, Vec<f64>>,
    pub deploys: Vec<DeployFigures>,
}

impl Figures {
    pub fn of(evidence: &Evidence) -> Result<Figures, Failure> {
        let parts = evidence.by_lock()?;
        let records = &evidence.records;
        let (begin, end) = evidence.span();
        let mut figures = Figures {
            target: evidence.target(),
            terms: 0,
            minutes: (end.saturating_sub(begin)) as f64 / 60e9,
            faults: faults(records),
            outcomes: outcomes(records),
            unfenced_late: evidence.late_lines().len(),
            availability: 0.0,
            takeovers: BTreeMap::new(),
            all_written_after: all_written_after(&parts),
            waits: (0..parts.len()).map(|side| (side, waits(&parts[side].records))).collect(),
            deploys: DeployFigures::all(evidence, &parts),
        };
        for (lock, part) in parts.iter().enumerate() {
            let terms = terms(&part.records);
            figures.terms += terms.len();
            figures.availability += availability(&terms, begin, end) / parts.len() as f64;
            if figures.target.excludes(lock, lock) {
                takeovers(&terms, &part.records, &mut figures.takeovers);
            }
        }
        figures.takeovers.values_mut().for_each(|gaps| gaps.sort_by(f64::total_cmp));
        Ok(figures)
    }

    fn count(&self, kind: FaultKind) -> usize {
        self.faults.iter().filter(|(fault, _)| fault.kind() == kind).map(|(_, count)| count).sum()
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
        let what = match self.target {
            Target::One => String::new(),
            Target::Agents => " agents".to_string(),
            Target::Locks(count) => format!(" locks={count}"),
            Target::Shards(count) => format!(" shards={count}"),
            Target::Deploys { shards, lease } => {
                format!(" deploys shards={shards} lease={}s", lease.as_secs())
            }
            Target::Sides { readers, writers } => {
                let wait = |side, share| percentile(&self.waits[&side], share);
                format!(
                    " readers={readers} writers={writers} read_wait_p50={:.0}ms read_wait_p99={:.0}ms \
                     write_wait_p50={:.0}ms write_wait_p99={:.0}ms",
                    wait(READERS, 0.5),
                    wait(READERS, 0.99),
                    wait(WRITERS, 0.5),
                    wait(WRITERS, 0.99),
                )
            }
        };
        let again = match (self.target, self.all_written_after) {
            (Target::One | Target::Agents, _) => String::new(),
            (_, Some(seconds)) => format!(" all_at_work_after_s={seconds:.1}"),
            (_, None) => " all_at_work_after_s=never".to_string(),
        };
        format!(
            "chaos: {verdict}{what} minutes={:.1} terms={} kills={} stops={} cuts={} restarts={} \
             late_writes_refused={} unfenced_late_writes={} availability={:.1}% \
             takeover_p50={:.0}ms takeover_p99={:.0}ms{again}",
            self.minutes,
            self.terms,
            self.count(FaultKind::Kill),
            self.count(FaultKind::Stop),
            self.count(FaultKind::Cut),
            self.count(FaultKind::Restart),
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
        line(format!("{}; {:.1} minutes, {} terms", self.target, self.minutes, self.terms));
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
        if !self.deploys.is_empty() {
            line(String::new());
            self.deploys.iter().for_each(|deploy| line(deploy.line()));
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

fn takeovers(terms: &[Term], records: &[Record], takeovers: &mut BTreeMap<String, Vec<f64>>) {
    for pair in terms.windows(2) {
        let [earlier, later] = pair else { continue };
        let gap = later.begin.saturating_sub(earlier.last) as f64 / 1e6;
        takeovers.entry(cause(earlier, records)).or_default().push(gap);
    }
}

/// From each time that somebody asks to when it begins; whoever is killed meanwhile counts no more.
fn waits(records: &[Record]) -> Vec<f64> {
    let mut asked: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    let mut waits = Vec::new();
    for record in records {
        let who = (record.who.as_str(), record.pid);
        match record.event {
            Event::Asks => _ = asked.insert(who, record.at),
            Event::Claim { .. } => {
                let asked = asked.remove(&who);
                waits.extend(asked.map(|asked| record.at.saturating_sub(asked) as f64 / 1e6));
            }
            _ => {}
        }
    }
    waits.sort_by(f64::total_cmp);
    waits
}

fn faults(records: &[Record]) -> BTreeMap<Fault, usize> {
    let mut faults = BTreeMap::new();
    for record in records {
        if let Event::Fault { fault, .. } = &record.event {
            *faults.entry(*fault).or_default() += 1;
        }
    }
    faults
}

fn outcomes(records: &[Record]) -> BTreeMap<String, usize> {
    let (mut outcomes, mut attempts) = (BTreeMap::new(), 0);
    for record in records {
        match &record.event {
            Event::Outcome { outcome, .. } => {
                *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
            }
            Event::Attempt { .. } => attempts += 1,
            _ => {}
        }
    }
    let answered: usize = outcomes.values().sum();
    outcomes.insert("NeverAnswered".to_string(), attempts - answered);
    outcomes
}

fn all_written_after(parts: &[Evidence]) -> Option<f64> {
    let mut all = 0.0_f64;
    for part in parts {
        let recovery = phase(&part.records, Phase::Recovery)?;
        all = all.max((written_after(&part.records, recovery)? - recovery) as f64 / 1e9);
    }
    Some(all)
}

/// The last thing that was done to the holder, or to the server, in its term.
fn cause(term: &Term, records: &[Record]) -> String {
    const NEARLY: u64 = 200_000_000;
    let first = records.partition_point(|record| record.at < term.begin);
    let done = records[first..].iter().take_while(|record| record.at <= term.last + NEARLY);
    let agent = agent_of(&term.who);
    let is_its = |on: &String| *on == term.who || *on == agent;
    let cause = done.filter_map(|record| match &record.event {
        Event::Fault { fault: Fault::Join | Fault::Leave, .. } => None,
        Event::Fault { fault, on } if on.as_ref().is_none_or(is_its) => Some(fault),
        _ => None,
    });
    cause.last().map_or("Unprovoked".to_string(), |fault| format!("{fault:?}"))
}
