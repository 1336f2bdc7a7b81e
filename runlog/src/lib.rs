//! The run log: every canonical event of a run gets a contiguous number, is appended *before* it is delivered, and is
//! read by any number of watchers, each with a cursor of its own.
//!
//! Why a log and not a queue per watcher: no agent protocol can resume a stream, and a slow reader must cost no more than
//! its cursor. A watcher that reconnects continues after the last number it received; a watcher that lags reads more per
//! step; no watcher can block the writer.
//!
//! ```text
//!   writer ── append (numbers, lease checked) ──► RunLog ──► Follow (cursor) ──► watcher
//!                                                   │  └────► Follow (cursor) ──► watcher
//!                                                   └ the terminal event closes the run in the same append
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`log`], [`error`], [`limits`] | [`RunLog`]: the trait, small on purpose; its errors; its limits |
//! | [`memory`] | [`MemoryLog`]: the engine in memory, bounded |
//! | `disk` (feature) | `DiskLog`: the engine on the disk of one machine |
//! | `redis` (feature) | `RedisLog`: the engine that several replicas share |
//! | [`follow`] | [`Follow`]: a watcher's stream over any engine |
//! | [`remains`] | [`Remains`]: ends a run whose writer died |
//! | [`codec`] | events as bytes, for engines outside the process |
//! | `testing` (feature) | the suite that every engine passes |
//!
//! Invariants: numbers start at 1 and have no gaps; no event follows the terminal event; only the holder of the lease can
//! append; reading is strictly after a number.
//!
//! The crate contains no protocol, no socket and no clock. Times enter as arguments.

mod claims;
pub mod codec;
#[cfg(feature = "disk")]
pub mod disk;
pub mod error;
pub mod follow;
mod ledger;
pub mod limits;
pub mod log;
pub mod memory;
mod meta;
#[cfg(feature = "redis")]
pub mod redis;
pub mod remains;
mod signal;
#[cfg(any(feature = "disk", feature = "redis"))]
mod tail;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "disk")]
pub use disk::DiskLog;
pub use error::{LogError, Refused};
pub use follow::Follow;
pub use limits::LogLimits;
pub use log::{
    Control, Lease, LogFuture, LogScope, Note, Page, RELEASED, RunLog, RunMeta, RunPlace, RunQuery, RunState,
    is_log_metadata, position_event, position_of,
};
pub use memory::MemoryLog;
#[cfg(feature = "redis-tls")]
pub use redis::ClientIdentity;
#[cfg(feature = "redis")]
pub use redis::{RedisConfig, RedisDial, RedisLog, RedisStream};
pub use remains::Remains;
