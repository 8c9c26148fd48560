//! The parameters of a statement.

use super::wire::decode;
use crate::engine::{Timestamp, Type, Value};

/// A value for `@name`.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// A value of a type that the sender gave.
    Typed(Type, Value),
    /// A value whose type follows from where it stands.
    Untyped(prost_types::Value),
}

/// The parameters of a statement, with their names in lower case. Names are the same in any case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Vec<(String, Parameter)>);

impl Parameters {
    /// Returns the parameter of this name, and its place.
    pub(super) fn find(&self, name: &str) -> Option<(usize, &Parameter)> {
        // Of two whose names differ in case alone, the last one counts.
        let place = self.0.iter().rposition(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some((place, &self.0[place].1))
    }

    /// Returns the values that a statement is given: the time, and parameters, each read as a type.
    /// `None` if one cannot be.
    pub(super) fn given(&self, now: Timestamp, readings: &[Reading]) -> Option<Vec<Value>> {
        let value = |reading: &Reading| {
            Some(match &self.0.get(reading.place)?.1 {
                Parameter::Typed(_, value) => value.clone(),
                Parameter::Untyped(sent) => decode(sent, reading.value_type).ok()?,
            })
        };
        let now = std::iter::once(Some(Value::Timestamp(now)));
        now.chain(readings.iter().map(value)).collect()
    }

    /// Returns the names, and what a plan for any values depends on of the values.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.0.iter().map(|(name, parameter)| match parameter {
            Parameter::Typed(value_type, _) => (&**name, Kind::Typed(*value_type)),
            Parameter::Untyped(_) => (&**name, Kind::Untyped),
        })
    }
}

/// The part of a parameter that is known before its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The type that the sender gave.
    Typed(Type),
    /// None: its use decides.
    Untyped,
}

/// A parameter as a statement reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// Its place among the parameters.
    pub place: usize,
    /// The type of the value.
    pub value_type: Type,
}

impl<N: Into<String>> FromIterator<(N, Parameter)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (N, Parameter)>>(named: I) -> Parameters {
        let lower = |(name, parameter): (N, Parameter)| {
            let mut name: String = name.into();
            name.make_ascii_lowercase();
            (name, parameter)
        };
        Parameters(named.into_iter().map(lower).collect())
    }
}
