//! Types: what an expression has, and what it can be taken for.

use std::cell::RefCell;
use std::rc::Rc;

use crate::engine::{Code, Date, Json, Numeric, Type, Value};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::eval::cast;
use crate::sql::params::Reading;
use crate::sql::plan::Node;
use crate::sql::time;
use crate::sql::wire::decode;

/// An expression with its type.
#[derive(Clone, Debug)]
pub struct Typed {
    /// How to compute it.
    pub node: Node,
    /// Its type; `None` for a NULL and for a parameter that could have any.
    pub value_type: Option<Type>,
    /// The origin, which decides the other types it can be taken for.
    pub origin: Origin,
    /// Where it stands.
    pub at: Pos,
}

/// Where an expression comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// It is computed; its type is what it is.
    Computed,
    /// It is a literal.
    Literal,
    /// It is a FLOAT64 literal, written like this. As a NUMERIC, it has all its digits.
    Float(String),
    /// It is a parameter that was sent with a type.
    Parameter,
    /// It is a parameter that was sent without one.
    Untyped(Inferred),
}

/// A parameter without a type. Its use decides which it has, and its value never does.
#[derive(Clone, Debug)]
pub struct Inferred {
    /// Its name.
    pub name: String,
    /// Its place among the parameters.
    pub place: usize,
    /// Its value.
    pub sent: prost_types::Value,
    /// The same in a plan for any values.
    pub given: Option<Given>,
    /// The types that such parameters of the statement were taken for, by place.
    pub types: Rc<RefCell<Vec<(usize, Type)>>>,
}

impl Inferred {
    /// Returns the parameter as a value of this type.
    ///
    /// # Errors
    /// Another use takes it for another type, or the value is none of this one.
    fn read_as(&self, target: Type, at: Pos) -> Result<Node> {
        let mut types = self.types.borrow_mut();
        let known = types.iter().find(|(place, _)| *place == self.place).map(|(_, known)| *known);
        let known = known.unwrap_or_else(|| {
            types.push((self.place, target));
            target
        });
        if known != target {
            let name = &self.name;
            let message = format!(
                "Undeclared parameter '{name}' is used assuming different types ({target} vs \
                 {known})"
            );
            return Err(SqlError::invalid(at, message));
        }
        match &self.given {
            // How many elements there are says which keys to read.
            Some(_) if matches!(target, Type::Array(_)) => Err(SqlError::value_needed(at)),
            Some(given) => Ok(given.read_as(target)),
            None => decode(&self.sent, target)
                .map(Node::Constant)
                .map_err(|message| SqlError::invalid(at, message)),
        }
    }
}

/// A parameter in a plan for any values.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its place among the parameters.
    pub place: usize,
    /// The values that the statement is given, behind the time.
    pub readings: Rc<RefCell<Vec<Reading>>>,
}

impl Given {
    /// Returns the parameter as a value of this type.
    pub fn read_as(&self, value_type: Type) -> Node {
        let mut readings = self.readings.borrow_mut();
        let reading = Reading { place: self.place, value_type };
        let known = readings.iter().position(|known| *known == reading);
        Node::Given(
            1 + known.unwrap_or_else(|| {
                readings.push(reading);
                readings.len() - 1
            }),
        )
    }
}

impl Typed {
    /// Something computed.
    pub fn computed(at: Pos, value_type: Type, node: Node) -> Typed {
        Typed { node, value_type: Some(value_type), origin: Origin::Computed, at }
    }

    /// Returns a constant.
    pub fn constant(at: Pos, value: Value, origin: Origin) -> Typed {
        Typed { value_type: value.value_type(), node: Node::Constant(value), origin, at }
    }

