//! Calls of functions on STRING and BYTES.

use super::Binder;
use super::expr::{maybe_not, no_signature};
use super::typed::{Typed, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::Expr;
use crate::sql::error::{Pos, Result};
use crate::sql::plan::{Function, Node};

/// The functions whose arguments are all STRING or all BYTES: the name, how many arguments they
/// have at least and at most, and what they are; `None` for what the arguments are.
const TEXT_FUNCTIONS: &[(&str, usize, usize, Function, Option<Type>)] = &[
    ("STARTS_WITH", 2, 2, Function::StartsWith, Some(Type::Bool)),
    ("ENDS_WITH", 2, 2, Function::EndsWith, Some(Type::Bool)),
    ("STRPOS", 2, 2, Function::Strpos, Some(Type::Int64)),
    ("LENGTH", 1, 1, Function::Length, Some(Type::Int64)),
    ("CHAR_LENGTH", 1, 1, Function::Length, Some(Type::Int64)),
    ("CHARACTER_LENGTH", 1, 1, Function::Length, Some(Type::Int64)),
    ("BYTE_LENGTH", 1, 1, Function::ByteLength, Some(Type::Int64)),
    ("OCTET_LENGTH", 1, 1, Function::ByteLength, Some(Type::Int64)),
    ("CONCAT", 1, usize::MAX, Function::Concat, None),
    ("LOWER", 1, 1, Function::Lower, None),
    ("LCASE", 1, 1, Function::Lower, None),
    ("UPPER", 1, 1, Function::Upper, None),
    ("UCASE", 1, 1, Function::Upper, None),
    ("REPLACE", 3, 3, Function::Replace, None),
    ("TRIM", 1, 2, Function::Trim { start: true, end: true }, None),
    ("LTRIM", 1, 2, Function::Trim { start: true, end: false }, None),
    ("RTRIM", 1, 2, Function::Trim { start: false, end: true }, None),
];

/// Whether [`Binder::text_function`] knows a function of this name, in upper case.
pub(super) fn is_text_function(name: &str) -> bool {
    TEXT_FUNCTIONS.iter().any(|(known, ..)| *known == name)
}

impl Binder<'_> {
    /// Binds a function whose arguments are all STRING or all BYTES.
    pub(super) fn text_function(
        &mut self,
        name: &str,
        arguments: &[Expr],
        at: Pos,
    ) -> Result<Typed> {
        let arguments = self.exprs(arguments)?;
        let found = type_names(&arguments);
        let refused = || no_signature(name, &found, at);
        let count = arguments.len();
        let known = TEXT_FUNCTIONS
            .iter()
            .find(|(known, least, most, ..)| *known == name && (*least..=*most).contains(&count));
        let Some((_, _, _, function, value_type)) = known else { return Err(refused()) };
        let (nodes, text_type) = match unified(arguments)? {
            Some((nodes, None)) => (nodes, Type::String),
            Some((nodes, Some(text_type @ (Type::String | Type::Bytes)))) => (nodes, text_type),
            _ => return Err(refused()),
        };
        let of_characters = matches!(name, "CHAR_LENGTH" | "CHARACTER_LENGTH");
        let needs_a_set = matches!(function, Function::Trim { .. }) && count == 1;
        if text_type == Type::Bytes && (of_characters || needs_a_set) {
            return Err(refused());
        }
        let node = Node::Apply(*function, nodes);
        Ok(Typed::computed(at, value_type.unwrap_or(text_type), node))
    }

    /// Binds `SUBSTR(text, position[, length])`.
    pub(super) fn substring(&mut self, arguments: &[Expr], at: Pos) -> Result<Typed> {
        let (Some(text), numbers) = (arguments.first(), arguments.get(1..).unwrap_or(&[])) else {
            return Err(no_signature("SUBSTR", "", at));
        };
        let text = self.expr(text)?;
        let (text_type, node) = match text.value_type {
            None => (Type::String, text.node),
            Some(text_type @ (Type::String | Type::Bytes)) => (text_type, text.node),
            Some(_) => return Err(no_signature("SUBSTR", text.type_name(), at)),
        };
        let mut nodes = vec![node];
        for number in numbers {
            nodes.push(self.operand(number, Type::Int64, "SUBSTR")?);
        }
        Ok(Typed::computed(at, text_type, Node::Apply(Function::Substr, nodes)))
    }

    /// Binds `operand LIKE pattern`.
    pub(super) fn like(
        &mut self,
        operand: &Expr,
        pattern: &Expr,
        negated: bool,
        at: Pos,
    ) -> Result<Typed> {
        let sides = self.exprs([operand, pattern])?;
        let found = type_names(&sides);
        match unified(sides)? {
            Some((nodes, None | Some(Type::String | Type::Bytes))) => {
                Ok(maybe_not(negated, Node::Apply(Function::Like, nodes), at))
            }
            _ => Err(no_signature("LIKE", &found, at)),
        }
    }

    /// Binds a function of one argument of a certain type.
    pub(super) fn applied(
        &mut self,
        function: Function,
        name: &str,
        (operand, operand_type): (&Expr, Type),
        value_type: Type,
        at: Pos,
    ) -> Result<Typed> {
        let operand = self.operand(operand, operand_type, name)?;
        Ok(Typed::computed(at, value_type, Node::Apply(function, vec![operand])))
    }

    /// Binds `ABS`, `MOD`, `GREATEST` or `LEAST`.
    pub(super) fn number_function(
        &mut self,
        name: &str,
        arguments: &[Expr],
        at: Pos,
    ) -> Result<Typed> {
        let arguments = self.exprs(arguments)?;
        let found = type_names(&arguments);
        let (nodes, value_type) =
            unified(arguments)?.ok_or_else(|| no_signature(name, &found, at))?;
        let value_type = value_type.unwrap_or(Type::Int64);
        let (function, fits) = match name {
            "ABS" => {
                (Function::Abs, matches!(value_type, Type::Int64 | Type::Float64 | Type::Numeric))
            }
            "MOD" => (Function::Mod, matches!(value_type, Type::Int64 | Type::Numeric)),
            "GREATEST" => (Function::Greatest, value_type.is_comparable()),
            _ => (Function::Least, value_type.is_comparable()),
        };
        match fits {
            true => Ok(Typed::computed(at, value_type, Node::Apply(function, nodes))),
            false => Err(no_signature(name, &found, at)),
        }
    }

    /// Binds `ARRAY_LENGTH(array)`.
    pub(super) fn array_length(&mut self, array: &Expr, at: Pos) -> Result<Typed> {
        let array = self.expr(array)?;
        let node = match array.value_type {
            None => Node::Constant(Value::Null),
            Some(Type::Array(_)) => Node::Apply(Function::ArrayLength, vec![array.node]),
            Some(_) => return Err(no_signature("ARRAY_LENGTH", array.type_name(), at)),
        };
        Ok(Typed::computed(at, Type::Int64, node))
    }
}
