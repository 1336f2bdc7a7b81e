//! What the counted cases share with the benches that measure time.

pub mod task;

/// The reason why a case could not run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
