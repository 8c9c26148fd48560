//! Checks what compilers don't: which layer may use which, how the prose reads, whether the docs
//! quote the figures that were measured.

mod api;
mod figures;
mod graph;
mod layers;
mod modules;
mod prose;

use std::process::ExitCode;

const USAGE: &str =
    "usage: tidy layers [--edges] | prose [--counts] | figures [record COMMAND…] | api [--write]
  layers          fails if a module uses one above its own, or if modules use each other in a circle
  layers --edges  lists who uses whom
  prose          lists sentences that a tired reader reads twice; never fails
  prose --counts prints the counts alone
  figures        fails if a kept figure is not quoted by the docs, or is not the sum of its table
  figures record COMMAND…  keeps the figures that the command prints, in docs/figures.json
  api            fails if the public API is not the one in docs/public-api.txt, or cannot be told
  api --write    keeps it there";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let checked = match arguments[..] {
        ["layers"] => layers::check(false),
        ["layers", "--edges"] => layers::check(true),
        ["prose"] => prose::list(false),
        ["prose", "--counts"] => prose::list(true),
        ["api"] => api::check(false),
        ["api", "--write"] => api::check(true),
        ["figures"] => figures::check(),
        ["figures", "record", ref command @ ..] => figures::record(command),
        _ => Err(USAGE.to_string()),
    };
    match checked {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
