//! A run as a picture: one lane per worker, a colour per term, and what was done to whom.

mod legend;
mod marks;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::checker::{Evidence, Line, Term, late_lines, phase, terms};
use crate::history::{Event, Fault, Outcome, Phase, Record};

const WIDTH: f64 = 1280.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 70.0;
const LANE: f64 = 34.0;
const AXIS: f64 = 34.0;
/// A longer run is broken into strips, one below the other.
const STRIP_SECONDS: f64 = 75.0;

/// Draws a run as an SVG that suits light and dark pages.
pub fn draw(evidence: &Evidence) -> String {
    let run = Run::of(evidence);
    let strips = (run.seconds() / STRIP_SECONDS).ceil().max(1.0) as usize;
    let length = run.seconds() / strips as f64;
    let strip_height = (run.lanes.len() + 2) as f64 * LANE + AXIS;
    let height = TOP + strips as f64 * strip_height + legend::HEIGHT;
    let mut svg = marks::head(WIDTH, height);
    svg += &title(&run, evidence);
    for strip in 0..strips {
        let from = strip as f64 * length;
        let top = TOP + strip as f64 * strip_height;
        svg += &Strip { run: &run, from, to: from + length, top, number: strip }.draw();
    }
    svg += &legend::draw(TOP + strips as f64 * strip_height + 6.0);
    svg += "</svg>\n";
    svg
}

fn title(run: &Run, evidence: &Evidence) -> String {
    let faults = |wanted: &[Fault]| {
        let is = |record: &&Record| matches!(&record.event, Event::Fault { fault, .. } if wanted.contains(fault));
        evidence.records.iter().filter(is).count()
    };
    let accepted = |line: &&&Line| evidence.tables.log.iter().any(|row| row.id == line.id);
    let line = format!(
        "{:.0} seconds, {} terms, {} kills, {} stops, {} cut or slow lines, {} server failures; \
         late writes taken by the plain file: {}, by Spanner: {}",
        run.seconds(),
        run.terms.len(),
        faults(&[Fault::Kill]),
        faults(&[Fault::Stop]),
        faults(&[Fault::Cut, Fault::Silence, Fault::Slow]),
        faults(&[Fault::Restart, Fault::Outage, Fault::Lossy]),
        run.late.len(),
        run.late.iter().filter(accepted).count(),
    );
    format!(
        "<text x=\"{LEFT}\" y=\"28\" class=\"ink title\">Who held the lock</text>\n\
         <text x=\"{LEFT}\" y=\"50\" class=\"dim\">{line}</text>\n"
    )
}

/// The parts to draw.
struct Run<'a> {
    begin: u64,
    end: u64,
    /// The workers, by name.
    lanes: Vec<&'a str>,
    terms: Vec<Term>,
    /// Token by token: its place is the term's number.
    tokens: Vec<u64>,
    records: &'a [Record],
    late: Vec<&'a Line>,
}

impl<'a> Run<'a> {
    fn of(evidence: &'a Evidence) -> Run<'a> {
        let records = &evidence.records[..];
        let terms = terms(records);
        let begin = phase(records, Phase::Storm).unwrap_or(0);
        let last = records.last().map_or(begin, |record| record.at);
        let end = phase(records, Phase::End).unwrap_or(last);
        let started = records.iter().filter(|record| record.event == Event::Started);
        let lanes: BTreeSet<&str> = started.map(|record| record.who.as_str()).collect();
        let tokens: BTreeSet<u64> = terms.iter().map(|term| term.token).collect();
        Run {
            begin,
            end,
            lanes: lanes.into_iter().collect(),
            terms,
            tokens: tokens.into_iter().collect(),
            records,
            late: late_lines(&evidence.unfenced),
        }
    }

    fn seconds(&self) -> f64 {
        self.second(self.end)
    }

    fn second(&self, at: u64) -> f64 {
        at.saturating_sub(self.begin) as f64 / 1e9
    }

    /// From each event that `begins` matches to the next that `ends` matches, or to the end.
    fn spans(
        &self,
        begins: impl Fn(&Record) -> bool,
        ends: impl Fn(&Record) -> bool,
    ) -> Vec<(f64, f64)> {
        let mut spans = Vec::new();
        let mut open = None;
        for record in self.records {
            if open.is_none() && begins(record) {
                open = Some(record.at);
            } else if ends(record)
                && let Some(from) = open.take()
            {
                spans.push((self.second(from), self.second(record.at)));
            }
        }
        spans.extend(open.map(|from| (self.second(from), self.seconds())));
        spans
    }

    fn fault_spans(&self, wanted: Fault, on: Option<&str>) -> Vec<(f64, f64)> {
        let of = |fault: &Fault, whom: &Option<String>| *fault == wanted && whom.as_deref() == on;
        self.spans(
            |record| matches!(&record.event, Event::Fault { fault, on } if of(fault, on)),
            |record| matches!(&record.event, Event::Over { fault, on } if of(fault, on)),
        )
    }

    fn faults(&self, wanted: Fault, on: Option<&str>) -> Vec<f64> {
        let is = |record: &&Record| match &record.event {
            Event::Fault { fault, on: whom } => *fault == wanted && whom.as_deref() == on,
            _ => false,
        };
        self.records.iter().filter(is).map(|record| self.second(record.at)).collect()
    }
}

/// A part of the run, as wide as the picture.
struct Strip<'a> {
    run: &'a Run<'a>,
    from: f64,
    to: f64,
    top: f64,
    number: usize,
}

