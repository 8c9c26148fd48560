//! The output of a command: a table for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;
use unicode_truncate::UnicodeTruncateStr as _;

use crate::arguments::{Colour, Common, Form};

/// Writes a complaint of this program to the standard error stream.
pub fn complain(text: &str) {
    to_stderr(&format!("spindle: {text}\n"));
}

/// Writes a line beside the output proper to the standard error stream.
pub fn notice(text: &str) {
    to_stderr(&format!("{text}\n"));
}

/// Writes text to the standard error stream, without what would steer a terminal.
///
/// It doesn't matter whether anybody can read it: a lock is released all the same.
pub fn to_stderr(text: &str) {
    let _unread = io::stderr().write_all(lines(text).as_bytes());
}

/// Writes text to the standard output stream, without what would steer a terminal.
///
/// A reader that has gone, such as `head`, ends the program quietly.
pub fn to_stdout(text: &str) -> io::Result<()> {
    write_stdout(&lines(text))
}

fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(141),
        written => written,
    }
}

/// Stands for a character that is not shown.
const UNSEEN: char = '\u{fffd}';

/// The colours, as they follow an escape character.
const GOOD: &str = "[32m";
const BAD: &str = "[31m";
const FAINT: &str = "[2m";
const USUAL: &str = "[0m";

/// Something that has a line in a table.
pub trait Line {
    const HEAD: &'static [&'static str];
    /// The columns that a narrow terminal leaves out first; then goes the last one.
    const GOES_FIRST: &'static [&'static str] = &[];
    /// How many of the last columns only a wide table has.
    const WIDE: usize = 0;
    fn cells(&self) -> Vec<Cell>;
}

/// One cell of a table.
pub struct Cell {
    pub text: String,
    pub paint: Paint,
    /// True if the end tells more than the middle, as that of a name.
    pub is_name: bool,
}

/// How a cell is coloured; the text says the same without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Good,
    Bad,
    Faint,
}

impl Cell {
    pub fn plain(text: impl Into<String>) -> Cell {
        Cell::painted(text, Paint::Plain)
    }

    pub fn painted(text: impl Into<String>, paint: Paint) -> Cell {
        Cell { text: text.into(), paint, is_name: false }
    }

    pub fn name(text: impl Into<String>) -> Cell {
        Cell { is_name: true, ..Cell::plain(text) }
    }

    /// The text as it is shown in so many columns.
    pub fn cut(&self, columns: usize) -> String {
        let text = printable(&self.text);
        if self.is_name { cut_middle(&text, columns) } else { cut(&text, columns) }
    }
}

/// Standard output, in the form that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub form: Form,
    colour: bool,
    columns: Option<usize>,
}

