//! `LIKE`.

use super::misbound;
use crate::engine::Value;
use crate::sql::error::{Result, SqlError};

/// One place of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Piece {
    /// This character.
    Only(char),
    /// Any one character.
    Any,
    /// Any number of characters.
    Many,
}

/// Tells if the text looks like the pattern. In it `%` stands for any characters, `_` for one, and
/// a backslash takes the meaning of the next.
///
/// # Errors
/// The pattern ends with a backslash.
pub fn like(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text), Value::String(pattern)] => {
            let pieces = pieces(pattern.chars())?;
            let text: Vec<char> = text.chars().collect();
            Ok(Value::Bool(matches(&text, &pieces)))
        }
        _ => Err(misbound("LIKE")),
    }
}

fn pieces(mut pattern: impl Iterator<Item = char>) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    while let Some(next) = pattern.next() {
        pieces.push(match next {
            '\\' => {
                let message = "LIKE pattern ends with a backslash";
                Piece::Only(pattern.next().ok_or_else(|| SqlError::out_of_range(message))?)
            }
            '%' => Piece::Many,
            '_' => Piece::Any,
            next => Piece::Only(next),
        });
    }
    Ok(pieces)
}

/// Returns true if a text has these pieces. Only the last `%` passed is ever gone back to: what an
/// earlier one could match more of, the last one can too.
fn matches(text: &[char], pieces: &[Piece]) -> bool {
    let (mut at, mut piece) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() || piece < pieces.len() {
        match pieces.get(piece) {
            Some(Piece::Many) => {
                retry = Some((at, piece));
                piece += 1;
                continue;
            }
            Some(Piece::Any) if at < text.len() => {
                at += 1;
                piece += 1;
                continue;
            }
            Some(Piece::Only(wanted)) if text.get(at) == Some(wanted) => {
                at += 1;
                piece += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((from, many)) if from < text.len() => {
                at = from + 1;
                piece = many + 1;
                retry = Some((at, many));
            }
            _ => return false,
        }
    }
    true
}
