//! The parameters of a statement.

use std::collections::BTreeMap;

use crate::engine::{Type, Value};

/// A value for `@name`.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// A value of a type that the sender gave.
    Typed(Type, Value),
    /// A value whose type follows from where it stands.
    Untyped(Untyped),
}

/// A value as JSON knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Untyped {
    /// `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// A number: a FLOAT64.
    Number(f64),
    /// A string, which is also how INT64, NUMERIC, BYTES, DATE, TIMESTAMP and JSON travel.
    Text(String),
    /// A list: an array.
    List(Vec<Untyped>),
}

impl Untyped {
    /// Returns its value where nothing says which type it should have.
    pub fn guess(&self) -> Value {
        match self {
            Untyped::Null => Value::Null,
            Untyped::Bool(value) => Value::Bool(*value),
            Untyped::Number(value) => Value::Float64(*value),
            Untyped::Text(text) => Value::String(text.clone()),
            Untyped::List(contents) => {
                let values: Vec<Value> = contents.iter().map(Untyped::guess).collect();
                let mut types = values.iter().filter_map(Value::value_type);
                match types.next().and_then(Type::array) {
                    Some(Type::Array(element)) => Value::Array { element, values },
                    _ => Value::Array { element: &Type::Int64, values },
                }
            }
        }
    }
}

/// The parameters of a statement, by name. Names are the same in any case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    by_name: BTreeMap<String, Parameter>,
}

impl Parameters {
    /// Returns the parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.by_name.get(&name.to_ascii_lowercase())
    }
}

impl<N: Into<String>> FromIterator<(N, Parameter)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (N, Parameter)>>(named: I) -> Parameters {
        let lower = |(name, parameter): (N, Parameter)| {
            let mut name: String = name.into();
            name.make_ascii_lowercase();
            (name, parameter)
        };
        Parameters { by_name: named.into_iter().map(lower).collect() }
    }
}
