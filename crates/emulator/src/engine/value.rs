//! The values a cell can hold, and the keys that order rows.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::fmt;
use std::mem;

pub use super::civil::{Date, Timestamp};
use super::json::Json;
use super::numeric::Numeric;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// `BOOL`
    Bool,
    /// `INT64`
    Int64,
    /// `FLOAT64`
    Float64,
    /// `STRING`
    String,
    /// `BYTES`
    Bytes,
    /// `DATE`
    Date,
    /// `TIMESTAMP`
    Timestamp,
    /// `NUMERIC`
    Numeric,
    /// `JSON`
    Json,
    /// `ARRAY<…>` of one of the types above.
    Array(&'static Type),
}

/// Every type that can be an element of an array.
static SCALARS: [Type; 9] = [
    Type::Bool,
    Type::Int64,
    Type::Float64,
    Type::String,
    Type::Bytes,
    Type::Date,
    Type::Timestamp,
    Type::Numeric,
    Type::Json,
];

impl Type {
    /// Returns every type but the arrays, for tests and exhaustive searches.
    pub fn scalars() -> impl Iterator<Item = Type> {
        SCALARS.iter().copied()
    }

    /// Returns the arrays of this type; `None` for arrays, since there are no arrays of arrays.
    pub fn array(self) -> Option<Type> {
        SCALARS.iter().find(|scalar| **scalar == self).map(Type::Array)
    }

    /// Returns the type of an array's elements; `None` for what is no array.
    pub fn element(self) -> Option<Type> {
        match self {
            Type::Array(element) => Some(*element),
            _ => None,
        }
    }

    /// Returns true if two values can be compared, and rows ordered by them.
    pub fn is_comparable(self) -> bool {
        !matches!(self, Type::Json | Type::Array(_))
    }

    /// Returns the name in DDL and in error messages: `INT64`.
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "BOOL",
            Type::Int64 => "INT64",
            Type::Float64 => "FLOAT64",
            Type::String => "STRING",
            Type::Bytes => "BYTES",
            Type::Date => "DATE",
            Type::Timestamp => "TIMESTAMP",
            Type::Numeric => "NUMERIC",
            Type::Json => "JSON",
            Type::Array(Type::Bool) => "ARRAY<BOOL>",
            Type::Array(Type::Int64) => "ARRAY<INT64>",
            Type::Array(Type::Float64) => "ARRAY<FLOAT64>",
            Type::Array(Type::String) => "ARRAY<STRING>",
            Type::Array(Type::Bytes) => "ARRAY<BYTES>",
            Type::Array(Type::Date) => "ARRAY<DATE>",
            Type::Array(Type::Timestamp) => "ARRAY<TIMESTAMP>",
            Type::Array(Type::Numeric) => "ARRAY<NUMERIC>",
            Type::Array(Type::Json) => "ARRAY<JSON>",
            Type::Array(Type::Array(_)) => "ARRAY<ARRAY>",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One cell's content, or the result of an expression.
///
/// `==` and the order are those of keys and of `ORDER BY`: total, NULL first, and among FLOAT64
/// NaN before every number, -0 equal to 0. SQL's `=`, which is NULL for a NULL and false for a NaN,
/// is something else. Values of different types compare by type.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// A `BOOL`.
    Bool(bool),
    /// An `INT64`.
    Int64(i64),
    /// A `FLOAT64`.
    Float64(f64),
    /// A `STRING`.
    String(String),
    /// A `BYTES`.
    Bytes(Vec<u8>),
    /// A `DATE`.
    Date(Date),
    /// A `TIMESTAMP`.
    Timestamp(Timestamp),
    /// A `NUMERIC`.
    Numeric(Numeric),
    /// A `JSON`.
    Json(Json),
    /// An `ARRAY`.
    Array {
        /// The type of its elements.
        element: &'static Type,
        /// The elements; NULL may be among them.
        values: Vec<Value>,
    },
}

impl Value {
    /// Returns the type, or `None` for NULL, which belongs to all of them.
    pub fn value_type(&self) -> Option<Type> {
        match self {
            Value::Null => None,
            Value::Bool(_) => Some(Type::Bool),
            Value::Int64(_) => Some(Type::Int64),
            Value::Float64(_) => Some(Type::Float64),
            Value::String(_) => Some(Type::String),
            Value::Bytes(_) => Some(Type::Bytes),
            Value::Date(_) => Some(Type::Date),
            Value::Timestamp(_) => Some(Type::Timestamp),
            Value::Numeric(_) => Some(Type::Numeric),
            Value::Json(_) => Some(Type::Json),
            Value::Array { element, .. } => Some(Type::Array(element)),
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Value::Null | Value::Bool(_) => 1,
            Value::Int64(_) | Value::Float64(_) | Value::Date(_) => 8,
            Value::Timestamp(_) => 12,
            Value::Numeric(_) => 22,
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Json(json) => json.as_str().len(),
            Value::Array { values, .. } => values.iter().map(Value::size).sum(),
        }
    }

