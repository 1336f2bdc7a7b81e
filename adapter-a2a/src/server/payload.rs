//! [`ItemPayloads`]: encodes a task's stream as payloads of a binding, for a transport.
//!
//! ```text
//! TaskStream ── item ──► envelope and dialect of the client ──► PayloadSink: bytes of one server-sent event
//!            └─ error ─► the same, as an event named `error`; the stream ends after it
//! ```
//!
//! A chunk of the answer, which most items are, is written from its shared parts, without building an item. The
//! transport calls [`PayloadStream::poll_payload`] when it can write, so a slow client delays nothing but its own
//! stream.

use std::task::{Context, Poll, ready};

use aqueduct_core::service::{PayloadSink, PayloadStream};
use serde_json::{Value, json};

use super::chunk::TaskItem;
use super::result::{rest_error, rpc_error};
use super::{ServerError, TaskStream};
use crate::encode::{ChunkWriter, Envelope};
use crate::version::{Binding, EVENT_STREAM, Version};
use crate::wire::Dialect;

/// Encodes the items of a stream. Dropping it removes the watcher; the task continues.
pub struct ItemPayloads {
    /// The watcher of the task.
    items: TaskStream,
    /// The version of the client, which determines the form of errors.
    version: Version,
    dialect: Dialect,
    envelope: Envelope,
    /// Keeps what the chunks of a block have in common in encoded form.
    chunks: ChunkWriter,
}

aqueduct_core::debug_fields!(ItemPayloads { envelope });

impl ItemPayloads {
    /// Returns the payloads of a stream for a client of that version. The envelope determines the binding, and
    /// both determine the dialect.
    pub fn new(items: TaskStream, version: Version, envelope: Envelope) -> Self {
        let binding = match &envelope {
            Envelope::JsonRpc(_) => Binding::JsonRpc,
            Envelope::Bare => Binding::HttpJson,
        };
        Self { items, version, dialect: binding.dialect(version), envelope, chunks: ChunkWriter::default() }
    }

    /// Returns the payload of an error, in the form that the binding has for errors of unary calls.
    fn error(&self, error: &ServerError) -> Value {
        match &self.envelope {
            Envelope::JsonRpc(id) => {
                json!({"jsonrpc": "2.0", "id": id, "error": rpc_error(error, self.version)})
            }
            Envelope::Bare => rest_error(error, self.version),
        }
    }
}

impl PayloadStream for ItemPayloads {
    /// Writes at most one payload per call. Returns `false` at the end of the stream.
    fn poll_payload(&mut self, cx: &mut Context<'_>, sink: &mut dyn PayloadSink) -> Poll<bool> {
        let Some(item) = ready!(self.items.poll_item(cx)) else { return Poll::Ready(false) };
        let Self { envelope, dialect, chunks, .. } = self;
        match &item {
            Ok(TaskItem::Chunk(chunk)) => {
                sink.push(&mut |out| chunks.write_chunk(envelope, chunk, *dialect, out));
            }
            Ok(TaskItem::Item(item)) => sink.push(&mut |out| chunks.write(envelope, item, *dialect, out)),
            Err(error) => {
                let payload = self.error(error).to_string();
                sink.push_named("error", &mut |out| out.extend_from_slice(payload.as_bytes()));
            }
        }
        Poll::Ready(true)
    }

    fn media_type(&self) -> &'static str {
        EVENT_STREAM
    }
}
