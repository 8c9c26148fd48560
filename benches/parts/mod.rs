//! Processes of a benchmark: the program starts itself in other parts.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How busy the machine is, since the figures depend on it.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", load.split(' ').next().unwrap_or("unknown"))
}

/// Another process of this program, which ends with this one.
pub struct Part {
    pub child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Part {
    pub fn start(arguments: &[&str]) -> Result<Part, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Part { child, output })
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> Result<String, Failure> {
        Ok(self.output.next().ok_or("it has ended")??)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