    /// Returns true if this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Int64(left), Value::Int64(right)) => left.cmp(right),
            (Value::Float64(left), Value::Float64(right)) => compare_floats(*left, *right),
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            (Value::Date(left), Value::Date(right)) => left.cmp(right),
            (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
            (Value::Numeric(left), Value::Numeric(right)) => left.cmp(right),
            (Value::Json(left), Value::Json(right)) => left.cmp(right),
            (
                Value::Array { element: left_element, values: left },
                Value::Array { element: right_element, values: right },
            ) if left_element == right_element => left.cmp(right),
            // `None`, the type of NULL, sorts before every type.
            (left, right) => left.value_type().cmp(&right.value_type()),
        }
    }
}

fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int64(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float64(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::String(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::String(value)
    }
}

impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Value {
        Value::Timestamp(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// As error messages show it: `Int64(1)`, `String("a")`, `NULL`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(value) => write!(f, "Bool({value})"),
            Value::Int64(value) => write!(f, "Int64({value})"),
            Value::Float64(value) => write!(f, "Float64({value})"),
            Value::String(value) => write!(f, "String({value:?})"),
            Value::Bytes(value) => write!(f, "Bytes(\"{}\")", value.escape_ascii()),
            Value::Date(value) => write!(f, "Date({value})"),
            Value::Timestamp(value) => write!(f, "Timestamp({value})"),
            Value::Numeric(value) => write!(f, "Numeric({value})"),
            Value::Json(value) => write!(f, "Json({value})"),
            Value::Array { values, .. } => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                write!(f, "Array[{}]", values.join(", "))
            }
        }
    }
}

/// One part of a [`Key`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPart {
    /// The value of a column that the primary key lists as ascending.
    Ascending(Value),
    /// The value of a column that the primary key lists as `DESC`.
    Descending(Reverse<Value>),
    /// After every value: no row has it, but the ends of ranges do.
    End,
}

/// A row's place in its table, or the place between two rows where a range ends.
///
/// Keys order as the table does. [`super::Table::key`] makes one from values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub Vec<KeyPart>);

impl Key {
    /// Returns the place right after every key that starts with this one.
    pub fn after(mut self) -> Key {
        self.0.push(KeyPart::End);
        self
    }

    /// Returns the values of the parts, in the order of the primary key.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().filter_map(|part| match part {
            KeyPart::Ascending(value) | KeyPart::Descending(Reverse(value)) => Some(value),
            KeyPart::End => None,
        })
    }
}

/// As error messages show it: `{Int64(1), String("a")}`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, value) in self.values().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{value}")?;
        }
        f.write_str("}")
    }
}

/// The keys from `start` (inclusive) to `end` (exclusive).
///
/// A prefix of a key stands before all keys that start with it, and `prefix.after()` behind them.
/// So every range Spanner knows can be said in this form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// The first place in the range.
    pub start: Key,
    /// The first place behind the range.
    pub end: Key,
}

impl KeyRange {
    /// Returns every key of a table.
    pub fn all() -> KeyRange {
        KeyRange::prefix(Key::default())
    }

    /// Returns every key that starts with `prefix`; for a whole key, just this one.
    pub fn prefix(prefix: Key) -> KeyRange {
        KeyRange { start: prefix.clone(), end: prefix.after() }
    }

    /// Returns the same ranges, in order and apart from each other.
    pub fn merged(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
        ranges.retain(|range| !range.is_empty());
        ranges.sort();
        ranges.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            if overlaps && next.end > last.end {
                mem::swap(&mut last.end, &mut next.end);
            }
            overlaps
        });
        ranges
    }

    /// Returns the entries of a map in the range, in order.
    pub(super) fn of<'a, V>(
        &'a self,
        map: &'a BTreeMap<Key, V>,
    ) -> impl Iterator<Item = (&'a Key, &'a V)> {
        map.range(&self.start..).take_while(|(key, _)| **key < self.end)
    }

    /// Returns true if no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Returns true if `key` is in the range.
    pub fn contains(&self, key: &Key) -> bool {
        &self.start <= key && key < &self.end
    }

    /// Returns true if some key can be in both ranges.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}
