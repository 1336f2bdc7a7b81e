//! x
pub mod sse;
