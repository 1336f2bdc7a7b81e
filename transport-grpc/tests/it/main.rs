//! The transport over loopback: every test has a server, a port and a service of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail like tests"
)]

mod bad_peers;
mod calls;
mod deadlines;
mod endless;
#[path = "../../../transport-http/tests/it/h2_peer.rs"]
mod h2_peer;
mod http2_abuse;
#[path = "../../../transport-http/tests/it/memory.rs"]
mod memory;
mod mounted;
mod publish;
mod raw;
mod readers;
#[path = "../../examples/echo_server/service.rs"]
mod service;
mod shutdown;
mod support;
mod tls;
