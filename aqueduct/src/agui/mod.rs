//! AG-UI: serves agents of a [`Runs`](aqueduct_runs::Runs) over it, and calls remote agents.
//!
//! | for | use |
//! |---|---|
//! | serving own agents | [`router`], or [`router_with`] and [`AguiProtocol`] for settings |
//! | calling a remote agent | [`RemoteAgent`], as an agent of `Runs` |

#[cfg(feature = "http")]
pub mod remote;
#[cfg(feature = "http")]
mod router;
#[cfg(feature = "http")]
mod threads;

pub use aqueduct_adapter_agui::protocol::AguiProtocol;
pub use aqueduct_adapter_agui::{Dialect, Interrupts, Settings, Subagents};
#[cfg(feature = "http")]
pub use remote::RemoteAgent;
#[cfg(feature = "http")]
pub use router::{router, router_with};
