//! A picture of who held when, as text: one lane for each contender, drawn from the log.

use std::time::Duration;

use tokio::time::Instant;

use crate::fleet::Entry;

const COLUMNS: usize = 64;

pub const KILLED: &str = "is killed (SIGKILL)";
pub const STOPPED: &str = "is stopped (SIGSTOP) with a write decided and not sent";
pub const WOKEN: &str = "is woken up (SIGCONT)";

/// A contender's own report, or the act on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Absent,
    Waits,
    Holds,
    Sleeps,
    Killed,
}

impl State {
    fn after(self, line: &str) -> State {
        match line {
            _ if line.starts_with("began ") => State::Holds,
            _ if line.starts_with("ended ") || line == WOKEN => State::Waits,
            KILLED => State::Killed,
            STOPPED => State::Sleeps,
            "exits" => State::Absent,
            _ if self == State::Absent => State::Waits,
            _ => self,
        }
    }

    fn letter(self) -> char {
        match self {
            State::Absent => ' ',
            State::Waits => '.',
            State::Holds => '#',
            State::Sleeps => 'z',
            State::Killed => 'x',
        }
    }
}

/// Draws one lane for each of `contenders`; a column shows the last state in its stretch of time.
pub fn draw(contenders: &[&str], log: &[Entry]) -> String {
    let (Some(first), Some(last)) = (log.first(), log.last()) else { return String::new() };
    let column = (last.at - first.at).max(Duration::from_millis(1)) / COLUMNS as u32;
    let mut drawn = format!(
        "\nwho held when, {} ms a column (# holds, . waits, z stopped, x killed)\n",
        column.as_millis()
    );
    for contender in contenders {
        let lane: String = lane(contender, log, first.at, column).collect();
        drawn.push_str(&format!("{contender:<8} |{lane}|\n"));
    }
    drawn
}

fn lane(
    contender: &str,
    log: &[Entry],
    begin: Instant,
    column: Duration,
) -> impl Iterator<Item = char> {
    let mut entries = log.iter().filter(move |entry| entry.worker == contender).peekable();
    let mut state = State::Waits;
    (1..=COLUMNS as u32).map(move |number| {
        while let Some(entry) = entries.next_if(|entry| entry.at <= begin + column * number) {
            state = state.after(&entry.line);
        }
        state.letter()
    })
}
