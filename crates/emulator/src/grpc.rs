//! gRPC: the bytes of a request become the bytes of its replies.
//!
//! Every call goes through one codec and has one type, so the server is compiled once, not once for
//! each method.

use std::future::ready;
use std::pin::Pin;

use futures_util::{Stream, stream};
use hyper::body::{Bytes, Incoming};
use prost::Message;
use prost::bytes::{Buf, BufMut};
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, ServerStreamingService};
use tonic::{Request, Response, Status};

/// The largest request; Cloud Spanner's limit for a commit.
const REQUEST_BYTES_MAX: usize = 100 << 20;
/// The size that the buffer of a message starts with, in bytes; it grows as it must. An allocator
/// keeps small ones for the thread, and locks for those of tonic's 8 KiB.
const BUFFER_BYTES: usize = 512;
/// How much of a stream is sent at once, in bytes: tonic's own choice.
const SENT_AT_ONCE_BYTES: usize = 32 << 10;

pub(crate) type Reply = http::Response<tonic::body::Body>;

/// The replies to a call, each in bytes.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<Vec<u8>, Status>> + Send>>;

/// The answer to a call, on its way.
pub(crate) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<Messages>, Status>> + Send>>;

/// The code that answers a call.
pub(crate) type Call = Box<dyn FnMut(Request<Bytes>) -> Answering + Send>;

/// Answers one call.
pub(crate) async fn answer(request: http::Request<Incoming>, call: Call) -> Reply {
    let mut grpc = Grpc::new(Codec).max_decoding_message_size(REQUEST_BYTES_MAX);
    grpc.server_streaming(Method(call), request).await
}

/// Refuses a call that isn't known, by its name.
pub(crate) fn unknown(path: &str) -> Status {
    Status::unimplemented(format!("Not supported here: {}", path.trim_start_matches('/')))
}

/// Reads the message of a request.
pub(crate) fn read<Q: Message + Default>(bytes: &[u8]) -> Result<Q, Status> {
    Q::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// Returns a reply of one message.
pub(crate) fn one(message: &impl Message) -> Messages {
    Box::pin(stream::once(ready(Ok(message.encode_to_vec()))))
}

/// Returns a reply that begins, and has nothing but an error.
pub(crate) fn failed(status: Status) -> Messages {
    Box::pin(stream::once(ready(Err(status))))
}

struct Method(Call);

impl ServerStreamingService<Bytes> for Method {
    type Response = Vec<u8>;
    type ResponseStream = Messages;
    type Future = Answering;

    fn call(&mut self, request: Request<Bytes>) -> Answering {
        (self.0)(request)
    }
}

struct Codec;

impl tonic::codec::Codec for Codec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Codec;
    type Decoder = Codec;

    fn encoder(&mut self) -> Codec {
        Codec
    }

    fn decoder(&mut self) -> Codec {
        Codec
    }
}

impl Encoder for Codec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, SENT_AT_ONCE_BYTES)
    }
}

impl Decoder for Codec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, SENT_AT_ONCE_BYTES)
    }
}
