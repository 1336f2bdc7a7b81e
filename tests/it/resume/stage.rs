//! A gateway over a log that the test writes.

use std::net::SocketAddr;
use std::sync::Arc;

use aqueduct_core::CancelToken;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use aqueduct_gateway::config::load;
use aqueduct_gateway::serve::Listening;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{DiskLog, Lease, LogLimits, MemoryLog, RunLog, RunMeta};
use tempfile::TempDir;

/// The engine in memory.
pub(super) fn memory() -> Arc<dyn RunLog> {
    Arc::new(MemoryLog::default())
}

/// The engine on disk, and its folder, which is removed with it.
pub(super) fn disk() -> (Arc<dyn RunLog>, TempDir) {
    let folder = TempDir::new().unwrap();
    (Arc::new(DiskLog::open(folder.path(), LogLimits::default()).unwrap()), folder)
}

/// It serves until it is dropped.
pub(super) struct Stage {
    pub(super) address: SocketAddr,
    log: Arc<dyn RunLog>,
    shutdown: CancelToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Stage {
    /// Every event is sent as one, however far behind its reader is: cuts can be made after each, and what comes is
    /// compared event by event.
    pub(super) async fn new(log: Arc<dyn RunLog>) -> Arc<Self> {
        Self::with(log, "[server]\nmerge = 1\n", "[[step]]\ntext = \"Nobody asks.\"\n").await
    }

    /// Deltas that wait for a reader are merged, as by default.
    pub(super) async fn merging(log: Arc<dyn RunLog>) -> Arc<Self> {
        Self::with(log, "", "[[step]]\ntext = \"Nobody asks.\"\n").await
    }

    /// Its agent receives the request and emits nothing: the test appends events to the log.
    pub(super) async fn silent(log: Arc<dyn RunLog>) -> Arc<Self> {
        Self::with(log, "[runs]\nlease = \"1h\"\n", "[[step]]\nwait = \"1h\"\n").await
    }

    async fn with(log: Arc<dyn RunLog>, settings: &str, script: &str) -> Arc<Self> {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("a.toml"), script).unwrap();
        let toml = format!("{settings}[agents.a.script]\nfile = \"a.toml\"\n");
        let mut config = load(&folder.path().join("aqueduct.toml"), &toml, []).unwrap();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let gateway = Gateway::with_log(config, Arc::clone(&log)).unwrap();
        let listening = Listening::bind(gateway).await.unwrap();
        let (address, shutdown) = (listening.addresses().unwrap()[0], listening.shutdown());
        tokio::spawn(listening.serve());
        Arc::new(Self { address, log, shutdown })
    }

    /// A run without events.
    pub(super) async fn open(&self, run: &str) -> Lease {
        let meta = RunMeta {
            run_id: RunId::from(run),
            thread_id: "thread".into(),
            agent: "a".to_owned(),
            owner: String::new(),
            opened_at: Timestamp(0),
        };
        self.log.open(meta, Timestamp(i64::MAX)).await.unwrap()
    }

    pub(super) async fn append(&self, lease: &Lease, events: &[BlockEvent]) {
        if !events.is_empty() {
            self.log.append(lease, events.to_vec(), Timestamp(i64::MAX)).await.unwrap();
        }
    }

    /// A run with all its events.
    pub(super) async fn put(&self, run: &str, events: &[BlockEvent]) {
        let lease = self.open(run).await;
        self.append(&lease, events).await;
    }
}
