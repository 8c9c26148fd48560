//! Completions and the manual, made from the command line's own description.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::failure::{Code, Failure, Result};
use crate::output::Output;

pub fn completions(out: &Output, shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "spindle", &mut text);
    out.text(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

pub fn manual(out: &Output, into: Option<&Path>) -> Result<ExitCode> {
    let command = Arguments::command();
    let Some(directory) = into else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text)?;
        out.text(&String::from_utf8_lossy(&text))?;
        return Ok(ExitCode::SUCCESS);
    };
    let made = std::fs::create_dir_all(directory);
    made.and_then(|()| clap_mangen::generate_to(command, directory)).map_err(|error| {
        let text = format!("directory `{}`: write the manual: {error}", directory.display());
        Failure::new(Code::No, text)
    })?;
    Ok(ExitCode::SUCCESS)
}
