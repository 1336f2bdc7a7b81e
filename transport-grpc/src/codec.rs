//! How messages become bytes: prost, with buffers made for many idle streams.
//!
//! tonic's own codec gives every call 8 KiB to write into and 8 KiB to read into at once, which is most of what an idle
//! stream costs. Here a call starts with little, and grows when it has something to say.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::status::malformed;

/// Bytes that a call allocates for writing or reading when it needs any: some messages of paced traffic.
pub(crate) const BUFFER_BYTES: usize = 1024;

/// Bytes after which what was written is handed to the connection: a frame of HTTP/2.
pub(crate) const YIELD_BYTES: usize = 16 * 1024;

/// Writes `T` and reads `U`.
#[derive(Debug)]
pub struct MessageCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for MessageCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for MessageCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = MessageEncoder<T>;
    type Decoder = MessageDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        MessageEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        MessageDecoder(PhantomData)
    }
}

/// The writing half of [`MessageCodec`].
#[derive(Debug)]
pub struct MessageEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for MessageEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer).map_err(|error| Status::internal(format!("a message cannot be written: {error}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}

/// The reading half of [`MessageCodec`].
#[derive(Debug)]
pub struct MessageDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for MessageDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        match U::decode(buffer) {
            Ok(message) => Ok(Some(message)),
            Err(error) => Err(malformed(&format!("the message is not valid protobuf of this type: {error}"))),
        }
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}
