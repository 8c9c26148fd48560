//! RE2's syntax of regular expressions, as much of it as means the same to the crate `regex`.
//!
//! Each construct is read as RE2 reads it, and written anew. One that means something else to
//! `regex`, or may do so, is refused by name.

use std::iter::Peekable;
use std::str::Chars;

use crate::sql::error::{Result, SqlError};

/// RE2's limit for repetitions, and for the product of nested ones.
const MAX_REPEAT: usize = 1_000;
/// How deep groups nest here.
const MAX_DEPTH: usize = 50;

const DIGIT: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\t\n\x0C\r ";
/// The classes that are named within brackets.
const NAMED: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Returns an expression in the syntax of `regex`.
///
/// # Errors
/// OUT_OF_RANGE for what RE2 refuses. UNIMPLEMENTED for what it may read in another way.
pub fn translated(pattern: &str) -> Result<String> {
    let flags = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')'));
    let flags = flags.filter(|(flags, _)| {
        !flags.is_empty() && flags.chars().all(|flag| matches!(flag, 'i' | 'm' | 's'))
    });
    let (written, rest) = match flags {
        Some((flags, rest)) => (format!("(?{flags})"), rest),
        None => (String::new(), pattern),
    };
    let mut translation = Translation { rest: rest.chars().peekable(), written, depth: 0 };
    translation.alternatives()?;
    match translation.rest.next() {
        None => Ok(translation.written),
        Some(_) => Err(wrong(format_args!("unexpected ): {pattern}"))),
    }
}

fn wrong(reason: impl std::fmt::Display) -> SqlError {
    SqlError::out_of_range(format!("Cannot parse regular expression: {reason}"))
}

/// Returns the error for a construct that isn't here.
pub fn other(construct: impl std::fmt::Display) -> SqlError {
    SqlError::unsupported_value(format_args!("in a regular expression, {construct}"))
}

/// A part of an expression, as far as repetitions of it need to know it.
#[derive(Clone, Copy)]
struct Piece {
    /// True if it can match nothing at all.
    may_be_empty: bool,
    /// How many copies of its parts repetitions make.
    copies: usize,
}

const ONE: Piece = Piece { may_be_empty: false, copies: 1 };
const PLACE: Piece = Piece { may_be_empty: true, copies: 1 };

/// Reads RE2's syntax and writes that of `regex`.
struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    written: String,
    depth: usize,
}

