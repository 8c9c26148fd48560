//! How messages become bytes.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstDecoder, ProstEncoder};

/// The size that the buffer of a message starts with, in bytes; it grows as it must. An allocator
/// keeps small ones for the thread, and locks for those of tonic's 8 KiB.
const BUFFER_BYTES: usize = 512;
/// How much of a stream is sent at once, in bytes: tonic's own choice.
const SENT_AT_ONCE_BYTES: usize = 32 << 10;

/// Protocol buffers, as `ProstCodec` has them, but for the size of buffers.
pub(crate) struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, SENT_AT_ONCE_BYTES))
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, SENT_AT_ONCE_BYTES))
    }
}
