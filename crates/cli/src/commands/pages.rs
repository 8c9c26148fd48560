//! Completions and the manual, made from the command line's own description.

use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::{Code, Failure, Result};
use crate::output::Output;

pub fn completions(out: &Output, shell: Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown(), "spindle", &mut text);
    out.text(&with_names(&String::from_utf8_lossy(&text), shell))?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without the commands that this program gives to itself.
fn shown() -> Command {
    let all = Arguments::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    let shown = Command::new("spindle").version(env!("CARGO_PKG_VERSION"));
    shown.args(all.get_arguments().cloned()).subcommands(commands.cloned())
}

/// Has the completions ask the program for names; what is generated knows commands and options alone.
fn with_names(text: &str, shell: Shell) -> String {
    let first = |names: &str| {
        let begin = "_spindle() {\n";
        let asks = format!("{names}{begin}    _spindle_names \"$1\" && return 0\n");
        text.replacen(begin, &asks, 1)
    };
    match shell {
        Shell::Bash => first(include_str!("names.bash")),
        Shell::Zsh => first(include_str!("names.zsh")),
        Shell::Fish => text.to_string() + include_str!("names.fish"),
        _ => text.to_string(),
    }
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
        Failure::new(Code::System, text)
    })?;
    Ok(ExitCode::SUCCESS)
}
