//! `spindle`: who holds what on a lock table, since when, and why.

// All text for a terminal goes through `output`, which cleans it.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod arguments;
mod commands;
mod confirm;
mod drawing;
mod failure;
mod fleets;
mod jobs;
mod log;
mod output;
mod place;
mod readers;
mod record;
mod serve;
mod signals;
mod start;

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Form};
use failure::{Code, Failure};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && Form::asked(std::env::args_os()).has_objects() => {
            Failure::usage(&error).tell(Form::asked(std::env::args_os()));
            return Code::Usage.exit();
        }
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => {
            output::to_stderr(&Arguments::command().render_help().to_string());
            return Code::Usage.exit();
        }
        Err(error) => {
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return match say(&error, asked) {
                Err(error) if asked && error.kind() != io::ErrorKind::BrokenPipe => {
                    Code::System.exit()
                }
                _ if asked => ExitCode::SUCCESS,
                _ => Code::Usage.exit(),
            };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("no runtime: {error}"));
            return Code::NotStarted.exit();
        }
    };
    let form = arguments.common.output;
    let outcome = runtime.block_on(commands::carry_out(arguments));
    // Work that still runs, such as a request without an answer, is not waited for.
    runtime.shutdown_background();
    log::end();
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            failure.tell(form);
            failure.code().exit()
        }
    }
}

/// Says what is wrong with the command line, or the help that was asked for: in colours, unless it
/// repeats an argument that would steer the terminal.
fn say(error: &clap::Error, asked: bool) -> io::Result<()> {
    let text = error.to_string();
    if output::is_clean(&text) || asked {
        error.print()
    } else {
        output::to_stderr(&text);
        Ok(())
    }
}
