//! Tests over loopback sockets and in-memory pipes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::let_underscore_must_use,
    reason = "a test that cannot go on fails"
)]

mod admission;
mod bad_peers;
mod conformance;
mod ingest;
mod keepalive;
#[path = "../../../transport-http/tests/it/memory.rs"]
mod memory;
mod mux;
mod plain;
mod readers;
mod shutdown;
mod support;
mod tls;
