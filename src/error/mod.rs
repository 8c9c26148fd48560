//! Errors, and how acts and terms end.

mod client;
mod contact;
mod kind;
mod outcome;
mod term_end;
mod text;

pub(crate) use client::{Missing, code, is_definite, panic_message, with_causes};
pub use client::{is_answer, told_by_client};
pub(crate) use contact::Answers;
pub use contact::Contact;
pub(crate) use kind::Kind;
pub use kind::{Error, Result, TaskError, is_fenced};
pub(crate) use outcome::Outcome;
pub use term_end::{ReleaseOutcome, TermEnd};
