//! `spindle`: who holds what on a lock table, since when, and why.

mod arguments;
mod commands;
mod confirm;
mod drawing;
mod failure;
mod fleets;
mod output;
mod place;
mod readers;
mod record;
mod serve;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use arguments::Arguments;
use failure::Code;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => {
            eprint!("{}", Arguments::command().render_help());
            return Code::Usage.exit();
        }
        Err(error) => {
            // Nobody is left to tell if it can't be printed.
            let _ = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked { ExitCode::SUCCESS } else { Code::Usage.exit() };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("spindle: no runtime: {error}");
            return Code::NotStarted.exit();
        }
    };
    let outcome = runtime.block_on(commands::carry_out(arguments));
    // Work that still runs, such as a request without an answer, is not waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("spindle: {failure}");
            failure.code().exit()
        }
    }
}
