//! Processes of a benchmark: the program starts itself in other parts.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How busy the machine is, since the figures depend on it.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", load.split(' ').next().unwrap_or("unknown"))
}

/// Another process of this program, which ends with this one.
pub struct Part {
    pub child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Part {
    pub fn start(arguments: &[&str]) -> Result<Part, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Part { child, input, output })
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> Result<String, Failure> {
        Ok(self.output.next().ok_or("it has ended")??)
    }

    /// The requests that the server has counted, by method.
    pub fn counts(&mut self) -> Result<BTreeMap<String, u64>, Failure> {
        writeln!(self.input)?;
        let line = self.line()?;
        let counts = line.split(' ').filter_map(|count| count.split_once('='));
        counts.map(|(what, count)| Ok((what.to_string(), count.parse()?))).collect()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
