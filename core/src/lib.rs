//! Canonical content blocks, and the machines that turn the output of agents into balanced streams.
//!
//! Every agent framework streams in its own dialect, and none of them guarantees that every block that opens is closed,
//! that ids are unique, or that a failure is reported as one. This crate is the canonical model between all of them:
//!
//! ```text
//! adapter decodes ──► SourceEvent ──► StreamContext ──► BlockEvent ──► ConverterSet ──► protocol event
//!                      (Update, …)     opens, closes      balanced      form in a protocol
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`block`], [`update`], [`source`] | input: fragments of [`ContentBlock`]s with agent, track and mode |
//! | [`stream`] | [`StreamContext`]: lazy starts, deferred ends, unique ids, lanes |
//! | [`event`] | output: [`BlockEvent`], balanced |
//! | [`convert`], [`presentation`] | [`BlockEventConverter`]: one converter per kind and protocol |
//! | [`turn`], [`merge`], [`accumulator`] | one response id per turn; a turn as one value; texts of turns without reliable end |
//! | [`pipeline`] | the steps above as `futures` streams |
//! | [`agent`], [`history`] | the seam for sources: an [`Agent`] answers a request with a stream of source events |
//! | [`service`], [`protocol`], [`principal`], [`quota`], [`cancel`], [`gate`] | the seams for transports: runs, payloads, identity, limits, cancellation, waits |
//! | [`canonical`] | events and whole runs as JSON, for people and scripts |
//! | [`coalesce`] | deltas that wait for a slow reader, merged |
//! | [`fingerprint`], [`recent`] | dedup: texts compared by length and hash; bounded maps of what was seen |
//! | [`json`] | strings of JSON: the characters that are escaped, reading without a copy |
//! | [`wellknown`] | names for content without a kind of its own |
//! | `testing` (feature) | invariant checker, audit, traces, generators |
//!
//! The crate contains no sockets, clocks, threads, locks or wire formats. Time and ids enter with the data, so the same
//! input gives the same output.
//!
//! # From updates to converted events
//!
//! ```
//! use aqueduct_core::{
//!     BlockEvent, BlockStreamExt, ContentBlock, ConverterSet, RunInfo, RunOutcome, SourceEvent, SourceStreamExt,
//!     StreamContext, Update,
//! };
//! use futures_util::{StreamExt, stream};
//!
//! // An agent sends text, a tool call, its result, more text. It never ends a block.
//! let updates = stream::iter([
//!     SourceEvent::from(Update::text("Let me look. ")),
//!     Update::new(ContentBlock::tool_use("call_1", "search", r#"{"q":"rust"}"#)).into(),
//!     Update::new(ContentBlock::tool_result("call_1", "found")).into(),
//!     Update::text("Here it is.").into(),
//!     SourceEvent::Finished { outcome: RunOutcome::Success, result: None },
//! ]);
//!
//! // A protocol of our own: one converter for every kind. Adapters bring their own set.
//! let converters = ConverterSet::uniform(|event: &BlockEvent, out: &mut Vec<String>| match event {
//!     BlockEvent::BlockStarted(block) => out.push(format!("start {:?}", block.kind)),
//!     BlockEvent::BlockEnded { block, .. } => out.push(format!("end {:?}", block.kind)),
//!     _ => {}
//! });
//!
//! let context = StreamContext::new(RunInfo::new("thread", "run"));
//! let events = updates.through(context).convert(converters);
//! let shown: Vec<String> = futures_util::FutureExt::now_or_never(events.collect()).unwrap();
//! assert_eq!(shown, ["start Text", "end Text", "start ToolUse", "end ToolUse", "start Text", "end Text"]);
//! ```

pub mod accumulator;
pub mod agent;
pub mod block;
pub mod cancel;
pub mod canonical;
pub mod coalesce;
pub mod convert;
mod declare;
pub mod error;
pub mod event;
pub mod fingerprint;
pub mod gate;
pub mod history;
pub mod id;
pub mod interrupts;
pub mod json;
pub mod merge;
pub mod message;
pub mod pipeline;
pub mod presentation;
pub mod principal;
pub mod protocol;
pub mod quota;
pub mod recent;
pub mod run;
pub mod service;
pub mod source;
pub mod stream;
#[cfg(feature = "testing")]
pub mod testing;
pub mod turn;
pub mod update;
mod usage_sum;
pub mod wellknown;

pub use accumulator::Accumulator;
pub use agent::{Agent, AgentRequest, Checkpoint, SourceStream, Takeover};
pub use block::{BlockKind, ContentBlock};
pub use bytestring::ByteString;
pub use cancel::{CancelToken, Cancelled};
pub use coalesce::Coalescer;
pub use convert::{BlockEventConverter, ConverterSet};
pub use error::Error;
pub use event::{BlockEvent, BlockHead, EventKind, Lane, SpanKind};
pub use gate::{Gate, Gated};
pub use history::History;
pub use id::{BlockId, InterruptId, LaneId, MessageId, ResponseId, RunId, ThreadId, ToolCallId};
pub use interrupts::OpenInterrupts;
pub use merge::{CompletedRun, MessageMerger, RunMerger};
pub use message::{Message, Response, RunInput};
pub use pipeline::{BlockStreamExt, IntoSourceEvent, SourceStreamExt};
pub use presentation::IntermediateView;
pub use principal::{AgentGrant, Identity, Principal};
pub use protocol::{Encoding, Protocol, ReadInput};
pub use quota::{Account, Exceeded, Quota, Resource};
pub use run::{Interrupt, InterruptReply, LaneOutcome, RunFailure, RunInfo, RunOutcome, Usage};
pub use source::Source;
pub use stream::{Limits, StreamContext};
pub use turn::{ConflictPolicy, Turn};
pub use update::{Channel, Mode, Role, SourceEvent, Timestamp, Track, Update};

/// Metadata of a source, unchanged and in the source's order.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
