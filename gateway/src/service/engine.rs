//! The run log that the configuration asks for.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_runlog::{DiskLog, LogLimits, MemoryLog, RedisConfig, RedisLog, RunLog};

use crate::config::{Config, RunLogEngine};

/// Opens it. A log on Redis listens by a task of the current runtime; one on disk reads what is there, which blocks.
pub(super) fn open(config: &Config) -> anyhow::Result<Arc<dyn RunLog>> {
    let limits = LogLimits {
        // Ended runs stay for those who come back; they make room before a new one is refused.
        runs: config.runs.limit.saturating_mul(2),
        bytes: config.runs.memory,
        events_per_run: usize::try_from(config.runs.events).unwrap_or(usize::MAX),
        bytes_per_run: config.runs.bytes,
        ..LogLimits::default()
    };
    Ok(match &config.runs.log {
        RunLogEngine::Memory => Arc::new(MemoryLog::new(limits)),
        RunLogEngine::Disk(folder) => Arc::new(open_disk(folder, limits)?),
        RunLogEngine::Redis { url, prefix, ca } => {
            let authorities = ca.as_ref().map(std::fs::read).transpose().context("runs.redis_ca")?;
            let config =
                RedisConfig { prefix: prefix.clone(), limits, authorities, ..RedisConfig::new(url.reveal()) };
            Arc::new(RedisLog::new(&config).context("runs.redis")?)
        }
    })
}

fn open_disk(folder: &Path, limits: LogLimits) -> anyhow::Result<DiskLog> {
    let log = DiskLog::open(folder, limits).context("runs.folder")?;
    if let Some(torn) = log.torn_tail() {
        let (file, bytes, at) = (torn.file.display(), torn.bytes, torn.at);
        tracing::warn!(%file, bytes, at, "the run log ended with a write that was not whole: cut");
    }
    Ok(log)
}
