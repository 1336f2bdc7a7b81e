//! AG-UI: remote agents.

#[cfg(feature = "http")]
pub mod remote;

#[cfg(feature = "http")]
pub use remote::RemoteAgent;
