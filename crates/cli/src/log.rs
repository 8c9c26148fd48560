//! The library's log, for the commands that hold locks.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;

use crate::output::to_stderr;

/// Writes warnings to the standard error stream; `RUST_LOG` chooses otherwise.
pub fn begin() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_target(false)
        .with_ansi(false)
        .with_writer(|| Clean);
    // Fails only where there is one already.
    let _ = set_global_default(log.finish());
}

/// The standard error stream, without what would steer a terminal.
struct Clean;

impl io::Write for Clean {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        to_stderr(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
