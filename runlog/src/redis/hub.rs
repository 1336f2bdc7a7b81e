//! [`Hub`]: notifications from the server, on one pub/sub connection for all runs of this process.
//!
//! ```text
//! waiter ──► entry of its run ◄── notification ── listener ◄── one pub/sub connection
//!            └ the listener subscribes first, then reads the state of the run, so that no change is missed
//! connection lost ──► back-off ──► connected ──► subscribes to all channels ──► reads the state of all runs
//! ```
//!
//! A lost connection can lose notifications, but not events of the log. So a notification only wakes waiters and delivers
//! events early: events that no notification delivered are read from the log. Unused entries are removed after [`IDLE`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::Cmd;
use ::redis::aio::{PubSub, PubSubSink, PubSubStream};
use aqueduct_core::RunId;
use futures_util::StreamExt as _;
use tokio::sync::{Notify, mpsc};

use super::entry::Entry;
use super::keys::Keys;
use super::link::{BackOff, Link};
use super::reply;
use crate::error::LogError;

/// The interval at which unused entries are removed and the states of the runs of all other entries are read.
const IDLE: Duration = Duration::from_secs(5);
/// Subscriptions that wait for the listener. If the queue is full, callers wait.
const QUEUE: usize = 1024;
/// Runs whose state is read in one batch of commands.
const REFRESHED_AT_ONCE: usize = 256;

/// The entries, by run for waiters and by channel for notifications.
#[derive(Debug, Default)]
struct Entries {
    by_run: HashMap<RunId, Arc<Entry>>,
    by_channel: HashMap<String, Arc<Entry>>,
}

/// All runs with waiters.
#[derive(Debug)]
pub(super) struct Hub {
    keys: Keys,
    link: Arc<Link>,
    entries: Mutex<Entries>,
    subscribe: mpsc::Sender<String>,
    /// The number of connections for notifications so far. The server may have lost its last changes between two of them.
    connections: AtomicU64,
    /// Notified when a lease was released.
    released: Notify,
}

impl Hub {
    /// Creates a hub and spawns its listener. The task ends when the hub is dropped.
    pub(super) fn start(keys: Keys, link: Arc<Link>) -> Arc<Self> {
        let (subscribe, wanted) = mpsc::channel(QUEUE);
        let (entries, connections, released) = (Mutex::default(), AtomicU64::new(0), Notify::new());
        let hub = Arc::new(Self { keys, link, entries, subscribe, connections, released });
        tokio::spawn(listen(Arc::downgrade(&hub), wanted));
        hub
    }

    /// Returns the number of connections for notifications so far.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Waits until a lease is released.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry of a run, and marks it as used. Returns `None` if the run has no entry.
    pub(super) fn known(&self, run: &RunId) -> Option<Arc<Entry>> {
        let entry = self.entries().by_run.get(run).cloned()?;
        entry.touched.store(true, Ordering::Relaxed);
        Some(entry)
    }

    /// Returns the entry of a run once the listener has subscribed to its channel and its state was read.
    pub(super) async fn entry(&self, run: &RunId) -> Result<Arc<Entry>, LogError> {
        let entry = if let Some(entry) = self.known(run) {
            entry
        } else {
            // The permit is reserved before the insertion: a future that is dropped in between would leave an entry without
            // subscription.
            let room = self.subscribe.reserve().await;
            let room = room.map_err(|_| LogError::Unavailable("the listener has ended".to_owned()))?;
            self.insert(run, room)
        };
        entry.wait_until_ready().await;
        Ok(entry)
    }

    /// Waits for events above `after`, or the end of the run.
    pub(super) async fn changed(self: Arc<Self>, run: RunId, after: u64) -> Result<(), LogError> {
        self.entry(&run).await?.signal.changed(&run, after).await
    }

    /// Subscribes to a run if the queue has room. Called by reads, because a lagging watcher only reads and would otherwise
    /// never subscribe.
    pub(super) fn begin(&self, run: &RunId) {
        if let Ok(room) = self.subscribe.try_reserve() {
            self.insert(run, room);
        }
    }

    /// Adds an entry and sends its channel to the listener, unless another caller has done so since. The
    /// permit guarantees that sending cannot fail.
    fn insert(&self, run: &RunId, room: mpsc::Permit<'_, String>) -> Arc<Entry> {
        let channel = self.keys.channel(run);
        let mut entries = self.entries();
        if let Some(known) = entries.by_run.get(run) {
            return Arc::clone(known);
        }
        let entry = Arc::new(Entry::new(run.clone()));
        entries.by_run.insert(run.clone(), Arc::clone(&entry));
        entries.by_channel.insert(channel.clone(), Arc::clone(&entry));
        room.send(channel);
        entry
    }

    /// Reads the states of the runs of `entries`.
    async fn refresh(&self, entries: &[Arc<Entry>]) -> Result<(), LogError> {
        for entries in entries.chunks(REFRESHED_AT_ONCE) {
            let state_and_controls = |entry: &Arc<Entry>| {
                [reply::state_command(self.keys.meta(&entry.run)), Cmd::llen(self.keys.controls(&entry.run))]
            };
            let answers =
                self.link.batch(&entries.iter().flat_map(state_and_controls).collect::<Vec<_>>()).await?;
            for (entry, answer) in entries.iter().zip(answers.chunks(2)) {
                let [fields, controls] = answer else { continue };
                let controls = ::redis::from_redis_value_ref(controls).unwrap_or_default();
                match reply::state(fields)? {
                    Some(state) => entry.handle_state(&state, controls),
                    None => entry.handle_deleted(),
                }
            }
        }
        Ok(())
    }

