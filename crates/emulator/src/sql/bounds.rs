//! The values that conditions leave for a column.

use super::ast::Comparison;
use crate::engine::Value;

/// An end of a range of values, and true if it belongs to the range.
pub type End = Option<(Value, bool)>;

/// The values that a column can have.
#[derive(Default)]
pub struct Bounds {
    /// The least of them.
    pub low: End,
    /// The greatest of them.
    pub high: End,
    /// True if there is no such value.
    pub empty: bool,
    /// True if a condition has restricted them.
    pub found: bool,
}

impl Bounds {
    /// Leaves those that a comparison with this value lets through.
    pub fn restrict(&mut self, comparison: Comparison, value: Value) {
        if value.is_null() {
            self.empty = true;
            return;
        }
        if matches!(value, Value::Float64(value) if value.is_nan()) {
            return;
        }
        let (end, inclusive) = match comparison {
            Comparison::Greater => (&mut self.low, false),
            Comparison::GreaterOrEqual => (&mut self.low, true),
            Comparison::Less => (&mut self.high, false),
            Comparison::LessOrEqual => (&mut self.high, true),
            Comparison::Equal | Comparison::NotEqual => return,
        };
        self.found = true;
        let tighter = match end {
            None => true,
            Some((known, _)) => match comparison {
                Comparison::Greater => value >= *known,
                Comparison::GreaterOrEqual => value > *known,
                Comparison::Less => value <= *known,
                _ => value < *known,
            },
        };
        if tighter {
            *end = Some((value, inclusive));
        }
    }

    /// Leaves those that start with this value.
    pub fn restrict_to_prefix(&mut self, prefix: Value) {
        let behind = successor(&prefix);
        self.restrict(Comparison::GreaterOrEqual, prefix);
        if let Some(behind) = behind {
            self.restrict(Comparison::Less, behind);
        }
    }
}

/// Returns the first value behind all that start with `prefix`, if there is one.
fn successor(prefix: &Value) -> Option<Value> {
    match prefix {
        Value::String(prefix) => {
            let mut rest = prefix.clone();
            while let Some(last) = rest.pop() {
                // The surrogates between these two are no characters.
                let next = if last == '\u{d7ff}' {
                    Some('\u{e000}')
                } else {
                    char::from_u32(u32::from(last) + 1)
                };
                if let Some(next) = next {
                    rest.push(next);
                    return Some(Value::String(rest));
                }
            }
            None
        }
        Value::Bytes(prefix) => {
            let mut rest = prefix.clone();
            while let Some(last) = rest.pop() {
                if let Some(next) = last.checked_add(1) {
                    rest.push(next);
                    return Some(Value::Bytes(rest));
                }
            }
            None
        }
        _ => None,
    }
}