    /// Returns the type, as messages name it.
    pub fn type_name(&self) -> &'static str {
        match (self.value_type, &self.origin) {
            (Some(value_type), _) => value_type.name(),
            (None, Origin::Untyped(_)) => Type::Int64.name(),
            (None, _) => "NULL",
        }
    }

    /// Returns true if it can be taken for a `target`.
    ///
    /// # Errors
    /// It is a constant of the right kind whose content is no such value.
    pub fn fits(&self, target: Type) -> Result<bool> {
        match (self.value_type, target, &self.origin, &self.node) {
            (None, ..) => Ok(true),
            (Some(own), target, ..) if own == target => Ok(true),
            (Some(Type::Int64), Type::Float64 | Type::Numeric, ..)
            | (Some(Type::Numeric), Type::Float64, ..) => Ok(true),
            // A number too large for a NUMERIC is refused rather than taken for something else.
            (Some(Type::Float64), Type::Numeric, Origin::Float(_), _) => Ok(true),
            (Some(Type::Array(_)), Type::Array(_), Origin::Literal, node) => {
                // An array without elements has them of any type.
                Ok(matches!(node, Node::Constant(Value::Array { values, .. }) if values.is_empty()))
            }
            (
                Some(Type::String),
                Type::Date | Type::Timestamp,
                Origin::Literal | Origin::Parameter,
                Node::Constant(constant),
            ) => {
                if let Value::String(text) = constant {
                    parse(text, target, self.at)?;
                }
                Ok(true)
            }
            (
                Some(Type::String),
                Type::Date | Type::Timestamp,
                Origin::Parameter,
                Node::Given(_),
            ) => Err(SqlError::value_needed(self.at)),
            _ => Ok(false),
        }
    }

    /// This expression as one of type `target`, if it can be taken for one.
    ///
    /// # Errors
    /// It is a constant of the right kind whose content is no such value.
    pub fn coerced(self, target: Type) -> Result<Option<Typed>> {
        if !self.fits(target)? {
            return Ok(None);
        }
        let at = self.at;
        let value_type = Some(target);
        if let Origin::Untyped(inferred) = &self.origin {
            let node = inferred.read_as(target, at)?;
            return Ok(Some(Typed { node, value_type, origin: Origin::Parameter, at }));
        }
        if self.value_type.is_none_or(|own| own == target) {
            return Ok(Some(Typed { value_type, ..self }));
        }
        if let Type::Array(element) = target {
            let node = Node::Constant(Value::Array { element, values: Vec::new() });
            return Ok(Some(Typed { node, value_type, ..self }));
        }
        if let (Type::Numeric, Origin::Float(written)) = (target, &self.origin) {
            let number = Numeric::parse(written).map(Value::Numeric).ok_or_else(|| {
                let message = format!("Invalid NUMERIC value: {written}");
                SqlError::new(Code::OutOfRange, at, message)
            })?;
            return Ok(Some(Typed { value_type, ..Typed::constant(at, number, Origin::Literal) }));
        }
        let node = match self.node {
            Node::Constant(Value::Null) => Node::Constant(Value::Null),
            Node::Constant(Value::String(text)) => Node::Constant(parse(&text, target, at)?),
            Node::Constant(value) => Node::Constant(cast::cast(value, target)?),
            other => Node::Cast { operand: Box::new(other), target, safe: false },
        };
        Ok(Some(Typed { node, value_type, origin: self.origin, at }))
    }

    /// This expression with a type where nothing decides on one: a parameter is an INT64 there.
    ///
    /// # Errors
    /// Its value is none.
    pub fn decided(self) -> Result<Typed> {
        match self.origin {
            Origin::Untyped(inferred) => {
                let node = inferred.read_as(Type::Int64, self.at)?;
                let value_type = Some(Type::Int64);
                Ok(Typed { node, value_type, origin: Origin::Parameter, at: self.at })
            }
            _ => Ok(self),
        }
    }

    /// Returns true if it is a literal, or has any type that is asked of it.
    pub fn is_literal(&self) -> bool {
        matches!(self.origin, Origin::Literal | Origin::Float(_)) || self.value_type.is_none()
    }

    /// How much its type counts when several expressions need one type.
    fn rank(&self) -> usize {
        match self.origin {
            Origin::Computed => 0,
            Origin::Parameter => 1,
            Origin::Literal | Origin::Float(_) => 2,
            Origin::Untyped(_) => 3,
        }
    }
}

/// Returns the types of these expressions, as messages name them.
pub fn type_names(all: &[Typed]) -> String {
    all.iter().map(Typed::type_name).collect::<Vec<_>>().join(", ")
}

/// These expressions as ones of the type that all of them can have. That type is `None` if all are
/// NULL. The result is `None` if there is no such type.
pub fn unified(all: Vec<Typed>) -> Result<Option<(Vec<Node>, Option<Type>)>> {
    let is_parameter = |typed: &Typed| matches!(typed.origin, Origin::Untyped(_));
    match common_type(&all)? {
        None => Ok(None),
        Some(None) if !all.iter().any(is_parameter) => {
            Ok(Some((all.into_iter().map(|typed| typed.node).collect(), None)))
        }
        Some(found) => {
            let found = found.unwrap_or(Type::Int64);
            Ok(coerced_all(all, found)?.map(|nodes| (nodes, Some(found))))
        }
    }
}

/// Returns the type that all of these can have, which is `None` if they can have any; `None` if
/// there is no such type.
pub fn common_type(all: &[Typed]) -> Result<Option<Option<Type>>> {
    let mut candidates: Vec<(usize, Type)> = Vec::new();
    for typed in all {
        if let Some(value_type) = typed.value_type {
            let rank = typed.rank();
            match candidates.iter_mut().find(|(_, known)| *known == value_type) {
                Some((known_rank, _)) => *known_rank = rank.min(*known_rank),
                None => candidates.push((rank, value_type)),
            }
        }
    }
    if candidates.is_empty() {
        return Ok(Some(None));
    }
    // Of numbers, the narrowest comes first.
    candidates.sort_by_key(|(rank, value_type)| (*rank, *value_type == Type::Float64));
    for (_, candidate) in candidates {
        let fitting: Result<Vec<bool>> = all.iter().map(|typed| typed.fits(candidate)).collect();
        if fitting?.into_iter().all(|fits| fits) {
            return Ok(Some(Some(candidate)));
        }
    }
    Ok(None)
}

/// These expressions as ones of type `target`, if all can be taken for one.
pub fn coerced_all(all: Vec<Typed>, target: Type) -> Result<Option<Vec<Node>>> {
    let coerced: Result<Option<Vec<Typed>>> =
        all.into_iter().map(|typed| typed.coerced(target)).collect();
    Ok(coerced?.map(|all| all.into_iter().map(|typed| typed.node).collect()))
}

/// Returns the text of a literal, as a value of its type.
pub fn parse(text: &str, target: Type, at: Pos) -> Result<Value> {
    match target {
        Type::Timestamp => time::timestamp(text, at).map(Value::Timestamp),
        Type::Numeric => Numeric::parse_exact(text)
            .map(Value::Numeric)
            .ok_or_else(|| SqlError::invalid(at, format!("Invalid NUMERIC literal: {text:?}"))),
        Type::Json => Json::parse(text)
            .map(Value::Json)
            .map_err(|reason| SqlError::invalid(at, format!("Invalid JSON literal: {reason}"))),
        _ => Date::parse(text)
            .map(Value::Date)
            .ok_or_else(|| SqlError::invalid(at, format!("Invalid DATE literal: {text:?}"))),
    }
}
