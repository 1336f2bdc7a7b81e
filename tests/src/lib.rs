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

/// The Rust snippets of the front page and the guides, compiled as doctests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../docs/guides/own-agent.md")]
    pub struct OwnAgent;
}
