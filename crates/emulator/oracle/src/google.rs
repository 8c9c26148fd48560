//! Google's side: a process of Java.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

use crate::answer::Answer;
use crate::ours::{PARAMETERS, TABLES};

/// Google's reference implementation of GoogleSQL.
pub struct Google {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// How often it died of a statement and was started again.
    pub crashes: u64,
}

impl Google {
    /// Starts it, from what `mvn` has built.
    pub fn start() -> Result<Google, String> {
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/target");
        let libraries = std::fs::read_to_string(format!("{target}/classpath"))
            .map_err(|error| format!("{target}/classpath: {error}: run emulator/oracle/run"))?;
        let mut child = Command::new("java")
            .args(["-cp", &format!("{target}/classes:{}", libraries.trim()), "oracle.Oracle"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("java: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("java has no pipes".to_owned());
        };
        let (input, output) = (BufWriter::new(input), BufReader::new(output));
        let mut google = Google { child, input, output, crashes: 0 };
        for table in TABLES {
            let columns: Vec<Json> =
                table.columns.iter().map(|(name, kind)| json!([name, kind])).collect();
            google.send(&json!({
                "table": table.name, "columns": columns, "key": table.key, "rows": table.rows,
            }))?;
        }
        for (name, kind, value) in PARAMETERS {
            google.send(&json!({ "parameter": name, "type": kind, "value": value }))?;
        }
        Ok(google)
    }

    fn send(&mut self, request: &Json) -> Result<(), String> {
        writeln!(self.input, "{request}").map_err(|error| error.to_string())
    }

    /// The answers to these statements.
    pub fn ask(&mut self, statements: &[String]) -> Result<Vec<Answer>, String> {
        let mut answers = Vec::with_capacity(statements.len());
        while answers.len() < statements.len() {
            let rest = &statements[answers.len()..];
            let sent = rest.iter().try_for_each(|text| {
                let is_query = ["SELECT", "WITH", "("].iter().any(|word| text.starts_with(word));
                match is_query {
                    true => self.send(&json!({ "sql": text })),
                    false => self.send(&json!({ "sql": text, "analyze": true })),
                }
            });
            // A process that is gone is noticed when its answers are missing.
            let _ = sent.and_then(|()| self.input.flush().map_err(|error| error.to_string()));
            for _ in rest {
                let mut line = String::new();
                match self.output.read_line(&mut line) {
                    Ok(1..) => answers.push(answer(&line)?),
                    _ => {
                        answers.push(Answer::Crash);
                        self.restart()?;
                        break;
                    }
                }
            }
        }
        Ok(answers)
    }

    fn restart(&mut self) -> Result<(), String> {
        let crashes = self.crashes + 1;
        if crashes > 100 {
            return Err("Google's side dies again and again".to_owned());
        }
        *self = Google::start()?;
        self.crashes = crashes;
        Ok(())
    }
}

impl Drop for Google {
    fn drop(&mut self) {
        // It ends by itself at the end of its input; whoever doesn't is ended here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(line: &str) -> Result<Answer, String> {
    let answer: Json = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    let message = || answer["message"].as_str().unwrap_or_default().replace('\n', " ");
    Ok(match answer["error"].as_str() {
        Some("analysis") => Answer::Analysis(message()),
        Some(_) => Answer::Evaluation(message()),
        None if answer["accepted"] == true => Answer::Accepted,
        None => {
            let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
            let columns = list(&answer["columns"]);
            let types = columns.iter().map(|column| column[1].as_str().unwrap_or("").to_owned());
            Answer::Rows(types.collect(), list(&answer["rows"]).iter().map(list).collect())
        }
    })
}
