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

use crate::engine::{Error, Result};
use crate::service::{encode_timestamp as encode, page};

pub(crate) use registry::Admin;

/// UNIMPLEMENTED, unless the field of this name was left out.
fn refuse(field: &str, is_set: bool) -> Result<()> {
    match is_set {
        true => Err(Error::unimplemented(format!("Not supported here: {field}"))),
        false => Ok(()),
    }
}
