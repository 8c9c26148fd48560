//! The calls over HTTP/1.1 and JSON, in the shape in which Google's API offers them.

mod encode;
mod request;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tonic::body::Body;

use super::{Admin, database, instance, longrunning};
use crate::engine::{Error, Result};
use crate::http1;
use crate::server::{Answer, Listening};
use crate::service::Core;
use request::{CreateDatabase, CreateInstance, Query, UpdateDatabaseDdl, parse};

/// Starts the service, and says where it listens. It ends with the server.
pub(crate) fn start(
    core: &Arc<Core>,
    admin: &Arc<Admin>,
    address: SocketAddr,
) -> io::Result<SocketAddr> {
    let admin = Arc::clone(admin);
    let answering = move |request| answer(Arc::clone(&admin), request);
    Ok(Listening::start(core, address, Arc::new(answering))?.address)
}

/// Answers a request.
pub(crate) fn answer(admin: Arc<Admin>, request: Request<Incoming>) -> Answer {
    Box::pin(async move {
        match done(&admin, request).await {
            Ok(body) => http1::reply(StatusCode::OK, &body),
            Err(error) => refusal(&error),
        }
    })
}

/// An error as Google's HTTP APIs report it.
fn refusal(error: &Error) -> Response<Body> {
    let status = http1::status(error);
    let body = json!({ "error": {
        "code": status.as_u16(),
        "message": error.message(),
        "status": error.code().to_string(),
        "details": encode::details(error),
    }});
    http1::reply(status, &body)
}

async fn done(admin: &Admin, request: Request<Incoming>) -> Result<Value> {
    let (head, body) = http1::whole(request).await?;
    let path = request::decoded(head.uri.path());
    let call = Call {
        admin,
        method: head.method.as_str(),
        name: path.strip_prefix("/v1/").unwrap_or_default(),
        query: Query::parse(head.uri.query().unwrap_or_default()),
        body: &body,
    };
    let parts: Vec<&str> = call.name.split('/').collect();
    let answer = match parts.as_slice() {
        [.., "operations", _] => call.operation(),
        ["projects", _, "instances", _, "databases", ..] => call.databases(&parts),
        ["projects", _, "instances" | "instanceConfigs", ..] => call.instances(&parts),
        _ => None,
    };
    answer.unwrap_or_else(|| {
        Err(Error::unimplemented(format!("Not supported here: {} {path}", head.method)))
    })
}

/// One request. The name is what the path names; `None` is what isn't known.
struct Call<'a> {
    admin: &'a Admin,
    method: &'a str,
    name: &'a str,
    query: Query,
    body: &'a [u8],
}

impl Call<'_> {
    fn instances(&self, parts: &[&str]) -> Option<Result<Value>> {
        let name = self.name.to_owned();
        let parent = parts.get(..2)?.join("/");
        Some(match (self.method, parts) {
            ("GET", [_, _, "instanceConfigs"]) => self
                .admin
                .list_instance_configs(instance::ListInstanceConfigsRequest {
                    parent,
                    ..Default::default()
                })
                .map(|reply| {
                    encode::page("instanceConfigs", &reply.instance_configs, encode::config, "")
                }),
            ("GET", [_, _, "instanceConfigs", _]) => self
                .admin
                .get_instance_config(instance::GetInstanceConfigRequest { name })
                .map(|config| encode::config(&config)),
            ("POST", [_, _, "instances"]) => parse::<CreateInstance>(self.body)
                .and_then(|asked| self.admin.create_instance(asked.below(parent)))
                .and_then(|operation| encode::operation(&operation)),
            ("GET", [_, _, "instances"]) => self
                .admin
                .list_instances(instance::ListInstancesRequest {
                    parent,
                    page_size: self.query.page_size(),
                    page_token: self.query.text("pageToken"),
                    filter: self.query.text("filter"),
                    ..Default::default()
                })
                .map(|reply| {
                    encode::page(
                        "instances",
                        &reply.instances,
                        encode::instance,
                        &reply.next_page_token,
                    )
                }),
            ("GET", [_, _, "instances", _]) => self
                .admin
                .get_instance(instance::GetInstanceRequest { name, field_mask: None })
                .map(|found| encode::instance(&found)),
            ("DELETE", [_, _, "instances", _]) => self
                .admin
                .delete_instance(instance::DeleteInstanceRequest { name })
                .map(|()| json!({})),
            _ => return None,
        })
    }

    fn databases(&self, parts: &[&str]) -> Option<Result<Value>> {
        let name = parts.get(..6).unwrap_or_default().join("/");
        let parent = parts.get(..4)?.join("/");
        Some(match (self.method, parts.get(5..)?) {
            ("POST", []) => parse::<CreateDatabase>(self.body)
                .and_then(|asked| self.admin.create_database(asked.below(parent)))
                .and_then(|operation| encode::operation(&operation)),
            ("GET", []) => self
                .admin
                .list_databases(database::ListDatabasesRequest {
                    parent,
                    page_size: self.query.page_size(),
                    page_token: self.query.text("pageToken"),
                })
                .map(|reply| {
                    encode::page(
                        "databases",
                        &reply.databases,
                        encode::database,
                        &reply.next_page_token,
                    )
                }),
            ("GET", [_]) => self
                .admin
                .get_database(database::GetDatabaseRequest { name })
                .map(|found| encode::database(&found)),
            ("DELETE", [_]) => self
                .admin
                .drop_database(database::DropDatabaseRequest { database: name })
                .map(|()| json!({})),
            ("GET", [_, "ddl"]) => self
                .admin
                .get_database_ddl(database::GetDatabaseDdlRequest { database: name })
                .map(|reply| json!({ "statements": reply.statements })),
            ("PATCH", [_, "ddl"]) => parse::<UpdateDatabaseDdl>(self.body)
                .and_then(|asked| self.admin.update_database_ddl(asked.of(name)))
                .and_then(|operation| encode::operation(&operation)),
            _ => return None,
        })
    }

    fn operation(&self) -> Option<Result<Value>> {
        let request = longrunning::GetOperationRequest { name: self.name.to_owned() };
        let found = || self.admin.get_operation(request);
        (self.method == "GET").then(|| found().and_then(|found| encode::operation(&found)))
    }
}
