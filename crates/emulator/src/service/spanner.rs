//! The methods of `google.spanner.v1.Spanner`, one after another.

use std::sync::Arc;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use tonic::{Request, Response, Status};

use super::results::{Chunks, chunks};
use super::sessions::{batch_size, check_role};
use super::{Core, Empty, generated};
use crate::engine::Error;
use crate::rpc::Rpc;

type Reply<T> = Result<Response<T>, Status>;

/// The service on a server.
#[derive(Clone, Debug)]
pub(crate) struct Spanner(pub Arc<Core>);

#[tonic::async_trait]
impl generated::spanner_server::Spanner for Spanner {
    type ExecuteStreamingSqlStream = Chunks;
    type StreamingReadStream = Chunks;
    type BatchWriteStream = tokio_stream::Empty<Result<proto::BatchWriteResponse, Status>>;

    async fn create_session(
        &self,
        request: Request<proto::CreateSessionRequest>,
    ) -> Reply<proto::Session> {
        let apply = |core: Arc<Core>, request: proto::CreateSessionRequest| -> _ {
            Box::pin(async move {
                let database = core.database(&request.database)?;
                let now = core.clock().now();
                let template = request.session.as_ref();
                check_role(template)?;
                Ok(core.sessions().create(&request.database, &database, template, now))
            }) as _
        };
        self.0.call(Rpc::CreateSession, request, apply).await
    }

    async fn batch_create_sessions(
        &self,
        request: Request<proto::BatchCreateSessionsRequest>,
    ) -> Reply<proto::BatchCreateSessionsResponse> {
        let apply = |core: Arc<Core>, request: proto::BatchCreateSessionsRequest| -> _ {
            Box::pin(async move {
                let database = core.database(&request.database)?;
                let now = core.clock().now();
                let template = request.session_template.as_ref();
                if template.is_some_and(|template| template.multiplexed) {
                    return Err(Error::invalid_argument(
                        "Multiplexed sessions cannot be created in a batch.",
                    ));
                }
                check_role(template)?;
                let count = batch_size(request.session_count)?;
                let mut sessions = core.sessions();
                let mut create = || sessions.create(&request.database, &database, template, now);
                let session = (0..count).map(|_| create()).collect();
                Ok(proto::BatchCreateSessionsResponse { session })
            }) as _
        };
        self.0.call(Rpc::BatchCreateSessions, request, apply).await
    }

    async fn get_session(
        &self,
        request: Request<proto::GetSessionRequest>,
    ) -> Reply<proto::Session> {
        let apply = |core: Arc<Core>, request: proto::GetSessionRequest| -> _ {
            Box::pin(async move {
                let now = core.clock().now();
                core.sessions().describe(&request.name, now)
            }) as _
        };
        self.0.call(Rpc::GetSession, request, apply).await
    }

    async fn list_sessions(
        &self,
        request: Request<proto::ListSessionsRequest>,
    ) -> Reply<proto::ListSessionsResponse> {
        let apply = |core: Arc<Core>, request: proto::ListSessionsRequest| -> _ {
            Box::pin(async move {
                core.database(&request.database)?;
                let now = core.clock().now();
                core.sessions().list(&request, now)
            }) as _
        };
        self.0.call(Rpc::ListSessions, request, apply).await
    }

    async fn delete_session(&self, request: Request<proto::DeleteSessionRequest>) -> Reply<Empty> {
        let apply = |core: Arc<Core>, request: proto::DeleteSessionRequest| -> _ {
            Box::pin(async move {
                core.sessions().delete(&request.name)?;
                core.counts.forget_session(&request.name);
                Ok(())
            }) as _
        };
        self.0.call(Rpc::DeleteSession, request, apply).await
    }

    async fn execute_sql(
        &self,
        request: Request<proto::ExecuteSqlRequest>,
    ) -> Reply<proto::ResultSet> {
        let apply = |core: Arc<Core>, request: proto::ExecuteSqlRequest| -> _ {
            Box::pin(async move { core.execute(&request).await?.into_result_set().await }) as _
        };
        self.0.call(Rpc::ExecuteSql, request, apply).await
    }

