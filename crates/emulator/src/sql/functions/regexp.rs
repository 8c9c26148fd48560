//! Functions of regular expressions.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use regex::{Captures, Regex, RegexBuilder};

use super::misbound::misbound;
use super::re2;
use super::text::check_size;
use crate::engine::Value;
use crate::sql::error::{Result, SqlError};

/// The largest machine of an expression.
const MAX_BYTES: usize = 1 << 20;
/// The machines that a thread keeps: a query has the same few expressions for each row.
const KEPT: usize = 8;

/// `REGEXP_CONTAINS`
pub fn contains(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text), Value::String(pattern)] = arguments else {
        return Err(misbound("REGEXP_CONTAINS"));
    };
    Ok(Value::Bool(compiled(pattern)?.is_match(text)))
}

/// `REGEXP_EXTRACT`: the group, or the whole match if there is no group.
pub fn extract(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text), Value::String(pattern)] = arguments else {
        return Err(misbound("REGEXP_EXTRACT"));
    };
    let regex = compiled(pattern)?;
    if regex.captures_len() > 2 {
        let message = "Regular expressions passed into extraction functions must not have more \
                       than 1 capturing group";
        return Err(SqlError::out_of_range(message));
    }
    let group = regex.captures_len() - 1;
    let found = regex.captures(text).and_then(|captures| captures.get(group));
    Ok(found.map_or(Value::Null, |found| found.as_str().into()))
}

/// `REGEXP_REPLACE`: `\1` to `\9` in the replacement are groups, and `\0` is the match.
pub fn replace(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text), Value::String(pattern), Value::String(replacement)] = arguments
    else {
        return Err(misbound("REGEXP_REPLACE"));
    };
    let regex = compiled(pattern)?;
    let parts = replacement_parts(replacement, regex.captures_len())?;
    let mut replaced = String::new();
    let mut copied = 0;
    for captures in regex.captures_iter(text) {
        let Some(found) = captures.get(0) else { continue };
        replaced.push_str(&text[copied..found.start()]);
        copied = found.end();
        for part in &parts {
            replaced.push_str(part.text(&captures));
        }
        check_size("REGEXP_REPLACE", replaced.len())?;
    }
    replaced.push_str(&text[copied..]);
    check_size("REGEXP_REPLACE", replaced.len())?;
    Ok(Value::String(replaced))
}

/// A part of a replacement.
enum Part<'a> {
    Text(&'a str),
    Group(usize),
}

impl Part<'_> {
    fn text<'c>(&'c self, captures: &'c Captures<'_>) -> &'c str {
        match self {
            Part::Text(text) => text,
            Part::Group(group) => captures.get(*group).map_or("", |found| found.as_str()),
        }
    }
}

fn replacement_parts(replacement: &str, groups: usize) -> Result<Vec<Part<'_>>> {
    let invalid =
        |reason: &str| SqlError::out_of_range(format!("Invalid REGEXP_REPLACE pattern: {reason}"));
    let mut parts = Vec::new();
    let mut rest = replacement;
    while let Some((before, escaped)) = rest.split_once('\\') {
        parts.push(Part::Text(before));
        let next = escaped.chars().next();
        match next.and_then(|next| next.to_digit(10)) {
            Some(group) if (group as usize) < groups => parts.push(Part::Group(group as usize)),
            Some(group) => {
                let reason = format!("it asks for group {group} of {}", groups - 1);
                return Err(invalid(&reason));
            }
            None if next == Some('\\') => parts.push(Part::Text("\\")),
            None => return Err(invalid("'\\' must be followed by a digit or '\\'")),
        }
        rest = &escaped[1..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

/// Returns the machine of an expression.
fn compiled(pattern: &str) -> Result<Rc<Regex>> {
    thread_local! {
        static LAST: RefCell<VecDeque<(String, Rc<Regex>)>> = const { RefCell::new(VecDeque::new()) };
    }
    LAST.with_borrow_mut(|last| {
        if let Some((_, regex)) = last.iter().find(|(known, _)| known == pattern) {
            return Ok(Rc::clone(regex));
        }
        let written = re2::translated(pattern)?;
        let regex = RegexBuilder::new(&written).size_limit(MAX_BYTES).build();
        let regex = Rc::new(regex.map_err(|_| re2::other("so many states"))?);
        last.truncate(KEPT - 1);
        last.push_front((pattern.to_owned(), Rc::clone(&regex)));
        Ok(regex)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_take_turns_are_compiled_once() {
        let few: Vec<String> = (0..KEPT).map(|number| format!("x{number}")).collect();
        let first: Vec<_> = few.iter().map(|pattern| compiled(pattern).unwrap()).collect();
        for (pattern, regex) in few.iter().zip(&first) {
            assert!(Rc::ptr_eq(&compiled(pattern).unwrap(), regex), "{pattern}");
        }
        compiled("another").unwrap();
        assert!(!Rc::ptr_eq(&compiled("x0").unwrap(), &first[0]), "the oldest makes room");
    }

    #[test]
    fn classes_are_those_of_ascii_and_brackets_nest_nowhere() {
        let matches = |pattern: &str, text: &str| compiled(pattern).unwrap().is_match(text);
        assert!(!matches(r"\d", "٣") && !matches(r"\w", "é") && !matches(r"\s", "\u{b}"));
        assert!(matches(r"^[a[b]$", "[") && matches("[a&&b]", "&") && matches("^[]a]+$", "]a"));
        assert!(matches("^x{,2}$", "x{,2}") && matches("^a{$", "a{") && matches(r"^\_\-$", "_-"));
        assert!(matches("(?is)^A.B$", "a\nb") && !matches("^a.b$", "a\nb"));
    }
}
