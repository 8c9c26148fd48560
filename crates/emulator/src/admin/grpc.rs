//! The calls over gRPC.

use std::future::ready;
use std::sync::Arc;

use hyper::body::Incoming;
use prost::Message;
use tonic::{Response, Status};

use super::Admin;
use crate::engine::Result;
use crate::grpc::{self, Messages, Reply, unknown};
use crate::service::status;

type Answer = std::result::Result<Messages, Status>;

/// Answers a request that is not about data.
pub(crate) async fn answer(admin: Arc<Admin>, request: http::Request<Incoming>) -> Reply {
    let path = request.uri().path().to_owned();
    let call: grpc::Call = Box::new(move |request| {
        let answer = done(&admin, &path, request.get_ref());
        Box::pin(ready(answer.map(Response::new)))
    });
    grpc::answer(request, call).await
}

fn done(admin: &Admin, path: &str, request: &[u8]) -> Answer {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let answer = match service {
        "google.spanner.admin.instance.v1.InstanceAdmin" => instances(admin, method, request),
        "google.spanner.admin.database.v1.DatabaseAdmin" => databases(admin, method, request),
        "google.longrunning.Operations" if method == "GetOperation" => {
            Some(unary(admin, request, Admin::get_operation))
        }
        _ => None,
    };
    answer.unwrap_or_else(|| Err(unknown(path)))
}

fn instances(admin: &Admin, method: &str, request: &[u8]) -> Option<Answer> {
    Some(match method {
        "ListInstanceConfigs" => unary(admin, request, Admin::list_instance_configs),
        "GetInstanceConfig" => unary(admin, request, Admin::get_instance_config),
        "CreateInstance" => unary(admin, request, Admin::create_instance),
        "GetInstance" => unary(admin, request, Admin::get_instance),
        "ListInstances" => unary(admin, request, Admin::list_instances),
        "DeleteInstance" => unary(admin, request, Admin::delete_instance),
        _ => return None,
    })
}

fn databases(admin: &Admin, method: &str, request: &[u8]) -> Option<Answer> {
    Some(match method {
        "CreateDatabase" => unary(admin, request, Admin::create_database),
        "GetDatabase" => unary(admin, request, Admin::get_database),
        "ListDatabases" => unary(admin, request, Admin::list_databases),
        "DropDatabase" => unary(admin, request, Admin::drop_database),
        "UpdateDatabaseDdl" => unary(admin, request, Admin::update_database_ddl),
        "GetDatabaseDdl" => unary(admin, request, Admin::get_database_ddl),
        _ => return None,
    })
}

fn unary<Q: Message + Default, R: Message>(
    admin: &Admin,
    request: &[u8],
    apply: fn(&Admin, Q) -> Result<R>,
) -> Answer {
    let reply = apply(admin, grpc::read(request)?).map_err(|error| status(&error))?;
    Ok(grpc::one(&reply))
}
