//! Calls of functions.

use super::Binder;
use super::aggregate::AggregateCall;
use super::operands::{no_signature, not_comparable};
use super::typed::{Origin, Typed, common_type, type_names};
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::functions::{self, Code, Known, Shape, Signature, timestamp};
use crate::sql::plan::Node;

/// The function that is the time, and may be called without parentheses.
pub(super) const CURRENT_TIMESTAMP: &str = "CURRENT_TIMESTAMP";

/// The function whose value only the commit knows.
pub(super) const PENDING_COMMIT_TIMESTAMP: &str = "PENDING_COMMIT_TIMESTAMP";

impl Binder<'_> {
    /// Binds a call of a function by its name.
    pub(super) fn call(
        &mut self,
        function: &str,
        arguments: &[Expr],
        distinct: bool,
        at: Pos,
    ) -> Result<Typed> {
        let name = function.to_ascii_uppercase();
        let named = name.starts_with(|first: char| first.is_ascii_alphabetic()) && name != "LIKE";
        let known = functions::known(&name).filter(|_| named);
        let known = known.ok_or_else(|| self.unknown(function, at))?;
        let name = known.function.name;
        if let Code::Aggregate(fold) = known.function.code {
            let call = AggregateCall { name, fold, arguments, distinct, at };
            return self.aggregated(&call);
        }
        if distinct {
            let message = format!("Function {name} cannot be called with DISTINCT");
            return Err(SqlError::invalid(at, message));
        }
        match known.function.code {
            Code::PendingCommitTimestamp if arguments.is_empty() => Err(SqlError::invalid(
                at,
                "The PENDING_COMMIT_TIMESTAMP() function may only be used as a value for INSERT or \
                 UPDATE of an appropriately typed column",
            )),
            _ => {
                let arguments = self.arguments(known, arguments)?;
                self.applied(known, arguments, at)
            }
        }
    }

    /// Returns the error for a function that GoogleSQL has and that is absent here, or that nobody
    /// has.
    pub(super) fn unknown(&self, function: &str, at: Pos) -> SqlError {
        match functions::is_absent(&function.to_ascii_uppercase()) {
            true => SqlError::unsupported(at, format_args!("the function {function}")),
            false => SqlError::invalid(at, format!("Function not found: {function}")),
        }
    }

    /// Binds the arguments of a call. A date part is a text, and an interval an amount and a part.
    fn arguments(&mut self, known: &Known, arguments: &[Expr]) -> Result<Vec<Typed>> {
        let shapes = known.signatures.iter().find_map(|known| known.shapes(arguments.len()));
        let mut bound = Vec::with_capacity(arguments.len() + 1);
        for (place, argument) in arguments.iter().enumerate() {
            let shape = shapes.as_ref().and_then(|shapes| shapes.get(place));
            match (shape, &argument.kind) {
                (Some(Shape::Part), ExprKind::Column { table: None, name }) => {
                    bound.push(part(known, name, argument.at)?);
                }
                (Some(Shape::Part), _) => {
                    let message = "A valid date part name is required";
                    return Err(SqlError::invalid(argument.at, message));
                }
                (Some(Shape::Interval), ExprKind::Interval { amount, unit }) => {
                    bound.push(self.expr(amount)?);
                    bound.push(part(known, &unit.text, unit.at)?);
                }
                (Some(Shape::Interval), _) => {
                    let name = known.function.name;
                    let message = format!("{name} expects an INTERVAL as its second argument");
                    return Err(SqlError::invalid(argument.at, message));
                }
                _ => bound.push(self.expr(argument)?),
            }
        }
        Ok(bound)
    }

    /// Returns a call of this function or operator with these arguments.
    pub(super) fn applied(
        &mut self,
        known: &'static Known,
        arguments: Vec<Typed>,
        at: Pos,
    ) -> Result<Typed> {
        let (nodes, value_type) = self.matched(known, arguments, at)?;
        let node = match known.function.code {
            Code::Now => match self.now {
                Some(now) => Node::Constant(Value::Timestamp(now)),
                None => Node::Given(0),
            },
            Code::Coalesce => Node::Coalesce(nodes),
            Code::NullIf => Node::NullIf(Box::new(super::operands::pair(nodes))),
            Code::If => {
                let mut nodes = nodes.into_iter();
                let mut next = || nodes.next().unwrap_or(Node::Constant(Value::Null));
                let branches = vec![(next(), next())];
                Node::Case { branches, otherwise: Box::new(next()) }
            }
            _ => Node::Apply(known.function, nodes),
        };
        Ok(Typed { node, value_type: Some(value_type), origin: Origin::Computed, at })
    }

    /// Returns the arguments as the signature takes them that fits them best, and what it gives.
    pub(super) fn matched(
        &self,
        known: &Known,
        arguments: Vec<Typed>,
        at: Pos,
    ) -> Result<(Vec<Node>, Type)> {
        let name = known.function.name;
        let mut best: Option<(Cost, &Signature, Vec<Type>, Option<Type>)> = None;
        let mut incomparable = None;
        for signature in &known.signatures {
            let Some(shapes) = signature.shapes_of(arguments.len()) else { continue };
            let any = match any_type(&shapes, &arguments)? {
                AnyType::Unused => None,
                AnyType::Is(any) => Some(any),
                AnyType::None => continue,
            };
            if let Some(any) = any
                && shapes.contains(&Shape::Comparable)
                && !any.is_comparable()
            {
                incomparable = Some(any);
                continue;
            }
            let types = shapes.iter().map(|shape| shape.stands_for(any));
            let Some(types) = types.collect::<Option<Vec<Type>>>() else { continue };
            if let Some(cost) = cost(&arguments, &types)?
                && best.as_ref().is_none_or(|(least, ..)| cost < *least)
            {
                best = Some((cost, signature, types, any));
            }
        }
        let found = type_names(&arguments);
        let Some((_, signature, types, any)) = best else {
            return Err(match incomparable {
                Some(value_type) => not_comparable(name, value_type, at),
                None => no_signature(name, &found, at),
            });
        };
        let Some(result) = signature.result else {
            return Err(SqlError::unsupported(at, format_args!("{name} of arguments {found}")));
        };
        let result = result.stands_for(any).unwrap_or(Type::Int64);
        let mut nodes = Vec::with_capacity(types.len());
        for (argument, target) in arguments.into_iter().zip(types) {
            let coerced = argument.coerced(target)?;
            nodes.push(coerced.ok_or_else(|| no_signature(name, &found, at))?.node);
        }
        Ok((nodes, result))
    }
}

