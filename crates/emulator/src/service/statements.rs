//! ExecuteSql, ExecuteStreamingSql and ExecuteBatchDml.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use googleapis_tonic_google_rpc::google::rpc;
use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost_types::Struct;
use prost_types::value::Kind;
use proto::execute_batch_dml_request::Statement;
use proto::execute_sql_request::QueryMode;
use proto::result_set_stats::RowCount;
use proto::transaction_selector::Selector;
use tokio::time::Instant;

use super::Core;
use super::convert::{row_type, type_of};
use super::reads::{check_directed, check_tokens};
use super::replays::{Done, begun};
use super::results::Results;
use super::transactions::{Selected, is_strong};
use crate::engine::{Code, Database, Dialect, Error, Handle, Result, TransactionId, Type, map_of};
use crate::sql::{
    InTransaction, Outcome, Parameter, Parameters, Prepared, ast, check_query, decode, execute,
};

impl Core {
    /// Answers a statement.
    pub(super) async fn execute(&self, request: &proto::ExecuteSqlRequest) -> Result<Results> {
        let is_strong = is_strong(request.transaction.as_ref());
        let started = Instant::now();
        let mut results =
            self.beside_changes(&request.session, is_strong, || self.execute_once(request)).await?;
        if request.query_mode() == QueryMode::Profile {
            let query_stats = Some(query_stats(results.rows.len(), started.elapsed()));
            results.stats.get_or_insert_default().query_stats = query_stats;
        }
        Ok(results)
    }

    async fn execute_once(&self, request: &proto::ExecuteSqlRequest) -> Result<Results> {
        let database = self.database_of(&request.session)?;
        check_supported(request)?;
        check_dialect(&database, &request.sql)?;
        let statement = self.prepare(&request.sql)?;
        if !matches!(statement.statement(), ast::Statement::Query(_)) {
            return self.execute_dml(&database, request).await;
        }
        let parameters = parameters(request.params.as_ref(), &request.param_types)?;
        let (session, is_last) = (&request.session, request.last_statement);
        let mut selected = self.select_to_read(session, request.transaction.as_ref(), is_last)?;
        check_directed(request.directed_read_options.as_ref(), selected.handle)?;
        let mut access = InTransaction::new(&database, selected.handle);
        let Outcome { columns, rows, .. } = execute(&statement, &parameters, &mut access).await?;
        let precommit_token = match selected.handle {
            Handle::ReadWrite(id) => {
                if request.last_statement {
                    self.replays().of(&database, id).end();
                }
                self.precommit_token(&request.session, id)?
            }
            Handle::ReadOnly(_) => None,
        };
        selected.keep();
        let metadata = described(&columns, selected.described.take());
        Ok(Results { metadata, rows, more: None, stats: None, precommit_token })
    }

    async fn execute_dml(
        &self,
        database: &Database,
        request: &proto::ExecuteSqlRequest,
    ) -> Result<Results> {
        let statement = Statement {
            sql: request.sql.clone(),
            params: request.params.clone(),
            param_types: request.param_types.clone(),
        };
        let (mut selected, id) =
            self.select_to_write(&request.session, request.transaction.as_ref())?;
        check_directed(request.directed_read_options.as_ref(), selected.handle)?;
        let is_partitioned = self.replays().is_partitioned(id);
        if is_partitioned {
            self.check_partitioned(&request.sql)?;
        }
        // One for partitioned DML has no other.
        let is_last = request.last_statement || is_partitioned;
        let done = self.run_once(database, id, (request.seqno, is_last), vec![statement]).await?;
        if is_partitioned {
            // One whose answer was lost may have committed, or been aborted, before it is repeated.
            match done.failed {
                None => drop(database.commit(id, &[]).await?),
                Some(_) => database.rollback(id)?,
            }
        }
        if let Some(error) = done.failed {
            return Err(error);
        }
        let precommit_token = self.precommit_token(&request.session, id)?;
        selected.keep();
        let Some(written) = done.written.into_iter().next() else {
            return Err(Error::new(Code::Internal, "a statement neither failed nor wrote"));
        };
        let metadata = described(&written.columns, selected.described.take());
        let mut stats = stats(written.written);
        if let (true, Some(RowCount::RowCountExact(count))) = (is_partitioned, &stats.row_count) {
            stats.row_count = Some(RowCount::RowCountLowerBound(*count));
        }
        Ok(Results {
            metadata,
            rows: written.rows,
            more: None,
            stats: Some(stats),
            precommit_token,
        })
    }

