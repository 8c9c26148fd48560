//! The content of control requests, as JSON.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::engine::{Code, Dialect, Error, Result};
use crate::faults::{Effect, Fault};
use crate::http1;
use crate::rpc::Rpc;

/// Reads a request; a field that it doesn't have is a mistake.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    http1::parse(body, Error::invalid_argument)
}

/// A fault to inject.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Injection {
    rpc: Option<Rpc>,
    #[serde(default)]
    statements: bool,
    session: Option<String>,
    tag: Option<String>,
    table: Option<String>,
    key: Option<String>,
    #[serde(default)]
    skip: u64,
    times: Option<u64>,
    probability: Option<f64>,
    #[serde(default)]
    seed: u64,
    effect: String,
    ms: Option<u64>,
    code: Option<Code>,
}

/// A database to copy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Copy {
    pub from: String,
    pub to: String,
}

/// How far to move the clock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advance {
    pub ms: u64,
}

/// A database to create.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Creation {
    pub name: String,
    #[serde(default)]
    pub dialect: Dialect,
    #[serde(default)]
    pub ddl: String,
}

impl Injection {
    pub fn fault(self) -> Result<Fault> {
        let effect = self.effect()?;
        let Injection { rpc, statements, session, tag, table, key, skip, times, seed, .. } = self;
        let probability = self.probability.map(|probability| (probability, seed));
        Ok(Fault { rpc, statements, session, tag, table, key, skip, times, probability, effect })
    }

    fn effect(&self) -> Result<Effect> {
        let missing = |name| move || Error::invalid_argument(format!("missing field `{name}`"));
        let delay = || self.ms.map(Duration::from_millis).ok_or_else(missing("ms"));
        let code = || self.code.ok_or_else(missing("code"));
        Ok(match self.effect.as_str() {
            "delay" => Effect::Delay(delay()?),
            "queue" => Effect::Queue(delay()?),
            "delay_reply" => Effect::DelayReply(delay()?),
            "fail" => Effect::Fail(code()?),
            "fail_after_applying" => Effect::FailAfterApplying(code()?),
            "lose_reply" => Effect::LoseReply,
            "apply_late" => Effect::ApplyLate { after: delay()? },
            "drop_connection" => Effect::DropConnection,
            "stall" => Effect::Stall,
            "stall_reply" => Effect::StallReply,
            "abort" => Effect::Abort,
            "hide_read_timestamp" => Effect::HideReadTimestamp,
            "end_earlier" => Effect::EndEarlier,
            name => return Err(Error::invalid_argument(format!("unknown effect `{name}`"))),
        })
    }
}

/// Returns what an injection of this fault says. Of `skip` and `times` it tells what is left.
pub(super) fn described(fault: &Fault) -> Value {
    let (probability, seed) = fault.probability.unzip();
    let (name, ms, code) = effect_described(fault.effect);
    let all = json!({
        "rpc": fault.rpc.map(|rpc| rpc.to_string()),
        "statements": fault.statements.then_some(true),
        "session": fault.session,
        "tag": fault.tag,
        "table": fault.table,
        "key": fault.key,
        "skip": (fault.skip > 0).then_some(fault.skip),
        "times": fault.times,
        "probability": probability,
        "seed": seed,
        "effect": name,
        "ms": ms.map(|ms| u64::try_from(ms.as_millis()).unwrap_or(u64::MAX)),
        "code": code,
    });
    match all {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

fn effect_described(effect: Effect) -> (&'static str, Option<Duration>, Option<Code>) {
    match effect {
        Effect::Delay(by) => ("delay", Some(by), None),
        Effect::Queue(by) => ("queue", Some(by), None),
        Effect::DelayReply(by) => ("delay_reply", Some(by), None),
        Effect::Fail(code) => ("fail", None, Some(code)),
        Effect::FailAfterApplying(code) => ("fail_after_applying", None, Some(code)),
        Effect::LoseReply => ("lose_reply", None, None),
        Effect::ApplyLate { after } => ("apply_late", Some(after), None),
        Effect::DropConnection => ("drop_connection", None, None),
        Effect::Stall => ("stall", None, None),
        Effect::StallReply => ("stall_reply", None, None),
        Effect::Abort => ("abort", None, None),
        Effect::HideReadTimestamp => ("hide_read_timestamp", None, None),
        Effect::EndEarlier => ("end_earlier", None, None),
    }
}
