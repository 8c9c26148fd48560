//! The output of a command: a table for people, JSON for programs.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::arguments::{Colour, Common, Form};

/// Something that has a line in a table.
pub trait Line {
    const HEAD: &'static [&'static str];
    fn cells(&self) -> Vec<Cell>;
}

/// One cell of a table.
pub struct Cell {
    pub text: String,
    pub paint: Paint,
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
        Cell { text: text.into(), paint: Paint::Plain }
    }

    pub fn painted(text: impl Into<String>, paint: Paint) -> Cell {
        Cell { text: text.into(), paint }
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
            Form::Table => table(),
            Form::Json => self.text(&format!("{}\n", serde_json::to_string_pretty(things)?)),
            Form::Jsonl => things.iter().try_for_each(|thing| self.json_line(thing)),
        }
    }

    /// Prints one thing: in words, or as JSON.
    pub fn one(&self, thing: &impl Serialize, words: impl FnOnce() -> String) -> io::Result<()> {
        match self.form {
            Form::Table => self.text(&words()),
            Form::Json => self.text(&format!("{}\n", serde_json::to_string_pretty(thing)?)),
            Form::Jsonl => self.json_line(thing),
        }
    }

    pub fn json_line(&self, thing: &impl Serialize) -> io::Result<()> {
        self.text(&format!("{}\n", serde_json::to_string(thing)?))
    }

    /// Prints text as it is; a reader that has gone, such as `head`, ends the program quietly.
    pub fn text(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(141),
            written => written,
        }
    }

    pub fn paint(&self, text: &str, paint: Paint) -> String {
        let code = match paint {
            _ if !self.colour => return text.to_string(),
            Paint::Plain => return text.to_string(),
            Paint::Good => 32,
            Paint::Bad => 31,
            Paint::Faint => 2,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Prints rows, aligned.
    pub fn table<R: Line>(&self, rows: &[R]) -> io::Result<()> {
        let head: Vec<Cell> =
            R::HEAD.iter().map(|name| Cell::painted(*name, Paint::Faint)).collect();
        let mut lines = vec![head];
        lines.extend(rows.iter().map(R::cells));
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
            let mut text = printable(&cell.text);
            if self.columns.is_some() {
                text = cut(&text, *width_max);
            }
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

/// Returns the width of each column that is shown.
pub fn widths(lines: &[Vec<Cell>], columns: Option<usize>) -> Vec<usize> {
    let count = lines.first().map_or(0, Vec::len);
    let widest = |column: usize| lines.iter().map(|line| width(&line[column].text)).max();
    let widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or(0)).collect();
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

/// The text without what would steer a terminal, or show it in another order than it is written:
/// names and infos come from other people.
pub fn printable(text: &str) -> String {
    let is_unseen = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
    };
    text.chars().map(|c| if is_unseen(c) { '\u{fffd}' } else { c }).collect()
}

fn width(text: &str) -> usize {
    ratatui::text::Line::raw(text).width()
}

/// The text, with an ellipsis at its end if it is wider.
pub fn cut(text: &str, columns: usize) -> String {
    if columns == 0 {
        return String::new();
    }
    if width(text) <= columns {
        return text.to_string();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept) >= columns {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
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
    }
}
