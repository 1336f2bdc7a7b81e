//! The codec of messages: prost, with buffers sized for many idle streams.
//!
//! tonic's own codec gives every call 8 KiB for writing and 8 KiB for reading at once, which is most of the memory of an
//! idle stream. Here the buffers of a call start small and grow as needed.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::status::malformed;

/// The initial size of a call's buffers: some messages of paced traffic.
pub(crate) const BUFFER_BYTES: usize = 1024;

/// Bytes after which written messages are passed to the connection: a frame of HTTP/2.
pub(crate) const YIELD_BYTES: usize = 16 * 1024;

/// Encodes `T` and decodes `U`.
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

/// The encoder of [`MessageCodec`].
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

/// The decoder of [`MessageCodec`].
#[derive(Debug)]
pub struct MessageDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for MessageDecoder<U> {
    type Item = U;
    type Error = Status;

    /// The buffer contains exactly one message, so bytes that do not decode are a fault of the peer
    /// (`INVALID_ARGUMENT`).
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
