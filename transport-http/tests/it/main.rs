//! The transport over loopback sockets: what peers see, good and bad ones, and what is left when they are gone.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "helpers of tests fail as tests do"
)]

mod bad_peers;
mod client;
mod driver;
mod endpoint;
mod h2_peer;
mod http2;
mod http2_abuse;
mod memory;
mod quiet;
mod readers;
mod shutdown;
mod support;
mod taken;
mod tls;
mod workers;
