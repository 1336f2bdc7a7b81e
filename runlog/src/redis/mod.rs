//! [`RedisLog`]: the engine that several replicas share, on Redis 6.2 or later, or Valkey.
//!
//! ```text
//! per run, one hash tag        meta (hash) · events (stream, ids `<epoch>-<number>`) · controls (list) · channel
//! lists of runs                by opening, by thread, by owner, by end of lease, by end
//! relation keys of runs        sets, each with an expiry of its own
//!
//! append ──► group of appends ──► script, per run: epoch checked, XADD, PUBLISH ──► every replica's hub ──► its watchers
//! ```
//!
//! The id of a stream entry is the fence: a takeover adds the entry `<epoch + 1>-0`, after which the server refuses any
//! smaller id. An event is published inside the script that stored it, so no watcher receives an event that is not in the
//! log. Lists are not written in the same script as the runs, because on a cluster they are on other nodes; a reader of a
//! list reads the run itself, and corrects entries that a crash left outdated. So the engine also works on a cluster
//! (`nodes.rs`), and on servers whose primary is elected by Sentinel (`sentinel.rs`).
//!
//! Every key has an expiry, as a backstop: the keys of an open run are renewed with its lease, the keys of an ended run are
//! deleted long before they expire, and keys that no replica deletes expire.
//!
//! Durability is that of the server: with an append-only file and `appendfsync everysec` a crash of the server loses at
//! most the events of the last seconds, which the writers of open runs append again.

mod config;
mod controls;
mod dial;
mod entry;
mod group;
mod hub;
mod keys;
mod leases;
mod link;
mod lists;
mod nodes;
mod relations;
mod replicas;
mod reply;
mod scripts;
mod sentinel;
mod writer;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{BlockEvent, RunId, Timestamp};
use serde_json::Value;

use crate::error::{LogError, Refused};
use crate::log::{Control, Lease, LogFuture, LogScope, Note, Page, RunLog, RunMeta, RunQuery, RunState};
#[cfg(feature = "redis-tls")]
pub use config::ClientIdentity;
pub use config::RedisConfig;
pub use dial::{RedisDial, RedisStream};
use group::{Append, Group};
use hub::Hub;
use keys::Keys;
use link::{Call, Link, unavailable};
use replicas::Pulse;
use reply::Reply;
use scripts::Scripts;
use writer::{RunWriters, Shared};

/// The most events of one read, so that an answer stays small and does not block the server for long.
const READ_MAX: usize = 1_000;

/// The largest number that is sent to a script: Lua numbers are doubles, which represent integers
/// exactly up to 2^53. No run has that many events.
const LARGEST: u64 = 1 << 53;

/// A run log on Redis.
///
/// # Examples
///
/// ```no_run
/// use aqueduct_runlog::redis::{RedisConfig, RedisLog};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), aqueduct_runlog::LogError> {
/// let log = RedisLog::new(&RedisConfig::new("redis://127.0.0.1"))?;
/// # drop(log);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisLog {
    shared: Arc<Shared>,
    hub: Arc<Hub>,
    writers: RunWriters,
    /// A random number of this process, so that its nonces differ from those of other processes.
    process: u64,
    /// The number of nonces.
    calls: AtomicU64,
    /// The number of lost connections and leases when runs were last restored.
    checked: AtomicU64,
    /// The name of this process among the replicas that share the log.
    replica: String,
    pulse: Pulse,
}

