//! AG-UI for Aqueduct: 1.0 and its 0.0.59 dialect, in both directions.
#![cfg_attr(test, allow(clippy::too_many_lines, reason = "a table of cases is read from top to bottom"))]

pub mod chunks;
pub mod config;
pub mod convert;
pub mod decode;
pub mod encode;
pub mod error;
pub mod input;
#[cfg(feature = "proto")]
pub mod proto;
pub mod verify;
pub mod version;
pub mod wire;
