//! Tests of whole paths, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test says no"
)]

mod agui_path;
mod contract;
mod examples;
mod frameworks_a2a;
mod frameworks_agui;
mod golden;
#[cfg(feature = "interop")]
mod interop;
mod resume;
mod through_grpc;
