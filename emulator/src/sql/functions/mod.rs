//! Every function and operator that is called by name: its signatures and its code, in one table.

pub mod array;
pub mod date;
pub mod fold;
mod like;
pub mod number;
mod table;
pub mod text;
pub mod timestamp;

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::error::{Result, SqlError};
use crate::engine::{Code as StatusCode, Type, Value};
use fold::Fold;
use table::TABLE;

/// A function or an operator.
pub struct Function {
    /// The name in upper case; an operator's symbol.
    pub name: &'static str,
    /// What it takes and what it gives, as `STRING, [INT64] -> STRING; BYTES, [INT64] -> BYTES`.
    ///
    /// `[INT64]` may be left out, `STRING...` may be repeated or left out, `T` is any type and the
    /// same everywhere, `T=` one whose values are comparable, `PART` the name of a date part, and
    /// `INTERVAL` an amount of it. `others` says that GoogleSQL has more forms than these.
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
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// What it gives.
    pub result: Shape,
}

/// What a signature takes at one place.
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
    /// What is taken at this place of `count` arguments, if the signature takes so many.
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

    fn parse(form: &str) -> Option<Signature> {
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
            result: Shape::parse(result.trim())?,
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

/// A function with its signatures read.
pub struct Known {
    /// As the table has it.
    pub function: &'static Function,
    /// Its forms, in order of preference.
    pub signatures: Vec<Signature>,
    /// Whether GoogleSQL has more of them.
    pub has_others: bool,
}

const OTHERS: &str = "; others";

static KNOWN: LazyLock<HashMap<&'static str, Known>> = LazyLock::new(|| {
    let known = |function: &'static Function| {
        let forms = function.forms.split(';');
        let signatures = forms.filter_map(Signature::parse).collect();
        let has_others = function.forms.ends_with(OTHERS);
        (function.name, Known { function, signatures, has_others })
    };
    TABLE.iter().map(known).collect()
});

/// The function or operator of this name, which is in upper case.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.get(name)
}

/// Every function and operator, in the order of the table.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    TABLE.iter()
}

/// A call with values that the signatures don't let through.
fn misbound(name: &str) -> SqlError {
    SqlError::unplaced(StatusCode::Internal, format!("{name} was bound to values of other types"))
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
            Some(Value::Array { values, .. }) => values.len(),
            _ => 0,
        };
        let (first, second) = (length(arguments.first()), length(arguments.get(1)));
        let steps = match self.name {
            // Each place of the one may be compared with each of the other.
            "LIKE" | "TRIM" | "LTRIM" | "RTRIM" | "STRPOS" | "REPLACE" => {
                first.saturating_mul(second)
            }
            _ => first.saturating_add(second),
        };
        steps as u64 / 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called() -> Vec<&'static str> {
        let names = functions().map(|function| function.name);
        names.filter(|name| name.starts_with(char::is_alphabetic) && *name != "LIKE").collect()
    }

    #[test]
    fn the_readme_and_the_fuzzers_know_every_function() {
        let read = |path: &str| {
            let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let listed = format!("| functions | {} |", called().join(", "));
        assert!(read("README.md").contains(&listed), "README.md should say: {listed}");
        let dictionary = read("fuzz/googlesql.dict");
        for name in called() {
            assert!(dictionary.contains(&format!("\"{name}")), "googlesql.dict misses {name}");
        }
    }

    #[test]
    fn every_form_of_the_table_is_one() {
        for function in functions() {
            let known = known(function.name).expect("the table makes the map");
            let forms = function.forms.trim_end_matches(OTHERS).split(';').count();
            assert_eq!(known.signatures.len(), forms, "{}: {}", function.name, function.forms);
        }
        assert_eq!(KNOWN.len(), TABLE.len(), "two functions have one name");
    }
}
