//! x
#[rustfmt::skip]
#[path = "generated/aqueduct_v1.rs"]
pub mod proto;
pub mod convert;
