//! The answers to a fault's questions about each kind of request.

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost_types::value::Kind;
use proto::TransactionOptions;
use proto::mutation::Operation;
use proto::transaction_selector::Selector;

use super::Core;
use super::convert::encode;
use crate::engine::Handle;
use crate::faults::{Known, Named, Selectable};

impl Selectable for proto::CreateSessionRequest {}
impl Selectable for proto::BatchCreateSessionsRequest {}
impl Selectable for proto::ListSessionsRequest {}
impl Selectable for proto::GetSessionRequest {}
impl Selectable for proto::DeleteSessionRequest {}

impl Selectable for proto::RollbackRequest {
    fn named(&self) -> Named<'_> {
        let transaction = Some(self.transaction_id.as_slice());
        Named { session: Some(&self.session), transaction, ..Named::default() }
    }
}

impl Selectable for proto::BeginTransactionRequest {
    fn named(&self) -> Named<'_> {
        let (session, tags) = (Some(&*self.session), tags(self.request_options.as_ref()));
        Named { session, tags, transaction: None, begins: true }
    }

    fn options(&mut self) -> Option<&mut TransactionOptions> {
        self.options.as_mut()
    }

    fn names(&self, table: Option<&str>, key: Option<&str>, known: &dyn Known) -> bool {
        self.mutation_key.iter().any(|mutation| mutation_names(mutation, table, key, known))
    }
}

impl Selectable for proto::CommitRequest {
    fn named(&self) -> Named<'_> {
        let transaction = match &self.transaction {
            Some(proto::commit_request::Transaction::TransactionId(id)) => Some(id.as_slice()),
            _ => None,
        };
        let (session, tags) = (Some(&*self.session), tags(self.request_options.as_ref()));
        Named { session, tags, transaction, begins: false }
    }

    fn names(&self, table: Option<&str>, key: Option<&str>, known: &dyn Known) -> bool {
        self.mutations.iter().any(|mutation| mutation_names(mutation, table, key, known))
            || self.named().transaction.is_some_and(|id| known.has_written(id, table, key))
    }
}

impl Selectable for proto::ReadRequest {
    fn named(&self) -> Named<'_> {
        selected(&self.session, self.transaction.as_ref(), self.request_options.as_ref())
    }

    fn options(&mut self) -> Option<&mut TransactionOptions> {
        options(self.transaction.as_mut())
    }

    fn names(&self, table: Option<&str>, key: Option<&str>, _: &dyn Known) -> bool {
        is_table(&self.table, table) && key_set_names(self.key_set.as_ref(), key)
    }
}

impl Selectable for proto::ExecuteSqlRequest {
    fn named(&self) -> Named<'_> {
        selected(&self.session, self.transaction.as_ref(), self.request_options.as_ref())
    }

    fn options(&mut self) -> Option<&mut TransactionOptions> {
        options(self.transaction.as_mut())
    }

    fn names(&self, table: Option<&str>, key: Option<&str>, _: &dyn Known) -> bool {
        key.is_none() && table.is_none_or(|table| has_word(&self.sql, table))
    }
}

impl Selectable for proto::ExecuteBatchDmlRequest {
    fn named(&self) -> Named<'_> {
        selected(&self.session, self.transaction.as_ref(), self.request_options.as_ref())
    }

    fn names(&self, table: Option<&str>, key: Option<&str>, _: &dyn Known) -> bool {
        let names = |sql: &str| table.is_none_or(|table| has_word(sql, table));
        key.is_none() && self.statements.iter().any(|statement| names(&statement.sql))
    }
}

/// A server's knowledge, as it has it of a session.
pub(super) struct OfSession<'a> {
    pub core: &'a Core,
    pub session: &'a str,
}

impl Known for OfSession<'_> {
    fn key_column(&self, table: &str) -> Option<String> {
        let schema = self.core.database_of(self.session).ok()?.schema();
        let table = schema.table(table)?;
        let first = table.primary_key.first()?;
        Some(table.columns[first.position].name.clone())
    }

    fn has_written(&self, transaction: &[u8], table: Option<&str>, key: Option<&str>) -> bool {
        let Ok(Handle::ReadWrite(id)) = Handle::decode(transaction, self.session) else {
            return false;
        };
        let Ok(database) = self.core.database_of(self.session) else { return false };
        database.has_written(id, |name, row| {
            let first = row.values().next().map(encode);
            is_table(name, table) && key.is_none_or(|key| first.is_some_and(|it| is_text(&it, key)))
        })
    }
}

fn tags(options: Option<&proto::RequestOptions>) -> [&str; 2] {
    options.map_or([""; 2], |options| [&options.transaction_tag, &options.request_tag])
}

fn selected<'r>(
    session: &'r str,
    selector: Option<&'r proto::TransactionSelector>,
    options: Option<&'r proto::RequestOptions>,
) -> Named<'r> {
    let selector = selector.and_then(|selector| selector.selector.as_ref());
    let transaction = match selector {
        Some(Selector::Id(id)) => Some(id.as_slice()),
        _ => None,
    };
    let begins = matches!(selector, Some(Selector::Begin(_)));
    Named { session: Some(session), tags: tags(options), transaction, begins }
}

fn options(selector: Option<&mut proto::TransactionSelector>) -> Option<&mut TransactionOptions> {
    match selector?.selector.as_mut()? {
        Selector::SingleUse(options) | Selector::Begin(options) => Some(options),
        Selector::Id(_) => None,
    }
}

fn mutation_names(
    mutation: &proto::Mutation,
    table: Option<&str>,
    key: Option<&str>,
    known: &dyn Known,
) -> bool {
    let write = match &mutation.operation {
        Some(
            Operation::Insert(write)
            | Operation::Update(write)
            | Operation::InsertOrUpdate(write)
            | Operation::Replace(write),
        ) => write,
        Some(Operation::Delete(delete)) => {
            return is_table(&delete.table, table) && key_set_names(delete.key_set.as_ref(), key);
        }
        Some(Operation::Send(_) | Operation::Ack(_)) | None => return false,
    };
    if !is_table(&write.table, table) {
        return false;
    }
    let Some(key) = key else { return true };
    let Some(column) = known.key_column(&write.table) else { return false };
    let at = write.columns.iter().position(|name| name.eq_ignore_ascii_case(&column));
    at.is_some_and(|at| {
        write.values.iter().any(|row| row.values.get(at).is_some_and(|value| is_text(value, key)))
    })
}

fn key_set_names(keys: Option<&proto::KeySet>, key: Option<&str>) -> bool {
    let Some(key) = key else { return true };
    let mut firsts = keys.into_iter().flat_map(|keys| &keys.keys).filter_map(|k| k.values.first());
    firsts.any(|value| is_text(value, key))
}

fn is_table(named: &str, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| named.eq_ignore_ascii_case(wanted))
}

fn is_text(value: &prost_types::Value, wanted: &str) -> bool {
    match &value.kind {
        Some(Kind::StringValue(text)) => text == wanted,
        Some(Kind::BoolValue(value)) => value.to_string() == wanted,
        Some(Kind::NumberValue(value)) => value.to_string() == wanted,
        _ => false,
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.into_iter().any(|candidate| candidate.eq_ignore_ascii_case(word))
}
