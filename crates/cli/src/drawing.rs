//! A history as a picture: one lane, terms coloured by holder, vacancies left open.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use spindle::operate::PastTerm;
use svg::Document;
use svg::node::element::{Rectangle, Text, Title};

use crate::output::printable;

/// Colours that people with any colour vision tell apart on white.
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a5195", "#8c6d31"];

const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 20.0;
const LANE_TOP: f64 = 50.0;
const LANE_HEIGHT: f64 = 40.0;

/// Draws the terms, the latest first, up to `now`; each says `words` of itself.
pub fn picture(
    name: &str,
    terms: &[PastTerm],
    now: DateTime<Utc>,
    words: impl Fn(&PastTerm) -> String,
) -> Document {
    let begin = terms.last().map_or(now, |term| term.token.to_datetime());
    let span = (now - begin).num_milliseconds().max(1) as f64;
    let x = |at: DateTime<Utc>| LEFT + (at - begin).num_milliseconds() as f64 / span * WIDTH;
    let mut colours = BTreeMap::new();
    for term in terms.iter().rev() {
        let next = COLOURS[colours.len() % COLOURS.len()];
        colours.entry(term.holder.as_str()).or_insert(next);
    }
    let height = LANE_TOP + LANE_HEIGHT + 50.0 + 20.0 * colours.len() as f64;
    let title = format!("Who held `{}`", printable(name));
    let mut page = Document::new()
        .set("width", WIDTH + 2.0 * LEFT)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 13)
        .set("role", "img")
        .set("aria-label", &*title)
        .add(Title::new(&*title))
        .add(rect((0.0, 0.0), (WIDTH + 2.0 * LEFT, height)).set("fill", "white"))
        .add(text((LEFT, 28.0), &title).set("font-size", 16));
    let lane = rect((LEFT, LANE_TOP), (WIDTH, LANE_HEIGHT)).set("fill", "none");
    page = page.add(lane.set("stroke", "#999").set("stroke-dasharray", "3 3"));
    for term in terms.iter().rev() {
        let (from, to) = (x(term.token.to_datetime()), x(term.end.unwrap_or(now)));
        let shape = rect((from, LANE_TOP), ((to - from).max(1.0), LANE_HEIGHT));
        let told = Title::new(printable(&words(term)));
        page = page.add(shape.set("fill", colours[term.holder.as_str()]).add(told));
    }
    let below = LANE_TOP + LANE_HEIGHT;
    for (at, anchor) in [(begin, "start"), (now, "end")] {
        let time = text((x(at), below + 18.0), &at.to_rfc3339_opts(SecondsFormat::Secs, true));
        page = page.add(time.set("text-anchor", anchor).set("fill", "#555"));
    }
    for (index, (holder, colour)) in colours.iter().enumerate() {
        let y = below + 34.0 + 20.0 * index as f64;
        page = page
            .add(rect((LEFT, y), (12.0, 12.0)).set("fill", *colour))
            .add(text((LEFT + 20.0, y + 11.0), &printable(holder)));
    }
    page
}

fn rect((x, y): (f64, f64), (width, height): (f64, f64)) -> Rectangle {
    let [x, width] = [x, width].map(|length| (length * 10.0).round() / 10.0);
    Rectangle::new().set("x", x).set("y", y).set("width", width).set("height", height)
}

fn text((x, y): (f64, f64), content: &str) -> Text {
    Text::new(content).set("x", (x * 10.0).round() / 10.0).set("y", y)
}
