//! `watch`: who holds what, live.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::widgets::{Row, Table};
use ratatui::{DefaultTerminal, Frame};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::arguments::{Form, Listed, Watch};
use crate::failure::{Code, Failure, Result};
use crate::fleets::{Entry, grouped};
use crate::output::{Cell, Line as _, Output, Paint, narrow, printable, widths};
use crate::place::Place;
use crate::record::{Record, State};
use crate::signals::Signals;
use crate::start::is_to_be_said;

const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A pause is this many times as long as the poll before it, so that a large table costs at most a
/// tenth of a core and of a connection.
const PAUSE_FACTOR: u32 = 9;

/// The longest pause that a slow poll may cause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Rows of one read.
const PAGE_ROWS: u32 = 10_000;

pub async fn watch(place: &Place, out: &Output, asked: &Watch) -> Result<ExitCode> {
    let interval = asked.interval;
    if interval < INTERVAL_MIN {
        let text = format!("--interval {interval:?}: at least {INTERVAL_MIN:?}");
        return Err(Failure::new(Code::Usage, text));
    }
    // An error at the start ends the program; a later one is shown.
    let first = poll(place, asked).await?;
    if io::stdout().is_terminal() && out.form.is_for_people() {
        draw(place, asked, first).await
    } else {
        print(place, out, asked, first).await
    }
}

/// The answer to a poll.
struct Polled {
    records: Vec<Record>,
    took: Duration,
}

async fn poll(place: &Place, asked: &Watch) -> Result<Polled> {
    let began = Instant::now();
    let records = place.records(&asked.listed.prefix, PAGE_ROWS).await?;
    Ok(Polled { records, took: began.elapsed() })
}

/// Returns the time from a poll that took so long to the next.
fn pause(interval: Duration, took: Duration) -> Duration {
    interval.max((took * PAUSE_FACTOR).min(PAUSE_MAX))
}

/// Prints one line for each change: who gained, who lost, what went wrong.
async fn print(place: &Place, out: &Output, asked: &Watch, first: Polled) -> Result<ExitCode> {
    let mut known = BTreeMap::new();
    let mut after = pause(asked.interval, first.took);
    let mut said = None;
    report(out, &mut known, first.records, asked)?;
    // One for all turns of the loop: a signal must not get lost between two.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    loop {
        let polled = tokio::select! {
            polled = next(place, asked, after) => polled,
            ended = &mut interrupted => {
                ended?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        match polled {
            Ok(Polled { records, took }) => {
                after = pause(asked.interval, took);
                report(out, &mut known, records, asked)?;
            }
            Err(failure) => {
                after = asked.interval;
                if is_to_be_said(&mut said) {
                    failure.tell(out.form);
                }
            }
        }
    }
}

async fn next(place: &Place, asked: &Watch, after: Duration) -> Result<Polled> {
    sleep(after).await;
    poll(place, asked).await
}

#[derive(Serialize)]
struct Gone<'a> {
    name: &'a str,
    state: &'a str,
}

fn report(
    out: &Output,
    known: &mut BTreeMap<String, (String, Option<String>)>,
    records: Vec<Record>,
    asked: &Watch,
) -> Result<()> {
    let mut before = std::mem::take(known);
    // JSON has each row.
    let each = Listed { all: true, ..Listed::default() };
    let listed = if out.form.is_for_people() { &asked.listed } else { &each };
    for entry in grouped(records, listed) {
        let now = match &entry {
            Entry::Lock(record) => (record.holding(), record.token.clone()),
            Entry::Fleet(fleet) => (fleet.holding(), None),
        };
        let name = entry.name().to_string();
        if before.remove(&name).as_ref() != Some(&now) {
            match &entry {
                Entry::Lock(record) if out.form.is_for_people() => out.text(&line(record))?,
                Entry::Lock(record) => out.next(record)?,
                Entry::Fleet(fleet) => {
                    out.text(&format!("{}: {}\n", printable(&name), fleet.holding()))?;
                }
            }
        }
        known.insert(name, now);
    }
    for name in before.keys() {
        let gone = Gone { name, state: "deleted" };
        if out.form.is_for_people() {
            out.text(&format!("{}: its row is gone\n", printable(name)))?;
        } else {
            out.next(&gone)?;
        }
    }
    Ok(())
}

fn line(record: &Record) -> String {
    let Record { name, holder, since, token, .. } = record;
    let since = since.as_deref().unwrap_or("-");
    let token = token.as_deref().unwrap_or("-");
    let line = match holder {
        Some(holder) if record.is_held() => {
            format!("{since} {name}: held by {holder}, token {token}")
        }
        Some(holder) if record.state == State::Waiting => format!("{since} {name}: {holder} waits"),
        Some(holder) => format!("{since} {name}: {}, last held by {holder}", record.holding()),
        None => format!("{since} {name}: {}", record.holding()),
    };
    format!("{}\n", printable(&line))
}

/// The content of the screen.
struct Screen {
    title: String,
    entries: Vec<Entry>,
    trouble: Option<String>,
    selected: usize,
    /// The first record in sight.
    top: usize,
    /// How many are in sight.
    height: usize,
}