    /// Refuses what Cloud Spanner doesn't run by partitions.
    fn check_partitioned(&self, sql: &str) -> Result<()> {
        let refused = |what| {
            Err(Error::invalid_argument(format!("{what} is not supported in partitioned DML.")))
        };
        match self.prepare(sql)?.statement() {
            ast::Statement::Insert(_) => refused("INSERT"),
            ast::Statement::Update(ast::Update { returning, .. })
            | ast::Statement::Delete(ast::Delete { returning, .. })
                if !returning.is_empty() =>
            {
                refused("THEN RETURN")
            }
            _ => Ok(()),
        }
    }

    /// Answers a batch of statements: they run one after another, and the first that fails is the
    /// last that runs.
    pub(super) async fn execute_batch(
        &self,
        request: &proto::ExecuteBatchDmlRequest,
    ) -> Result<proto::ExecuteBatchDmlResponse> {
        let database = self.database_of(&request.session)?;
        if request.statements.is_empty() {
            return Err(Error::invalid_argument("Request must contain at least one DML statement"));
        }
        let (mut selected, id) =
            self.select_to_write(&request.session, request.transaction.as_ref())?;
        if self.replays().is_partitioned(id) {
            return Err(Error::invalid_argument("A batch can't be run as partitioned DML."));
        }
        let statements = request.statements.clone();
        let done = self
            .run_once(&database, id, (request.seqno, request.last_statements), statements)
            .await?;
        let status = match done.failed {
            None => rpc::Status::default(),
            // The transaction is lost, and the client has to hear when to try again.
            Some(error) if error.code() == Code::Aborted => return Err(error),
            Some(error) => rpc::Status {
                code: error.code().number(),
                message: format!("Statement {}: {}", done.written.len(), error.message()),
                details: Vec::new(),
            },
        };
        if !done.written.is_empty() {
            selected.keep();
        }
        let mut transaction = selected.described.take();
        let precommit_token = self.precommit_token(&request.session, id)?;
        // Python's client looks for it with the first statement, and others beside them all.
        let mut first_token = precommit_token.clone();
        // A batch shows no rows, whatever its statements return.
        let result_set = |written: &Outcome| proto::ResultSet {
            metadata: Some(described(&written.columns, transaction.take())),
            stats: Some(stats(written.written)),
            precommit_token: first_token.take(),
            ..proto::ResultSet::default()
        };
        Ok(proto::ExecuteBatchDmlResponse {
            result_sets: done.written.iter().map(result_set).collect(),
            status: Some(status),
            precommit_token,
        })
    }

    /// The transaction of a read or a query: one that is open, and has not had its last statement.
    pub(super) fn select_to_read(
        &self,
        session: &str,
        selector: Option<&proto::TransactionSelector>,
        is_last: bool,
    ) -> Result<Selected> {
        let selected = self.select(session, selector)?;
        if let Handle::ReadWrite(id) = selected.handle {
            self.database_of(session)?.check_open(id)?;
            if self.replays().is_partitioned(id) {
                return Err(Error::invalid_argument(
                    "Reads and queries can't be made in a partitioned-dml transaction.",
                ));
            }
            if !is_last {
                self.replays().check(id)?;
            }
        }
        Ok(selected)
    }

    /// The transaction of a statement that writes.
    fn select_to_write(
        &self,
        session: &str,
        selector: Option<&proto::TransactionSelector>,
    ) -> Result<(Selected, TransactionId)> {
        let single_use = match selector.and_then(|selector| selector.selector.as_ref()) {
            None | Some(Selector::SingleUse(_)) => true,
            Some(Selector::Id(_) | Selector::Begin(_)) => false,
        };
        if single_use {
            return Err(Error::invalid_argument(
                "DML statements may not be performed in single-use transactions, to avoid replay.",
            ));
        }
        let selected = self.select(session, selector)?;
        match selected.handle {
            Handle::ReadWrite(id) => Ok((selected, id)),
            Handle::ReadOnly(_) => Err(Error::invalid_argument(
                "DML statements can only be performed in a read-write transaction.",
            )),
        }
    }

    /// Runs statements that write, unless a request with this number has run them already.
    async fn run_once(
        &self,
        database: &Database,
        id: TransactionId,
        (seqno, is_last): (i64, bool),
        statements: Vec<Statement>,
    ) -> Result<Done> {
        let requests = self.replays().of(database, id);
        let mut by_number = requests.lock().await;
        if by_number.binary_search_by_key(&seqno, |(number, _)| *number).is_err() {
            requests.check()?;
        }
        let (statements, done) = begun(&mut by_number, seqno, statements)?;
        while done.failed.is_none()
            && let Some(statement) = statements.get(done.written.len())
        {
            match self.run(database, id, statement).await {
                Ok(written) => done.written.push(written),
                Err(error) => done.failed = Some(error),
            }
        }
        if is_last && done.failed.is_none() {
            requests.end();
        }
        Ok(done.clone())
    }

