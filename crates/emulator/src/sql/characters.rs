//! A text, character by character.

use super::error::Pos;

/// A reader of characters that knows where it is.
pub struct Characters<'a> {
    rest: &'a str,
    at: Pos,
}

impl<'a> Characters<'a> {
    /// Starts at the beginning of a text.
    pub fn of(text: &'a str) -> Characters<'a> {
        Characters { rest: text, at: Pos::START }
    }

    /// Returns where the next character is.
    pub fn at(&self) -> Pos {
        self.at
    }

    /// Returns the next character, which stays.
    pub fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Everything from the next character on.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    /// Returns true if this text comes next.
    pub fn sees(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// Reads the next character.
    pub fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        match next {
            '\n' => self.at = Pos { line: self.at.line + 1, column: 1 },
            '\t' => self.at.column = (self.at.column - 1) / 8 * 8 + 9,
            _ => self.at.column += 1,
        }
        Some(next)
    }

    /// Reads as many characters as `text` has.
    pub fn skip(&mut self, text: &str) {
        for _ in text.chars() {
            self.next();
        }
    }

    /// Reads characters for as long as they pass.
    pub fn take_while(&mut self, passes: impl Fn(char) -> bool) -> &'a str {
        let all = self.rest;
        let length = all.find(|next| !passes(next)).unwrap_or(all.len());
        let taken = &all[..length];
        self.skip(taken);
        taken
    }
}
