//! Tests of the gateway as a whole, called as its program calls it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::too_many_lines,
    reason = "a panic is how a test says no, and a table of cases is read from top to bottom"
)]

mod chat;
mod config;
mod convert;
mod deploy;
mod docs;
mod files;
mod log;
mod mock;
mod operation;
mod program;
mod records;
mod scratch;
mod serve;
mod snippets;
mod terminal;
