//! Lossless conversion between canonical values and messages.
//!
//! ```text
//!   NumberedEvent ──► EventWriter ──► StreamMessage ──► EventReader ──► NumberedEvent     (client's side: reader)
//!   CompletedRun  ──► completed_to_proto ──► CompletedRun message ──► completed_from_proto ──► CompletedRun
//!   RunInput      ──► input_to_proto ──► RunInput message ──► input_from_proto ──► RunInput
//! ```
//!
//! Invariants: the round trip of every event and input gives an equal value (a property test); text is shared, not copied, in
//! both directions; values of the reader that outlive a message are detached from its buffer.
//!
//! The module knows no socket, no status, and no limit but the depth of JSON.

mod complete;
mod declare;
mod error;
mod input;
mod kinds;
mod read;
mod run;
mod values;
mod write;

pub use complete::{completed_from_proto, completed_to_proto};
pub use error::ConvertError;
pub use input::{input_from_proto, input_to_proto};
pub use read::EventReader;
pub use run::{reply_from_proto, reply_to_proto};
pub use values::JsonDepth;
pub use write::EventWriter;

#[cfg(feature = "server")]
pub(crate) use values::optional_text;
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) use values::{text, to_bytes};

#[cfg(test)]
mod tests;
