//! The run engine: agents by name, and runs of them that survive their watchers and their replica.
//!
//! ```text
//! start ──► access ──► RunLog::open ──► driver task ──► RunLog::append ──► Follow ──► watchers
//!                                          ▲    └ StreamContext: balanced events
//!                                          └ SourceStream of the Agent, polled in the driver's task
//! ```
//!
//! [`Runs`] implements [`RunService`](aqueduct_core::service::RunService) for all transports. There is no channel and no
//! second task between the stream of an agent and the log.
//!
//! | module | what |
//! |---|---|
//! | [`runs`], `service`, [`builder`] | [`Runs`]: the engine and its operations; its construction |
//! | [`agents`], [`settings`] | agents by name and their options; limits of the engine |
//! | [`access`] | [`AccessPolicy`]: which principal a caller is, decided by the host |
//! | [`extension`], [`handle`] | [`RunExtension`]: what a host attaches to a run, such as lanes of sub-agents |
//! | [`publish`] | runs that a framework feeds, and replies to their interrupts |
//! | [`metrics`] | [`RunMetrics`]: counters, for the host to show |
//! | [`side`] | runs by which replicas talk to the owner of another run |
//! | [`errands`] | work beside runs that survives its replica |
//! | `driver`, `feed`, `input` | one run from its first event to its last |
//! | `replica`, `sweeper`, `takeover`, `previous` | leases, and runs whose owner is gone |
//! | `leaving`, `outage` | runs that are handed over, and a log that cannot be used |
//! | `threads`, `listing`, `complete`, `dismiss` | history of threads, lists of runs, the merged turn as a value, the end of what waits |
//!
//! Invariants: every event is in the log before a watcher receives it; every log ends, also if the agent, the watchers or
//! the driver are lost; only the principal that started a run can watch or cancel it.
//!
//! The crate contains no protocol, no socket and no configuration file.
//!
//! # Examples
//!
//! ```
//! use aqueduct_core::service::Caller;
//! use aqueduct_core::{RunInput, Update};
//! use aqueduct_runs::Runs;
//! use futures_util::stream;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), aqueduct_core::service::ServiceError> {
//! let runs = Runs::new().agent("oracle", |input: RunInput| stream::iter([Update::text(input.text())]));
//! let input = RunInput::prompt("thread", "run", "42");
//! let completion = runs.complete(&Caller::default(), "oracle", input).await?;
//! assert_eq!(completion.text(), "42");
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod agents;
mod audit;
pub mod builder;
mod complete;
mod dismiss;
mod driver;
pub mod errands;
mod events;
pub mod extension;
mod feed;
mod forward;
pub mod handle;
mod leaving;
mod listing;
pub mod metrics;
mod outage;
mod previous;
pub mod publish;
mod quota;
mod refuse;
mod replica;
mod reply;
pub mod runs;
mod service;
pub mod settings;
pub mod side;
mod suspend;
mod sweeper;
mod takeover;
mod threads;

pub use access::{AccessPolicy, OpenAccess};
pub use agents::AgentEntry;
pub use builder::{Clock, RunsBuilder, UniqueBits, random_bits};
pub use extension::{OF_EXTENSION, RunExtension, RunExtensions, RunOrigin, RunStart};
pub use handle::{LaneRefused, LaneSender, RunHandle};
pub use metrics::RunMetrics;
pub use publish::LineDecoder;
pub use quota::RunPlace;
pub use runs::{Runs, now};
pub use settings::{AgentOptions, OnDisconnect, OnLogLoss, Settings};
pub use side::{SideEar, SideRun};
pub use suspend::raised_id;
