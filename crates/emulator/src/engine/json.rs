//! `JSON`: documents in the one form in which Spanner keeps them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

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
        let mut reader = Reader { numbers: numbers(text).into_iter(), nesting: 0 };
        let mut input = serde_json::Deserializer::from_str(text);
        let document = reader.deserialize(&mut input).and_then(|document| {
            input.end()?;
            Ok(document)
        });
        document.map(Json).map_err(|error| error.to_string())
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

/// Makes the text that is kept of what `serde_json` reads.
struct Reader<'t> {
    /// The numbers to come, as written: a FLOAT64 wouldn't tell which digits are lost.
    numbers: std::vec::IntoIter<&'t str>,
    nesting: usize,
}

impl Reader<'_> {
    fn number<E: serde::de::Error>(&mut self) -> Result<String, E> {
        let written = self.numbers.next().unwrap_or("");
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
            _ => Err(E::custom(format_args!(
                "the number {written} cannot be kept without loss of precision"
            ))),
        }
    }

    fn deeper<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.nesting += 1;
        match self.nesting > MAX_NESTING {
            true => Err(E::custom(format_args!(
                "the document is nested more than {MAX_NESTING} levels deep"
            ))),
            false => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<String, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<String, E> {
        self.number()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<String, E> {
        self.number()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<String, E> {
        self.number()
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        serde_json::to_string(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<String, A::Error> {
        self.deeper()?;
        let mut all = Vec::new();
        while let Some(element) = elements.next_element_seed(&mut *self)? {
            all.push(element);
        }
        self.nesting -= 1;
        Ok(format!("[{}]", all.join(",")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<String, A::Error> {
        self.deeper()?;
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(&mut *self)?;
            all.entry(name).or_insert(value);
        }
        self.nesting -= 1;
        let member = |(name, value): (&String, &String)| {
            serde_json::to_string(name).map(|name| format!("{name}:{value}"))
        };
        let all: Result<Vec<String>, _> = all.iter().map(member).collect();
        Ok(format!("{{{}}}", all.map_err(A::Error::custom)?.join(",")))
    }
}

/// The numbers of a document, as written.
fn numbers(text: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|next: char| matches!(next, '"' | '-' | '0'..='9')) {
        rest = &rest[start..];
        let is_text = rest.starts_with('"');
        let mut escaped = false;
        let length = match is_text {
            true => rest[1..].find(|next| {
                let ends = next == '"' && !escaped;
                escaped = next == '\\' && !escaped;
                ends
            }),
            false => {
                rest.find(|next: char| !matches!(next, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            }
        };
        let length = length.map_or(rest.len(), |length| length + if is_text { 2 } else { 0 });
        if !is_text {
            numbers.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    numbers
}

/// The digits of a number, without the zeros at either end and without its magnitude.
fn significant(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_too_many_levels_is_refused() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(&nested(MAX_NESTING)).is_ok());
        assert!(Json::parse(&nested(MAX_NESTING + 1)).is_err());
        assert!(Json::parse(&nested(1_000_000)).is_err());
    }
}
