//! Interop with real peers. `cargo xtask interop` installs them and runs these tests.

mod a2a;
mod agui;
mod conformance;
mod frameworks;
mod frontends;
mod gateway;
mod inspector;
mod magentic;
mod resume;
mod runlog;
mod scale;
mod soak;
mod tee;
mod transports;
