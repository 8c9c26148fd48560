//! Administration: instances, databases and their schemas, as any client's set-up code asks for them.
//!
//! One set of calls comes over gRPC beside the data (`grpc`), and over HTTP and JSON on a port of
//! its own (`rest`). Whatever takes long in Cloud Spanner is done at once here, and its operation
//! says so.

mod configuration;
mod databases;
mod definition;
pub(crate) mod grpc;
mod instances;
mod names;
mod operations;
mod registry;
pub(crate) mod rest;

use googleapis_tonic_google_longrunning::google::longrunning;
use googleapis_tonic_google_spanner_admin_database_v1::google::spanner::admin::database::v1 as database;
use googleapis_tonic_google_spanner_admin_instance_v1::google::spanner::admin::instance::v1 as instance;

use crate::engine::{Error, Result, Timestamp};

pub(crate) use registry::Admin;

/// How many items one page lists at most.
const PAGE_MAX: usize = 1_000;

/// One page of what is sorted by name, and the token of the next one: the name it starts with.
fn page<T>(
    items: impl Iterator<Item = T>,
    name: impl Fn(&T) -> &str,
    size: i32,
    token: &str,
) -> (Vec<T>, String) {
    let most = match usize::try_from(size) {
        Ok(size @ 1..) => size.min(PAGE_MAX),
        _ => PAGE_MAX,
    };
    let mut items: Vec<T> = items.filter(|item| name(item) >= token).take(most + 1).collect();
    let next = if items.len() > most { items.pop() } else { None };
    (items, next.map(|item| name(&item).to_owned()).unwrap_or_default())
}

/// UNIMPLEMENTED, unless the field of this name was left out.
fn refuse(field: &str, is_set: bool) -> Result<()> {
    match is_set {
        true => Err(Error::unimplemented(format!("Not supported here: {field}"))),
        false => Ok(()),
    }
}

fn encode(timestamp: Timestamp) -> prost_types::Timestamp {
    // Below 10^9, which an i32 holds.
    let nanos = timestamp.subsec_nanos() as i32;
    prost_types::Timestamp { seconds: timestamp.seconds(), nanos }
}
