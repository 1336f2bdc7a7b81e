//! [`Protocol`]: an agent protocol as transports see it: bytes become a [`RunInput`], and events become payloads.
//!
//! ```text
//! request bytes ──► Protocol::read_input ──► RunInput ──► RunService::start ──► events ──► EventEncoder ──► payloads
//!                        └ declared version ──► encoder ─────────────────────────────────────────▲
//! ```
//!
//! An adapter implements the trait once; HTTP, WebSocket and any other transport carry the same implementation. The adapter
//! defines the payloads, the transport their framing.

use crate::message::RunInput;
use crate::service::{EventEncoder, ServiceError};

/// The serialization of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Encoding {
    /// JSON text without line breaks.
    #[default]
    Json,
    /// The protocol's binary form.
    Binary,
}

/// Reads run inputs and creates encoders, for one agent protocol.
pub trait Protocol: Send + Sync + 'static {
    /// Reads the input of a run of `agent`, and creates the encoder for its events. The input may declare the protocol
    /// version that the client supports.
    ///
    /// # Errors
    ///
    /// Returns a refusal of kind [`Invalid`](crate::service::RefusalKind::Invalid) if `bytes` are not a valid input.
    fn read_input(&self, agent: &str, bytes: &[u8], encoding: Encoding) -> Result<ReadInput, ServiceError>;

    /// Creates the encoder for a watcher of a run of `agent`. `declared` is the protocol version that the watcher supports,
    /// if it declared one.
    fn encoder(&self, agent: &str, declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder>;
}

/// A decoded request to start a run.
#[non_exhaustive]
pub struct ReadInput {
    /// The input of the run.
    pub input: RunInput,
    /// Encodes the events of the run for the client that sent the input.
    pub encoder: Box<dyn EventEncoder>,
}

impl ReadInput {
    /// Returns an input with the encoder for its client.
    pub fn new(input: RunInput, encoder: Box<dyn EventEncoder>) -> Self {
        Self { input, encoder }
    }
}

crate::debug_fields!(ReadInput { input });