impl Strip<'_> {
    fn draw(&self) -> String {
        let mut svg = self.clip();
        svg += &self.axis();
        let _ = write!(svg, "<g clip-path=\"url(#strip{})\">", self.number);
        svg += &self.phases();
        svg += &self.lock_lane();
        svg += &self.server_lane();
        for (lane, who) in self.run.lanes.iter().enumerate() {
            svg += &self.worker_lane(who, self.top + (lane + 2) as f64 * LANE);
        }
        svg += "</g>\n";
        let names = ["lock", "server"].into_iter().chain(self.run.lanes.iter().copied());
        for (lane, name) in names.enumerate() {
            let y = self.top + lane as f64 * LANE + LANE / 2.0 + 4.0;
            let class = if lane == 0 { "ink name" } else { "dim" };
            svg += &format!(
                "<text x=\"{}\" y=\"{y}\" class=\"{class}\" text-anchor=\"end\">{name}</text>\n",
                LEFT - 12.0
            );
        }
        svg
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (second - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }

    fn overlaps(&self, (from, to): (f64, f64)) -> bool {
        from < self.to && self.from < to
    }

    fn height(&self) -> f64 {
        (self.run.lanes.len() + 2) as f64 * LANE
    }

    fn clip(&self) -> String {
        format!(
            "<clipPath id=\"strip{}\"><rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\
             </clipPath>\n",
            self.number,
            self.top - 14.0,
            WIDTH - LEFT - RIGHT,
            self.height() + 14.0
        )
    }

    fn axis(&self) -> String {
        let mut svg = String::new();
        let bottom = self.top + self.height();
        for lane in 0..=self.run.lanes.len() + 2 {
            let y = self.top + lane as f64 * LANE;
            svg += &marks::line("grid", (LEFT, y), (WIDTH - RIGHT, y));
        }
        let mut second = (self.from / 5.0).ceil() * 5.0;
        while second <= self.to {
            let x = self.x(second);
            svg += &marks::line("grid", (x, self.top), (x, bottom + 5.0));
            let text = if second < 120.0 {
                format!("{second} s")
            } else {
                format!("{}:{:02}", second as u64 / 60, second as u64 % 60)
            };
            svg += &format!(
                "<text x=\"{x:.1}\" y=\"{}\" class=\"dim small\" text-anchor=\"middle\">{text}\
                 </text>\n",
                bottom + 18.0
            );
            second += 5.0;
        }
        svg
    }

    /// The part where hands are at the row, and the calm after it.
    fn phases(&self) -> String {
        let mut svg = String::new();
        for (phase, name) in [(Phase::Hands, "outside hands"), (Phase::Calm, "no more faults")] {
            let is = |wanted: Phase| move |record: &Record| record.event == Event::Phase(wanted);
            let next = if phase == Phase::Hands { Phase::Calm } else { Phase::End };
            for span in self.run.spans(is(phase), is(next)) {
                if !self.overlaps(span) {
                    continue;
                }
                let class = if phase == Phase::Hands { "hands" } else { "calm" };
                let (x, to) = (self.x(span.0).max(LEFT), self.x(span.1));
                svg += &marks::rect(class, (x, self.top - 14.0), (to - x, self.height() + 14.0));
                svg += &format!(
                    "<text x=\"{:.1}\" y=\"{}\" class=\"dim small\">{name}</text>\n",
                    x + 5.0,
                    self.top - 3.0
                );
            }
        }
        svg
    }

    /// All terms in one lane: were two drawn over each other, I1 would be broken.
    fn lock_lane(&self) -> String {
        self.terms(|_| true, self.top)
    }

    fn terms(&self, whose: impl Fn(&Term) -> bool, y: f64) -> String {
        let mut svg = String::new();
        for term in self.run.terms.iter().filter(|term| whose(term)) {
            let span = (self.run.second(term.begin), self.run.second(term.last));
            if self.overlaps(span) {
                let number = self.run.tokens.partition_point(|token| *token <= term.token);
                let (x, to) = (self.x(span.0), self.x(span.1));
                let about = format!(
                    "term {number}: {} under token {}, {:.2} s to {:.2} s",
                    term.who, term.token, span.0, span.1
                );
                svg += &marks::term(number, &about, (x, y + 5.0), (to - x, LANE - 10.0));
            }
        }
        svg
    }

    fn server_lane(&self) -> String {
        let y = self.top + LANE;
        let mut svg = String::new();
        for span in self.run.fault_spans(Fault::Outage, None) {
            // Nobody reaches it: this concerns all lanes.
            svg += &self.span("outage-shade", span, y, self.height() - LANE);
            svg += &self.span("outage", span, y + 10.0, LANE - 20.0);
        }
        for span in self.run.fault_spans(Fault::Lossy, None) {
            svg += &self.span("lossy", span, y + 10.0, LANE - 20.0);
        }
        for at in self.run.faults(Fault::Restart, None) {
            let x = self.x(at);
            svg += &marks::line("restart", (x, y), (x, self.top + self.height()));
            svg += &marks::restart(x, y + LANE / 2.0);
        }
        for (fault, class) in [(Fault::Delete, "delete"), (Fault::Edit, "edit")] {
            for at in self.run.faults(fault, None) {
                let x = self.x(at);
                svg += &marks::line("hand", (x, self.top), (x, self.top + self.height()));
                svg += &marks::diamond(class, x, y + LANE / 2.0);
            }
        }
        svg
    }

    fn worker_lane(&self, who: &str, y: f64) -> String {
        let middle = y + LANE / 2.0;
        let mut svg = String::new();
        let gone = |record: &Record| match &record.event {
            Event::Fault { fault: Fault::Kill, on } => on.as_deref() == Some(who),
            Event::Exited => record.who == who,
            _ => false,
        };
        let started = |record: &Record| record.who == who && record.event == Event::Started;
        for span in self.run.spans(started, gone) {
            if self.overlaps(span) {
                svg += &marks::line("alive", (self.x(span.0), middle), (self.x(span.1), middle));
            }
        }
        svg += &self.terms(|term| term.who == who, y);
        for span in self.run.fault_spans(Fault::Stop, Some(who)) {
            svg += &self.span("stop", span, y + 5.0, LANE - 10.0);
        }
        for (fault, class) in
            [(Fault::Cut, "cut"), (Fault::Silence, "silence"), (Fault::Slow, "slow")]
        {
            for span in self.run.fault_spans(fault, Some(who)) {
                svg += &self.span(class, span, y + LANE - 6.0, 5.0);
            }
        }
        for at in self.run.faults(Fault::Kill, Some(who)) {
            svg += &marks::cross(self.x(at), middle);
        }
        for at in self.run.faults(Fault::Resign, Some(who)) {
            svg += &marks::resign(self.x(at), y + 3.0);
        }
        svg + &self.late_writes(who, y)
    }

    /// Draws what the plain file took too late, and what Spanner refused.
    fn late_writes(&self, who: &str, y: f64) -> String {
        let mut svg = String::new();
        for line in self.run.late.iter().filter(|line| line.worker == who) {
            svg += &marks::late(self.x(self.run.second(line.at)), y + LANE - 4.0);
        }
        for record in self.run.records.iter().filter(|record| record.who == who) {
            if matches!(record.event, Event::Outcome { outcome: Outcome::Fenced, .. }) {
                svg += &marks::refused(self.x(self.run.second(record.at)), y + 8.0);
            }
        }
        svg
    }

    fn span(&self, class: &str, span: (f64, f64), y: f64, height: f64) -> String {
        if !self.overlaps(span) {
            return String::new();
        }
        let (x, to) = (self.x(span.0), self.x(span.1));
        marks::rect(class, (x, y), ((to - x).max(2.0), height))
    }
}
