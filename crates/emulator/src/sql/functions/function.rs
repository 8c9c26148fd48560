//! The parts of a function: its name, its signatures and its code.

use std::fmt;

use super::fold::Fold;
use crate::engine::{Type, Value};
use crate::sql::error::Result;

/// A function or an operator.
pub struct Function {
    /// The name in upper case; an operator's symbol.
    pub name: &'static str,
    /// Its arguments and results, as `STRING, [INT64] -> STRING; BYTES, [INT64] -> BYTES`.
    ///
    /// `[INT64]` may be left out, and `STRING...` may be repeated or left out. `T` is any type and
    /// the same everywhere, and `T=` one whose values are comparable. `PART` is the name of a date part,
    /// and `INTERVAL` an amount of it. A form with the result `?` is one of GoogleSQL's that is absent here.
    pub forms: &'static str,
    /// How it is computed.
    pub code: Code,
}

/// How a function is computed.
#[derive(Clone, Copy)]
pub enum Code {
    /// From values that are not NULL; of a NULL it makes NULL.
    Strict(fn(&[Value]) -> Result<Value>),
    /// From any values.
    Plain(fn(&[Value]) -> Result<Value>),
    /// The second argument if the first is TRUE, else the third.
    If,
    /// The first argument that is not NULL.
    Coalesce,
    /// NULL if both are equal, else the first.
    NullIf,
    /// The time of the statement.
    Now,
    /// The time of the commit.
    PendingCommitTimestamp,
    /// From a value of each row.
    Aggregate(Fold),
}

/// One of the forms of a function.
#[derive(Debug)]
pub struct Signature {
    /// Its arguments.
    pub parameters: Vec<Parameter>,
    /// Its result; `None` if the form is absent here.
    pub result: Option<Shape>,
}

/// An argument of a signature at one place.
#[derive(Debug)]
pub struct Parameter {
    /// The type.
    pub shape: Shape,
    /// How often it may come.
    pub count: Count,
}

/// How often an argument may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Once.
    One,
    /// Once or not at all.
    Optional,
    /// Any number of times.
    Any,
}

/// A type in a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// This type.
    Exactly(Type),
    /// Any type, the same everywhere in the signature.
    Any,
    /// As `Any`, of values that can be compared.
    Comparable,
    /// An array of the type that `Any` stands for.
    ArrayOfAny,
    /// The name of a date part.
    Part,
    /// `INTERVAL amount part`
    Interval,
}

impl Signature {
    /// Returns the shapes that are taken at this place of `count` arguments, if the signature takes
    /// so many.
    pub fn shapes(&self, count: usize) -> Option<Vec<Shape>> {
        let mut shapes = Vec::with_capacity(count);
        for parameter in &self.parameters {
            match parameter.count {
                Count::One => shapes.push(parameter.shape),
                Count::Optional if shapes.len() < count => shapes.push(parameter.shape),
                Count::Optional => {}
                Count::Any => shapes.resize(count.max(shapes.len()), parameter.shape),
            }
        }
        (shapes.len() == count).then_some(shapes)
    }

    /// Reads one form.
    pub fn parse(form: &str) -> Option<Signature> {
        let (parameters, result) = form.split_once("->")?;
        let parameters = parameters.split(", ").map(str::trim).filter(|text| !text.is_empty());
        let parameters = parameters.map(|text| {
            let (text, count) = match (text.strip_suffix("..."), text.strip_prefix('[')) {
                (Some(text), _) => (text, Count::Any),
                (None, Some(text)) => (text.strip_suffix(']')?, Count::Optional),
                (None, None) => (text, Count::One),
            };
            Some(Parameter { shape: Shape::parse(text)?, count })
        });
        Some(Signature {
            parameters: parameters.collect::<Option<_>>()?,
            result: Shape::parse(result.trim()),
        })
    }
}

impl Shape {
    fn parse(text: &str) -> Option<Shape> {
        let shape = match text {
            "T" => Shape::Any,
            "T=" => Shape::Comparable,
            "ARRAY<T>" => Shape::ArrayOfAny,
            "PART" => Shape::Part,
            "INTERVAL" => Shape::Interval,
            _ => {
                let name = text.strip_prefix("ARRAY<").and_then(|rest| rest.strip_suffix('>'));
                let scalar = Type::scalars().find(|known| known.name() == name.unwrap_or(text))?;
                Shape::Exactly(if name.is_some() { scalar.array()? } else { scalar })
            }
        };
        Some(shape)
    }
}

/// Two functions are the same if their names are.
impl PartialEq for &'static Function {
    fn eq(&self, other: &&'static Function) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Function {
    /// About how many steps a call takes beyond the one that every node counts for.
    pub fn cost(&self, arguments: &[Value]) -> u64 {
        let length = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.len(),
            Some(Value::Bytes(bytes)) => bytes.len(),
            Some(Value::Json(json)) => json.as_str().len(),
            Some(Value::Array { values, .. }) => values.len(),
            _ => 0,
        };
        let (first, second) = (length(arguments.first()), length(arguments.get(1)));
        let steps = match self.name {
            // Each place of the one may be compared with each of the other.
            "LIKE" => first.saturating_mul(second),
            _ => first.saturating_add(second),
        };
        steps as u64 / 32
    }
}
