//! Microsoft Agent Framework workflows as canonical updates, with the answer told apart from the work.
//!
//! In: the JSON-lines form of workflow events, lines of `AgentResponseUpdate`, and the events of the older
//! Magentic classes (`docs/magentic.md` has the line shape). Out: [`SourceEvent`](aqueduct_core::SourceEvent)s
//! for a stream machine, or one merged [`Response`](aqueduct_core::Response) of a run.
//!
//! ```text
//! bytes ─► Lines ─► Decoder ─► SourceEvent ─► (StreamContext)      replies: InterruptReply ─► Reply ─► the workflow
//! ```
//!
//! Invariants: a decoder says what the source said and opens, closes or orders no blocks; whatever no rule knows
//! becomes a `Custom` block or a counted error; after a terminal event the next event belongs to the next run of
//! the same conversation.
//!
//! Not here: sockets, clocks, the Python side that writes the lines.

mod config;
mod decode;
mod error;
mod lines;
mod merged;
pub mod names;
mod reply;
mod version;
pub mod wire;

pub use config::{Config, EndOfInput, Limits, Numbering};
pub use decode::{Counts, Decoder};
pub use error::{DecodeError, Fault, ReplyError};
pub use lines::Lines;
pub use merged::{MergedRun, RunMerger};
pub use reply::Reply;
pub use version::Dialect;
