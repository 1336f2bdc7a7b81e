//! Interop with real peers. `cargo xtask interop` installs them and runs these tests.

mod agui;
mod magentic;
mod resume;
mod tee;
mod transports;