    /// Removes entries without waiters, and returns their channels.
    fn forget_idle(&self) -> Vec<String> {
        let mut idle = Vec::new();
        let mut entries = self.entries();
        let Entries { by_run, by_channel } = &mut *entries;
        by_channel.retain(|channel, entry| {
            // Both maps hold the entry.
            let in_use = entry.touched.swap(false, Ordering::Relaxed) || Arc::strong_count(entry) > 2;
            if !in_use {
                by_run.remove(&entry.run);
                idle.push(channel.clone());
            }
            in_use
        });
        idle
    }

    /// Reads the states of all runs in a task of its own. Detects notifications that a node of a cluster did not forward,
    /// and keys that vanished without notification (evicted, or lost by a server that restarted empty). Makes one attempt:
    /// the next interval repeats it, and retries would pile up while the server is unavailable.
    pub(super) fn refresh_all(self: &Arc<Self>) {
        let hub = Arc::clone(self);
        let entries: Vec<_> = hub.all().into_iter().map(|(_, entry)| entry).collect();
        tokio::spawn(async move { hub.refresh(&entries).await.ok() });
    }

    /// Returns all entries with their channels, so that a new connection can subscribe to them. Sorted: the order in which a
    /// hash map is read differs from process to process, and a simulation repeats what a process does.
    fn all(&self) -> Vec<(String, Arc<Entry>)> {
        let entries = self.entries();
        let all = entries.by_channel.iter().map(|(channel, entry)| (channel.clone(), Arc::clone(entry)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

/// Listens for notifications, and reconnects, until the hub is dropped.
async fn listen(hub: Weak<Hub>, mut wanted: mpsc::Receiver<String>) {
    let mut back_off = BackOff::default();
    while let Some(known) = hub.upgrade() {
        // The listener holds no strong reference while it waits: the drop of the hub ends the listener.
        if let Ok((sink, stream)) = known.link.listen().await.map(PubSub::split) {
            drop(known);
            let has_worked = Listener { hub: &hub, sink }.run(stream, &mut wanted).await;
            if has_worked {
                back_off = BackOff::default();
            }
        }
        back_off.pause().await;
    }
}

/// One pub/sub connection.
struct Listener<'h> {
    hub: &'h Weak<Hub>,
    sink: PubSubSink,
}

impl Listener<'_> {
    /// Handles notifications until the connection is lost or the hub is dropped. Returns `true` if the connection ever worked.
    async fn run(mut self, mut stream: PubSubStream, wanted: &mut mpsc::Receiver<String>) -> bool {
        let Some(hub) = self.hub.upgrade() else { return false };
        let (all, released) = (hub.all(), hub.keys.released());
        hub.connections.fetch_add(1, Ordering::AcqRel);
        for (_, entry) in &all {
            entry.handle_reconnect();
        }
        drop(hub);
        if self.sink.subscribe(&released).await.is_err()
            || !self.subscribe(all.iter().map(|(channel, _)| channel.clone()).collect()).await
        {
            return false;
        }
        let mut idle = tokio::time::interval(IDLE);
        let mut channels = Vec::new();
        loop {
            // Subscriptions are polled first: a waiter waits for them, and a stream of notifications that is
            // always ready would delay them.
            tokio::select! {
                biased;
                count = wanted.recv_many(&mut channels, QUEUE) => {
                    if count == 0 || !self.subscribe(std::mem::take(&mut channels)).await {
                        return true;
                    }
                }
                _ = idle.tick() => {
                    let Some(hub) = self.hub.upgrade() else { return true };
                    let idle_channels = hub.forget_idle();
                    hub.refresh_all();
                    if !idle_channels.is_empty() && self.sink.unsubscribe(idle_channels).await.is_err() {
                        return true;
                    }
                }
                message = stream.next() => {
                    let (Some(message), Some(hub)) = (message, self.hub.upgrade()) else { return true };
                    if message.get_channel_name() == released {
                        hub.released.notify_one();
                        continue;
                    }
                    let entry = hub.entries().by_channel.get(message.get_channel_name()).cloned();
                    if let Some(entry) = entry {
                        entry.handle_notification(message.get_payload_bytes());
                    }
                }
            }
        }
    }

    /// Subscribes to channels, then starts to read the states of their runs. Returns `false` if the connection is lost.
    async fn subscribe(&mut self, channels: Vec<String>) -> bool {
        if channels.is_empty() {
            return true;
        }
        if self.sink.subscribe(&channels).await.is_err() {
            return false;
        }
        let Some(hub) = self.hub.upgrade() else { return false };
        let entries: Vec<_> =
            channels.iter().filter_map(|channel| hub.entries().by_channel.get(channel).cloned()).collect();
        refresh(hub, entries);
        true
    }
}

/// Reads the states of runs until it succeeds, in a task of its own, so that notifications need not wait for the answer.
fn refresh(hub: Arc<Hub>, entries: Vec<Arc<Entry>>) {
    tokio::spawn(async move {
        let mut back_off = BackOff::default();
        while hub.refresh(&entries).await.is_err() {
            back_off.pause().await;
        }
    });
}