impl RedisLog {
    /// Returns a log on the configured server, and spawns its listener on the current runtime. Does not wait for a
    /// connection.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::Unavailable`] if the address or the certificate authorities are invalid.
    pub fn new(config: &RedisConfig) -> Result<Self, LogError> {
        let clients = config.clients().map_err(|error| unavailable(&error))?;
        let sentinel = config.sentinel.as_deref();
        let link = Link::new(&clients, sentinel, config).map_err(|error| unavailable(&error))?;
        let link = Arc::new(link.ok_or_else(|| LogError::Unavailable("Redis: no address".to_owned()))?);
        let keys = Keys::new(&config.prefix);
        let hub = Hub::start(keys.clone(), Arc::clone(&link));
        let expiry = u64::try_from(config.expiry.as_millis()).unwrap_or(u64::MAX).min(LARGEST);
        let (scripts, group) = (Scripts::default(), Group::default());
        let shared = Arc::new(Shared { link, keys, scripts, group, limits: config.limits, expiry });
        let process = RandomState::new().build_hasher().finish();
        let replica = config.replica.clone().unwrap_or_else(|| format!("{process:016x}"));
        Ok(Self {
            shared,
            hub,
            writers: RunWriters::default(),
            process,
            calls: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            replica,
            pulse: Pulse::default(),
        })
    }

    /// Checks whether the server accepts writes: one attempt, without waiting for an unreachable server.
    async fn probe(&self) -> Result<(), LogError> {
        let mut probe = ::redis::cmd("SET");
        probe.arg(self.shared.keys.probe()).arg(&self.replica).arg("PX").arg(self.shared.expiry);
        self.shared.link.try_once(&probe).await
    }

    /// Returns a text that no other call uses. A script stores it with its change, and recognises a retry
    /// of the same call by the same nonce.
    fn nonce(&self) -> String {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let own = RandomState::new().hash_one((self.process, call));
        format!("{own:016x}")
    }

    /// Appends a batch by the writer of the lease. If the batch ends the run, also records the end in the lists.
    async fn append_events(
        &self,
        lease: Lease,
        events: Vec<BlockEvent>,
        now: Timestamp,
    ) -> Result<u64, Refused> {
        // A lease of another process, or one that this process has already lost, has no writer here.
        let Some(writer) = self.writers.get(&lease) else {
            return Err(Refused::new(self.why_lost(lease).await, events));
        };
        // The lock waits for the previous append of the run: the writer is locked until the answer has arrived.
        let append = Append::new(writer.lock_owned().await, &self.shared, events, now);
        let (append, outcome) = append.map_err(|(error, events)| Refused::new(error, events))?;
        group::send(&self.shared, append);
        let Ok((appended, events)) = outcome.await else {
            let error = LogError::Unavailable("the append was aborted".to_owned());
            return Err(Refused::new(error, Vec::new()));
        };
        match appended {
            Ok(head) => {
                let closed = events.last().is_some_and(BlockEvent::is_terminal);
                // Watchers of this process get the events at once, without a notification from the server.
                if let Some(entry) = self.hub.known(&lease.run_id).filter(|_| !events.is_empty()) {
                    entry.appended(head, closed, &events);
                }
                if closed {
                    self.writers.end(&lease);
                    // If the lists cannot be written, the reader of lapsed leases corrects them.
                    self.list_end(&lease.run_id, now).await.ok();
                }
                Ok(head)
            }
            Err(error) => {
                self.note_loss(&lease, &error);
                Err(Refused::new(error, events))
            }
        }
    }

    /// Returns why this process cannot write under a lease: the lease is lost, or the run has ended.
    async fn why_lost(&self, lease: Lease) -> LogError {
        match self.read_state(&lease.run_id).await {
            Ok(state) if state.closed_at.is_some() && state.epoch == lease.epoch => {
                LogError::Closed(lease.run_id)
            }
            Ok(_) => LogError::Fenced { run: lease.run_id, epoch: lease.epoch },
            Err(error) => error,
        }
    }

    /// Stores a note by the writer of the lease. The writer keeps the note, and writes it again if the
    /// server loses it.
    async fn annotate_run(&self, lease: Lease, note: Note) -> Result<(), LogError> {
        let Some(writer) = self.writers.get(&lease) else { return Err(self.why_lost(lease).await) };
        let annotated = writer.lock().await.annotate(&self.shared, &note).await;
        annotated.inspect_err(|error| self.note_loss(&lease, error))
    }

