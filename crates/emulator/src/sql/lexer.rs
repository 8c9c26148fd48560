//! From characters to tokens.

use super::characters::Characters;
use super::error::{Pos, Result, SqlError};
use super::literal;
use super::token::{Kind, SYMBOLS, Token};

/// Splits a text into tokens; the last one is [`Kind::End`].
///
/// # Errors
/// A character or a literal that GoogleSQL doesn't know, or something left open at the end.
pub fn tokenize(text: &str) -> Result<Vec<Token>> {
    let mut lexer = Characters::of(text);
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let (at, byte) = (lexer.at(), text.len() - lexer.rest().len());
        let kind = lexer.token()?;
        let done = kind == Kind::End;
        tokens.push(Token { kind, at, byte });
        if done {
            return Ok(tokens);
        }
    }
}

impl<'a> Characters<'a> {
    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let start = self.at();
            if self.peek().is_some_and(|next| next.is_whitespace() || next == '\u{8}') {
                self.next();
            } else if self.sees("--") || self.sees("#") {
                self.take_while(|next| next != '\n');
            } else if self.sees("/*@") {
                return Err(SqlError::unsupported(start, "a hint in a comment"));
            } else if self.sees("/*") {
                self.skip("/*");
                while !self.sees("*/") {
                    if self.next().is_none() {
                        return Err(SqlError::syntax(start, "Unclosed comment"));
                    }
                }
                self.skip("*/");
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Kind> {
        if let Some(literal) = literal::read(self)? {
            return Ok(literal);
        }
        match self.peek() {
            None => Ok(Kind::End),
            Some(next) if starts_word(next) => Ok(Kind::Word(self.word().to_owned())),
            Some(next) if next.is_ascii_digit() => self.number(),
            Some('.') if self.rest()[1..].starts_with(|next: char| next.is_ascii_digit()) => {
                self.number()
            }
            Some('@') if !self.sees("@{") => self.parameter(),
            Some(next) => self.symbol(next),
        }
    }

    fn word(&mut self) -> &'a str {
        self.take_while(continues_word)
    }

    fn parameter(&mut self) -> Result<Kind> {
        let start = self.at();
        self.skip("@");
        if self.sees("@") {
            return Err(SqlError::unsupported(start, "a system variable (@@)"));
        }
        match self.peek() {
            Some(next) if starts_word(next) => Ok(Kind::Parameter(self.word().to_owned())),
            _ => Err(SqlError::syntax(start, "Expected a parameter name after \"@\"")),
        }
    }

    fn symbol(&mut self, next: char) -> Result<Kind> {
        match SYMBOLS.iter().find(|symbol| self.sees(symbol)) {
            Some(symbol) => {
                self.skip(symbol);
                Ok(Kind::Symbol(symbol))
            }
            None => Err(SqlError::syntax(
                self.at(),
                format!("Illegal input character \"{}\"", next.escape_debug()),
            )),
        }
    }

    fn number(&mut self) -> Result<Kind> {
        let start = self.at();
        let text = self.rest();
        if self.sees("0x") || self.sees("0X") {
            self.skip("0x");
            let digits = self.take_while(|next| next.is_ascii_hexdigit());
            self.end_of_number(start)?;
            return u64::from_str_radix(digits, 16)
                .map(Kind::Integer)
                .map_err(|_| invalid_number(start, "integer", &text[..2 + digits.len()]));
        }
        let mut float = false;
        let mut length = self.take_while(|next| next.is_ascii_digit()).len();
        if self.sees(".") {
            float = true;
            self.skip(".");
            length += 1 + self.take_while(|next| next.is_ascii_digit()).len();
        }
        if let Some(exponent) = exponent_length(self.rest()) {
            float = true;
            self.skip(&self.rest()[..exponent]);
            length += exponent;
        }
        self.end_of_number(start)?;
        let text = &text[..length];
        if float {
            return Ok(Kind::Float(text.to_owned()));
        }
        text.parse().map(Kind::Integer).map_err(|_| invalid_number(start, "integer", text))
    }

    /// `1x` is no number followed by a name: GoogleSQL wants a blank there.
    fn end_of_number(&self, start: Pos) -> Result<()> {
        match self.peek() {
            Some(next) if continues_word(next) => {
                Err(SqlError::syntax(start, "Missing whitespace between literal and alias"))
            }
            _ => Ok(()),
        }
    }
}

/// How long `e5`, `E+5` or `e-5` is, if that is what comes next.
fn exponent_length(rest: &str) -> Option<usize> {
    let digits = rest.strip_prefix(['e', 'E'])?;
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0).then(|| rest.len() - digits.len() + count)
}

fn invalid_number(at: Pos, kind: &str, text: &str) -> SqlError {
    SqlError::invalid(at, format!("Invalid {kind} literal: {text}"))
}

/// Returns true if an identifier can start with this character.
pub fn starts_word(next: char) -> bool {
    next.is_ascii_alphabetic() || next == '_'
}

/// Returns true if an identifier can contain this character.
pub fn continues_word(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}