async fn draw(place: &Place, asked: &Watch, first: Polled) -> Result<ExitCode> {
    let title = format!("{} {} {}", place.database, place.table, asked.listed.prefix);
    let after = pause(asked.interval, first.took);
    let entries = grouped(first.records, &asked.listed);
    let mut screen = Screen { title, entries, trouble: None, selected: 0, top: 0, height: 1 };
    let mut signals = Signals::listen()?;
    let mut terminal = ratatui::try_init()?;
    let outcome = tokio::select! {
        outcome = follow(place, asked, after, &mut terminal, &mut screen) => outcome,
        // The terminal is left as it was.
        signal = signals.end() => Ok(ExitCode::from(signal.exit_code())),
    };
    ratatui::try_restore()?;
    outcome
}

async fn follow(
    place: &Place,
    asked: &Watch,
    after: Duration,
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
) -> Result<ExitCode> {
    let mut events = listen();
    // A key is answered while a poll is under way.
    let mut polling = pin!(next(place, asked, after));
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        tokio::select! {
            polled = &mut polling => {
                let took = polled.as_ref().map_or(Duration::ZERO, |polled| polled.took);
                polling.set(next(place, asked, pause(asked.interval, took)));
                match polled {
                    Ok(Polled { records, .. }) => {
                        screen.entries = grouped(records, &asked.listed);
                        screen.trouble = None;
                    }
                    Err(failure) => screen.trouble = Some(failure.to_string().replace('\n', " ")),
                }
            }
            event = events.recv() => match event {
                Some(event) if screen.is_left_by(&event) => return Ok(ExitCode::SUCCESS),
                Some(_) => {}
                None => return Ok(ExitCode::SUCCESS),
            },
        }
    }
}

/// The keys, read on a thread of their own: reading blocks.
fn listen() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}

impl Screen {
    /// Returns true if the event ends the program; others move the selection.
    fn is_left_by(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Down | KeyCode::Char('j') => self.selected = self.selected.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = self.selected.saturating_add(self.height),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(self.height),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(3)];
        let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
        let (mut held, mut locks) = (0, 0);
        for entry in &self.entries {
            let (held_here, of) = entry.held_of();
            (held, locks) = (held + held_here, locks + of);
        }
        let count = format!("{}  {held} of {locks} held", self.title);
        frame.render_widget(ratatui::text::Line::raw(count).bold(), head);
        self.height = usize::from(body.height).saturating_sub(1).max(1);
        self.selected = self.selected.min(self.entries.len().saturating_sub(1));
        self.top = self.top.clamp(self.selected.saturating_sub(self.height - 1), self.selected);
        // Ten thousand rows are drawn no slower than those in sight.
        let shown: Vec<Vec<Cell>> =
            self.entries.iter().skip(self.top).take(self.height).map(Entry::cells).collect();
        let head = Entry::HEAD.iter().map(|name| Cell::painted(*name, Paint::Faint)).collect();
        let mut lines: Vec<Vec<Cell>> = std::iter::once(head).chain(shown).collect();
        let columns = usize::from(body.width);
        narrow::<Entry>(&mut lines, Form::Table, Some(columns));
        let widths = widths(&lines, Some(columns));
        let columns = widths.iter().map(|width| u16::try_from(*width).unwrap_or(u16::MAX));
        let rows = lines.iter().enumerate().map(|(index, line)| {
            let is_selected = index > 0 && self.top + index - 1 == self.selected;
            let style = if is_selected { Style::new().reversed() } else { Style::new() };
            row(line, &widths).style(style)
        });
        let table = Table::new(rows, columns.map(Constraint::Length)).column_spacing(2);
        frame.render_widget(table, body);
        let selected = self.entries.get(self.selected);
        let next = selected.map(Entry::next);
        let trouble = self.trouble.clone().map(|trouble| ratatui::text::Line::raw(trouble).red());
        let lines = vec![
            ratatui::text::Line::raw(next.unwrap_or_default()),
            trouble.unwrap_or_default(),
            ratatui::text::Line::raw("q: quit   arrows: choose a lock").dim(),
        ];
        frame.render_widget(ratatui::text::Text::from(lines), foot);
    }
}

fn row(cells: &[Cell], widths: &[usize]) -> Row<'static> {
    let cells = cells.iter().zip(widths).map(|(cell, width)| {
        let style = match cell.paint {
            Paint::Plain => Style::new(),
            Paint::Good => Style::new().fg(Color::Green),
            Paint::Bad => Style::new().fg(Color::Red),
            Paint::Faint => Style::new().dim(),
        };
        ratatui::text::Span::styled(cell.cut(*width), style)
    });
    Row::new(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_takes_a_tenth_of_the_time_at_most() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(second, Duration::from_millis(20)), second);
        assert_eq!(pause(second, second / 2), second * 9 / 2);
        assert_eq!(pause(second, second * 4), PAUSE_MAX, "an outage is soon over");
        assert_eq!(pause(second * 60, second * 4), second * 60);
    }
}
