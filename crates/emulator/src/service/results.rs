//! How rows travel: in one message, or in a stream of them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Value as WireValue};
use tokio_stream::Stream;
use tonic::Status;

use super::convert::encode;
use super::status;
use super::transactions::Handle;
use crate::engine::{Database, Error, Reading, Result, Value};
use crate::grpc::Messages;

/// The size that a message of a stream is kept at, in bytes; clients refuse those above 4 MiB.
const CHUNK_BYTES: usize = 1 << 20;
/// The largest result that fits into one message.
const RESULT_BYTES_MAX: usize = 10 << 20;

/// The rows of a read or a query, and what is told along with them.
#[derive(Debug)]
pub(super) struct Results {
    pub metadata: proto::ResultSetMetadata,
    pub rows: Vec<Vec<Value>>,
    /// Where the rows behind those come from.
    pub more: Option<Source>,
    pub stats: Option<proto::ResultSetStats>,
    pub precommit_token: Option<proto::MultiplexedSessionPrecommitToken>,
}

/// A read under way in its transaction.
#[derive(Debug)]
pub(super) struct Source {
    pub database: Database,
    pub handle: Handle,
    pub reading: Reading,
}

impl Source {
    /// Reads some more rows.
    pub async fn next_page(&mut self) -> Result<Vec<Vec<Value>>> {
        match self.handle {
            Handle::ReadOnly(moment) => self.database.read_page_at(moment, &mut self.reading).await,
            Handle::ReadWrite(id) => self.database.read_page(id, &mut self.reading).await,
        }
    }
}

impl Results {
    /// Returns all of it in one message.
    pub async fn into_result_set(self) -> Result<proto::ResultSet> {
        let mut rows = Vec::new();
        let (mut page, mut more, mut size) = (self.rows, self.more, 0);
        loop {
            for row in page {
                let row = ListValue { values: row.iter().map(encode).collect() };
                size += row.encoded_len();
                if size > RESULT_BYTES_MAX {
                    return Err(Error::failed_precondition(format!(
                        "The result is larger than {RESULT_BYTES_MAX} bytes, the limit of a reply \
                         that is not streamed; use StreamingRead or ExecuteStreamingSql."
                    )));
                }
                rows.push(row);
            }
            match &mut more {
                Some(source) if !source.reading.is_done() => page = source.next_page().await?,
                _ => break,
            }
        }
        Ok(proto::ResultSet {
            metadata: Some(self.metadata),
            rows,
            stats: self.stats,
            precommit_token: self.precommit_token,
            cache_update: None,
        })
    }
}

/// The messages of a stream, each made when the one before it has been taken.
struct Chunks {
    ready: VecDeque<Result<Vec<u8>, Status>>,
    then: Then,
}

enum Then {
    /// Rows that have been read.
    Rows(Box<Sending>),
    /// Rows that are being read.
    Reading(Pin<Box<dyn Future<Output = Result<Sending>> + Send>>),
    End,
}

/// The rest of a result while it is sent.
struct Sending {
    rows: vec::IntoIter<Vec<Value>>,
    more: Option<Source>,
    /// The message that is being filled, and how full it is.
    chunk: proto::PartialResultSet,
    size: usize,
}

/// Returns a result as a stream.
///
/// An error is in the stream, so that the reply has begun before it. Cloud Spanner does it so.
/// Node's client takes an error without a reply for a connection that failed, and tries for
/// seconds.
pub(super) fn chunks(result: Result<Results>) -> Messages {
    Box::pin(match result {
        Ok(results) => {
            let first = proto::PartialResultSet {
                metadata: Some(results.metadata),
                stats: results.stats,
                precommit_token: results.precommit_token,
                ..proto::PartialResultSet::default()
            };
            let rows = results.rows.into_iter();
            let sending = Sending { rows, more: results.more, chunk: first, size: 0 };
            Chunks { ready: VecDeque::new(), then: Then::Rows(Box::new(sending)) }
        }
        Err(error) => Chunks { ready: VecDeque::from([Err(status(&error))]), then: Then::End },
    })
}