/// How far arguments are from what a signature takes: how many of them become another type that are
/// no literals, and how many that are.
type Cost = (usize, usize);

fn cost(arguments: &[Typed], types: &[Type]) -> Result<Option<Cost>> {
    let mut cost = (0, 0);
    for (argument, target) in arguments.iter().zip(types) {
        if !argument.fits(*target)? {
            return Ok(None);
        }
        match argument.value_type {
            None => {}
            Some(own) if own == *target => {}
            Some(_) if argument.is_literal() => cost.1 += 1,
            Some(_) => cost.0 += 1,
        }
    }
    Ok(Some(cost))
}

/// The type that `T` stands for.
enum AnyType {
    Unused,
    Is(Type),
    None,
}

fn any_type(shapes: &[Shape], arguments: &[Typed]) -> Result<AnyType> {
    let places = |wanted: &[Shape]| -> Vec<Typed> {
        let pairs = shapes.iter().zip(arguments);
        pairs.filter(|(shape, _)| wanted.contains(shape)).map(|(_, typed)| typed.clone()).collect()
    };
    let arrays = places(&[Shape::ArrayOfAny]);
    if !arrays.is_empty() {
        return Ok(match common_type(&arrays)? {
            Some(None) => AnyType::Is(Type::Int64),
            Some(Some(Type::Array(element))) => AnyType::Is(*element),
            _ => AnyType::None,
        });
    }
    let values = places(&[Shape::Any, Shape::Comparable]);
    if values.is_empty() {
        return Ok(AnyType::Unused);
    }
    Ok(match common_type(&values)? {
        Some(value_type) => AnyType::Is(value_type.unwrap_or(Type::Int64)),
        None => AnyType::None,
    })
}

impl Signature {
    /// As [`Signature::shapes`], with an interval as the two arguments that it is bound to.
    fn shapes_of(&self, count: usize) -> Option<Vec<Shape>> {
        let interval =
            self.parameters.iter().position(|parameter| parameter.shape == Shape::Interval);
        let Some(place) = interval else { return self.shapes(count) };
        let mut shapes = self.shapes(count.checked_sub(1)?)?;
        shapes[place] = Shape::Exactly(Type::Int64);
        shapes.insert(place + 1, Shape::Part);
        Some(shapes)
    }
}

impl Shape {
    /// Returns the type that a shape takes, where `T` is `any` and the argument's type is `own`.
    fn stands_for(self, any: Option<Type>) -> Option<Type> {
        match self {
            Shape::Exactly(known) => Some(known),
            Shape::Any | Shape::Comparable => any,
            Shape::ArrayOfAny => any?.array(),
            Shape::Part | Shape::Interval => Some(Type::String),
        }
    }
}

fn part(known: &Known, name: &str, at: Pos) -> Result<Typed> {
    let function = known.function.name;
    let name = name.to_ascii_uppercase();
    match timestamp::PARTS.iter().any(|(known, _)| *known == name) {
        true => Ok(Typed::constant(at, Value::String(name), Origin::Computed)),
        false => {
            Err(SqlError::invalid(at, format!("{function} does not support the {name} date part")))
        }
    }
}
