//! A2A with its real peers, in both directions.
//!
//! The peers play the modes of `tests/interop/a2a/modes.json`, which also says what a reader must end up with. What is
//! expected comes from there, never from what was seen.

mod bridge;
pub(super) mod downstream;
pub(super) mod modes;
mod upstream;
mod wire;
