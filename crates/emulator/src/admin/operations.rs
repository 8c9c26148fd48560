//! Long-running operations, none of which runs long.

use std::collections::VecDeque;

use googleapis_tonic_google_rpc::google::rpc;
use longrunning::operation;
use prost::Message;

use super::{database, instance, longrunning, names};
use crate::engine::{Code, Error, Result};

/// How many operations are remembered; the oldest are forgotten.
const REMEMBERED: usize = 1_000;

const INSTANCE: &str = "type.googleapis.com/google.spanner.admin.instance.v1";
const DATABASE: &str = "type.googleapis.com/google.spanner.admin.database.v1";

/// The operations that there have been, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Operations {
    recent: VecDeque<longrunning::Operation>,
    numbered: u64,
}

/// How an operation ended.
#[derive(Debug)]
pub(super) enum Done {
    Instance(instance::Instance),
    Database(database::Database),
    Nothing,
    Failed(Error),
}

impl Operations {
    /// Notes an operation of this resource, named by its number.
    pub fn add(
        &mut self,
        resource: &str,
        kind: &str,
        metadata: &impl Message,
        done: Done,
    ) -> longrunning::Operation {
        self.numbered += 1;
        let name = format!("{resource}/operations/_auto_{}", self.numbered);
        self.note(name, kind, metadata, done)
    }

    /// Returns the name of an operation that a client gives this id, which is free; `None` if it
    /// gives none.
    pub fn name(&self, resource: &str, id: &str) -> Result<Option<String>> {
        if id.is_empty() {
            return Ok(None);
        }
        if !names::is_operation_id(id) {
            return Err(Error::invalid_argument(format!(
                "Invalid operation id `{id}`: lower-case letters, digits and underscores, the first \
                 a letter"
            )));
        }
        let name = format!("{resource}/operations/{id}");
        match self.find(&name) {
            Err(_) => Ok(Some(name)),
            Ok(_) => {
                let message = format!("Operation already exists: {name}");
                Err(Error::new(Code::AlreadyExists, message))
            }
        }
    }

    /// Notes an operation under a name that is free.
    pub fn note(
        &mut self,
        name: String,
        kind: &str,
        metadata: &impl Message,
        done: Done,
    ) -> longrunning::Operation {
        let package = if kind.contains("Instance") { INSTANCE } else { DATABASE };
        let packed = |type_url: String, value: Vec<u8>| prost_types::Any { type_url, value };
        let response = |type_url, value| operation::Result::Response(packed(type_url, value));
        let result = match done {
            Done::Instance(made) => response(format!("{INSTANCE}.Instance"), made.encode_to_vec()),
            Done::Database(made) => response(format!("{DATABASE}.Database"), made.encode_to_vec()),
            Done::Nothing => {
                response("type.googleapis.com/google.protobuf.Empty".to_owned(), Vec::new())
            }
            Done::Failed(error) => operation::Result::Error(rpc::Status {
                code: error.code().number(),
                message: error.message().to_owned(),
                details: Vec::new(),
            }),
        };
        let operation = longrunning::Operation {
            name,
            metadata: Some(packed(format!("{package}.{kind}"), metadata.encode_to_vec())),
            done: true,
            result: Some(result),
        };
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(operation.clone());
        operation
    }

    /// Returns the operation of this name.
    pub fn find(&self, name: &str) -> Result<&longrunning::Operation> {
        self.recent.iter().find(|operation| operation.name == name).ok_or_else(|| {
            let kind = "type.googleapis.com/google.longrunning.Operation";
            Error::resource_not_found(kind, "Operation", name)
        })
    }

    /// Forgets the operations of a resource that is no more, and of what was part of it.
    pub fn forget_below(&mut self, resource: &str) {
        let below = format!("{resource}/");
        self.recent.retain(|operation| !operation.name.starts_with(&below));
    }
}
