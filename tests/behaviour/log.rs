//! Captures the log, line by line.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::{DefaultGuard, Interest, set_default, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// A line of the library's: its message, then its fields as ` name=value`, then the spans around it.
#[derive(Clone, Debug)]
pub struct Line {
    pub level: Level,
    pub text: String,
}

impl Line {
    pub fn says(&self, what: &str) -> bool {
        self.text.contains(what)
    }
}

/// The lines that this thread logs while the guard is there.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    pub fn capture() -> (Log, DefaultGuard) {
        // The first line of a place decides if such lines are of interest to anybody: while another
        // thread's log comes or goes, nobody might be.
        static EVERYBODY: Once = Once::new();
        EVERYBODY.call_once(|| set_global_default(Registry::default().with(Nobodys)).unwrap());
        let log = Log::default();
        (log.clone(), set_default(Registry::default().with(log)))
    }

    /// All that was logged, but for what only helps to debug.
    pub fn lines(&self) -> Vec<Line> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.level <= Level::INFO).cloned().collect()
    }

    /// All that was logged, with what only helps to debug.
    pub fn details(&self) -> Vec<Line> {
        self.0.lock().unwrap().clone()
    }

    /// The lines that say this.
    pub fn saying(&self, what: &str) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.says(what)).collect()
    }

    /// The one line that says this.
    pub fn the(&self, what: &str) -> Line {
        let mut lines = self.saying(what);
        assert_eq!(lines.len(), 1, "{what}: {lines:#?} of {:#?}", self.lines());
        lines.remove(0)
    }
}

/// For the fields, in front of the message or behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.message, "{value:?}").unwrap();
        } else {
            write!(self.fields, " {}={value:?}", field.name()).unwrap();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.fields, " {}={value}", field.name()).unwrap();
    }
}

/// The log of the threads that capture none.
struct Nobodys;

impl<S: Subscriber> Layer<S> for Nobodys {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>, _: Context<'_, S>) -> bool {
        false
    }
}

/// The fields of a span.
struct SpanText(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("spindle") && !metadata.target().contains("emulator")
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        let span = format!(" {}{{{}}}", attributes.metadata().name(), text.fields.trim_start());
        context.span(id).unwrap().extensions_mut().insert(SpanText(span));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        for span in context.event_scope(event).into_iter().flatten() {
            text.fields.extend(span.extensions().get::<SpanText>().map(|span| span.0.clone()));
        }
        let line = Line { level: *event.metadata().level(), text: text.message + &text.fields };
        self.0.lock().unwrap().push(line);
    }
}
