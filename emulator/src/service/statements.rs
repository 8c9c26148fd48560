//! ExecuteSql, ExecuteStreamingSql and ExecuteBatchDml.

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;

use super::Core;
use super::convert::row_type;
use super::reads::Rows;
use crate::engine::{Error, Result, Type, Value};

impl Core {
    /// Answers a statement.
    pub(super) async fn execute(&self, request: &proto::ExecuteSqlRequest) -> Result<Rows> {
        self.database_of(&request.session)?;
        let mut selected = self.select(&request.session, request.transaction.as_ref())?;
        if !request.sql.trim().trim_end_matches(';').eq_ignore_ascii_case("select 1") {
            return Err(Error::unimplemented(format!("statement: {}", request.sql)));
        }
        selected.keep();
        let metadata = proto::ResultSetMetadata {
            row_type: Some(row_type([("", Type::Int64)])),
            transaction: selected.described.take(),
            undeclared_parameters: None,
        };
        let rows = vec![vec![Value::Int64(1)]];
        Ok(Rows { metadata, rows, stats: None, precommit_token: None })
    }

    /// Answers a batch of statements.
    pub(super) async fn execute_batch(
        &self,
        request: &proto::ExecuteBatchDmlRequest,
    ) -> Result<proto::ExecuteBatchDmlResponse> {
        self.database_of(&request.session)?;
        if request.statements.is_empty() {
            return Err(Error::invalid_argument("Request must contain at least one DML statement"));
        }
        Err(Error::unimplemented("ExecuteBatchDml"))
    }
}
