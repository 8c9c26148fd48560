//! The calls over gRPC.

use std::future::{Ready, ready};
use std::sync::Arc;

use hyper::body::Incoming;
use prost::Message;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::Admin;
use crate::engine::Result;
use crate::service::{REQUEST_BYTES_MAX, status};

type Reply = http::Response<tonic::body::Body>;

/// Answers a request that is not about data. An unknown call is UNIMPLEMENTED, by its name.
pub(crate) async fn answer(admin: Arc<Admin>, request: http::Request<Incoming>) -> Reply {
    let path = request.uri().path().to_owned();
    let Some((service, method)) = path.trim_start_matches('/').split_once('/') else {
        return unknown(&path);
    };
    match service {
        "google.spanner.admin.instance.v1.InstanceAdmin" => instances(method, admin, request).await,
        "google.spanner.admin.database.v1.DatabaseAdmin" => databases(method, admin, request).await,
        "google.longrunning.Operations" => operations(method, admin, request).await,
        _ => unknown(&path),
    }
}

async fn instances(method: &str, admin: Arc<Admin>, request: http::Request<Incoming>) -> Reply {
    match method {
        "ListInstanceConfigs" => unary(admin, request, Admin::list_instance_configs).await,
        "GetInstanceConfig" => unary(admin, request, Admin::get_instance_config).await,
        "CreateInstance" => unary(admin, request, Admin::create_instance).await,
        "GetInstance" => unary(admin, request, Admin::get_instance).await,
        "ListInstances" => unary(admin, request, Admin::list_instances).await,
        "DeleteInstance" => unary(admin, request, Admin::delete_instance).await,
        _ => unknown(request.uri().path()),
    }
}

async fn databases(method: &str, admin: Arc<Admin>, request: http::Request<Incoming>) -> Reply {
    match method {
        "CreateDatabase" => unary(admin, request, Admin::create_database).await,
        "GetDatabase" => unary(admin, request, Admin::get_database).await,
        "ListDatabases" => unary(admin, request, Admin::list_databases).await,
        "DropDatabase" => unary(admin, request, Admin::drop_database).await,
        "UpdateDatabaseDdl" => unary(admin, request, Admin::update_database_ddl).await,
        "GetDatabaseDdl" => unary(admin, request, Admin::get_database_ddl).await,
        _ => unknown(request.uri().path()),
    }
}

async fn operations(method: &str, admin: Arc<Admin>, request: http::Request<Incoming>) -> Reply {
    match method {
        "GetOperation" => unary(admin, request, Admin::get_operation).await,
        _ => unknown(request.uri().path()),
    }
}

fn unknown(path: &str) -> Reply {
    let name = path.trim_start_matches('/');
    Status::unimplemented(format!("Not supported here: {name}")).into_http()
}

/// One call, which is done as soon as its request is there.
struct Call<Q, R> {
    admin: Arc<Admin>,
    apply: fn(&Admin, Q) -> Result<R>,
}

impl<Q, R> UnaryService<Q> for Call<Q, R> {
    type Response = R;
    type Future = Ready<Result<Response<R>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = (self.apply)(&self.admin, request.into_inner());
        ready(answer.map(Response::new).map_err(|error| status(&error)))
    }
}

async fn unary<Q, R>(
    admin: Arc<Admin>,
    request: http::Request<Incoming>,
    apply: fn(&Admin, Q) -> Result<R>,
) -> Reply
where
    Q: Message + Default + Send + 'static,
    R: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::<R, Q>::default())
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .unary(Call { admin, apply }, request)
        .await
}
