//! Terms of the relation, evaluated.

use crate::term::Term;

/// A value. Elements of sorts that have no form of their own are numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    /// A writer, a row or a look.
    Text(String),
}

/// The values that the names of a term stand for.
pub trait Meaning {
    /// Returns the value of a name, or of a function at these arguments.
    fn value(&self, name: &str, at: &[Value]) -> Option<Value>;

    /// Returns all elements of a sort.
    fn elements(&self, sort: &str) -> Vec<Value>;
}

/// Returns the value of the term.
pub fn value(term: &Term, meaning: &dyn Meaning) -> Value {
    evaluate(term, meaning, &mut Vec::new())
}

/// Returns true if the term is.
pub fn holds(term: &Term, meaning: &dyn Meaning) -> bool {
    value(term, meaning) == Value::Bool(true)
}

fn evaluate(term: &Term, meaning: &dyn Meaning, bound: &mut Vec<(String, Value)>) -> Value {
    if let "forall" | "exists" = term.head() {
        return quantified(term, meaning, bound);
    }
    let arguments: Vec<Value> =
        term.arguments().iter().map(|argument| evaluate(argument, meaning, bound)).collect();
    let is = |value: &Value| *value == Value::Bool(true);
    let int = |i: usize| match &arguments[i] {
        Value::Int(number) => *number,
        other => panic!("`{term}`: {other:?} is no number"),
    };
    match term.head() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "and" => Value::Bool(arguments.iter().all(is)),
        "or" => Value::Bool(arguments.iter().any(is)),
        "not" => Value::Bool(!is(&arguments[0])),
        "=>" => Value::Bool(!is(&arguments[0]) || is(&arguments[1])),
        "ite" => arguments[if is(&arguments[0]) { 1 } else { 2 }].clone(),
        "=" => Value::Bool(arguments[0] == arguments[1]),
        "<" => Value::Bool(int(0) < int(1)),
        ">" => Value::Bool(int(0) > int(1)),
        "<=" => Value::Bool(int(0) <= int(1)),
        ">=" => Value::Bool(int(0) >= int(1)),
        "+" => Value::Int(int(0) + int(1)),
        "-" => Value::Int(int(0) - int(1)),
        name => {
            if let Some((_, value)) = bound.iter().rev().find(|(known, _)| known == name) {
                return value.clone();
            }
            let number = name.parse().ok().map(Value::Int);
            let found = number.or_else(|| meaning.value(name, &arguments));
            found.unwrap_or_else(|| panic!("`{term}` has no value"))
        }
    }
}

fn quantified(term: &Term, meaning: &dyn Meaning, bound: &mut Vec<(String, Value)>) -> Value {
    let [Term::List(variables), body] = term.arguments() else { panic!("`{term}` binds nothing") };
    let [variable] = variables.as_slice() else { panic!("`{term}` binds more than one name") };
    let mut values = meaning.elements(variable.arguments()[0].head()).into_iter().map(|element| {
        bound.push((variable.head().into(), element));
        let value = evaluate(body, meaning, bound);
        bound.pop();
        value == Value::Bool(true)
    });
    Value::Bool(match term.head() {
        "forall" => values.all(|value| value),
        _ => values.any(|value| value),
    })
}
