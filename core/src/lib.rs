//! Canonical content blocks, and the machines that turn what agents send into balanced streams.

pub mod accumulator;
pub mod block;
pub mod convert;
pub mod event;
pub mod id;
pub mod merge;
pub mod message;
pub mod pipeline;
pub mod presentation;
pub mod run;
pub mod source;
pub mod stream;
#[cfg(feature = "testing")]
pub mod testing;
pub mod turn;
pub mod update;
mod usage_sum;
pub mod wellknown;

pub use accumulator::Accumulator;
pub use block::{BlockKind, ContentBlock};
pub use bytestring::ByteString;
pub use convert::{BlockEventConverter, ConverterSet};
pub use event::{BlockEvent, BlockHead, EventKind, Lane, SpanKind};
pub use id::{BlockId, InterruptId, LaneId, MessageId, ResponseId, RunId, ThreadId, ToolCallId};
pub use merge::MessageMerger;
pub use message::{Message, Response, RunInput};
pub use pipeline::{BlockStreamExt, IntoSourceEvent, SourceStreamExt};
pub use presentation::IntermediateView;
pub use run::{Interrupt, InterruptReply, LaneOutcome, RunFailure, RunInfo, RunOutcome, Usage};
pub use source::Source;
pub use stream::{Limits, StreamContext, StreamError};
pub use turn::{ConflictPolicy, Turn};
pub use update::{Channel, Mode, Role, SourceEvent, Timestamp, Track, Update};

/// What a source tells beside its content, untouched and in its order.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
