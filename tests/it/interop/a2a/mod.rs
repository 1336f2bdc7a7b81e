//! A2A with its real peers, in both directions.
//!
//! The peers play the modes of `tests/interop/a2a/modes.json`, which also contains the expected content. Expectations
//! come from there, never from observed output.

mod bridge;
pub(super) mod downstream;
pub(super) mod modes;
mod upstream;
mod wire;
