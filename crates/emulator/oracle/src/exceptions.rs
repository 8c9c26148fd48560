//! Disagreements that have a reason.

use crate::answer::Answer;

/// The exceptions in `exceptions.txt`: a line each,
/// `what the statement contains | what Google's answer contains | what the emulator's answer contains | reason`.
/// An empty part is not asked for.
pub struct Exceptions(Vec<[String; 4]>);

impl Exceptions {
    pub fn read() -> Result<Exceptions, String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/exceptions.txt");
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let mut exceptions = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
            let parts: Vec<String> = line.split(" | ").map(str::to_owned).collect();
            let parts = parts.try_into().map_err(|_| format!("{path}: four parts: {line}"))?;
            exceptions.push(parts);
        }
        Ok(Exceptions(exceptions))
    }

    /// Why these answers may differ, if there is a reason.
    pub fn reason(&self, text: &str, google: &Answer, ours: &Answer) -> Option<String> {
        let (google, ours) = (google.to_string(), ours.to_string());
        let found = self.0.iter().find(|[of_text, of_google, of_ours, _]| {
            text.contains(of_text.as_str())
                && google.contains(of_google.as_str())
                && ours.contains(of_ours.as_str())
        });
        found.map(|[.., reason]| reason.clone())
    }
}