impl Output {
    pub fn new(common: &Common) -> Output {
        let is_terminal = io::stdout().is_terminal();
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let colour = match common.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => is_terminal && allowed,
        };
        let size = is_terminal.then(ratatui::crossterm::terminal::size).and_then(Result::ok);
        let columns = size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
        let columns = columns.filter(|_| common.output != Form::Wide);
        Output { form: common.output, colour, columns }
    }

    /// Prints rows: aligned, as one JSON array, or as one JSON object a line.
    pub fn rows<R: Line + Serialize>(&self, rows: &[R]) -> io::Result<()> {
        self.many(rows, || self.table(rows))
    }

    /// Prints things: as `table` does, as one JSON array, or as one JSON object a line.
    pub fn many<T: Serialize>(
        &self,
        things: &[T],
        table: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        match self.form {
            Form::Table | Form::Wide => table(),
            Form::Json => write_json(&serde_json::to_string_pretty(things)?),
            Form::Jsonl => things.iter().try_for_each(|thing| self.json_line(thing)),
            Form::Yaml => to_stdout(&yaml(&things)?),
            Form::Name => things.iter().try_for_each(|thing| write_name(thing)),
        }
    }

    /// Prints one thing: in words, or as JSON.
    pub fn one(&self, thing: &impl Serialize, words: impl FnOnce() -> String) -> io::Result<()> {
        match self.form {
            Form::Table | Form::Wide => self.text(&words()),
            Form::Json => write_json(&serde_json::to_string_pretty(thing)?),
            Form::Jsonl => self.json_line(thing),
            Form::Yaml => to_stdout(&yaml(thing)?),
            Form::Name => write_name(thing),
        }
    }

    pub fn json_line(&self, thing: &impl Serialize) -> io::Result<()> {
        write_json(&serde_json::to_string(thing)?)
    }

    /// Prints one of many that come one by one.
    pub fn next(&self, thing: &impl Serialize) -> io::Result<()> {
        match self.form {
            Form::Yaml => to_stdout(&format!("---\n{}", yaml(thing)?)),
            Form::Name => write_name(thing),
            _ => self.json_line(thing),
        }
    }

    /// Prints text, without what would steer a terminal but for the colours of [`Output::paint`].
    pub fn text(&self, text: &str) -> io::Result<()> {
        if !self.colour {
            return to_stdout(text);
        }
        let mut parts = text.split('\x1b');
        let mut clean = lines(parts.next().unwrap_or_default());
        for part in parts {
            let is_ours = [GOOD, BAD, FAINT, USUAL].iter().any(|colour| part.starts_with(colour));
            clean.push(if is_ours { '\x1b' } else { UNSEEN });
            clean.push_str(&lines(part));
        }
        write_stdout(&clean)
    }

    /// Colours a text that is shown as [`printable`] makes it.
    pub fn paint(&self, text: &str, paint: Paint) -> String {
        let text = printable(text);
        let colour = match paint {
            _ if !self.colour => return text,
            Paint::Plain => return text,
            Paint::Good => GOOD,
            Paint::Bad => BAD,
            Paint::Faint => FAINT,
        };
        format!("\x1b{colour}{text}\x1b{USUAL}")
    }

    /// Prints rows, aligned.
    pub fn table<R: Line>(&self, rows: &[R]) -> io::Result<()> {
        let head: Vec<Cell> =
            R::HEAD.iter().map(|name| Cell::painted(*name, Paint::Faint)).collect();
        let mut lines = vec![head];
        lines.extend(rows.iter().map(R::cells));
        narrow::<R>(&mut lines, self.form, self.columns);
        let widths = widths(&lines, self.columns);
        let mut text = String::new();
        for line in &lines {
            text.push_str(&self.line(line, &widths));
            text.push('\n');
        }
        self.text(&text)
    }

    /// One line; a terminal cuts what is too wide for its column, a pipe gets it whole.
    fn line(&self, cells: &[Cell], widths: &[usize]) -> String {
        let mut line = String::new();
        for (cell, width_max) in cells.iter().zip(widths) {
            let text = match self.columns {
                Some(_) => cell.cut(*width_max),
                None => printable(&cell.text),
            };
            let padding = (width_max + 2).saturating_sub(width(&text)).max(2);
            line.push_str(&self.paint(&text, cell.paint));
            line.extend(std::iter::repeat_n(' ', padding));
        }
        line.trim_end().to_string()
    }
}

/// Into a pipe, a wider text moves the rest of its own line and not of all others.
const PIPE_WIDTH_MAX: usize = 60;

/// A column that is wider is narrowed before one is left out.
const COLUMN_MIN: usize = 12;

/// So much of a name is shown before other columns are.
const NAME_ENOUGH: usize = 24;

/// Leaves out the columns that only a wide table has, and those for which there is no room.
pub fn narrow<R: Line>(lines: &mut [Vec<Cell>], form: Form, columns: Option<usize>) {
    let mut head = R::HEAD.to_vec();
    if form != Form::Wide {
        let count = head.len() - R::WIDE;
        head.truncate(count);
        lines.iter_mut().for_each(|line| line.truncate(count));
    }
    for left_out in R::GOES_FIRST {
        let needed = (0..head.len()).map(|column| needed(lines, column)).sum::<usize>();
        if columns.is_none_or(|columns| needed + 2 * (head.len() - 1) <= columns) {
            return;
        }
        if let Some(at) = head.iter().position(|name| name == left_out) {
            head.remove(at);
            lines.iter_mut().for_each(|line| drop(line.remove(at)));
        }
    }
}

/// Returns the width that a column has, or as much of it as tells enough.
fn needed(lines: &[Vec<Cell>], column: usize) -> usize {
    let is_name = lines.last().is_some_and(|line| line[column].is_name);
    widest(lines, column).min(if is_name { NAME_ENOUGH } else { COLUMN_MIN })
}

fn widest(lines: &[Vec<Cell>], column: usize) -> usize {
    lines.iter().map(|line| width(&line[column].text)).max().unwrap_or(0)
}

/// Returns the width of each column that is shown.
pub fn widths(lines: &[Vec<Cell>], columns: Option<usize>) -> Vec<usize> {
    let count = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count).map(|column| widest(lines, column)).collect();
    match columns {
        None => widths.into_iter().map(|width| width.min(PIPE_WIDTH_MAX)).collect(),
        Some(columns) => fit(&widths, columns),
    }
}