impl Stream for Chunks {
    type Item = Result<Vec<u8>, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Poll::Ready(Some(chunk));
            }
            match std::mem::replace(&mut self.then, Then::End) {
                Then::End => return Poll::Ready(None),
                Then::Rows(sending) => {
                    let (ready, then) = sending.fill();
                    self.ready = ready.iter().map(|chunk| Ok(chunk.encode_to_vec())).collect();
                    self.then = then;
                }
                Then::Reading(mut page) => match page.as_mut().poll(context) {
                    Poll::Pending => {
                        self.then = Then::Reading(page);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(sending)) => self.then = Then::Rows(Box::new(sending)),
                    Poll::Ready(Err(error)) => self.ready.push_back(Err(status(&error))),
                },
            }
        }
    }
}

impl Sending {
    /// Fills messages until one or more can go, or rows have to be read.
    fn fill(mut self) -> (Vec<proto::PartialResultSet>, Then) {
        let mut ready = Vec::new();
        while let Some(row) = self.rows.next() {
            for value in &row {
                self.push(encode(value), &mut ready);
            }
            if !ready.is_empty() {
                return (ready, Then::Rows(Box::new(self)));
            }
        }
        match self.more.take() {
            Some(mut source) if !source.reading.is_done() => {
                let reading = async move {
                    self.rows = source.next_page().await?.into_iter();
                    self.more = Some(source);
                    Ok(self)
                };
                (ready, Then::Reading(Box::pin(reading)))
            }
            _ => {
                self.chunk.last = true;
                ready.push(self.chunk);
                (ready, Then::End)
            }
        }
    }

    /// Puts a value into the message, and what doesn't fit into it into those that follow.
    fn push(&mut self, value: WireValue, ready: &mut Vec<proto::PartialResultSet>) {
        let mut rest = Some(value);
        while let Some(value) = rest {
            let size = value.encoded_len();
            let room = CHUNK_BYTES - self.size;
            if size <= room {
                self.size += size;
                self.chunk.values.push(value);
                return;
            }
            if self.size > 0 && size <= CHUNK_BYTES {
                rest = Some(value);
            } else {
                let (head, tail) = split(value, room);
                self.chunk.values.push(head);
                self.chunk.chunked_value = true;
                rest = Some(tail);
            }
            ready.push(self.next_chunk());
        }
    }

    /// Takes the message that is full. The content of the last one stays.
    fn next_chunk(&mut self) -> proto::PartialResultSet {
        self.size = 0;
        let next = proto::PartialResultSet {
            stats: self.chunk.stats.take(),
            precommit_token: self.chunk.precommit_token.take(),
            ..proto::PartialResultSet::default()
        };
        std::mem::replace(&mut self.chunk, next)
    }
}

/// Cuts a text or a list in two that a client puts together again. Texts are joined, lists too.
/// Where one list ends with a text and the next one starts with one, those are joined.
fn split(value: WireValue, room: usize) -> (WireValue, WireValue) {
    let of = |kind| WireValue { kind: Some(kind) };
    match value.kind {
        Some(Kind::StringValue(mut text)) => {
            let tail = text.split_off(text.floor_char_boundary(room));
            (of(Kind::StringValue(text)), of(Kind::StringValue(tail)))
        }
        Some(Kind::ListValue(list)) => {
            let (mut head, mut tail) = (Vec::new(), list.values.into_iter());
            let mut left = room;
            for value in tail.by_ref() {
                // A few bytes go along with each value.
                let size = value.encoded_len() + 8;
                if size <= left {
                    left -= size;
                    head.push(value);
                    continue;
                }
                let (first, second) = match value.kind {
                    Some(Kind::StringValue(_)) => split(value, left),
                    // The end of the head and the start of the tail are never both texts.
                    _ => (of(Kind::StringValue(String::new())), value),
                };
                let texts = matches!(second.kind, Some(Kind::StringValue(_)));
                head.extend(texts.then_some(first));
                let tail = std::iter::once(second).chain(tail).collect();
                let list = |values| of(Kind::ListValue(ListValue { values }));
                return (list(head), list(tail));
            }
            (
                of(Kind::ListValue(ListValue { values: head })),
                of(Kind::ListValue(ListValue::default())),
            )
        }
        kind => (WireValue { kind: Some(Kind::StringValue(String::new())) }, WireValue { kind }),
    }
}
