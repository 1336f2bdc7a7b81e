//! Recorded and scripted A2A streams, decoded to the end.

#![expect(clippy::disallowed_types, reason = "the host of these tests shares its runs behind locks")]
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
