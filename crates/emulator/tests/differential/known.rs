//! The known differences.

use std::collections::BTreeMap;

use super::answer::Answer;

/// The lines of `known.txt`: what the call contains, what Google's answer contains, what the
/// emulator's answer contains, and the reason. An empty part is not asked for.
pub struct Known(Vec<[&'static str; 4]>, pub BTreeMap<&'static str, u64>);

impl Known {
    pub fn read() -> Result<Known, String> {
        let lines = include_str!("known.txt").lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
        let parts = lines.map(|line| {
            let parts: Vec<&str> = line.split(" | ").map(str::trim_end).collect();
            parts.try_into().map_err(|_| format!("known.txt: not four parts: {line}"))
        });
        Ok(Known(parts.collect::<Result<_, _>>()?, BTreeMap::new()))
    }

    /// The reason for this difference, if there is one.
    pub fn reason(&self, call: &str, google: &Answer, ours: &Answer) -> Option<&'static str> {
        let (google, ours) = (google.to_string(), ours.to_string());
        let found = self.0.iter().find(|[of_call, of_google, of_ours, _]| {
            call.contains(of_call) && google.contains(of_google) && ours.contains(of_ours)
        });
        found.map(|[.., reason]| *reason)
    }
}