impl Translation<'_> {
    fn takes(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn alternatives(&mut self) -> Result<Piece> {
        let mut all = self.sequence()?;
        while self.takes('|') {
            self.written.push('|');
            let next = self.sequence()?;
            all.may_be_empty |= next.may_be_empty;
            all.copies = all.copies.max(next.copies);
        }
        Ok(all)
    }

    fn sequence(&mut self) -> Result<Piece> {
        let mut all = PLACE;
        while let Some(next) = self.rest.next_if(|next| !matches!(next, '|' | ')')) {
            let atom = self.atom(next)?;
            let piece = self.repeated(atom)?;
            all.may_be_empty &= piece.may_be_empty;
            all.copies = all.copies.max(piece.copies);
        }
        Ok(all)
    }

    fn atom(&mut self, first: char) -> Result<Piece> {
        match first {
            '(' => return self.group(),
            '[' => self.class()?,
            '.' => self.written.push('.'),
            '^' | '$' => {
                self.written.push(first);
                return Ok(PLACE);
            }
            '\\' => return self.escape(),
            '*' | '+' | '?' => {
                return Err(wrong(format_args!("no argument for repetition operator: {first}")));
            }
            '{' if self.bounds().is_some() => {
                return Err(wrong("no argument for repetition operator: {"));
            }
            _ => self.literal(first),
        }
        Ok(ONE)
    }

    fn literal(&mut self, literal: char) {
        self.written.push_str(&format!("\\x{{{:X}}}", u32::from(literal)));
    }

    fn group(&mut self) -> Result<Piece> {
        self.written.push('(');
        if self.takes('?') {
            match self.rest.next() {
                Some(':') => self.written.push_str("?:"),
                next => {
                    let next: String = next.into_iter().collect();
                    return Err(other(format_args!("a group that starts with (?{next}")));
                }
            }
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(other(format_args!("groups nested deeper than {MAX_DEPTH}")));
        }
        let body = self.alternatives()?;
        self.depth -= 1;
        if !self.takes(')') {
            return Err(wrong("missing )"));
        }
        self.written.push(')');
        Ok(body)
    }

    /// Reads the repetition behind a piece, if there is one.
    fn repeated(&mut self, piece: Piece) -> Result<Piece> {
        let Some((least, most)) = self.repetition() else { return Ok(piece) };
        if piece.may_be_empty {
            return Err(other("a repetition of something that can be empty"));
        }
        let largest = most.unwrap_or(least);
        let copies = piece.copies * largest.max(1);
        if largest < least || largest > MAX_REPEAT || copies > MAX_REPEAT {
            return Err(wrong("invalid repetition size"));
        }
        let lazy = if self.takes('?') { "?" } else { "" };
        if self.repetition().is_some() {
            return Err(wrong("bad repetition operator"));
        }
        let most = most.map(|most| most.to_string()).unwrap_or_default();
        self.written.push_str(&format!("{{{least},{most}}}{lazy}"));
        Ok(Piece { may_be_empty: least == 0, copies })
    }

    /// Reads a repetition: at least how often, and at most.
    fn repetition(&mut self) -> Option<(usize, Option<usize>)> {
        let found = match self.rest.peek()? {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            '{' => {
                let before = self.rest.clone();
                self.rest.next();
                let bounds = self.bounds();
                if bounds.is_none() {
                    self.rest = before;
                }
                return bounds;
            }
            _ => return None,
        };
        self.rest.next();
        Some(found)
    }

    /// Reads `n}`, `n,}` or `n,m}`; anything else is no repetition, and is left.
    fn bounds(&mut self) -> Option<(usize, Option<usize>)> {
        let text: String = self.rest.clone().take_while(|next| *next != '}').take(32).collect();
        let number = |digits: &str| {
            let plain = digits == "0" || !digits.starts_with('0');
            let all_digits = digits.bytes().all(|next| next.is_ascii_digit());
            digits.parse().ok().filter(|_| plain && all_digits && digits.len() < 9)
        };
        let bounds = match text.split_once(',') {
            None => number(&text).map(|count| (count, Some(count)))?,
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        let mut ahead = self.rest.clone();
        ahead.by_ref().take(text.len()).for_each(drop);
        (ahead.next() == Some('}')).then(|| {
            self.rest = ahead;
            bounds
        })
    }

    fn escape(&mut self) -> Result<Piece> {
        let Some(next) = self.rest.next() else { return Err(wrong("trailing \\")) };
        if let Some(class) = class_of(next) {
            self.written.push_str(&format!("[{class}]"));
            return Ok(ONE);
        }
        match next {
            'b' => self.written.push_str(r"(?-u:\b)"),
            'A' | 'z' => self.written.extend(['\\', next]),
            _ => {
                let literal = self.escaped(next)?;
                self.literal(literal);
                return Ok(ONE);
            }
        }
        Ok(PLACE)
    }

    /// Returns the character that an escape stands for.
    fn escaped(&mut self, next: char) -> Result<char> {
        Ok(match next {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'f' => '\x0C',
            'v' => '\x0B',
            'a' => '\x07',
            _ if next.is_ascii_punctuation() => next,
            _ => return Err(other(format_args!("the escape \\{}", next.escape_debug()))),
        })
    }

    fn class(&mut self) -> Result<()> {
        let start = if self.takes('^') { "[^" } else { "[" };
        self.written.push_str(start);
        let mut is_first = true;
        loop {
            let next = self.rest.next().ok_or_else(|| wrong("missing ]"))?;
            if next == ']' && !is_first {
                self.written.push(']');
                return Ok(());
            }
            is_first = false;
            if next == '[' && self.takes(':') {
                self.named_class()?;
                continue;
            }
            if next == '\\'
                && let Some(class) = self.rest.peek().and_then(|next| class_of(*next))
            {
                self.rest.next();
                self.written.push_str(&format!("[{class}]"));
                continue;
            }
            let low = self.member(next)?;
            self.literal(low);
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']')) {
                self.rest.next();
                let next = self.rest.next().ok_or_else(|| wrong("missing ]"))?;
                let high = self.member(next)?;
                if high < low {
                    return Err(wrong("invalid character class range"));
                }
                self.written.push('-');
                self.literal(high);
            }
        }
    }

    fn member(&mut self, next: char) -> Result<char> {
        if next != '\\' {
            return Ok(next);
        }
        let next = self.rest.next().ok_or_else(|| wrong("trailing \\"))?;
        self.escaped(next)
    }

    /// Reads `name:]` behind `[:`.
    fn named_class(&mut self) -> Result<()> {
        let name: String = self.rest.clone().take_while(char::is_ascii_lowercase).collect();
        self.rest.by_ref().take(name.len()).for_each(drop);
        if !(NAMED.contains(&name.as_str()) && self.takes(':') && self.takes(']')) {
            return Err(other("a class that starts with [:"));
        }
        self.written.push_str(&format!("[:{name}:]"));
        Ok(())
    }
}

/// The characters of `\d` and its like; of ASCII alone.
fn class_of(escape: char) -> Option<String> {
    let class = match escape.to_ascii_lowercase() {
        'd' => DIGIT,
        'w' => WORD,
        's' => SPACE,
        _ => return None,
    };
    Some(if escape.is_ascii_uppercase() { format!("^{class}") } else { class.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Code;

    fn outcome(pattern: &str) -> Result<(), Code> {
        translated(pattern).map(drop).map_err(|error| error.code())
    }

    #[test]
    fn what_re2_may_read_otherwise_is_refused() {
        for pattern in [
            r"\pL",
            r"\C",
            r"\Qa.b\E",
            r"\B",
            r"\101",
            r"\x41",
            "(?P<n>a)",
            "a(?i)b",
            "(?x)a b",
            "(a*)*",
            "(|a)+",
            "^*",
            r"[[:^alpha:]]",
            r"[\pL]",
            "(?=a)",
        ] {
            assert_eq!(outcome(pattern), Err(Code::Unimplemented), "{pattern}");
        }
        assert_eq!(
            outcome(&format!("{}a{}", "(".repeat(51), ")".repeat(51))),
            Err(Code::Unimplemented)
        );
    }

    #[test]
    fn what_re2_refuses_is_refused() {
        for pattern in [
            "(",
            ")",
            "a)",
            "[a",
            "[b-a]",
            "*",
            "a**",
            "a+*",
            "a??*",
            "a{2}{3}",
            "a{1001}",
            "(a{100}){100}",
            "a{3,2}",
            "{2}",
            r"a\",
        ] {
            assert_eq!(outcome(pattern), Err(Code::OutOfRange), "{pattern}");
        }
    }
}
