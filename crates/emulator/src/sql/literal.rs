//! String and bytes literals and quoted identifiers: whatever stands between quotes.

use super::characters::Characters;
use super::error::{Pos, Result, SqlError};
use super::token::Kind;

/// How the content between two quotes is to be read.
#[derive(Clone, Copy)]
struct Form {
    quote: &'static str,
    raw: bool,
    bytes: bool,
}

/// Reads what is quoted, if that comes next.
///
/// # Errors
/// An escape that GoogleSQL doesn't know, or no end.
pub fn read(lexer: &mut Characters) -> Result<Option<Kind>> {
    let start = lexer.at();
    if lexer.sees("`") {
        lexer.skip("`");
        let form = Form { quote: "`", raw: false, bytes: false };
        let name = text(content(lexer, form, start)?, start)?;
        return match name.is_empty() {
            true => Err(SqlError::syntax(start, "Invalid empty identifier")),
            false => Ok(Some(Kind::Quoted(name))),
        };
    }
    let Some((prefix, form)) = opening(lexer.rest()) else { return Ok(None) };
    lexer.skip(prefix);
    lexer.skip(form.quote);
    let content = content(lexer, form, start)?;
    Ok(Some(match form.bytes {
        true => Kind::Bytes(content),
        false => Kind::Text(text(content, start)?),
    }))
}

/// The letters before the quote, and the form that they and the quote make.
fn opening(rest: &str) -> Option<(&str, Form)> {
    let length = rest.bytes().take(3).position(|next| matches!(next, b'\'' | b'"'))?;
    let (prefix, quoted) = rest.split_at(length);
    let (raw, bytes) = match prefix.to_ascii_lowercase().as_str() {
        "" => (false, false),
        "r" => (true, false),
        "b" => (false, true),
        "rb" | "br" => (true, true),
        _ => return None,
    };
    // The long quotes first: they start like the short ones.
    let quote = ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| quoted.starts_with(quote))?;
    Some((prefix, Form { quote, raw, bytes }))
}

/// Reads up to and with the closing quote; of a text, the result is UTF-8.
fn content(lexer: &mut Characters, form: Form, start: Pos) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let unclosed = || {
        let what = match (form.quote, form.bytes) {
            ("`", _) => "identifier",
            (_, true) => "bytes literal",
            (_, false) => "string literal",
        };
        SqlError::syntax(start, format!("Unclosed {what}"))
    };
    while !lexer.sees(form.quote) {
        let at = lexer.at();
        match lexer.next().ok_or_else(unclosed)? {
            '\r' | '\n' if form.quote.len() == 1 => return Err(unclosed()),
            '\r' => {
                // Line ends of all systems count as one character.
                if lexer.sees("\n") {
                    lexer.next();
                }
                content.push(b'\n');
            }
            '\\' if form.raw => {
                let next = lexer.next().ok_or_else(unclosed)?;
                if matches!(next, '\r' | '\n') && form.quote.len() == 1 {
                    return Err(unclosed());
                }
                push(&mut content, '\\');
                push(&mut content, next);
            }
            '\\' => {
                let escape = lexer.next().ok_or_else(unclosed)?;
                resolve(lexer, escape, form, at, &mut content)?;
            }
            other => push(&mut content, other),
        }
    }
    lexer.skip(form.quote);
    Ok(content)
}

fn text(content: Vec<u8>, start: Pos) -> Result<String> {
    String::from_utf8(content).map_err(|_| SqlError::invalid(start, "Invalid UTF-8 in literal"))
}

fn push(content: &mut Vec<u8>, next: char) {
    content.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Appends what the escape sequence that starts with `\` and `escape` stands for.
fn resolve(
    lexer: &mut Characters,
    escape: char,
    form: Form,
    at: Pos,
    content: &mut Vec<u8>,
) -> Result<()> {
    let simple = match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '?' | '"' | '\'' | '`' => escape,
        '0'..='7' => {
            let digits = format!("{escape}{}", take(lexer, 2));
            // Three octal digits could say more than a byte, even in a text.
            return match escape {
                '0'..='3' => number(&digits, 8, 3, form, at, content),
                _ => {
                    let message = format!("Illegal escape sequence: \\{escape}");
                    Err(SqlError::syntax(at, message))
                }
            };
        }
        'x' | 'X' => return number(&take(lexer, 2), 16, 2, form, at, content),
        'u' if !form.bytes => return number(&take(lexer, 4), 16, 4, form, at, content),
        'U' if !form.bytes => return number(&take(lexer, 8), 16, 8, form, at, content),
        _ => {
            let shown = escape.escape_debug();
            return Err(SqlError::syntax(at, format!("Illegal escape sequence: \\{shown}")));
        }
    };
    push(content, simple);
    Ok(())
}

/// Reads up to `count` hexadecimal digits.
fn take(lexer: &mut Characters, count: usize) -> String {
    let mut taken = String::new();
    while taken.len() < count
        && let Some(digit) = lexer.peek().filter(char::is_ascii_hexdigit)
    {
        lexer.next();
        taken.push(digit);
    }
    taken
}

/// Appends the byte or the character with this number.
fn number(
    digits: &str,
    radix: u32,
    count: usize,
    form: Form,
    at: Pos,
    content: &mut Vec<u8>,
) -> Result<()> {
    let number = (digits.len() == count).then(|| u32::from_str_radix(digits, radix).ok()).flatten();
    let illegal = || SqlError::syntax(at, "Illegal escape sequence");
    let number = number.ok_or_else(illegal)?;
    match form.bytes {
        true => content.push(u8::try_from(number).map_err(|_| illegal())?),
        false => push(content, char::from_u32(number).ok_or_else(illegal)?),
    }
    Ok(())
}
