//! The methods of `google.spanner.v1.Spanner`, one after another.

use std::future::ready;
use std::sync::Arc;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use hyper::body::{Bytes, Incoming};
use prost::Message;
use tonic::{Request, Status};

use super::Core;
use super::calls::{Applied, Asked, Call};
use super::results::chunks;
use super::sessions::{batch_size, check_role};
use crate::engine::{Error, Result};
use crate::faults::Selectable;
use crate::grpc::{self, one};
use crate::rpc::Rpc;

/// The service, as paths of calls name it.
pub(crate) const NAME: &str = "google.spanner.v1.Spanner";

/// Answers a request about data.
pub(crate) async fn answer(core: Arc<Core>, request: http::Request<Incoming>) -> grpc::Reply {
    let path = request.uri().path();
    match path.rsplit('/').next().and_then(Rpc::from_name) {
        Some(rpc) => {
            let call = move |request: Request<Bytes>| match read(rpc, request.get_ref()) {
                Ok(call) => core.call(rpc, call, &request),
                Err(status) => Box::pin(ready(Err(status))),
            };
            grpc::answer(request, Box::new(call)).await
        }
        None => grpc::unknown(path).into_http(),
    }
}

/// Reads a request of this method.
fn read(rpc: Rpc, bytes: &[u8]) -> Result<Box<dyn Call>, Status> {
    match rpc {
        Rpc::CreateSession => asked::<proto::CreateSessionRequest>(bytes, |core, request| {
            at_once(core.create_session(&request))
        }),
        Rpc::BatchCreateSessions => {
            asked::<proto::BatchCreateSessionsRequest>(bytes, |core, request| {
                at_once(core.create_sessions(&request))
            })
        }
        Rpc::GetSession => asked::<proto::GetSessionRequest>(bytes, |core, request| {
            let now = core.clock().now();
            at_once(core.sessions().describe(&request.name, now))
        }),
        Rpc::ListSessions => asked::<proto::ListSessionsRequest>(bytes, |core, request| {
            let now = core.clock().now();
            let database = core.database(&request.database);
            at_once(database.and_then(|_| core.sessions().list(&request, now)))
        }),
        Rpc::DeleteSession => asked::<proto::DeleteSessionRequest>(bytes, |core, request| {
            at_once(core.sessions().delete(&request.name))
        }),
        Rpc::ExecuteSql => asked::<proto::ExecuteSqlRequest>(bytes, |core, request| {
            Box::pin(async move {
                let results = core.execute(&request).await?;
                Ok(one(&results.into_result_set().await?))
            })
        }),
        Rpc::ExecuteStreamingSql => asked::<proto::ExecuteSqlRequest>(bytes, |core, request| {
            Box::pin(async move { core.execute(&request).await.map(chunks) })
        }),
        Rpc::ExecuteBatchDml => asked::<proto::ExecuteBatchDmlRequest>(bytes, |core, request| {
            Box::pin(async move { Ok(one(&core.execute_batch(&request).await?)) })
        }),
        Rpc::Read => asked::<proto::ReadRequest>(bytes, |core, request| {
            Box::pin(async move {
                let results = core.read(&request).await?;
                Ok(one(&results.into_result_set().await?))
            })
        }),
        Rpc::StreamingRead => asked::<proto::ReadRequest>(bytes, |core, request| {
            Box::pin(async move { core.read(&request).await.map(chunks) })
        }),
        Rpc::BeginTransaction => asked::<proto::BeginTransactionRequest>(bytes, |core, request| {
            at_once(core.begin_transaction(&request))
        }),
        Rpc::Commit => asked::<proto::CommitRequest>(bytes, |core, request| {
            Box::pin(async move { Ok(one(&core.commit(&request).await?)) })
        }),
        Rpc::Rollback => {
            asked::<proto::RollbackRequest>(bytes, |core, request| at_once(core.rollback(&request)))
        }
    }
}

fn asked<Q: Selectable + Message + Default + 'static>(
    bytes: &[u8],
    apply: fn(Arc<Core>, Q) -> Applied,
) -> Result<Box<dyn Call>, Status> {
    Ok(Box::new(Asked { message: grpc::read(bytes)?, apply }))
}

fn at_once(reply: Result<impl Message>) -> Applied {
    Box::pin(ready(reply.map(|reply| one(&reply))))
}

impl Core {
    fn create_session(&self, request: &proto::CreateSessionRequest) -> Result<proto::Session> {
        // Held from before the database is found, so that it isn't dropped in between.
        let mut sessions = self.sessions();
        let database = self.database(&request.database)?;
        let template = request.session.as_ref();
        check_role(template)?;
        let now = self.clock().now();
        Ok(sessions.create(&request.database, &database, template, now))
    }

    fn create_sessions(
        &self,
        request: &proto::BatchCreateSessionsRequest,
    ) -> Result<proto::BatchCreateSessionsResponse> {
        let mut sessions = self.sessions();
        let database = self.database(&request.database)?;
        let template = request.session_template.as_ref();
        if template.is_some_and(|template| template.multiplexed) {
            let message = "Multiplexed sessions cannot be created in a batch.";
            return Err(Error::invalid_argument(message));
        }
        check_role(template)?;
        let (count, now) = (batch_size(request.session_count)?, self.clock().now());
        let mut create = || sessions.create(&request.database, &database, template, now);
        let session = (0..count).map(|_| create()).collect();
        Ok(proto::BatchCreateSessionsResponse { session })
    }
}

#[cfg(test)]
#[path = "../../tests/private/service/spanner.rs"]
mod tests;
