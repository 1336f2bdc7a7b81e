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

mod mux;
mod support;
