//! The figures as a picture: one dot per round, a bar at the median, on light and dark pages.

use std::fmt::Write as _;
use std::time::Duration;

use crate::report::{Measured, median};
use crate::single::Rounds;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 56.0;
const LANE: f64 = 26.0;
const TITLE: f64 = 30.0;
const AXIS: f64 = 34.0;

const HEAD: &str = "<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 18px; font-weight: 600 } .panel { font-weight: 600 }
.dim { fill: #59636e } .grid { stroke: #d1d9e0 } .median { stroke: #1f2328; stroke-width: 2.5 }
.c0 { fill: #0969da } .c1 { fill: #bc4c00 } .c2 { fill: #8250df } .faint { opacity: 0.45 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .dim { fill: #9198a1 } .grid { stroke: #3d444d } .median { stroke: #f0f6fc }
.c0 { fill: #4493f8 } .c1 { fill: #f0883e } .c2 { fill: #ab7df8 } }
</style>
";

/// Draws what was measured with one lock.
pub fn draw(measured: &[Measured], lease: Duration) -> String {
    type Pick = fn(&Measured) -> &Rounds;
    let panels: [(&str, Pick); 3] = [
        ("Holder killed: leases from its last heartbeat to the next holder", |it| &it.single.crash),
        ("Holder stopped: leases from its last heartbeat to the next holder", |it| {
            &it.single.pause
        }),
        ("Holder asked to go: leases without a holder", |it| &it.single.hand_over),
    ];
    let panel_height = TITLE + measured.len() as f64 * LANE + AXIS;
    let height = TOP + 4.0 * panel_height;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n{HEAD}\
         <text x=\"16\" y=\"30\" class=\"title\">One lock, two processes, lease {} s, {} rounds</text>\n",
        lease.as_secs_f64(),
        measured.first().map_or(0, |it| it.single.rounds),
    );
    let in_leases = |it: &Measured, pick: Pick| -> Vec<f64> {
        pick(it).seconds.iter().map(|seconds| seconds / lease.as_secs_f64()).collect()
    };
    let all =
        panels.iter().flat_map(|(_, pick)| measured.iter().flat_map(|it| in_leases(it, *pick)));
    let end = all.fold(1.0, f64::max).ceil();
    let mut top = TOP;
    for (title, pick) in panels {
        svg += &frame(title, top, measured.len(), end);
        for (lane, it) in measured.iter().enumerate() {
            svg += &dots(it.name, lane, top, &in_leases(it, pick), end);
        }
        top += panel_height;
    }
    svg += &requests(measured, top);
    svg + "</svg>\n"
}

/// A panel's title, its grid and its axis from 0 to `end`.
fn frame(title: &str, top: f64, lanes: usize, end: f64) -> String {
    let bottom = top + TITLE + lanes as f64 * LANE;
    let mut svg =
        format!("<text x=\"16\" y=\"{:.0}\" class=\"panel\">{title}</text>\n", top + 18.0);
    let step = if end > 8.0 { 2.0 } else { 1.0 };
    let mut at = 0.0;
    while at <= end {
        let x = position(at, end);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{bottom:.0}\" class=\"grid\"/>\
             <text x=\"{x:.1}\" y=\"{:.0}\" class=\"dim\" text-anchor=\"middle\">{at}</text>",
            top + TITLE - 4.0,
            bottom + 16.0,
        );
        at += step;
    }
    svg
}

fn dots(name: &str, lane: usize, top: f64, leases: &[f64], end: f64) -> String {
    let y = top + TITLE + (lane as f64 + 0.5) * LANE;
    let mut svg = format!("<text x=\"16\" y=\"{:.0}\">{name}</text>\n", y + 4.0);
    for value in leases {
        let x = position(*value, end);
        let _ =
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" class=\"c{lane} faint\"/>");
    }
    if let Some(median) = median(leases) {
        let x = position(median, end);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" class=\"median\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{median:.2}</text>",
            y - 9.0,
            y + 9.0,
            WIDTH - RIGHT + 24.0,
            y + 4.0,
        );
    }
    svg
}

fn requests(measured: &[Measured], top: f64) -> String {
    let sums = measured.iter().map(|it| it.single.holder_requests + it.single.contender_requests);
    let end = sums.fold(1.0, f64::max).ceil();
    let title = "Requests per lease: of the holder, and (lighter) of a contender";
    let mut svg = frame(title, top, measured.len(), end);
    for (lane, it) in measured.iter().enumerate() {
        let y = top + TITLE + lane as f64 * LANE + 5.0;
        let (holder, contender) = (it.single.holder_requests, it.single.contender_requests);
        let (from, middle, to) =
            (position(0.0, end), position(holder, end), position(holder + contender.max(0.0), end));
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"{text:.0}\">{}</text>\
             <rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"16\" class=\"c{lane}\"/>\
             <rect x=\"{middle:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"16\" class=\"c{lane} faint\"/>\
             <text x=\"{:.1}\" y=\"{text:.0}\">{holder:.1} + {contender:.1}</text>",
            it.name,
            middle - from,
            to - middle,
            WIDTH - RIGHT + 8.0,
            text = y + 12.0,
        );
    }
    svg
}

fn position(value: f64, end: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * (value / end).clamp(0.0, 1.0)
}
