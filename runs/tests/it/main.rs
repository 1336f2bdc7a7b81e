//! The run engine on a log in memory, through its public items.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test says no"
)]

mod engine;
mod errands;
mod replica;
mod replies;
mod skewed;
mod troubled;
mod troubled_log;
