//! Read and StreamingRead.

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use proto::read_request::LockHint;

use super::Core;
use super::convert::{key_ranges, row_type, table};
use super::results::{Results, Source};
use super::transactions::is_strong;
use crate::engine::{Error, Handle, Read, Reading, Result, Table, Type};

impl Core {
    /// Answers a read with what there is to send; the first rows are read.
    pub(super) async fn read(&self, request: &proto::ReadRequest) -> Result<Results> {
        let is_strong = is_strong(request.transaction.as_ref());
        self.beside_changes(&request.session, is_strong, || self.read_once(request)).await
    }

    async fn read_once(&self, request: &proto::ReadRequest) -> Result<Results> {
        let database = self.database_of(&request.session)?;
        check_supported(request)?;
        let transaction = request.transaction.as_ref();
        let mut selected = self.select_to_read(&request.session, transaction, false)?;
        check_directed(request.directed_read_options.as_ref(), selected.handle)?;
        check_hint(request, selected.handle)?;
        let schema = database.schema_in(selected.handle);
        let table = table(&schema, &request.table)?;
        let index = Some(request.index.clone()).filter(|index| !index.is_empty());
        let (table, parts) = match &index {
            None => (table, table.primary_key.len()),
            Some(name) => {
                let index = schema.index_of(table, name)?;
                (&index.entries, index.key_parts())
            }
        };
        let read = Read {
            table: request.table.clone(),
            index,
            columns: request.columns.clone(),
            keys: match &request.key_set {
                Some(keys) => key_ranges(table, parts, keys, false)?,
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
        let mut source = Source { database, handle: selected.handle, reading: Reading::new(read) };
        let rows = source.next_page().await?;
        let precommit_token = match selected.handle {
            Handle::ReadOnly(_) => None,
            Handle::ReadWrite(id) => self.precommit_token(&request.session, id)?,
        };
        selected.keep();
        let metadata = proto::ResultSetMetadata {
            row_type: Some(row_type(columns)),
            transaction: selected.described.take(),
            undeclared_parameters: None,
        };
        Ok(Results { metadata, rows, more: Some(source), stats: None, precommit_token })
    }
}

/// Only a read-only transaction can be sent to a replica of one's choice.
pub(super) fn check_directed(
    options: Option<&proto::DirectedReadOptions>,
    handle: Handle,
) -> Result<()> {
    match handle {
        Handle::ReadWrite(_) if options.is_some() => Err(Error::invalid_argument(
            "Directed reads can only be performed in a read-only transaction.",
        )),
        _ => Ok(()),
    }
}

/// Only a read-write transaction locks what it reads.
fn check_hint(request: &proto::ReadRequest, handle: Handle) -> Result<()> {
    match handle {
        Handle::ReadOnly(_) if request.lock_hint != LockHint::Unspecified as i32 => Err(
            Error::invalid_argument("A lock hint can only be used in a read-write transaction."),
        ),
        _ => Ok(()),
    }
}

/// Returns the columns that a read names, under the names that the table has for them.
fn column_types<'a>(table: &'a Table, columns: &[String]) -> Result<Vec<(&'a str, Type)>> {
    let column = |name: &String| {
        let column = &table.columns[table.find(name)?];
        Ok((column.name.as_str(), column.column_type))
    };
    columns.iter().map(column).collect()
}

/// Refuses the tokens of parts and of streams, none of which is ever given out.
pub(super) fn check_tokens(what: &str, partition: &[u8], resume: &[u8]) -> Result<()> {
    match (partition, resume) {
        ([], []) => Ok(()),
        ([], _) => Err(Error::invalid_argument("Invalid resume token.")),
        _ => Err(Error::unimplemented(format!("{what} by partition_token"))),
    }
}

fn check_supported(request: &proto::ReadRequest) -> Result<()> {
    check_tokens("read", &request.partition_token, &request.resume_token)?;
    if request.columns.is_empty() {
        return Err(Error::invalid_argument("Read must specify at least one column."));
    }
    Ok(())
}
