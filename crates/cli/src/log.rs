//! The standard error stream of commands that hold locks: the library's log, and their own complaints.
//!
//! A reader that has stopped, as a pager does, must not stop heartbeats, or the end of a command. So
//! a thread writes it all.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;

use crate::output::to_stderr;

/// Texts that wait for a slow reader; what comes after them is lost.
const BACKLOG: usize = 1_000;

/// How long the end waits for a slow reader.
const END_LIMIT: Duration = Duration::from_secs(1);

static TEXTS: OnceLock<SyncSender<Text>> = OnceLock::new();

enum Text {
    Said(String),
    /// Answered once all before it is written.
    End(SyncSender<()>),
}

/// Writes warnings to the standard error stream; `RUST_LOG` chooses otherwise.
pub fn begin() {
    let (sender, texts) = sync_channel(BACKLOG);
    std::thread::spawn(move || write(&texts));
    // Each of the two fails only where it was done before.
    let _ = TEXTS.set(sender);
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_target(false)
        .with_ansi(false)
        .with_writer(|| Line);
    let _ = set_global_default(log.finish());
}

/// Complains as [`complain`](crate::output::complain) does, and waits for no reader.
pub fn complain(text: &str) {
    say(format!("spindle: {text}\n"));
}

/// Waits until all is written, unless nobody reads it.
pub fn end() {
    let (written, all) = sync_channel(1);
    if TEXTS.get().is_some_and(|texts| texts.try_send(Text::End(written)).is_ok()) {
        let _unread = all.recv_timeout(END_LIMIT);
    }
}

fn say(text: String) {
    match TEXTS.get() {
        // A text beyond the backlog is lost.
        Some(texts) => drop(texts.try_send(Text::Said(text))),
        None => to_stderr(&text),
    }
}

fn write(texts: &Receiver<Text>) {
    for text in texts {
        match text {
            Text::Said(text) => to_stderr(&text),
            // The one that asked may have given up.
            Text::End(written) => drop(written.try_send(())),
        }
    }
}

/// One line of the log.
struct Line;

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        say(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
