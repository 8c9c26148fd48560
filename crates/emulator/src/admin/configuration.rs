//! The configurations that instances can have.

use instance::instance::State;
use instance::instance_config::Type;

use super::{encode, instance};
use crate::engine::{Error, Result, Timestamp};

/// The one configuration that is listed. Others are taken as they come: where an instance is said
/// to be changes nothing here.
pub(super) const CONFIG: &str = "emulator-config";
/// The processing units that make a node.
const UNITS_PER_NODE: i32 = 1_000;

/// Returns the instance of a database that was there before anybody asked for its instance.
pub(super) fn implied(name: &str, now: Timestamp) -> instance::Instance {
    let id = name.rsplit('/').next().unwrap_or_default();
    let project = name.split("/instances/").next().unwrap_or_default();
    instance::Instance {
        name: name.to_owned(),
        config: format!("{project}/instanceConfigs/{CONFIG}"),
        display_name: id.to_owned(),
        node_count: 1,
        processing_units: UNITS_PER_NODE,
        state: State::Ready.into(),
        create_time: Some(encode(now)),
        update_time: Some(encode(now)),
        ..Default::default()
    }
}

/// Returns a configuration of this name.
pub(super) fn config(name: String) -> instance::InstanceConfig {
    instance::InstanceConfig {
        name,
        display_name: "Emulator".to_owned(),
        config_type: Type::GoogleManaged.into(),
        state: instance::instance_config::State::Ready.into(),
        ..Default::default()
    }
}

/// Returns how much an instance can do, in nodes and in processing units, of which a request gives
/// one.
pub(super) fn capacity(asked: &instance::Instance) -> Result<(i32, i32)> {
    let (nodes, units) = (asked.node_count, asked.processing_units);
    match (nodes, units) {
        (0, 0) => Ok((1, UNITS_PER_NODE)),
        (1.., 0) => Ok((nodes, nodes.saturating_mul(UNITS_PER_NODE))),
        (_, 100..) if units % if units < UNITS_PER_NODE { 100 } else { UNITS_PER_NODE } == 0 => {
            let whole = units / UNITS_PER_NODE;
            match nodes == 0 || nodes == whole {
                true => Ok((whole, units)),
                false => Err(Error::invalid_argument(format!(
                    "{nodes} nodes are not {units} processing units; only one of them may be given"
                ))),
            }
        }
        _ => Err(Error::invalid_argument(format!(
            "an instance cannot have {nodes} nodes and {units} processing units"
        ))),
    }
}
