//! [`StreamEncoder`]: canonical events in, payloads of an A2A stream out, for one watcher of a task.
//!
//! What a payload is wrapped in belongs to the binding ([`Envelope`]); framing (SSE, HTTP) belongs to the transport.

mod writer;

use aqueduct_core::BlockEvent;
use aqueduct_core::service::{EventEncoder, PayloadSink};
use serde_json::{Value, json};

pub use writer::ItemWriter;
pub(crate) use writer::begins_at;

use crate::wire::{Dialect, StreamItem};

/// What stands around each item.
#[derive(Debug, Clone, PartialEq)]
pub enum Envelope {
    /// A JSON-RPC result that answers the request of that id.
    JsonRpc(Value),
    /// Nothing: HTTP+JSON.
    Bare,
}

impl Envelope {
    /// An item with what stands around it.
    pub fn wrap(&self, item: Value) -> Value {
        match self {
            Self::JsonRpc(id) => json!({"jsonrpc": "2.0", "id": id, "result": item}),
            Self::Bare => item,
        }
    }
}

/// Converts and writes for one watcher.
#[derive(Debug)]
pub struct StreamEncoder {
    writer: ItemWriter,
    dialect: Dialect,
    envelope: Envelope,
    items: Vec<StreamItem<'static>>,
}

impl StreamEncoder {
    /// An encoder for what that writer writes.
    pub fn new(writer: ItemWriter, dialect: Dialect, envelope: Envelope) -> Self {
        Self { writer, dialect, envelope, items: Vec::new() }
    }

    /// One item as a payload.
    pub fn payload(&self, item: &StreamItem<'_>) -> Value {
        self.envelope.wrap(item.to_json(self.dialect))
    }
}

impl EventEncoder for StreamEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        let mut items = std::mem::take(&mut self.items);
        self.writer.handle_event(event, &mut items);
        for item in &items {
            let payload = self.payload(item);
            sink.push(&mut |out| {
                // Writing a `Value` to memory cannot fail.
                let written = serde_json::to_writer(&mut *out, &payload);
                debug_assert!(written.is_ok(), "a payload is JSON");
            });
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
