//! Tests of the gateway as a whole, called as its program calls it.

mod config;
mod convert;
mod docs;
mod program;
