//! Interop with real peers. `cargo xtask interop` installs them and runs these tests.

mod a2a;
mod agui;
mod autobahn;
mod frameworks;
mod frontends;
mod gateway;
mod inspector;
mod magentic;
mod resume;
mod runlog;
mod scale;
mod schemathesis;
mod soak;
mod tee;
mod transports;

use std::path::PathBuf;

/// Returns the variable in which `cargo xtask interop` names the location of a peer, a program or a folder.
fn variable(name: &str) -> PathBuf {
    let value = std::env::var_os(name);
    value.unwrap_or_else(|| panic!("{name} is not set: run `cargo xtask interop SUITE`")).into()
}