    async fn run(
        &self,
        database: &Database,
        id: TransactionId,
        statement: &Statement,
    ) -> Result<Outcome> {
        let sql = &statement.sql;
        check_dialect(database, sql)?;
        let prepared = self.prepare(sql)?;
        if matches!(prepared.statement(), ast::Statement::Query(_)) {
            return Err(Error::invalid_argument(format!("'{sql}' is not valid DML.")));
        }
        let parameters = parameters(statement.params.as_ref(), &statement.param_types)?;
        let mut access = InTransaction::new(database, Handle::ReadWrite(id));
        execute(&prepared, &parameters, &mut access).await
    }

    fn prepare(&self, sql: &str) -> Result<Arc<Prepared>> {
        self.statements.prepare(sql).map_err(|error| error.in_text(sql))
    }
}

/// Refuses a statement that would mean something else in its database's dialect.
fn check_dialect(database: &Database, sql: &str) -> Result<()> {
    match database.schema().dialect() {
        Dialect::GoogleSql => Ok(()),
        Dialect::PostgreSql => check_query(sql).map_err(|error| error.in_text(sql)),
    }
}

/// The metadata of what a statement shows.
fn described(
    columns: &[(String, Type)],
    transaction: Option<proto::Transaction>,
) -> proto::ResultSetMetadata {
    let row_type = row_type(columns.iter().map(|(name, of)| (name.as_str(), *of)));
    proto::ResultSetMetadata { row_type: Some(row_type), transaction, undeclared_parameters: None }
}

fn stats(written: Option<u64>) -> proto::ResultSetStats {
    let count = |written| i64::try_from(written).unwrap_or(i64::MAX);
    let row_count = written.map(|written| RowCount::RowCountExact(count(written)));
    proto::ResultSetStats { row_count, ..proto::ResultSetStats::default() }
}

/// What a profile says of a statement, as Spanner names it.
fn query_stats(rows: usize, elapsed: Duration) -> Struct {
    let elapsed = format!("{:.2} msecs", elapsed.as_secs_f64() * 1e3);
    let said = [("rows_returned", rows.to_string()), ("elapsed_time", elapsed)];
    let value = |text| prost_types::Value { kind: Some(Kind::StringValue(text)) };
    Struct { fields: map_of(said.map(|(name, text)| (name.to_string(), value(text)))) }
}

fn check_supported(request: &proto::ExecuteSqlRequest) -> Result<()> {
    check_tokens("query", &request.partition_token, &request.resume_token)?;
    match QueryMode::try_from(request.query_mode) {
        Ok(QueryMode::Normal | QueryMode::Profile) => Ok(()),
        Ok(mode) => Err(Error::unimplemented(format!("query mode {}", mode.as_str_name()))),
        Err(_) => Err(Error::unimplemented("this query mode")),
    }
}

fn parameters(values: Option<&Struct>, types: &HashMap<String, proto::Type>) -> Result<Parameters> {
    let fields = values.into_iter().flat_map(|values| &values.fields);
    let parameter = |(name, value): (&String, &prost_types::Value)| {
        let parameter = match types.get(name) {
            Some(stated) => {
                let stated = type_of(stated, name)?;
                let wrong =
                    || format!("Invalid value for bind parameter {name}: Expected {stated}.");
                let value = decode(value, stated).map_err(|_| Error::invalid_argument(wrong()))?;
                Parameter::Typed(stated, value)
            }
            None if value.kind.is_none() => Parameter::Untyped(Kind::NullValue(0).into()),
            None => {
                check_untyped(value, name)?;
                Parameter::Untyped(value.clone())
            }
        };
        Ok((name.clone(), parameter))
    };
    fields.map(parameter).collect()
}

/// Refuses what a parameter without a type cannot be here.
fn check_untyped(value: &prost_types::Value, name: &str) -> Result<()> {
    let refused = |what| Err(Error::unimplemented(format!("parameter @{name}: {what}")));
    match &value.kind {
        Some(Kind::StructValue(_)) => refused("STRUCT"),
        Some(Kind::ListValue(list)) => list.values.iter().try_for_each(|value| match &value.kind {
            Some(Kind::ListValue(_)) => refused("ARRAY of ARRAY"),
            _ => check_untyped(value, name),
        }),
        _ => Ok(()),
    }
}
