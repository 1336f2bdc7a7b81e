//! Conformance suites of others, run as programs: Autobahn for WebSocket, schemathesis for the HTTP API.
#![expect(clippy::print_stdout, reason = "the counts are what one runs these tests for")]

mod autobahn;
mod schemathesis;

use std::path::PathBuf;

fn variable(name: &str) -> PathBuf {
    let value = std::env::var_os(name);
    value.unwrap_or_else(|| panic!("{name} is not set: run `cargo xtask interop conformance`")).into()
}
