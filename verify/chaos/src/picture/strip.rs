//! A part of the run, as wide as the picture: the marks that all pictures have.

use svg::Node as _;
use svg::node::element::{ClipPath, Group, Text};

use super::marks;
use super::run::Run;
use crate::history::{Event, Fault, Phase, Record};

pub const WIDTH: f64 = 1280.0;
pub const LEFT: f64 = 74.0;
pub const RIGHT: f64 = 24.0;
pub const TOP: f64 = 70.0;
/// Below the lanes, for the seconds.
pub const AXIS: f64 = 34.0;
/// A longer run is broken into strips, one below the other.
pub const STRIP_SECONDS: f64 = 75.0;

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
    pub fn frame(&self, lanes: Group) -> Group {
        let clipped = Group::new().set("clip-path", format!("url(#strip{})", self.number));
        Group::new().add(self.clip()).add(self.axis()).add(clipped.add(self.phases()).add(lanes))
    }

    /// The name to the left of a lane whose middle is at `y`.
    pub fn name(&self, class: &str, y: f64, name: &str) -> Text {
        marks::text(class, (LEFT - 12.0, y + 4.0), name).set("text-anchor", "end")
    }

    pub fn x(&self, second: f64) -> f64 {
        LEFT + (second - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }

    pub fn overlaps(&self, (from, to): (f64, f64)) -> bool {
        from < self.to && self.from < to
    }

    fn clip(&self) -> ClipPath {
        let place = (LEFT, self.top - 14.0);
        let size = (WIDTH - LEFT - RIGHT, self.height + 14.0);
        let shape = marks::rect("", place, size);
        ClipPath::new().set("id", format!("strip{}", self.number)).add(shape)
    }

    fn axis(&self) -> Group {
        let mut group = Group::new();
        let bottom = self.top + self.height;
        let mut second = (self.from / 5.0).ceil() * 5.0;
        while second <= self.to {
            let x = self.x(second);
            let text = if second < 120.0 {
                format!("{second} s")
            } else {
                format!("{}:{:02}", second as u64 / 60, second as u64 % 60)
            };
            let text = marks::text("dim small", (x, bottom + 18.0), &text);
            group = group
                .add(marks::line("grid", (x, self.top), (x, bottom + 5.0)))
                .add(text.set("text-anchor", "middle"));
            second += 5.0;
        }
        group
    }

    /// Draws the part where people edit the rows, and the recovery after it.
    fn phases(&self) -> Group {
        let mut group = Group::new();
        for (phase, name) in [(Phase::Edits, "manual edits"), (Phase::Recovery, "no more faults")] {
            let is = |wanted: Phase| move |record: &Record| record.event == Event::Phase(wanted);
            let next = if phase == Phase::Edits { Phase::Recovery } else { Phase::End };
            for span in self.run.spans(is(phase), is(next)) {
                if !self.overlaps(span) {
                    continue;
                }
                let class = if phase == Phase::Edits { "edits" } else { "recovery" };
                let (x, to) = (self.x(span.0).max(LEFT), self.x(span.1));
                group.append(marks::rect(
                    class,
                    (x, self.top - 14.0),
                    (to - x, self.height + 14.0),
                ));
                group.append(marks::text("dim small", (x + 5.0, self.top - 3.0), name));
            }
        }
        group
    }

    /// Draws the faults of the server, and the manual edits of the rows: in its own lane, and through all
    /// below it.
    pub fn server(&self, y: f64, lane: f64) -> Group {
        let below = self.top + self.height - y;
        let mut group = Group::new();
        let outages = self.run.fault_spans(Fault::Outage, None);
        // Nobody reaches it: this concerns all lanes.
        group.append(self.spans("outage-shade", outages.clone(), y, below));
        group.append(self.spans("outage", outages, y + 10.0, lane - 20.0));
        let lossy = self.run.fault_spans(Fault::Lossy, None);
        group.append(self.spans("lossy", lossy, y + 10.0, lane - 20.0));
        for at in self.run.faults(Fault::Restart, None) {
            let x = self.x(at);
            group.append(marks::line("restart", (x, y), (x, self.top + self.height)));
            group.append(marks::restart(x, y + lane / 2.0));
        }
        for (fault, class) in [(Fault::Delete, "delete"), (Fault::Edit, "edit")] {
            for at in self.run.faults(fault, None) {
                let x = self.x(at);
                group.append(marks::line("hand", (x, self.top), (x, self.top + self.height)));
                group.append(marks::diamond(class, x, y + lane / 2.0));
            }
        }
        group
    }

    /// Draws a line of this class where a worker's process was alive.
    pub fn alive(&self, who: &str, class: &str, middle: f64) -> Group {
        let mut group = Group::new();
        let gone = |record: &Record| match &record.event {
            Event::Fault { fault: Fault::Kill, on } => on.as_deref() == Some(who),
            Event::Exited => record.who == who,
            _ => false,
        };
        let started = |record: &Record| record.who == who && record.event == Event::Started;
        for span in self.run.spans(started, gone) {
            if self.overlaps(span) {
                group.append(marks::line(
                    class,
                    (self.x(span.0), middle),
                    (self.x(span.1), middle),
                ));
            }
        }
        group
    }

    /// Draws the faults of a worker, over its lane.
    pub fn misfortunes(&self, who: &str, y: f64, lane: f64) -> Group {
        let mut group = Group::new();
        let stops = self.run.fault_spans(Fault::Stop, Some(who));
        group.append(self.spans("stop", stops, y + 5.0, lane - 10.0));
        for (fault, class) in
            [(Fault::Cut, "cut"), (Fault::Silence, "silence"), (Fault::Slow, "slow")]
        {
            let spans = self.run.fault_spans(fault, Some(who));
            group.append(self.spans(class, spans, y + lane - 6.0, 5.0));
        }
        for at in self.run.faults(Fault::Kill, Some(who)) {
            group.append(marks::cross(self.x(at), y + lane / 2.0));
        }
        for at in self.run.faults(Fault::Resign, Some(who)) {
            group.append(marks::resign(self.x(at), y + 3.0));
        }
        group
    }

    /// Draws those of the spans that can be seen here.
    pub fn spans(&self, class: &str, spans: Vec<(f64, f64)>, y: f64, height: f64) -> Group {
        let seen = spans.into_iter().filter(|span| self.overlaps(*span));
        seen.fold(Group::new(), |group, (from, to)| {
            let (x, to) = (self.x(from), self.x(to));
            group.add(marks::rect(class, (x, y), ((to - x).max(2.0), height)))
        })
    }
}
