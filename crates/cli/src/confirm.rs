//! Asking before something is changed.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::arguments::Confirmation;
use crate::failure::{Code, Failure, Result};
use crate::output::to_stderr;

/// Asks before something is changed; says how to answer where nobody can.
pub fn confirm(confirmation: &Confirmation, question: &str) -> Result<()> {
    if confirmation.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            Code::Unconfirmed,
            "nothing was done: nobody can confirm it here",
        )
        .cure("pass --yes"));
    }
    to_stderr(&format!("{question} [y/N] "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| {
        Failure::new(Code::Unconfirmed, format!("nothing was done: read the answer: {error}"))
    })?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Code::Unconfirmed, "nothing was done")),
    }
}
