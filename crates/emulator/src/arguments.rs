//! The arguments of the program.

use std::net::{IpAddr, Ipv4Addr};
use std::num::ParseIntError;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Cloud Spanner's clients look for an emulator on this port when they are told nothing else.
const PORT: u16 = 9010;
/// And for administration over REST on this one, then.
const REST_PORT: u16 = 9020;

/// An embedded Cloud Spanner, in memory, for development and tests.
#[derive(Debug, Parser)]
#[command(name = "spindle-emulator", version)]
pub struct Arguments {
    /// Listens on this port; 0 picks a free one.
    #[arg(long, default_value_t = PORT)]
    pub port: u16,
    /// Offers administration over REST on this port; 0 picks a free one [default: 9020, or a free one if
    /// --port says something else].
    #[arg(long, value_name = "PORT")]
    rest: Option<u16>,
    /// Listens on this address. There is no authentication, so whoever reaches it may do anything.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// Creates projects/P/instances/I/databases/D; may be repeated.
    #[arg(
        long = "database",
        value_name = "PATH",
        default_value = "projects/p/instances/i/databases/d"
    )]
    pub databases: Vec<String>,
    /// Offers the control service (faults, restarts, the clock; see the README) on this port; 0 picks a
    /// free one [default: off].
    #[arg(long, value_name = "PORT")]
    pub control: Option<u16>,
    /// Creates the tables of this file in each database.
    #[arg(long, value_name = "FILE")]
    pub ddl: Option<PathBuf>,
    /// Keeps DDL that asks for what is not here (sequences, views, change streams, roles, …), and refuses
    /// what uses it.
    #[arg(long)]
    pub lenient_ddl: bool,
    /// Keeps old versions of rows for so many seconds. They take memory, and stale reads show them.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub version_retention: Duration,
}

impl Arguments {
    /// Returns the port for administration over REST.
    pub fn rest(&self) -> u16 {
        // An emulator beside the one on the usual ports should not stumble over it.
        self.rest.unwrap_or(if self.port == PORT { REST_PORT } else { 0 })
    }
}

fn seconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_secs)
}

#[cfg(test)]
#[path = "../tests/private/arguments.rs"]
mod tests;