/// Narrows the widest columns until the line fits, and leaves out the last ones if it must.
fn fit(widths: &[usize], columns: usize) -> Vec<usize> {
    for count in (1..=widths.len()).rev() {
        let mut fitting = widths[..count].to_vec();
        let gaps = 2 * (count - 1);
        while fitting.iter().sum::<usize>() + gaps > columns {
            match fitting.iter_mut().max() {
                Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
                _ => break,
            }
        }
        if fitting.iter().sum::<usize>() + gaps <= columns {
            return fitting;
        }
    }
    vec![columns]
}

/// True for what steers a terminal, or shows text in another order than it is written.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

/// The text of one line without what would steer a terminal, or show it in another order than it is
/// written: names and infos come from other people.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { UNSEEN } else { c }).collect()
}

/// The same for text of several lines, with tabs.
fn lines(text: &str) -> String {
    let kept = |c: char| matches!(c, '\n' | '\t') || !is_unseen(c);
    text.chars().map(|c| if kept(c) { c } else { UNSEEN }).collect()
}

/// True for text of several lines with nothing in it that steers a terminal.
pub fn is_clean(text: &str) -> bool {
    lines(text) == text
}

fn write_json(json: &str) -> io::Result<()> {
    write_stdout(&format!("{}\n", escaped(json)))
}

/// The same JSON, with an escape for each character that a terminal must not see. Outside of its
/// strings JSON has none but the end of a line.
pub fn escaped(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_unseen(c) {
            clean.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            clean.push(c);
        }
    }
    clean
}

fn width(text: &str) -> usize {
    ratatui::text::Line::raw(text).width()
}

/// The text, with an ellipsis at its end if it is wider.
pub fn cut(text: &str, columns: usize) -> String {
    if columns == 0 || width(text) <= columns {
        return text.unicode_truncate(columns).0.to_string();
    }
    format!("{}…", text.unicode_truncate(columns - 1).0)
}

/// The text, with an ellipsis in its middle if it is wider: a third of what is shown begins it.
fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns || columns < 4 {
        return cut(text, columns);
    }
    let begin = text.unicode_truncate((columns - 1) / 3).0;
    let end = text.unicode_truncate_start(columns - 1 - width(begin)).0;
    format!("{begin}…{end}")
}

fn yaml(thing: &impl Serialize) -> io::Result<String> {
    serde_saphyr::to_string(thing).map_err(io::Error::other)
}

/// Prints the name of a thing: what its row, its job or it itself is called.
fn write_name(thing: &impl Serialize) -> io::Result<()> {
    let thing = serde_json::to_value(thing)?;
    let mut fields = ["name", "job", "id", "member", "token"].into_iter();
    let name = thing.as_str().or_else(|| fields.find_map(|field| thing.get(field)?.as_str()));
    name.map_or(Ok(()), |name| to_stdout(&format!("{}\n", printable(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_wide_ends_with_an_ellipsis_within_its_columns() {
        assert_eq!(cut("holder", 6), "holder");
        assert_eq!(cut("holders", 6), "holde…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn a_name_that_is_too_wide_keeps_its_end() {
        assert_eq!(cut_middle("billing/eu/customer-4711", 13), "bill…mer-4711");
        assert_eq!(cut_middle("orders", 6), "orders");
        assert_eq!(cut_middle("日本語日本語", 7), "日…本語");
        assert_eq!(cut_middle("orders", 3), "or…");
    }

    #[test]
    fn a_line_is_never_wider_than_the_terminal() {
        let natural = [4_096, 14, 18, 5, 6, 10, 20];
        for columns in 1..200 {
            let fitted = fit(&natural, columns);
            assert!(fitted.iter().sum::<usize>() + 2 * (fitted.len() - 1) <= columns, "{columns}");
        }
        assert_eq!(fit(&[13, 7, 4, 5, 6, 10, 20], 80), [13, 7, 4, 5, 6, 10, 20]);
        assert_eq!(fit(&[40, 7, 4, 5, 6, 10, 20], 80), [18, 7, 4, 5, 6, 10, 18]);
        assert_eq!(fit(&[40, 7, 4, 5, 6, 10, 20], 40), [18, 7, 4, 5]);
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(printable("a\u{202e}b\u{200b}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(lines("a\u{9b}2J\tb\r\n"), "a\u{fffd}2J\tb\u{fffd}\n");
    }

    #[test]
    fn json_says_the_same_without_a_character_that_a_terminal_obeys() {
        let hostile = "\u{7f}\u{9b}2J\u{202e}\u{2066}\u{feff}\x1b é 日";
        let clean = escaped(&serde_json::to_string_pretty(&[hostile]).unwrap());
        assert!(!clean.chars().any(|c| c != '\n' && is_unseen(c)), "{clean:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&clean).unwrap(), [hostile]);
    }
}
