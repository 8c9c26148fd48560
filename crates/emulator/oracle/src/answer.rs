//! Answers, and how they compare.

use std::fmt;

use serde_json::Value as Json;

/// The answer to a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The types of the columns, and the rows.
    Rows(Vec<String>, Vec<Vec<Json>>),
    /// The statement has a meaning. Its result is not asked.
    Accepted,
    /// It has none.
    Analysis(String),
    /// It has one, but not a value.
    Evaluation(String),
    /// The emulator says that it doesn't know this.
    Unsupported(String),
    /// Google's side died of it.
    Crash,
}

/// How two answers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The same values.
    SameValue,
    /// Both refuse it, and in the same phase.
    BothRefuse,
    /// Both accept it; values were not asked for.
    BothAccept,
    /// The emulator says that it doesn't know this.
    Unsupported,
    /// The disagreement has a name and a reason.
    Excepted,
    /// Google's side died.
    Crash,
    /// Another value.
    WrongValue,
    /// Other types of columns.
    WrongType,
    /// The emulator accepts what GoogleSQL refuses.
    WronglyAccepted,
    /// The emulator refuses what GoogleSQL accepts.
    WronglyRefused,
    /// Both refuse it, but one before it is evaluated and the other then.
    WrongPhase,
    /// The emulator fails inside.
    Internal,
}

impl Verdict {
    pub fn is_disagreement(self) -> bool {
        self >= Verdict::WrongValue
    }
}

/// How the answers to this statement compare.
pub fn verdict(text: &str, google: &Answer, ours: &Answer) -> Verdict {
    match (google, ours) {
        (Answer::Crash, _) => Verdict::Crash,
        (_, Answer::Unsupported(_)) => Verdict::Unsupported,
        (_, Answer::Crash) => Verdict::Internal,
        (Answer::Rows(google_types, google), Answer::Rows(our_types, ours)) => {
            if google_types != our_types {
                return Verdict::WrongType;
            }
            match same_rows(text, google, ours) {
                true => Verdict::SameValue,
                false => Verdict::WrongValue,
            }
        }
        (Answer::Accepted, Answer::Accepted | Answer::Evaluation(_)) => Verdict::BothAccept,
        (Answer::Analysis(_), Answer::Analysis(_))
        | (Answer::Evaluation(_), Answer::Evaluation(_)) => Verdict::BothRefuse,
        (Answer::Analysis(_), Answer::Evaluation(_))
        | (Answer::Evaluation(_), Answer::Analysis(_)) => Verdict::WrongPhase,
        (Answer::Analysis(_) | Answer::Evaluation(_), _) => Verdict::WronglyAccepted,
        (_, Answer::Analysis(_) | Answer::Evaluation(_)) => Verdict::WronglyRefused,
        _ => Verdict::Internal,
    }
}

fn same_rows(text: &str, google: &[Vec<Json>], ours: &[Vec<Json>]) -> bool {
    // Without ORDER BY, rows come in any order; with it, it is by all columns.
    let is_ordered = text.ends_with(" /* ordered */");
    let sorted = |rows: &[Vec<Json>]| {
        let mut keyed: Vec<(String, &Vec<Json>)> =
            rows.iter().map(|row| (Json::from(row.clone()).to_string(), row)).collect();
        if !is_ordered {
            keyed.sort_by(|left, right| left.0.cmp(&right.0));
        }
        keyed.into_iter().map(|(_, row)| row.clone()).collect::<Vec<_>>()
    };
    let (google, ours) = (sorted(google), sorted(ours));
    google.len() == ours.len()
        && google.iter().zip(&ours).all(|(google, ours)| {
            google.len() == ours.len()
                && google.iter().zip(ours).all(|(google, ours)| google == ours)
        })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Rows(types, rows) => {
                let rows = Json::from(rows.iter().cloned().map(Json::from).collect::<Vec<_>>());
                write!(f, "{} {rows}", types.join(", "))
            }
            Answer::Accepted => f.write_str("accepted"),
            Answer::Analysis(message) => write!(f, "refused: {message}"),
            Answer::Evaluation(message) => write!(f, "failed: {message}"),
            Answer::Unsupported(construct) => write!(f, "unsupported: {construct}"),
            Answer::Crash => f.write_str("crashed"),
        }
    }
}
