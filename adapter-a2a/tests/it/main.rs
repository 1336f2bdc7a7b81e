//! Recorded and scripted A2A streams, decoded to the end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "these are tests"
)]

mod caipe;
mod cuts;
mod frameworks;
mod golden;
mod round_trip;
mod server;
mod support;
mod turns;
