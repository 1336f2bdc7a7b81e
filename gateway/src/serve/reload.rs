//! Reloads the configuration while the gateway serves: on SIGHUP, and when its files change (`server.watch`).
//!
//! ```text
//! SIGHUP ──────────────────────────┐
//! files changed, then quiet ───────┴──► read and check ── wrong ──► logged; nothing changes
//!                                             └ good ──► Gateway::reload ──► logged: agents, certificate
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use super::command::load_config;
use crate::config::Config;
use crate::service::{Changes, Gateway};
use crate::tls;

/// The polling interval of files. A change takes effect once it is this old: an editor writes in several steps, and a
/// certificate and its key are two files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Size and modification time of a file, or `None` if it does not exist.
pub(super) type Stamp = Option<(u64, SystemTime)>;

/// Returns the stamp of a file. Links are followed, because mounted secrets are links. Take the stamp before reading
/// the file, so that a later write counts as a change.
pub(super) fn stamp(file: &Path) -> Stamp {
    let found = std::fs::metadata(file).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// The file and environment of a configuration, for reading it again.
#[derive(Debug)]
pub(super) struct Origin {
    file: PathBuf,
    environment: Vec<(String, String)>,
    /// The files of the configuration, with their stamps before they were read.
    stamps: BTreeMap<PathBuf, Stamp>,
}

impl Origin {
    /// Returns the origin of a configuration that was read from `file`, whose stamp was `before` then.
    pub(super) fn new(
        file: PathBuf,
        before: Stamp,
        environment: Vec<(String, String)>,
        config: &Config,
    ) -> Self {
        let mut origin = Self { file, environment, stamps: BTreeMap::new() };
        origin.stamps = origin.stamps_of(config);
        origin.stamps.insert(origin.file.clone(), before);
        origin
    }

    /// Reads the configuration and applies it if it is valid. Errors are logged, and nothing changes: the gateway
    /// continues with the configuration that it has. `why` is the trigger, for the log.
    fn reload(&self, gateway: &Gateway, why: &str) {
        let read = load_config(&self.file, self.environment.iter().cloned());
        match read.and_then(|config| gateway.reload(config)) {
            Ok(Changes { added, changed, removed, certificate }) => {
                tracing::info!(?added, ?changed, ?removed, certificate, why, "configuration reloaded");
            }
            Err(error) => tracing::error!(error = format!("{error:#}"), why, "configuration not reloaded"),
        }
    }

    /// Spawns a task that reloads on SIGHUP, and one that reloads when files change if `server.watch` is set. Both end
    /// with the runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses the handler of SIGHUP.
    pub(super) fn follow(self, gateway: &Arc<Gateway>) -> anyhow::Result<()> {
        let origin = Arc::new(self);
        #[cfg(unix)]
        {
            let mut hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
                .context("SIGHUP cannot be waited for")?;
            let (origin, gateway) = (Arc::clone(&origin), Arc::clone(gateway));
            tokio::spawn(async move {
                while hangups.recv().await.is_some() {
                    origin.reload(&gateway, "SIGHUP");
                }
            });
        }
        let gateway = Arc::clone(gateway);
        if gateway.config().server.watch {
            tokio::spawn(async move { origin.watch(&gateway).await });
        }
        Ok(())
    }

    /// Polls the files and reloads once they have not changed for one interval.
    ///
    /// Polling works on every file system, including mounted volumes whose changes the system does not report. A reload
    /// that fails is not repeated until a file changes again.
    async fn watch(&self, gateway: &Gateway) {
        let mut seen = self.stamps.clone();
        let mut has_changed = false;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.stamps_of(&gateway.config());
            if now != seen {
                (seen, has_changed) = (now, true);
            } else if std::mem::take(&mut has_changed) {
                self.reload(gateway, "its files changed");
                // The new configuration may name other files; known files keep the stamp from before they were read.
                let mut next = self.stamps_of(&gateway.config());
                for (file, stamp) in &mut next {
                    *stamp = seen.get(file).copied().unwrap_or(*stamp);
                }
                seen = next;
            }
        }
    }

    /// Returns the stamps of the files of the configuration.
    fn stamps_of(&self, config: &Config) -> BTreeMap<PathBuf, Stamp> {
        let server = config.server.tls.iter();
        let server = server.flat_map(|tls| [Some(&tls.certificate), Some(&tls.key), tls.client_ca.as_ref()]);
        let agents = config.agents.values().flat_map(tls::files_of_agent);
        let issuers = config.issuers.values().flat_map(tls::files_of_issuer);
        let files = [Some(&self.file)].into_iter().chain(server).flatten().chain(agents).chain(issuers);
        files.map(|file| (file.clone(), stamp(file))).collect()
    }
}
