//! How rows travel: in one message, or in a stream of them.

use std::collections::VecDeque;
use std::vec;

use futures_util::stream;
use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Value as WireValue};

use super::convert::encode;
use super::status;
use crate::engine::{Database, Error, Handle, Reading, Result, Value};
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
        self.database.read_page(self.handle, &mut self.reading).await
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

/// The rest of a result while it is sent.
struct Sending {
    rows: vec::IntoIter<Vec<Value>>,
    more: Option<Source>,
    /// The messages that can go.
    ready: VecDeque<proto::PartialResultSet>,
    /// The message that is being filled, and how full it is.
    chunk: proto::PartialResultSet,
    size: usize,
}

/// Returns a result as a stream, each message of which is made when the one before it has been taken.
pub(super) fn chunks(results: Results) -> Messages {
    let sending = Sending {
        rows: results.rows.into_iter(),
        more: results.more,
        ready: VecDeque::new(),
        chunk: proto::PartialResultSet {
            metadata: Some(results.metadata),
            stats: results.stats,
            precommit_token: results.precommit_token,
            ..proto::PartialResultSet::default()
        },
        size: 0,
    };
    Box::pin(stream::try_unfold(Some(sending), |sending| async move {
        let Some(sending) = sending else { return Ok(None) };
        let (chunk, rest) = sending.next().await.map_err(|error| status(&error))?;
        Ok(Some((chunk.encode_to_vec(), rest)))
    }))
}

impl Sending {
    /// Returns the next message, and what is left behind it.
    async fn next(mut self) -> Result<(proto::PartialResultSet, Option<Sending>)> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok((chunk, Some(self)));
            }
            if let Some(row) = self.rows.next() {
                row.iter().for_each(|value| self.push(encode(value)));
                continue;
            }
            match &mut self.more {
                Some(source) if !source.reading.is_done() => {
                    self.rows = source.next_page().await?.into_iter();
                }
                _ => {
                    self.chunk.last = true;
                    return Ok((self.chunk, None));
                }
            }
        }
    }

    /// Puts a value into the message, and what doesn't fit into it into those that follow.
    fn push(&mut self, value: WireValue) {
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
            let full = self.next_chunk();
            self.ready.push_back(full);
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
