//! Calls of functions.

use spindle_emulator::sql::{FunctionCode, functions};

use super::Generator;
use crate::tree::Tree;

impl Generator {
    pub(super) fn call(&mut self, kind: &str, depth: usize) -> Tree {
        let forms = forms_giving(kind, false);
        if forms.is_empty() {
            return self.leaf(kind);
        }
        let (name, parameters) = self.random.pick(&forms).clone();
        let arguments = self.arguments(&parameters, kind, depth);
        match name.starts_with(|first: char| first.is_ascii_alphabetic()) && name != "LIKE" {
            true => Tree::node(&format!("{name}(#)"), [Tree::list(arguments, ", ")]),
            false => Tree::node(&format!("(# {name} #)"), arguments),
        }
    }

    pub(super) fn arguments(&mut self, parameters: &[&str], kind: &str, depth: usize) -> Vec<Tree> {
        let any = match kind.strip_prefix("ARRAY<") {
            _ if !parameters.contains(&"ARRAY<T>") => kind,
            Some(element) => element.trim_end_matches('>'),
            None => "INT64",
        };
        let mut arguments = Vec::new();
        for parameter in parameters {
            let (text, least, most) =
                match (parameter.strip_suffix("..."), parameter.strip_prefix('[')) {
                    (Some(text), _) => (text, 0, 2),
                    (None, Some(text)) => (text.trim_end_matches(']'), 0, 1),
                    (None, None) => (*parameter, 1, 1),
                };
            for _ in 0..least + self.random.below(most - least + 1) {
                arguments.push(match text {
                    "T" | "T=" => self.expr(any, depth),
                    "ARRAY<T>" => self.expr(&format!("ARRAY<{any}>"), depth),
                    "PART" => Tree::leaf(self.part()),
                    "INTERVAL" => {
                        let part = self.part();
                        Tree::node(&format!("INTERVAL # {part}"), [self.expr("INT64", depth)])
                    }
                    text => self.expr(text, depth),
                });
            }
        }
        arguments
    }

    fn part(&mut self) -> &'static str {
        const PARTS: &[&str] = &[
            "NANOSECOND",
            "MICROSECOND",
            "MILLISECOND",
            "SECOND",
            "MINUTE",
            "HOUR",
            "DAY",
            "WEEK",
            "MONTH",
            "YEAR",
        ];
        PARTS[self.random.below(PARTS.len())]
    }
}

/// The functions that can give a type, and what they take.
pub fn forms_giving(kind: &str, aggregates: bool) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found = Vec::new();
    for function in functions() {
        let is_aggregate = matches!(function.code, FunctionCode::Aggregate(_));
        // Another value each time.
        let unsteady =
            matches!(function.code, FunctionCode::Now | FunctionCode::PendingCommitTimestamp)
                || function.name == "GENERATE_UUID";
        if is_aggregate != aggregates || unsteady {
            continue;
        }
        for form in function.forms.split(';') {
            let Some((parameters, result)) = form.split_once("->") else { continue };
            let result = result.trim();
            let is_array = kind.starts_with("ARRAY<");
            if result == kind || result == "T" || result == "ARRAY<T>" && is_array {
                let parameters = parameters.split(", ").map(str::trim);
                let parameters = parameters.filter(|text| !text.is_empty()).collect();
                found.push((function.name, parameters));
            }
        }
    }
    found
}
