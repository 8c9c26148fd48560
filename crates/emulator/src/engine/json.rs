//! `JSON`: documents in the one form in which Spanner keeps them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

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
        let mut reader = Reader { text, at: 0, nesting: 0 };
        let mut out = String::with_capacity(text.len());
        reader.value(&mut out)?;
        reader.blanks();
        match reader.peek() {
            None => Ok(Json(out)),
            Some(_) => Err(reader.unexpected()),
        }
    }

    /// Returns the document behind these steps: each is a member's name or an element's place.
    pub fn at(&self, steps: &[&str]) -> Option<Json> {
        let mut text = self.0.clone();
        for step in steps {
            text = Reader { text: &text, at: 0, nesting: 0 }.part(step)?;
        }
        Some(Json(text))
    }

    /// Returns the text of a string, a number or a truth value.
    pub fn scalar(&self) -> Option<String> {
        match self.0.as_bytes().first()? {
            b'{' | b'[' | b'n' => None,
            b'"' => Reader { text: &self.0, at: 0, nesting: 0 }.string().ok(),
            _ => Some(self.0.clone()),
        }
    }

    /// Returns a text as a document holds it.
    pub fn quoted(text: &str) -> String {
        let mut quoted = String::with_capacity(text.len() + 2);
        write_string(text, &mut quoted);
        quoted
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

struct Reader<'a> {
    text: &'a str,
    /// Between two characters.
    at: usize,
    nesting: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads this text, if it comes next.
    fn reads(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> String {
        match self.rest().chars().next() {
            Some(next) => format!("unexpected {:?} at byte {}", next, self.at),
            None => "unexpected end".to_owned(),
        }
    }

    fn value(&mut self, out: &mut String) -> Result<(), String> {
        self.blanks();
        match self.peek() {
            Some(b'{') => self.nested(out, Reader::object),
            Some(b'[') => self.nested(out, Reader::array),
            Some(b'"') => {
                let text = self.string()?;
                write_string(&text, out);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            _ => {
                let word = ["true", "false", "null"].into_iter().find(|word| self.reads(word));
                out.push_str(word.ok_or_else(|| self.unexpected())?);
                Ok(())
            }
        }
    }

    fn nested(
        &mut self,
        out: &mut String,
        read: fn(&mut Reader<'a>, &mut String) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.nesting == MAX_NESTING {
            return Err(format!("the document is nested more than {MAX_NESTING} levels deep"));
        }
        self.nesting += 1;
        self.at += 1;
        read(self, out)?;
        self.nesting -= 1;
        Ok(())
    }

    fn array(&mut self, out: &mut String) -> Result<(), String> {
        out.push('[');
        self.blanks();
        if self.reads("]") {
            out.push(']');
            return Ok(());
        }
        loop {
            self.value(out)?;
            self.blanks();
            if self.reads("]") {
                out.push(']');
                return Ok(());
            }
            if !self.reads(",") {
                return Err(self.unexpected());
            }
            out.push(',');
        }
    }

    fn object(&mut self, out: &mut String) -> Result<(), String> {
        let mut members: BTreeMap<String, String> = BTreeMap::new();
        self.blanks();
        let mut more = !self.reads("}");
        while more {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let name = self.string()?;
            self.blanks();
            if !self.reads(":") {
                return Err(self.unexpected());
            }
            let mut value = String::new();
            self.value(&mut value)?;
            members.entry(name).or_insert(value);
            self.blanks();
            more = self.reads(",");
            if !more && !self.reads("}") {
                return Err(self.unexpected());
            }
        }
        out.push('{');
        for (index, (name, value)) in members.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write_string(name, out);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Ok(())
    }

    /// Reads the member or the element that a step means, of a document as it is kept.
    fn part(&mut self, step: &str) -> Option<String> {
        let has_names = match self.peek()? {
            b'{' => true,
            b'[' => false,
            _ => return None,
        };
        let is_number = step.bytes().all(|next| next.is_ascii_digit());
        let wanted: Option<usize> = step.parse().ok().filter(|_| is_number);
        self.at += 1;
        let mut place = 0;
        while !matches!(self.peek()?, b'}' | b']') {
            let is_meant = match has_names {
                true => self.string().ok()? == step,
                false => wanted == Some(place),
            };
            self.reads(":");
            let mut value = String::new();
            self.value(&mut value).ok()?;
            if is_meant {
                return Some(value);
            }
            self.reads(",");
            place += 1;
        }
        None
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut content = String::new();
        loop {
            let next = self.rest().chars().next().ok_or_else(|| self.unexpected())?;
            match next {
                '"' => {
                    self.at += 1;
                    return Ok(content);
                }
                '\\' => content.push(self.escape()?),
                '\0'..='\u{1f}' => return Err(self.unexpected()),
                other => {
                    content.push(other);
                    self.at += other.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let start = self.at;
        self.at += 1;
        let escaped = match self.peek() {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode().ok_or_else(|| invalid_escape(start)),
            _ => return Err(invalid_escape(start)),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// Reads `uXXXX`, and the other half of a pair.
    fn unicode(&mut self) -> Option<char> {
        let first = self.four_digits()?;
        if !(0xd800..0xe000).contains(&first) {
            return char::from_u32(first);
        }
        self.reads("\\").then_some(())?;
        let second = self.four_digits().filter(|second| (0xdc00..0xe000).contains(second))?;
        let high = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
        char::from_u32(0x10000 + (high << 10) + (second - 0xdc00))
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.rest().strip_prefix('u')?.get(..4)?;
        let all = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        self.at += 5;
        all.then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self, out: &mut String) -> Result<(), String> {
        let rest = self.rest();
        let length = rest
            .find(|next: char| !matches!(next, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let written = &rest[..length];
        if !is_number(written) {
            return Err(self.unexpected());
        }
        self.at += length;
        let is_integer = written.bytes().all(|next| matches!(next, b'0'..=b'9' | b'-'));
        if is_integer && (written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok()) {
            let _ = write!(out, "{}", if written == "-0" { "0" } else { written });
            return Ok(());
        }
        let value: f64 = written.parse().unwrap_or(f64::INFINITY);
        if !value.is_finite() || significant(written) != significant(&format!("{value:e}")) {
            return Err(format!("the number {written} cannot be kept without loss of precision"));
        }
        out.push_str(&super::double::in_json(value));
        Ok(())
    }
}

fn invalid_escape(at: usize) -> String {
    format!("invalid escape at byte {at}")
}

/// Returns true if this is a number as JSON writes it.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|next| next.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text)))
}

/// The digits of a number, without the zeros at either end and without its magnitude.
fn significant(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for next in text.chars() {
        match next {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(next));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_in_one_form() {
        for (text, kept) in [
            (" { \"b\" : 1 , \"a\" : [ true , null ] } ", r#"{"a":[true,null],"b":1}"#),
            (r#"{"a":1,"a":2,"é":{"z":0,"y":0}}"#, r#"{"a":1,"é":{"y":0,"z":0}}"#),
            (r#""\u00e9\n\/\ud83d\ude00\u0001""#, r#""é\n/😀\u0001""#),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("10", "10"),
            ("1.50", "1.5"),
            ("[]", "[]"),
            ("{}", "{}"),
            ("1e2", "100.0"),
        ] {
            let json = Json::parse(text).unwrap();
            assert_eq!(json.as_str(), kept, "{text}");
            assert_eq!(Json::parse(kept).unwrap(), json, "{kept}");
        }
    }

    #[test]
    fn what_is_no_document_or_loses_digits_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":1,}",
            "01",
            "1.",
            ".5",
            "+1",
            "- 1",
            "1 2",
            "tru",
            "\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"a\nb\"",
            "// x\n1",
            "NaN",
            "2.2412421353246235436",
            "1e999",
            "18446744073709551617",
            "'a'",
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(&nested(MAX_NESTING)).is_ok());
        assert!(Json::parse(&nested(MAX_NESTING + 1)).is_err());
        assert!(Json::parse(&nested(1_000_000)).is_err());
    }
}
