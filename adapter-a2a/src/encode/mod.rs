//! [`StreamEncoder`]: encodes canonical events as payloads of an A2A stream, for one watcher of a task.
//!
//! ```text
//! BlockEvent ──► ItemWriter (converters; joins notes) ──► StreamItem ──► ChunkWriter (dialect, envelope) ──► payload
//! ```
//!
//! The wrapper of a payload belongs to the binding ([`Envelope`]); framing (SSE, HTTP) belongs to the transport. gRPC
//! takes the items of
//! [`ItemWriter`] and encodes them as messages instead.

mod chunk;
mod writer;

use aqueduct_core::BlockEvent;
use aqueduct_core::service::{EventEncoder, PayloadSink};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

pub(crate) use chunk::ChunkWriter;
#[cfg(feature = "server")]
pub(crate) use chunk::{plain_chunk, with_words};
pub use writer::ItemWriter;
pub(crate) use writer::begins_at;

use crate::wire::{Dialect, Shown, StreamItem};

/// The wrapper around each item of a stream.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::Envelope;
/// use aqueduct_adapter_a2a::wire::{Dialect, StreamItem, Task};
/// use serde_json::json;
///
/// let item = StreamItem::Task(Task::default());
/// let (mut bare, mut rpc) = (Vec::new(), Vec::new());
/// Envelope::Bare.write(&item, Dialect::V1, &mut bare);
/// Envelope::JsonRpc(json!("r-1")).write(&item, Dialect::V1, &mut rpc);
/// assert!(bare.starts_with(br#"{"task":"#));
/// assert!(rpc.starts_with(br#"{"jsonrpc":"2.0","id":"r-1","result":{"task":"#));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Envelope {
    /// A JSON-RPC result for the request with that id. Every frame has the id with its JSON type: the JavaScript
    /// client refuses any other.
    JsonRpc(Value),
    /// No wrapper: HTTP+JSON.
    Bare,
}

impl Envelope {
    /// Appends an item with its wrapper to `out`, as JSON of that dialect.
    pub fn write(&self, item: &StreamItem<'_>, dialect: Dialect, out: &mut Vec<u8>) {
        let enveloped = Enveloped { envelope: self, item: Shown(item, dialect) };
        // Writing to memory cannot fail, and all keys are strings.
        let written = serde_json::to_writer(&mut *out, &enveloped);
        debug_assert!(written.is_ok(), "a payload is JSON");
    }
}

/// An item with its wrapper.
struct Enveloped<'e> {
    envelope: &'e Envelope,
    item: Shown<'e, StreamItem<'e>>,
}

impl Serialize for Enveloped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Envelope::JsonRpc(id) = self.envelope else { return self.item.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("jsonrpc", "2.0")?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("result", &self.item)?;
        map.end()
    }
}

/// Encodes events for one watcher. All items of an encoder have the same dialect and envelope; a watcher that starts
/// in the middle of a run gets a writer that is a clone of one at that position.
#[derive(Debug)]
pub struct StreamEncoder {
    writer: ItemWriter,
    dialect: Dialect,
    envelope: Envelope,
    /// Writes chunks without serialising what the chunk before had too.
    chunks: ChunkWriter,
    /// Items of the event that is being encoded; kept for its capacity.
    items: Vec<StreamItem<'static>>,
}

impl StreamEncoder {
    /// Returns an encoder of the items of that writer.
    pub fn new(writer: ItemWriter, dialect: Dialect, envelope: Envelope) -> Self {
        Self { writer, dialect, envelope, chunks: ChunkWriter::default(), items: Vec::new() }
    }
}

impl EventEncoder for StreamEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        let mut items = std::mem::take(&mut self.items);
        self.writer.handle_event(event, &mut items);
        for item in &items {
            sink.push(&mut |out| self.chunks.write(&self.envelope, item, self.dialect, out));
        }
        items.clear();
        self.items = items;
    }

    fn media_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn is_binary(&self) -> bool {
        false
    }
}
