//! A configuration that is read again while the gateway serves: on SIGHUP, and when its files change (`server.watch`).
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

/// How often files are looked at. A change is acted upon once it is this old: an editor writes in several steps, and a
/// certificate and its key are two files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Size and time of a file; `None` if it is not there.
pub(super) type Stamp = Option<(u64, SystemTime)>;

/// Returns the stamp of a file; links are followed, as mounted secrets are links. To be taken before the file is read: what is
/// written afterwards then counts as a change.
pub(super) fn stamp(file: &Path) -> Stamp {
    let found = std::fs::metadata(file).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Where a configuration came from, to be read again.
#[derive(Debug)]
pub(super) struct Origin {
    file: PathBuf,
    environment: Vec<(String, String)>,
    /// The files that the configuration was made of, as they were before they were read.
    stamps: BTreeMap<PathBuf, Stamp>,
}

impl Origin {
    /// The origin of a configuration that was read from `file`, whose stamp was `before` then.
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

    /// Reads the configuration, and goes on with it if it is good. What is wrong is logged, and nothing changes.
    fn reload(&self, gateway: &Gateway, why: &str) {
        let read = load_config(&self.file, self.environment.iter().cloned());
        match read.and_then(|config| gateway.reload(config)) {
            Ok(Changes { added, changed, removed, certificate }) => {
                tracing::info!(?added, ?changed, ?removed, certificate, why, "configuration reloaded");
            }
            Err(error) => tracing::error!(error = format!("{error:#}"), why, "configuration not reloaded"),
        }
    }

    /// Reads it again on SIGHUP, and when its files change if the configuration wants that.
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
                // Other files perhaps; those that were known count as they were before they were read.
                let mut next = self.stamps_of(&gateway.config());
                for (file, stamp) in &mut next {
                    *stamp = seen.get(file).copied().unwrap_or(*stamp);
                }
                seen = next;
            }
        }
    }

    /// The stamps of the files that the configuration is made of.
    fn stamps_of(&self, config: &Config) -> BTreeMap<PathBuf, Stamp> {
        let server = config.server.tls.iter();
        let server = server.flat_map(|tls| [Some(&tls.certificate), Some(&tls.key), tls.client_ca.as_ref()]);
        let agents = config.agents.values().filter_map(|agent| agent.tls.as_ref());
        let agents = agents.flat_map(|tls| {
            let (chain, key) = tls.identity.as_ref().map(|(chain, key)| (chain, key)).unzip();
            [tls.ca.as_ref(), chain, key]
        });
        let files = [Some(&self.file)].into_iter().chain(server).chain(agents).flatten();
        files.map(|file| (file.clone(), stamp(file))).collect()
    }
}