    /// Reads the input from the hash of the run. Reads the field `id`, too, to distinguish a run without
    /// input from a run that does not exist.
    async fn read_input(&self, run: RunId) -> Result<Option<Arc<Value>>, LogError> {
        let meta = self.shared.keys.meta(&run);
        let answers = self.shared.link.batch(&[::redis::Cmd::hmget(meta, &["id", reply::INPUT])]).await?;
        let found = answers.into_iter().next().map(link::read::<Vec<Option<Vec<u8>>>>).transpose()?;
        let mut found = found.unwrap_or_default().into_iter();
        if found.next().flatten().is_none() {
            return Err(LogError::NotFound(run));
        }
        let input = found.next().flatten().map(|bytes| reply::note(&bytes)).transpose();
        input.map_err(|error| LogError::Unreadable { run, what: error.to_string() })
    }

    /// Returns a page from the hub if it has the events in memory, otherwise from the server. Subscribes
    /// to an open run, so that a watcher that has caught up is served from memory.
    async fn read_page(&self, run: RunId, after: u64, max: usize) -> Result<Page, LogError> {
        let known = self.hub.known(&run);
        let is_subscribed = known.is_some();
        if let Some(page) = known.and_then(|entry| entry.read(after, max)) {
            return Ok(page);
        }
        let (keys, max) = (&self.shared.keys, max.min(READ_MAX));
        let call =
            Call::default().key(keys.meta(&run)).key(keys.events(&run)).arg(after.min(LARGEST)).arg(max);
        let mut reply: Reply = self.shared.link.script(&self.shared.scripts.read, &call).await?;
        match reply.word.as_str() {
            "ok" => {
                let (head, closed): (u64, u8) = (reply.next()?, reply.next()?);
                if closed == 0 && !is_subscribed {
                    self.hub.begin(&run);
                }
                Ok(Page { events: reply::events(&run, reply.next()?, max)?, head, closed: closed == 1 })
            }
            "gone" => Err(LogError::Gone { run, earliest: reply.next()? }),
            _ => Err(reply.refusal(&run, 0)),
        }
    }

    /// Records a watcher of this replica in the hash of the run, where the owner reads it.
    async fn record_watched(&self, run: RunId, until: Timestamp) -> Result<(), LogError> {
        let call = Call::default().key(self.shared.keys.meta(&run)).arg(until.0);
        let reply: Reply = self.shared.link.script(&self.shared.scripts.watched, &call).await?;
        if reply.word == "ok" { Ok(()) } else { Err(reply.refusal(&run, 0)) }
    }

    /// Removes events below `earliest`. The script keeps the last event.
    async fn trim_run(&self, run: RunId, earliest: u64) -> Result<(), LogError> {
        let keys = &self.shared.keys;
        let call = Call::default().key(keys.meta(&run)).key(keys.events(&run)).arg(earliest.min(LARGEST));
        let reply: Reply = self.shared.link.script(&self.shared.scripts.trim, &call).await?;
        if reply.word == "ok" { Ok(()) } else { Err(reply.refusal(&run, 0)) }
    }
}

impl RunLog for RedisLog {
    fn reconnects(&self) -> Option<u64> {
        Some(self.shared.link.broken())
    }

