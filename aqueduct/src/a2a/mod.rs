//! A2A: remote agents.

#[cfg(feature = "http")]
pub mod remote;

#[cfg(feature = "http")]
pub use remote::{Address, RemoteAgent, RemoteBuilder};

pub use aqueduct_adapter_a2a::config::DecodeConfig;
pub use aqueduct_adapter_a2a::version::{Binding, Version};

/// The metadata of a message under which an agent finds the token of the run it works for.
pub const RUN_TOKEN_METADATA: &str = "aqueduct/run";
