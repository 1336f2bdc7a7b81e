//! Canonical content blocks, and the machines that turn what agents send into balanced streams.

pub mod block;
pub mod convert;
pub mod event;
pub mod id;
pub mod message;
pub mod presentation;
pub mod run;
pub mod source;
pub mod stream;
#[cfg(feature = "testing")]
pub mod testing;
pub mod update;
pub mod wellknown;

pub use block::{BlockKind, ContentBlock};
pub use bytestring::ByteString;
pub use convert::{BlockEventConverter, ConverterSet};
pub use event::{BlockEvent, BlockHead, EventKind, Lane, SpanKind};
pub use id::{BlockId, InterruptId, LaneId, MessageId, ResponseId, RunId, ThreadId, ToolCallId};
pub use message::{Message, Response, RunInput};
pub use presentation::IntermediateView;
pub use run::{Interrupt, InterruptReply, LaneOutcome, RunFailure, RunInfo, RunOutcome, Usage};
pub use source::Source;
pub use stream::{Limits, StreamContext, StreamError};
pub use update::{Channel, Mode, Role, SourceEvent, Timestamp, Track, Update};

/// What a source tells beside its content, untouched and in its order.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
