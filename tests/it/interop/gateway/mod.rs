//! The gateway end to end: the built program between real frontends and real agents.
//!
//! The agents play the modes of `tests/interop/a2a/modes.json`. What a frontend must hold afterwards is written in
//! `tests/interop/gateway/expected.json`, mode by mode; it is never made from what was seen.

mod a2a_clients;
mod copilotkit;
pub(super) mod expected;
pub(super) mod frontend;
mod modes;
mod operate;
pub(super) mod stage;
mod stopping;
