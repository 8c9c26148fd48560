//! The findings, point by point.

use std::fmt;

/// The verdict on one point.
#[derive(Clone, Debug)]
pub enum Verdict {
    Held(String),
    Broken(String),
    /// Not held, by a server that runs one transaction at a time and says so by ABORTED: locks stay
    /// safe on it, and wait for each other.
    OneAtATime(String),
    NotApplicable(String),
}

#[derive(Debug, Default)]
pub struct Report(Vec<(String, Verdict)>);

impl Report {
    /// Adds a point, and says it at once: the whole takes a while.
    pub fn add(&mut self, point: &str, verdict: Verdict) {
        println!("{verdict}: {point}{}", verdict.reason());
        self.0.push((point.to_string(), verdict));
    }

    pub fn held(&self, point: &str) -> bool {
        self.0.iter().any(|(name, verdict)| name == point && matches!(verdict, Verdict::Held(_)))
    }

    pub fn is_well(&self) -> bool {
        self.0.iter().all(|(_, verdict)| !matches!(verdict, Verdict::Broken(_)))
    }

    fn count(&self, wanted: fn(&Verdict) -> bool) -> usize {
        self.0.iter().filter(|(_, verdict)| wanted(verdict)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_well() { "ok" } else { "FAILED" };
        write!(
            f,
            "any_spanner: {word} held={} broken={} one_at_a_time={} not_applicable={}",
            self.count(|it| matches!(it, Verdict::Held(_))),
            self.count(|it| matches!(it, Verdict::Broken(_))),
            self.count(|it| matches!(it, Verdict::OneAtATime(_))),
            self.count(|it| matches!(it, Verdict::NotApplicable(_))),
        )
    }
}

impl Verdict {
    fn reason(&self) -> String {
        let (Verdict::Held(reason)
        | Verdict::Broken(reason)
        | Verdict::OneAtATime(reason)
        | Verdict::NotApplicable(reason)) = self;
        if reason.is_empty() { String::new() } else { format!(": {reason}") }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Held(_) => "held",
            Verdict::Broken(_) => "BROKEN",
            Verdict::OneAtATime(_) => "limit of a server that runs one transaction at a time",
            Verdict::NotApplicable(_) => "not applicable",
        })
    }
}
