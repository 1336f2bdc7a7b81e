//! The agent protocol that a connection carries, as far as a transport must know it: nothing but two functions.

use std::fmt;

use aqueduct_core::service::{BoxFuture, EventEncoder, ServiceError};
use aqueduct_core::{RunId, RunInput};

use crate::handshake::Encoding;

/// Reads run inputs and makes encoders. An adapter (or a program with one agent) brings it.
pub trait Dialect: Send + Sync + 'static {
    /// Reads a run input for `agent` and makes the encoder for its events: what a client understands may stand in its
    /// input, and agents may be shown in different ways.
    fn read_input(&self, agent: &str, input: &str, encoding: Encoding) -> Result<ReadInput, ServiceError>;

    /// Makes an encoder for somebody who follows a run that was started elsewhere, and who may see it. `options` is the
    /// JSON that the watcher passed, unread.
    fn encoder<'a>(
        &'a self,
        run: &'a RunId,
        encoding: Encoding,
        options: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn EventEncoder>, ServiceError>>;
}

/// What a [`Dialect`] made of an input.
pub struct ReadInput {
    /// The input.
    pub input: RunInput,
    /// The encoder for the events of the run.
    pub encoder: Box<dyn EventEncoder>,
}

impl fmt::Debug for ReadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadInput").field("input", &self.input).finish_non_exhaustive()
    }
}
