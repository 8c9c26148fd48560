//! Read and StreamingRead, and how rows travel.

use std::vec;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost::Message;
use prost_types::{ListValue, Value as WireValue};
use proto::read_request::LockHint;

use super::convert::{encode, key_ranges, row_type, table};
use super::transactions::Handle;
use super::{Core, convert, status};
use crate::engine::{Error, Read, Result, Type, Value};

/// The size that a message of a stream is kept at, in bytes; clients refuse those above 4 MiB.
const CHUNK_BYTES: usize = 1 << 20;

/// The rows of a read or a query, and what is told along with them.
#[derive(Debug)]
pub(super) struct Rows {
    pub metadata: proto::ResultSetMetadata,
    pub rows: Vec<Vec<Value>>,
    pub stats: Option<proto::ResultSetStats>,
    pub precommit_token: Option<proto::MultiplexedSessionPrecommitToken>,
}

/// The messages of a stream.
pub(crate) type Chunks =
    tokio_stream::Iter<vec::IntoIter<Result<proto::PartialResultSet, tonic::Status>>>;

/// A result as a stream.
///
/// An error is in the stream, so that the reply has begun before it: Cloud Spanner does it so, and
/// Node's client takes an error without a reply for a connection that failed, and tries for seconds.
pub(super) fn chunks(result: Result<Rows>) -> Chunks {
    match result {
        Ok(rows) => rows.into_chunks(),
        Err(error) => tokio_stream::iter(vec![Err(status(&error))]),
    }
}

impl Core {
    /// Answers a read.
    pub(super) async fn read(&self, request: &proto::ReadRequest) -> Result<Rows> {
        let database = self.database_of(&request.session)?;
        check_supported(request)?;
        let mut selected = self.select(&request.session, request.transaction.as_ref())?;
        let schema = database.schema();
        let table = table(&schema, &request.table)?;
        let read = Read {
            table: request.table.clone(),
            columns: request.columns.clone(),
            keys: match &request.key_set {
                Some(keys) => key_ranges(table, keys)?,
                None => Vec::new(),
            },
            limit: match usize::try_from(request.limit) {
                Ok(0) => None,
                Ok(limit) => Some(limit),
                Err(_) => return Err(Error::invalid_argument("Read limit must not be negative.")),
            },
            exclusive: request.lock_hint == LockHint::Exclusive as i32,
        };
        let columns = column_types(table, &request.columns)?;
        let (rows, precommit_token) = match selected.handle {
            Handle::ReadOnly(moment) => (database.read_at(moment, &read).await?, None),
            Handle::ReadWrite(id) => {
                let rows = database.read(id, &read).await?;
                (rows, self.precommit_token(&request.session, id)?)
            }
        };
        selected.keep();
        let metadata = proto::ResultSetMetadata {
            row_type: Some(row_type(columns)),
            transaction: selected.described.take(),
            undeclared_parameters: None,
        };
        Ok(Rows { metadata, rows, stats: None, precommit_token })
    }
}

fn column_types<'a>(
    table: &crate::engine::Table,
    columns: &'a [String],
) -> Result<Vec<(&'a str, Type)>> {
    let column = |name: &'a String| {
        let position =
            table.position(name).ok_or_else(|| Error::column_not_found(&table.name, name))?;
        Ok((name.as_str(), table.columns[position].column_type))
    };
    columns.iter().map(column).collect()
}

fn check_supported(request: &proto::ReadRequest) -> Result<()> {
    if !request.index.is_empty() {
        return Err(Error::unimplemented(format!("read by secondary index: {}", request.index)));
    }
    if !request.partition_token.is_empty() {
        return Err(Error::unimplemented("read by partition_token"));
    }
    if !request.resume_token.is_empty() {
        // None is ever given out.
        return Err(Error::invalid_argument("Invalid resume token."));
    }
    if request.columns.is_empty() {
        return Err(Error::invalid_argument("Read must specify at least one column."));
    }
    Ok(())
}

impl Rows {
    /// All of it in one message.
    pub fn into_result_set(self) -> proto::ResultSet {
        let row = |row: Vec<Value>| ListValue { values: row.iter().map(encode).collect() };
        proto::ResultSet {
            metadata: Some(self.metadata),
            rows: self.rows.into_iter().map(row).collect(),
            stats: self.stats,
            precommit_token: self.precommit_token,
            cache_update: None,
        }
    }

    /// As a stream of messages of a bounded size.
    fn into_chunks(self) -> Chunks {
        let mut chunks = vec![proto::PartialResultSet {
            metadata: Some(self.metadata),
            ..proto::PartialResultSet::default()
        }];
        let mut size = 0;
        for row in &self.rows {
            let values: Vec<WireValue> = row.iter().map(convert::encode).collect();
            let row_size: usize = values.iter().map(Message::encoded_len).sum();
            if size > 0 && size + row_size > CHUNK_BYTES {
                chunks.push(proto::PartialResultSet::default());
                size = 0;
            }
            size += row_size;
            if let Some(chunk) = chunks.last_mut() {
                chunk.values.extend(values);
            }
        }
        if let Some(last) = chunks.last_mut() {
            last.stats = self.stats;
            last.precommit_token = self.precommit_token;
            last.last = true;
        }
        tokio_stream::iter(chunks.into_iter().map(Ok).collect::<Vec<_>>())
    }
}
