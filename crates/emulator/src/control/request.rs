//! The content of control requests, as JSON.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::engine::{Code, Error, Result};
use crate::faults::{Effect, Fault};
use crate::rpc::Rpc;
use crate::running::Restart;

/// The fields of a request, each of which is taken once; what is left over is a mistake.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object; nothing at all is an empty one.
    pub fn parse(body: &[u8]) -> Result<Fields> {
        if body.is_empty() {
            return Ok(Fields(Map::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) => Err(Error::invalid_argument("the request is not a JSON object")),
            Err(error) => Err(Error::invalid_argument(format!("the request is not JSON: {error}"))),
        }
    }

    /// Returns a text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        self.take(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    fn count(&mut self, name: &str) -> Result<Option<u64>> {
        self.take(name, "a whole number, not negative", Value::as_u64)
    }

    fn number(&mut self, name: &str) -> Result<Option<f64>> {
        self.take(name, "a number", Value::as_f64)
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        Ok(self.take(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// Returns a duration in milliseconds, which must be there.
    pub fn duration(&mut self, name: &str) -> Result<Duration> {
        let millis = self.count(name)?.ok_or_else(|| missing(name))?;
        Ok(Duration::from_millis(millis))
    }

    /// Makes sure that nothing is left over.
    pub fn finish(self) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => Err(Error::invalid_argument(format!("unknown field `{name}`"))),
            None => Ok(()),
        }
    }

    fn take<T>(
        &mut self,
        name: &str,
        what: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&value)
                .map(Some)
                .ok_or_else(|| Error::invalid_argument(format!("`{name}` is not {what}: {value}"))),
        }
    }
}

/// Returns a fault.
pub(super) fn fault(mut fields: Fields) -> Result<Fault> {
    let mut fault = match fields.text("rpc")? {
        None => Fault::any(),
        Some(name) => Fault::on(
            Rpc::from_name(&name)
                .ok_or_else(|| Error::invalid_argument(format!("unknown rpc `{name}`")))?,
        ),
    };
    if let Some(session) = fields.text("session")? {
        fault = fault.session(session);
    }
    if let Some(table) = fields.text("table")? {
        fault = fault.table(table);
    }
    if let Some(key) = fields.text("key")? {
        fault = fault.key(key);
    }
    if let Some(count) = fields.count("skip")? {
        fault = fault.skip(count);
    }
    if let Some(count) = fields.count("times")? {
        fault = fault.times(count);
    }
    let (probability, seed) = (fields.number("probability")?, fields.count("seed")?);
    if let Some(probability) = probability {
        fault = fault.probability(probability, seed.unwrap_or(0));
    }
    fault = fault.effect(effect(&mut fields)?);
    fields.finish()?;
    Ok(fault)
}

fn effect(fields: &mut Fields) -> Result<Effect> {
    let name = fields.text("effect")?.ok_or_else(|| missing("effect"))?;
    Ok(match name.as_str() {
        "delay" => Effect::Delay(fields.duration("ms")?),
        "queue" => Effect::Queue(fields.duration("ms")?),
        "delay_reply" => Effect::DelayReply(fields.duration("ms")?),
        "fail" => Effect::Fail(code(fields)?),
        "fail_after_applying" => Effect::FailAfterApplying(code(fields)?),
        "lose_reply" => Effect::LoseReply,
        "apply_late" => Effect::ApplyLate { after: fields.duration("ms")? },
        "drop_connection" => Effect::DropConnection,
        "stall" => Effect::Stall,
        "stall_reply" => Effect::StallReply,
        "abort" => Effect::Abort,
        "hide_read_timestamp" => Effect::HideReadTimestamp,
        "end_earlier" => Effect::EndEarlier,
        _ => return Err(Error::invalid_argument(format!("unknown effect `{name}`"))),
    })
}

fn code(fields: &mut Fields) -> Result<Code> {
    let name = fields.text("code")?.ok_or_else(|| missing("code"))?;
    Code::ALL
        .into_iter()
        .find(|code| code.to_string() == name)
        .ok_or_else(|| Error::invalid_argument(format!("unknown code `{name}`")))
}

/// Reads what a restart leaves.
pub(super) fn restart(mut fields: Fields) -> Result<Restart> {
    let restart = match fields.text("data")?.as_deref() {
        None | Some("keep") => Restart::keep(),
        Some("lose_rows") => Restart::lose_rows(),
        Some("lose_databases") => Restart::lose_databases(),
        Some(other) => return Err(Error::invalid_argument(format!("unknown data `{other}`"))),
    };
    let keeps_sessions = fields.flag("keep_sessions")?;
    fields.finish()?;
    Ok(if keeps_sessions { restart.keep_sessions() } else { restart })
}

fn missing(name: &str) -> Error {
    Error::invalid_argument(format!("`{name}` is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Fault> {
        fault(Fields::parse(text.as_bytes())?)
    }

    #[test]
    fn a_fault_says_the_same_in_json() {
        for text in [
            r#"{"effect": "lose_reply"}"#,
            r#"{"rpc": "Commit", "table": "t", "key": "k", "skip": 1, "times": 2, "effect": "abort"}"#,
            r#"{"effect": "delay", "ms": 20, "probability": 0.5, "seed": 7}"#,
            r#"{"effect": "fail_after_applying", "code": "UNAVAILABLE"}"#,
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, named) in [
            ("[]", "not a JSON object"),
            ("{", "not JSON"),
            ("{}", "`effect` is missing"),
            (r#"{"effect": "delay"}"#, "`ms` is missing"),
            (r#"{"effect": "explode"}"#, "unknown effect `explode`"),
            (r#"{"effect": "fail", "code": "BAD"}"#, "unknown code `BAD`"),
            (r#"{"effect": "stall", "rpc": "Compute"}"#, "unknown rpc `Compute`"),
            (r#"{"effect": "stall", "tabel": "t"}"#, "unknown field `tabel`"),
            (r#"{"effect": "stall", "times": -1}"#, "`times` is not a whole number"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.message().contains(named), "{text}: {refused}");
        }
    }
}
