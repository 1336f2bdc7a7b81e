//! Recorded and scripted AG-UI streams, decoded and encoded in every dialect.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests stop the test"
)]

mod frameworks;
mod recorded;
mod scenarios;
mod support;
