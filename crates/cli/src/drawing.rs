//! A history as a picture: one lane, terms coloured by holder, vacancies left open.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use spindle::operate::PastTerm;

use crate::output::printable;

/// Colours that people with any colour vision tell apart on white.
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a5195", "#8c6d31"];

const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 20.0;
const LANE_TOP: f64 = 50.0;
const LANE_HEIGHT: f64 = 40.0;

/// Draws the terms, the latest first, up to `now`; each says `words` of itself.
pub fn svg(
    name: &str,
    terms: &[PastTerm],
    now: DateTime<Utc>,
    words: impl Fn(&PastTerm) -> String,
) -> String {
    let begin = terms.last().map_or(now, |term| term.token.to_datetime());
    let span = (now - begin).num_milliseconds().max(1) as f64;
    let x = |at: DateTime<Utc>| LEFT + (at - begin).num_milliseconds() as f64 / span * WIDTH;
    let mut colours = BTreeMap::new();
    for term in terms.iter().rev() {
        let next = COLOURS[colours.len() % COLOURS.len()];
        colours.entry(term.holder.as_str()).or_insert(next);
    }
    let height = LANE_TOP + LANE_HEIGHT + 50.0 + 20.0 * colours.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">{title}</text>\n",
        WIDTH + 2.0 * LEFT,
        title = escape(&format!("Who held `{}`", printable(name)))
    );
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "<rect x=\"{LEFT}\" y=\"{LANE_TOP}\" width=\"{WIDTH}\" height=\"{LANE_HEIGHT}\" \
         fill=\"none\" stroke=\"#999\" stroke-dasharray=\"3 3\"/>"
    );
    for term in terms.iter().rev() {
        let (from, to) = (x(term.token.to_datetime()), x(term.end.unwrap_or(now)));
        let told = words(term);
        let _ = writeln!(
            text,
            "<rect x=\"{from:.1}\" y=\"{LANE_TOP}\" width=\"{:.1}\" height=\"{LANE_HEIGHT}\" \
             fill=\"{}\"><title>{}</title></rect>",
            (to - from).max(1.0),
            colours[term.holder.as_str()],
            escape(&printable(&told))
        );
    }
    let below = LANE_TOP + LANE_HEIGHT;
    for (at, anchor) in [(begin, "start"), (now, "end")] {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\" fill=\"#555\">{}</text>",
            x(at),
            below + 18.0,
            at.to_rfc3339_opts(SecondsFormat::Secs, true)
        );
    }
    for (index, (holder, colour)) in colours.iter().enumerate() {
        let y = below + 34.0 + 20.0 * index as f64;
        let _ = writeln!(
            text,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\n\
             <text x=\"{}\" y=\"{}\">{}</text>",
            LEFT + 20.0,
            y + 11.0,
            escape(&printable(holder))
        );
    }
    text.push_str("</svg>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