    async fn execute_streaming_sql(
        &self,
        request: Request<proto::ExecuteSqlRequest>,
    ) -> Reply<Chunks> {
        let apply = |core: Arc<Core>, request: proto::ExecuteSqlRequest| -> _ {
            Box::pin(async move { Ok(chunks(core.execute(&request).await)) }) as _
        };
        self.0.call(Rpc::ExecuteStreamingSql, request, apply).await
    }

    async fn execute_batch_dml(
        &self,
        request: Request<proto::ExecuteBatchDmlRequest>,
    ) -> Reply<proto::ExecuteBatchDmlResponse> {
        let apply = |core: Arc<Core>, request: proto::ExecuteBatchDmlRequest| -> _ {
            Box::pin(async move { core.execute_batch(&request).await }) as _
        };
        self.0.call(Rpc::ExecuteBatchDml, request, apply).await
    }

    async fn read(&self, request: Request<proto::ReadRequest>) -> Reply<proto::ResultSet> {
        let apply = |core: Arc<Core>, request: proto::ReadRequest| -> _ {
            Box::pin(async move { core.read(&request).await?.into_result_set().await }) as _
        };
        self.0.call(Rpc::Read, request, apply).await
    }

    async fn streaming_read(&self, request: Request<proto::ReadRequest>) -> Reply<Chunks> {
        let apply = |core: Arc<Core>, request: proto::ReadRequest| -> _ {
            Box::pin(async move { Ok(chunks(core.read(&request).await)) }) as _
        };
        self.0.call(Rpc::StreamingRead, request, apply).await
    }

    async fn begin_transaction(
        &self,
        request: Request<proto::BeginTransactionRequest>,
    ) -> Reply<proto::Transaction> {
        let apply = |core: Arc<Core>, request: proto::BeginTransactionRequest| -> _ {
            Box::pin(async move { core.begin_transaction(&request) }) as _
        };
        self.0.call(Rpc::BeginTransaction, request, apply).await
    }

    async fn commit(&self, request: Request<proto::CommitRequest>) -> Reply<proto::CommitResponse> {
        let apply = |core: Arc<Core>, request: proto::CommitRequest| -> _ {
            Box::pin(async move { core.commit(&request).await }) as _
        };
        self.0.call(Rpc::Commit, request, apply).await
    }

    async fn rollback(&self, request: Request<proto::RollbackRequest>) -> Reply<Empty> {
        let apply = |core: Arc<Core>, request: proto::RollbackRequest| -> _ {
            Box::pin(async move { core.rollback(&request) }) as _
        };
        self.0.call(Rpc::Rollback, request, apply).await
    }

    async fn partition_query(
        &self,
        request: Request<proto::PartitionQueryRequest>,
    ) -> Reply<proto::PartitionResponse> {
        let apply = |_: Arc<Core>, _: proto::PartitionQueryRequest| -> _ {
            Box::pin(async { Err(Error::unimplemented("PartitionQuery")) }) as _
        };
        self.0.call(Rpc::PartitionQuery, request, apply).await
    }

    async fn partition_read(
        &self,
        request: Request<proto::PartitionReadRequest>,
    ) -> Reply<proto::PartitionResponse> {
        let apply = |_: Arc<Core>, _: proto::PartitionReadRequest| -> _ {
            Box::pin(async { Err(Error::unimplemented("PartitionRead")) }) as _
        };
        self.0.call(Rpc::PartitionRead, request, apply).await
    }

    async fn batch_write(
        &self,
        request: Request<proto::BatchWriteRequest>,
    ) -> Reply<Self::BatchWriteStream> {
        let apply = |_: Arc<Core>, _: proto::BatchWriteRequest| -> _ {
            Box::pin(async { Err(Error::unimplemented("BatchWrite")) }) as _
        };
        self.0.call(Rpc::BatchWrite, request, apply).await
    }
}
