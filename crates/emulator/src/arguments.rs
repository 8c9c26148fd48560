//! The arguments of the program.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Cloud Spanner's clients look for an emulator on this port when they are told nothing else.
const PORT: u16 = 9010;
/// And for administration over REST on this one, then.
const REST_PORT: u16 = 9020;
/// The database there is when none is named.
const DATABASE: &str = "projects/p/instances/i/databases/d";

/// The text that `--help` prints.
pub const HELP: &str = "\
An embedded Cloud Spanner, in memory, for development and tests.

Usage: spindle-emulator [OPTIONS]

Options:
  --port N           listen on this port [default: 9010]; 0 picks a free one
  --rest PORT        offer administration over REST on this port; 0 picks a free one
                     [default: 9020, or a free one if --port says something else]
  --host ADDRESS     listen on this address [default: 127.0.0.1]; there is no
                     authentication, so whoever reaches it may do anything
  --database PATH    create projects/P/instances/I/databases/D; may be repeated
                     [default: projects/p/instances/i/databases/d]
  --control PORT     offer the control service (faults, restarts, the clock; see the
                     README) on this port; 0 picks a free one [default: off]
  --ddl FILE         create the tables of this file in each database
  --lenient-ddl      keep DDL that asks for what is not here (sequences, views, change
                     streams, roles, …) and refuse what uses it [default: refuse it]
  -h, --help         print this
  -V, --version      print the version
";

/// The order to the program.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
    /// Serve.
    Serve(Serve),
}

/// How to serve.
#[derive(Debug, PartialEq, Eq)]
pub struct Serve {
    pub host: IpAddr,
    pub port: u16,
    pub rest: u16,
    pub control: Option<u16>,
    pub databases: Vec<String>,
    pub ddl: Option<PathBuf>,
    pub lenient_ddl: bool,
}

impl Command {
    /// Reads the arguments that follow the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
        let mut serve = Serve {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: PORT,
            rest: REST_PORT,
            control: None,
            databases: Vec::new(),
            ddl: None,
            lenient_ddl: false,
        };
        let mut rest = None;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, mut attached) = split(argument)?;
            let mut value = || {
                let value = attached.take().or_else(|| arguments.next());
                value.ok_or_else(|| format!("{name} needs a value"))
            };
            match name.as_str() {
                "-h" | "--help" => return Ok(Command::Help),
                "-V" | "--version" => return Ok(Command::Version),
                "--port" => serve.port = parsed(&name, value()?, "a port number")?,
                "--rest" => rest = Some(parsed(&name, value()?, "a port number")?),
                "--control" => serve.control = Some(parsed(&name, value()?, "a port number")?),
                "--host" => serve.host = parsed(&name, value()?, "an IP address")?,
                "--database" => serve.databases.push(parsed(&name, value()?, "text")?),
                "--ddl" => serve.ddl = Some(value()?.into()),
                "--lenient-ddl" => serve.lenient_ddl = true,
                _ => return Err(format!("unknown argument `{name}`; --help lists them")),
            }
            if attached.is_some() {
                return Err(format!("{name} takes no value"));
            }
        }
        // An emulator beside the one on the usual ports should not stumble over it.
        serve.rest = rest.unwrap_or(if serve.port == PORT { REST_PORT } else { 0 });
        if serve.databases.is_empty() {
            serve.databases.push(DATABASE.to_owned());
        }
        Ok(Command::Serve(serve))
    }
}

/// Splits `--name=value`.
fn split(argument: OsString) -> Result<(String, Option<OsString>), String> {
    let text = argument
        .into_string()
        .map_err(|argument| format!("unknown argument `{}`", argument.to_string_lossy()))?;
    Ok(match text.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.into())),
        _ => (text, None),
    })
}

fn parsed<T: std::str::FromStr>(name: &str, value: OsString, what: &str) -> Result<T, String> {
    let text = value.to_string_lossy();
    text.parse().map_err(|_| format!("{name} needs {what}, not `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Command, String> {
        Command::parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let Ok(Command::Serve(serve)) = parse("") else { panic!("refused") };
        assert_eq!((serve.port, serve.rest, serve.host.is_loopback()), (9010, 9020, true));
        assert_eq!(serve.databases, [DATABASE]);
        let Ok(Command::Serve(serve)) =
            parse("--port=0 --database a --database b --ddl x --lenient-ddl")
        else {
            panic!("refused")
        };
        assert_eq!((serve.port, serve.rest, serve.databases.len()), (0, 0, 2));
        assert!(serve.lenient_ddl);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [
            ("--port", "--port needs a value"),
            ("--port x", "--port needs a port number, not `x`"),
            ("--host here", "--host needs an IP address"),
            ("--help=1 --what", "--what"),
            ("--what", "unknown argument `--what`"),
        ] {
            match parse(text) {
                Err(error) => assert!(error.contains(part), "{error}"),
                Ok(command) => assert_eq!(command, Command::Help, "{text}"),
            }
        }
    }
}
