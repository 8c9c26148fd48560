//! The lines that the log has of the columns.

use crate::batch::OptionalColumns;
use crate::error::Error;

/// The line that a change of what is known is worth.
#[derive(Debug)]
pub(super) enum LogLine {
    None,
    /// The optional columns that are there.
    Columns(OptionalColumns),
    /// `is_first` if nothing was ever told.
    NoAnswer {
        error: Error,
        is_first: bool,
    },
}

impl LogLine {
    pub(super) fn log(&self, table: &str) {
        match self {
            LogLine::None => {}
            LogLine::Columns(OptionalColumns { lease: true, info: true }) => {
                tracing::debug!(table, "the lock table has all columns");
            }
            LogLine::Columns(OptionalColumns { lease: true, .. }) => {
                tracing::info!(table, "the lock table has no column `info`; ddl/ has the ALTER");
            }
            LogLine::Columns(OptionalColumns { info, .. }) => tracing::warn!(
                table,
                info,
                "the lock table has no column `lease_ms`: all instances must use one and the same \
                 lease, or two may hold a lock at once; ddl/ has the ALTER that adds the column"
            ),
            LogLine::NoAnswer { error, is_first: true } => tracing::warn!(
                table,
                %error,
                "the information schema does not answer; until it does, the lock table is assumed \
                 to have all columns"
            ),
            LogLine::NoAnswer { error, .. } => {
                tracing::debug!(table, %error, "the information schema does not answer");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::runtime::Handle;
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::with_default;
    use tracing::{Event, Metadata, Subscriber};

    use super::super::{Question, Shared, lock};
    use super::*;

    /// A log that counts its lines for which nobody has to wait.
    struct Log(Arc<Shared>, Arc<AtomicU32>);

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, _: &Event<'_>) {
            if self.0.known.try_lock().is_ok_and(|known| known.asking.is_empty()) {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn nobody_waits_for_the_log_to_learn_which_columns_there_are() {
        let (shared, lines) = (Arc::new(Shared::default()), Arc::new(AtomicU32::new(0)));
        let (runtime, number) = (Handle::current().id(), 1);
        lock(&shared.known).asking.push((runtime, number));
        let question = Question { runtime, number, shared: Arc::downgrade(&shared) };
        let error = Error::timed_out("ask", Duration::from_secs(1));
        with_default(Log(shared, Arc::clone(&lines)), || question.hears("locktable", Err(error)));
        assert_eq!(lines.load(Ordering::Relaxed), 1);
    }
}
