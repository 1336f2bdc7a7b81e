//! Opens the run log of the configuration.
//!
//! The engine is chosen once, at the start: a reload cannot replace a log that holds open runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_runlog::{ClientIdentity, DiskLog, LogLimits, MemoryLog, RedisConfig, RedisLog, RunLog};

use crate::config::{Config, RunLogEngine};
use crate::quota;

/// Opens the log. The engine for Redis spawns a task on the current runtime; the engine on disk reads existing runs,
/// which blocks.
///
/// # Errors
///
/// Returns an error if the folder cannot be used or is in use by another gateway, or if a certificate of Redis cannot
/// be read. A Redis server that does not respond is not an error: the gateway starts and is not ready.
pub(super) fn open(config: &Config) -> anyhow::Result<Arc<dyn RunLog>> {
    let limits = LogLimits {
        // Ended runs stay for watchers that return; they are removed before a new run is refused.
        runs: config.runs.limit.saturating_mul(2),
        bytes: config.runs.memory,
        bytes_per_owner: quota::memory(config),
        events_per_run: usize::try_from(config.runs.events).unwrap_or(usize::MAX),
        bytes_per_run: config.runs.bytes,
        ..LogLimits::default()
    };
    Ok(match &config.runs.log {
        RunLogEngine::Memory => Arc::new(MemoryLog::new(limits)),
        RunLogEngine::Disk(folder) => Arc::new(open_disk(folder, limits)?),
        RunLogEngine::Redis { url, sentinel, prefix, ca, identity, expiry } => {
            let authorities = ca.as_ref().map(std::fs::read).transpose().context("runs.redis_ca")?;
            let identity = identity.as_ref().map(client_identity).transpose()?;
            let (prefix, expiry, sentinel) = (prefix.clone(), *expiry, sentinel.clone());
            let own = RedisConfig::new(url.reveal());
            let config = RedisConfig { sentinel, prefix, limits, authorities, identity, expiry, ..own };
            Arc::new(RedisLog::new(&config).context("runs.redis")?)
        }
    })
}

/// Reads the certificate that the gateway presents to Redis. The error names the key of the configuration.
fn client_identity((certificate, key): &(PathBuf, PathBuf)) -> anyhow::Result<ClientIdentity> {
    let certificate = std::fs::read(certificate).context("runs.redis_certificate")?;
    Ok(ClientIdentity { certificate, key: std::fs::read(key).context("runs.redis_key")? })
}

/// Opens the log on disk, and logs what an operator should know: files that other users can read, and a write that was
/// cut when the gateway stopped. Everything before the cut is kept.
fn open_disk(folder: &Path, limits: LogLimits) -> anyhow::Result<DiskLog> {
    let log = DiskLog::open(folder, limits).context("runs.folder")?;
    if let Some(note) = log.access_note() {
        tracing::warn!("`runs.folder`: {note}");
    }
    if let Some(torn) = log.torn_tail() {
        let (file, bytes, at) = (torn.file.display(), torn.bytes, torn.at);
        tracing::warn!(%file, bytes, at, "the run log ended with a write that was not whole: cut");
    }
    Ok(log)
}