    fn open(&self, meta: RunMeta, until: Timestamp) -> LogFuture<'_, Lease> {
        Box::pin(self.open_run(meta, until))
    }

    fn take_over(&self, run: &RunId, now: Timestamp, until: Timestamp) -> LogFuture<'_, Lease> {
        Box::pin(self.take_over_run(run.clone(), now, until))
    }

    fn renew(&self, leases: Vec<Lease>, until: Timestamp) -> LogFuture<'_, Vec<Lease>> {
        Box::pin(self.renew_runs(leases, until))
    }

    fn release(&self, leases: Vec<Lease>) -> LogFuture<'_, ()> {
        Box::pin(self.release_runs(leases))
    }

    fn released(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.hub.released())
    }

    fn beat(&self, silence: Duration) -> LogFuture<'_, usize> {
        Box::pin(self.beat_once(silence))
    }

    fn append(&self, lease: &Lease, events: Vec<BlockEvent>, now: Timestamp) -> LogFuture<'_, u64, Refused> {
        Box::pin(self.append_events(lease.clone(), events, now))
    }

    fn annotate(&self, lease: &Lease, note: Note) -> LogFuture<'_, ()> {
        Box::pin(self.annotate_run(lease.clone(), note))
    }

    fn input(&self, run: &RunId) -> LogFuture<'_, Option<Arc<Value>>> {
        Box::pin(self.read_input(run.clone()))
    }

    fn scope(&self) -> LogScope {
        LogScope::Replicas
    }

    fn read(&self, run: &RunId, after: u64, max: usize) -> LogFuture<'_, Page> {
        Box::pin(self.read_page(run.clone(), after, max))
    }

    fn read_now(&self, run: &RunId, after: u64, max: usize) -> Option<Result<Page, LogError>> {
        self.hub.known(run)?.read(after, max).map(Ok)
    }

    fn changed(&self, run: &RunId, after: u64) -> LogFuture<'_, ()> {
        Box::pin(Arc::clone(&self.hub).changed(run.clone(), after))
    }

    fn changed_owned(self: Arc<Self>, run: &RunId, after: u64) -> LogFuture<'static, ()> {
        Box::pin(Arc::clone(&self.hub).changed(run.clone(), after))
    }

    fn watched(&self, run: &RunId, until: Timestamp) -> LogFuture<'_, ()> {
        Box::pin(self.record_watched(run.clone(), until))
    }

    fn state(&self, run: &RunId) -> LogFuture<'_, RunState> {
        let run = run.clone();
        Box::pin(async move { self.read_state(&run).await })
    }

    fn list(&self, query: RunQuery, max: usize) -> LogFuture<'_, Vec<RunState>> {
        Box::pin(self.read_list(query, max))
    }

    fn lapsed(&self, now: Timestamp, max: usize) -> LogFuture<'_, Vec<RunState>> {
        Box::pin(self.read_lapsed(now, max))
    }

    fn control(&self, run: &RunId, message: Control) -> LogFuture<'_, ()> {
        Box::pin(self.send_control(run.clone(), message))
    }

    fn controls(&self, lease: &Lease, seen: usize) -> LogFuture<'_, Vec<Control>> {
        Box::pin(self.await_controls(lease.clone(), seen))
    }

    fn claim(&self, key: String, value: String, now: Timestamp, until: Timestamp) -> LogFuture<'_, String> {
        // A claim lapses because its key expires, by the clock of the server.
        let key = self.shared.keys.claim(&key);
        let call = Call::default().key(key).bytes(value.into_bytes()).arg(now.0).arg(until.0);
        Box::pin(async move { self.shared.link.script(&self.shared.scripts.claim, &call).await })
    }

    fn relate(&self, run: &RunId, keys: Vec<String>, until: Timestamp) -> LogFuture<'_, ()> {
        Box::pin(self.add_relations(run.clone(), keys, until))
    }

    fn unrelate(&self, run: &RunId, keys: Vec<String>) -> LogFuture<'_, ()> {
        Box::pin(self.remove_relations(run.clone(), keys))
    }

    fn related(&self, keys: Vec<String>) -> LogFuture<'_, Vec<Vec<RunId>>> {
        Box::pin(self.read_relations(keys))
    }

    fn check(&self) -> LogFuture<'_, ()> {
        Box::pin(self.probe())
    }

    fn trim(&self, run: &RunId, earliest: u64) -> LogFuture<'_, ()> {
        Box::pin(self.trim_run(run.clone(), earliest))
    }

    fn expire(&self, before: Timestamp) -> LogFuture<'_, usize> {
        Box::pin(self.forget_ended(before))
    }
}
