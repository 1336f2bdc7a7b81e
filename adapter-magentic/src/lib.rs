//! Microsoft Agent Framework workflows as canonical updates, with the answer separated from intermediate work.
//!
//! Input: the JSON-lines form of workflow events, lines of `AgentResponseUpdate`, and the events of the older Magentic
//! classes (`docs/magentic.md` documents the lines). Output: [`SourceEvent`](aqueduct_core::SourceEvent)s for a stream
//! machine, or one merged [`Response`](aqueduct_core::Response) of a run.
//!
//! ```text
//! bytes ─► Lines ─► Decoder ─► SourceEvent ─► (StreamContext)      replies: InterruptReply ─► Reply ─► the workflow
//! ```
//!
//! ```
//! use aqueduct_adapter_magentic::Decoder;
//! use aqueduct_core::testing::trace;
//! use aqueduct_core::{RunInfo, StreamContext};
//!
//! let mut decoder = Decoder::default();
//! let mut context = StreamContext::new(RunInfo::new("thread", "run"));
//! for line in [
//!     r#"{"seq": 0, "type": "output", "executor_id": "writer", "data": "Rust is fast."}"#,
//!     r#"{"seq": 1, "type": "status", "state": "IDLE"}"#,
//! ] {
//!     decoder.handle_line(&line.into())?;
//!     while let Some(event) = decoder.poll_event() {
//!         context.handle_event(event)?;
//!     }
//! }
//! let events: Vec<_> = std::iter::from_fn(|| context.poll_event()).collect();
//! assert!(trace(&events).ends_with("run finished success\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: a decoder does not open, close or order blocks; unknown input becomes a `Custom` block or a counted error;
//! after a terminal event the next event belongs to the next run of the same conversation.
//!
//! The crate contains no sockets, no clock, and not the Python code that writes the lines.

mod config;
mod decode;
mod error;
mod lines;
pub mod names;
mod reply;
mod version;
pub mod wire;

pub use config::{Config, EndOfInput, Limits, Numbering};
pub use decode::{Counts, Decoder};
pub use error::{Error, Fault};
pub use lines::Lines;
pub use reply::Reply;
pub use version::Dialect;
