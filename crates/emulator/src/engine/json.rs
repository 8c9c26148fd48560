//! `JSON`: documents in the one form in which Spanner keeps them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How deep a document can nest; Cloud Spanner's limit.
const MAX_NESTING: usize = 80;
/// The longest document, in bytes.
const MAX_BYTES: usize = 10 << 20;

/// A `JSON`: a document without blanks, whose members are in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Json(String);

impl Json {
    /// Reads a document.
    ///
    /// Of members with one name, the first counts. Integers between the least INT64 and the
    /// largest of 64 bits without a sign stay what they are.
    ///
    /// # Errors
    /// The error says, for people, what is wrong with the text. It is no JSON, too deep or too
    /// long, or has a number that would not come back as it went in.
    pub fn parse(text: &str) -> Result<Json, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("the document is longer than {MAX_BYTES} bytes"));
        }
        let document: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
        kept(document, 0).map(Json)
    }

    /// Returns the document as it is kept.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes the text that is kept of a document inside so many others.
fn kept(document: &RawValue, depth: usize) -> Result<String, String> {
    let text = document.get();
    let unread = |error: serde_json::Error| error.to_string();
    if text.starts_with(['[', '{']) && depth == MAX_NESTING {
        return Err(format!("the document is nested more than {MAX_NESTING} levels deep"));
    }
    match text.as_bytes().first() {
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(unread)?;
            let elements: Result<Vec<String>, _> =
                elements.into_iter().map(|element| kept(element, depth + 1)).collect();
            Ok(format!("[{}]", elements?.join(",")))
        }
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text).map_err(unread)?;
            let mut all = BTreeMap::new();
            for (name, value) in members {
                let value = kept(value, depth + 1)?;
                all.entry(name).or_insert(value);
            }
            let member = |(name, value)| format!("{}:{value}", serde_json::Value::String(name));
            Ok(format!("{{{}}}", all.into_iter().map(member).collect::<Vec<_>>().join(",")))
        }
        Some(b'"') => {
            let text: serde_json::Value = serde_json::from_str(text).map_err(unread)?;
            Ok(text.to_string())
        }
        Some(b'-' | b'0'..=b'9') => number(text),
        _ => Ok(text.to_owned()),
    }
}

/// The members of a document in their order, those of one name included.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Members<'de>, D::Error> {
        input.deserialize_map(Members(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Members<'de> {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("members")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Members<'de>, A::Error> {
        while let Some(member) = members.next_entry()? {
            self.0.push(member);
        }
        Ok(self)
    }
}

/// A number as it is kept. A FLOAT64 wouldn't tell which digits are lost.
fn number(written: &str) -> Result<String, String> {
    if written == "-0" {
        return Ok("0".to_owned());
    }
    if written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok() {
        return Ok(written.to_owned());
    }
    match written.parse::<f64>() {
        Ok(value) if significant(written) == significant(&format!("{value:e}")) => {
            Ok(super::double::in_json(value))
        }
        _ => Err(format!("the number {written} cannot be kept without loss of precision")),
    }
}

/// The digits of a number, without the zeros at either end and without its magnitude.
fn significant(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}
