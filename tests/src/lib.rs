//! Support for the tests of whole paths: views of what a reader ends up with, and the oracles that are real peers.
//!
//! Nothing here is production code; a test fails by a panic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a panic is how a test says no"
)]

pub mod a2a;
pub mod agui;
pub mod content;
pub mod fixture;
pub mod frameworks;
pub mod golden;
pub mod magentic;
pub mod oracle;
pub mod process;
pub mod view;

/// The Rust snippets of the front page, the documentation and the crates' READMEs, compiled as doctests. A test of the gateway
/// (`snippets.rs`) requires every page with such a snippet here.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../aqueduct/README.md")]
    pub struct Aqueduct;
    #[doc = include_str!("../../core/README.md")]
    pub struct Core;
    #[doc = include_str!("../../runs/README.md")]
    pub struct Runs;
    #[doc = include_str!("../../docs/grpc.md")]
    pub struct Grpc;
    #[doc = include_str!("../../docs/guides/own-agent.md")]
    pub struct OwnAgent;
    #[doc = include_str!("../../docs/transport-http.md")]
    pub struct TransportHttp;
}
