//! A part of the run, as wide as the picture: the marks that all pictures have.

use super::frame::{LEFT, RIGHT, WIDTH};
use super::marks;
use super::run::Run;
use crate::history::{Event, Fault, Phase, Record};

pub struct Strip<'a> {
    pub run: &'a Run<'a>,
    pub from: f64,
    pub to: f64,
    pub top: f64,
    /// Of all its lanes.
    pub height: f64,
    pub number: usize,
}

impl Strip<'_> {
    /// Draws lanes that end at the edges of the strip, behind them the phases, and their axis.
    pub fn frame(&self, lanes: &str) -> String {
        let (clip, axis, phases) = (self.clip(), self.axis(), self.phases());
        format!("{clip}{axis}<g clip-path=\"url(#strip{})\">\n{phases}{lanes}</g>\n", self.number)
    }

    /// The name to the left of a lane whose middle is at `y`.
    pub fn name(&self, class: &str, y: f64, name: &str) -> String {
        format!(
            "<text x=\"{}\" y=\"{:.1}\" class=\"{class}\" text-anchor=\"end\">{name}</text>\n",
            LEFT - 12.0,
            y + 4.0
        )
    }

    pub fn x(&self, second: f64) -> f64 {
        LEFT + (second - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }

    pub fn overlaps(&self, (from, to): (f64, f64)) -> bool {
        from < self.to && self.from < to
    }

    fn clip(&self) -> String {
        format!(
            "<clipPath id=\"strip{}\"><rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\
             </clipPath>\n",
            self.number,
            self.top - 14.0,
            WIDTH - LEFT - RIGHT,
            self.height + 14.0
        )
    }

    fn axis(&self) -> String {
        let mut svg = String::new();
        let bottom = self.top + self.height;
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

    /// Draws the part where people edit the rows, and the recovery after it.
    fn phases(&self) -> String {
        let mut svg = String::new();
        for (phase, name) in [(Phase::Edits, "manual edits"), (Phase::Recovery, "no more faults")] {
            let is = |wanted: Phase| move |record: &Record| record.event == Event::Phase(wanted);
            let next = if phase == Phase::Edits { Phase::Recovery } else { Phase::End };
            for span in self.run.spans(is(phase), is(next)) {
                if !self.overlaps(span) {
                    continue;
                }
                let class = if phase == Phase::Edits { "edits" } else { "recovery" };
                let (x, to) = (self.x(span.0).max(LEFT), self.x(span.1));
                svg += &marks::rect(class, (x, self.top - 14.0), (to - x, self.height + 14.0));
                svg += &format!(
                    "<text x=\"{:.1}\" y=\"{}\" class=\"dim small\">{name}</text>\n",
                    x + 5.0,
                    self.top - 3.0
                );
            }
        }
        svg
    }

    /// Draws the faults of the server, and the manual edits of the rows: in its own lane, and through all
    /// below it.
    pub fn server(&self, y: f64, lane: f64) -> String {
        let below = self.top + self.height - y;
        let mut svg = String::new();
        for span in self.run.fault_spans(Fault::Outage, None) {
            // Nobody reaches it: this concerns all lanes.
            svg += &self.span("outage-shade", span, y, below);
            svg += &self.span("outage", span, y + 10.0, lane - 20.0);
        }
        for span in self.run.fault_spans(Fault::Lossy, None) {
            svg += &self.span("lossy", span, y + 10.0, lane - 20.0);
        }
        for at in self.run.faults(Fault::Restart, None) {
            let x = self.x(at);
            svg += &marks::line("restart", (x, y), (x, self.top + self.height));
            svg += &marks::restart(x, y + lane / 2.0);
        }
        for (fault, class) in [(Fault::Delete, "delete"), (Fault::Edit, "edit")] {
            for at in self.run.faults(fault, None) {
                let x = self.x(at);
                svg += &marks::line("hand", (x, self.top), (x, self.top + self.height));
                svg += &marks::diamond(class, x, y + lane / 2.0);
            }
        }
        svg
    }

    /// Draws a line of this class where a worker's process was alive.
    pub fn alive(&self, who: &str, class: &str, middle: f64) -> String {
        let mut svg = String::new();
        let gone = |record: &Record| match &record.event {
            Event::Fault { fault: Fault::Kill, on } => on.as_deref() == Some(who),
            Event::Exited => record.who == who,
            _ => false,
        };
        let started = |record: &Record| record.who == who && record.event == Event::Started;
        for span in self.run.spans(started, gone) {
            if self.overlaps(span) {
                svg += &marks::line(class, (self.x(span.0), middle), (self.x(span.1), middle));
            }
        }
        svg
    }

    /// Draws the faults of a worker, over its lane.
    pub fn misfortunes(&self, who: &str, y: f64, lane: f64) -> String {
        let mut svg = String::new();
        for span in self.run.fault_spans(Fault::Stop, Some(who)) {
            svg += &self.span("stop", span, y + 5.0, lane - 10.0);
        }
        for (fault, class) in
            [(Fault::Cut, "cut"), (Fault::Silence, "silence"), (Fault::Slow, "slow")]
        {
            for span in self.run.fault_spans(fault, Some(who)) {
                svg += &self.span(class, span, y + lane - 6.0, 5.0);
            }
        }
        for at in self.run.faults(Fault::Kill, Some(who)) {
            svg += &marks::cross(self.x(at), y + lane / 2.0);
        }
        for at in self.run.faults(Fault::Resign, Some(who)) {
            svg += &marks::resign(self.x(at), y + 3.0);
        }
        svg
    }

    pub fn span(&self, class: &str, span: (f64, f64), y: f64, height: f64) -> String {
        if !self.overlaps(span) {
            return String::new();
        }
        let (x, to) = (self.x(span.0), self.x(span.1));
        marks::rect(class, (x, y), ((to - x).max(2.0), height))
    }
}
