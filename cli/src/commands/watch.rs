//! `watch`: who holds what, live.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::widgets::{Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::arguments::Form;
use crate::failure::{Code, Failure, Result};
use crate::output::{Line as _, Output, Paint};
use crate::place::Place;
use crate::record::Record;

const INTERVAL_MIN: Duration = Duration::from_millis(100);

pub async fn watch(
    place: &Place,
    out: &Output,
    prefix: &str,
    interval: Duration,
) -> Result<ExitCode> {
    if interval < INTERVAL_MIN {
        let text = format!("--interval {interval:?}: at least {INTERVAL_MIN:?}");
        return Err(Failure::new(Code::Usage, text));
    }
    // An error at the start ends the program; a later one is shown.
    let first = poll(place, prefix).await?;
    if io::stdout().is_terminal() && out.form == Form::Table {
        draw(place, prefix, interval, first).await
    } else {
        print(place, out, prefix, interval, first).await
    }
}

async fn poll(place: &Place, prefix: &str) -> Result<Vec<Record>> {
    let mut locks = place.locks.list().prefix(prefix).page_rows(1_000);
    let mut records = Vec::new();
    while let Some(lock) = locks.next().await? {
        records.push(Record::new(&lock));
    }
    Ok(records)
}

/// One line for each change: who gained, who lost, what went wrong.
async fn print(
    place: &Place,
    out: &Output,
    prefix: &str,
    interval: Duration,
    first: Vec<Record>,
) -> Result<ExitCode> {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = BTreeMap::new();
    report(out, &mut known, first)?;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            ended = tokio::signal::ctrl_c() => {
                ended?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        match poll(place, prefix).await {
            Ok(records) => report(out, &mut known, records)?,
            Err(failure) => eprintln!("spindle: {failure}"),
        }
    }
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
) -> Result<()> {
    let mut before = std::mem::take(known);
    for record in records {
        let now = (record.standing(), record.token.clone());
        if before.remove(&record.name).as_ref() != Some(&now) {
            if out.form == Form::Table {
                out.text(&line(&record))?;
            } else {
                out.json_line(&record)?;
            }
        }
        known.insert(record.name, now);
    }
    for name in before.keys() {
        let gone = Gone { name, state: "deleted" };
        if out.form == Form::Table {
            out.text(&format!("{name}: its row is gone\n"))?;
        } else {
            out.json_line(&gone)?;
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
        Some(holder) => format!("{since} {name}: {}, last held by {holder}", record.standing()),
        None => format!("{since} {name}: {}", record.standing()),
    };
    format!("{}\n", crate::output::printable(&line))
}

/// The content of the screen.
struct Screen {
    title: String,
    records: Vec<Record>,
    trouble: Option<String>,
    selected: TableState,
}

async fn draw(
    place: &Place,
    prefix: &str,
    interval: Duration,
    first: Vec<Record>,
) -> Result<ExitCode> {
    let title = format!("{} {} {prefix}", place.database, place.table);
    let selected = TableState::new().with_selected(0);
    let mut screen = Screen { title, records: first, trouble: None, selected };
    let mut events = listen();
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut terminal = ratatui::try_init()?;
    let outcome = follow(place, prefix, &mut terminal, &mut screen, &mut events, &mut ticks).await;
    ratatui::try_restore()?;
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn follow(
    place: &Place,
    prefix: &str,
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    events: &mut mpsc::Receiver<Event>,
    ticks: &mut tokio::time::Interval,
) -> Result<()> {
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        tokio::select! {
            _ = ticks.tick() => match poll(place, prefix).await {
                Ok(records) => (screen.records, screen.trouble) = (records, None),
                Err(failure) => screen.trouble = Some(failure.to_string().replace('\n', " ")),
            },
            event = events.recv() => match event {
                Some(event) if screen.is_left_by(&event) => return Ok(()),
                Some(_) => {}
                None => return Ok(()),
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
            KeyCode::Down | KeyCode::Char('j') => self.selected.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.selected.select_previous(),
            KeyCode::PageDown => self.selected.scroll_down_by(10),
            KeyCode::PageUp => self.selected.scroll_up_by(10),
            KeyCode::Home => self.selected.select_first(),
            KeyCode::End => self.selected.select_last(),
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(3)];
        let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
        let held = self.records.iter().filter(|record| record.is_held()).count();
        let count = format!("{}  {held} of {} held", self.title, self.records.len());
        frame.render_widget(ratatui::text::Line::raw(count).bold(), head);
        let rows = self.records.iter().map(row);
        let widths = [
            Constraint::Fill(3),
            Constraint::Fill(3),
            Constraint::Length(16),
            Constraint::Length(8),
            Constraint::Length(7),
            Constraint::Length(10),
            Constraint::Fill(2),
        ];
        let table = Table::new(rows, widths)
            .header(Row::new(Record::HEAD.iter().copied()).dim())
            .row_highlight_style(Style::new().reversed());
        frame.render_stateful_widget(table, body, &mut self.selected);
        let selected = self.selected.selected().and_then(|index| self.records.get(index));
        let next = selected.map(|record| format!("next contender: {}", record.next));
        let trouble = self.trouble.clone().map(|trouble| ratatui::text::Line::raw(trouble).red());
        let lines = vec![
            ratatui::text::Line::raw(next.unwrap_or_default()),
            trouble.unwrap_or_default(),
            ratatui::text::Line::raw("q: quit   arrows: choose a lock").dim(),
        ];
        frame.render_widget(ratatui::text::Text::from(lines), foot);
    }
}

fn row(record: &Record) -> Row<'_> {
    let cells = record.cells().into_iter().map(|cell| {
        let style = match cell.paint {
            Paint::Plain => Style::new(),
            Paint::Good => Style::new().fg(Color::Green),
            Paint::Bad => Style::new().fg(Color::Red),
            Paint::Faint => Style::new().dim(),
        };
        ratatui::text::Span::styled(crate::output::printable(&cell.text), style)
    });
    Row::new(cells)
}
