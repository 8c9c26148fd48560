//! Answers, and how they compare.

use std::fmt;

use serde_json::Value as Json;
use tonic::Code;

/// The answer of a server to a call.
#[derive(Clone, Debug)]
pub struct Answer {
    /// OK, or why the server refuses the call.
    pub code: Code,
    /// The reason of a refusal.
    pub message: String,
    /// The name and the type of each column.
    pub columns: Vec<(String, String)>,
    /// The rows, or the counts of a batch.
    pub rows: Vec<Json>,
    /// How many rows a statement wrote.
    pub count: Option<i64>,
}

/// How two answers compare; those from `WrongValue` on are disagreements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Both accept the call, with the same rows, types and counts.
    Same,
    /// Both refuse it with the same code.
    SameCode,
    /// They differ for a reason that `known.txt` gives.
    Known,
    /// Other rows, or another count of them.
    WrongValue,
    /// Other types or names of columns.
    WrongType,
    /// The emulator accepts what Google's refuses.
    WronglyAccepted,
    /// The emulator refuses what Google's accepts.
    WronglyRefused,
    /// Both refuse it, each with another code.
    WrongCode,
    /// The emulator fails inside.
    Internal,
}

impl Answer {
    /// An answer of nothing but a code.
    pub fn of(code: Code, message: &str) -> Answer {
        let message = message.lines().next().unwrap_or_default().to_owned();
        Answer { code, message, columns: Vec::new(), rows: Vec::new(), count: None }
    }

    /// Returns its text, which is the same for rows in any order unless they have one.
    pub fn text(&self, in_order: bool) -> String {
        let mut answer = self.clone();
        if !in_order {
            answer.rows.sort_by_key(Json::to_string);
        }
        answer.to_string()
    }

    /// How this answer of the emulator compares with Google's. Rows in any order are the same ones.
    pub fn against(&self, google: &Answer, in_order: bool) -> Verdict {
        let rows = |answer: &Answer| {
            let mut rows: Vec<String> = answer.rows.iter().map(Json::to_string).collect();
            if !in_order {
                rows.sort();
            }
            rows
        };
        match (google.code, self.code) {
            (_, Code::Internal | Code::Unknown | Code::Unavailable) => Verdict::Internal,
            (Code::Ok, Code::Ok) if google.columns != self.columns => Verdict::WrongType,
            (Code::Ok, Code::Ok) if google.count != self.count || rows(google) != rows(self) => {
                Verdict::WrongValue
            }
            (Code::Ok, Code::Ok) => Verdict::Same,
            (Code::Ok, _) => Verdict::WronglyRefused,
            (_, Code::Ok) => Verdict::WronglyAccepted,
            // A batch answers with the counts of what ran before the refusal.
            (google_code, code) if google_code == code && google.rows == self.rows => {
                Verdict::SameCode
            }
            _ => Verdict::WrongCode,
        }
    }
}

/// True if the rows that answer a call come in a certain order.
pub fn in_order(call: &str) -> bool {
    let has_order = ["sql", "schema"].iter().all(|verb| !call.starts_with(verb));
    has_order || call.ends_with("/* ordered */")
}

/// A call and the answers to it, in lines of `calls.txt`: `=` is Google's, and `!` the emulator's where it
/// is another one.
pub fn recorded(call: &str, google: &Answer, ours: &Answer) -> String {
    let [google, ours] = [google, ours].map(|answer| answer.text(in_order(call)));
    match google == ours {
        true => format!("{call}\n= {ours}\n"),
        false => format!("{call}\n= {google}\n! {ours}\n"),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = spindle_emulator::engine::Code::ALL;
        match code.into_iter().find(|known| known.number() == self.code as i32) {
            Some(code) => write!(f, "{code}")?,
            None => write!(f, "OK")?,
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        for (name, kind) in &self.columns {
            write!(f, " {name} {kind}")?;
        }
        if let Some(count) = self.count {
            write!(f, " count {count}")?;
        }
        if !self.rows.is_empty() {
            write!(f, " {}", Json::from(self.rows.clone()))?;
        }
        Ok(())
    }
}
