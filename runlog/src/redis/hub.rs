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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::Cmd;
use ::redis::aio::{PubSub, PubSubSink, PubSubStream};
use aqueduct_core::{BlockEvent, RunId};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{Notify, mpsc, watch};

use super::keys::Keys;
use super::link::{BackOff, Link};
use super::reply::{self, Notification};
use crate::codec::Decoder;
use crate::error::LogError;
use crate::limits::count;
use crate::log::{Page, RunState};
use crate::signal::{Progress, Signal};
use crate::tail::Tail;

/// The interval at which unused entries are removed and the states of the runs of all other entries are read.
const IDLE: Duration = Duration::from_secs(5);
/// Subscriptions that wait for the listener. If the queue is full, callers wait.
const QUEUE: usize = 1024;
/// Runs whose state is read in one batch of commands.
const REFRESHED_AT_ONCE: usize = 256;

/// A run with waiters in this process.
#[derive(Debug)]
pub(super) struct Entry {
    run: RunId,
    pub(super) signal: Signal,
    /// `true` once the listener has subscribed to the channel and the state of the run was read.
    ready: watch::Sender<bool>,
    body: Mutex<Body>,
    /// Set if the entry was used since the last check.
    touched: AtomicBool,
}

/// The last events of the run that a notification delivered or this process appended, without gaps.
#[derive(Debug, Default)]
struct Body {
    tail: Tail,
    decoder: Decoder,
    /// Set once the tail ends with the terminal event, or the state that was read is closed.
    closed: bool,
}

impl Body {
    /// Prepares the tail for events up to `last`, and returns how many of them it already contains. Events after a gap start a
    /// new tail, because the events of a tail are contiguous: those in the gap are read from the log.
    fn follow(&mut self, last: u64, events: usize) -> usize {
        let first = (last + 1).saturating_sub(count(events));
        if first > self.tail.head() + 1 {
            self.tail = Tail::after(first - 1);
        }
        usize::try_from((self.tail.head() + 1).saturating_sub(first)).unwrap_or(usize::MAX)
    }
}

impl Entry {
    /// Returns an entry that is not ready: its channel is not subscribed yet.
    fn new(run: RunId) -> Self {
        let signal = Signal::new(Progress::default());
        let (ready, body) = (watch::Sender::new(false), Mutex::default());
        Self { run, signal, ready, body, touched: AtomicBool::new(true) }
    }

    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the events that follow the tail, and wakes waiters. `last` is the number of the last event that the log holds.
    fn take(&self, body: &mut Body, last: u64, closed: bool, events: impl Iterator<Item = BlockEvent>) {
        for (number, event) in (body.tail.head() + 1..).zip(events) {
            body.tail.push(number, event);
        }
        body.closed |= closed && body.tail.head() == last;
        self.signal.advance(Progress { head: last, closed, ..Progress::default() });
    }

    /// Adds events that this process appended.
    pub(super) fn appended(&self, last: u64, closed: bool, events: &[BlockEvent]) {
        let mut body = self.body();
        let skip = body.follow(last, events.len());
        self.take(&mut body, last, closed, events.iter().skip(skip).cloned());
    }

    /// Handles a notification. An invalid one is ignored: the next refresh reads the state of the run.
    fn handle_notification(&self, message: &[u8]) {
        match Notification::read(message) {
            Some(Notification::Events { last, closed, payloads }) => {
                self.handle_events(last, closed, &payloads);
            }
            Some(Notification::Head { head, closed }) => {
                self.signal.advance(Progress { head, closed, ..Progress::default() });
            }
            Some(Notification::Epoch { epoch, head }) => self.handle_takeover(epoch, head),
            Some(Notification::Controls(controls)) => {
                self.signal.advance(Progress { controls, ..Progress::default() });
            }
            None => {}
        }
    }

    /// Adds the events of a notification to the tail. If they do not follow the tail, they start a new one.
    fn handle_events(&self, last: u64, closed: bool, payloads: &[&[u8]]) {
        let mut body = self.body();
        let skip = body.follow(last, payloads.len());
        let mut decoder = std::mem::take(&mut body.decoder);
        let read = payloads.iter().skip(skip).map(|bytes| decoder.decode(Bytes::copy_from_slice(bytes)));
        // The tail ends before an event that cannot be decoded: a watcher then reads the event from the log, which returns
        // the error.
        let events: Vec<BlockEvent> = read.map_while(Result::ok).collect();
        body.decoder = decoder;
        self.take(&mut body, last, closed, events.into_iter());
    }

    /// Handles a takeover of the run at `head`. Events above it, which the server lost, are not part of the log any more.
    pub(super) fn handle_takeover(&self, epoch: u64, head: Option<u64>) {
        let mut body = self.body();
        if let Some(head) = head.filter(|head| *head < body.tail.head()) {
            body.tail = Tail::after(head);
        }
        drop(body);
        self.signal.advance(Progress { epoch, ..Progress::default() });
    }

    /// Handles a lost connection: the server may come back without its last events, so the tail and the progress of the run
    /// are read again.
    fn handle_reconnect(&self) {
        self.body().tail = Tail::default();
        self.signal.rewind();
    }

    /// Handles the state of the run, as it was read from the server.
    fn handle_state(&self, state: &RunState, controls: usize) {
        let mut body = self.body();
        if body.tail.head() < state.head {
            body.tail = Tail::after(state.head);
        }
        body.closed |= state.closed_at.is_some();
        let (head, epoch, closed) = (state.head, state.epoch, state.closed_at.is_some());
        self.signal.advance(Progress { head, closed, controls, epoch });
        drop(body);
        self.ready.send_replace(true);
    }

    /// Handles a run that does not exist: wakes all waiters, whose next read returns [`LogError::NotFound`].
    fn handle_deleted(&self) {
        self.signal.advance(Progress { closed: true, ..Progress::default() });
        self.ready.send_replace(true);
    }

    /// Returns a page from the tail. Returns `None` if the tail has no events after `after`.
    pub(super) fn read(&self, after: u64, max: usize) -> Option<Page> {
        if !*self.ready.borrow() {
            return None;
        }
        let body = self.body();
        let head = body.tail.head();
        let events = body.tail.read(after, max).filter(|events| !events.is_empty())?;
        Some(Page { events, head, closed: body.closed })
    }
}

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
    /// Notified when a lease was released.
    released: Notify,
}

impl Hub {
    /// Creates a hub and spawns its listener. The task ends when the hub is dropped.
    pub(super) fn start(keys: Keys, link: Arc<Link>) -> Arc<Self> {
        let (subscribe, wanted) = mpsc::channel(QUEUE);
        let (entries, released) = (Mutex::default(), Notify::new());
        let hub = Arc::new(Self { keys, link, entries, subscribe, released });
        tokio::spawn(listen(Arc::downgrade(&hub), wanted));
        hub
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
        let gone = || LogError::Unavailable("the listener has ended".to_owned());
        let entry = if let Some(entry) = self.known(run) {
            entry
        } else {
            // The permit is reserved before the insertion: a future that is dropped in between would leave an entry without
            // subscription.
            let room = self.subscribe.reserve().await.map_err(|_| gone())?;
            self.insert(run, room)
        };
        let mut ready = entry.ready.subscribe();
        ready.wait_for(|ready| *ready).await.map(drop).map_err(|_| gone())?;
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

    /// Returns all entries with their channels, so that a new connection can subscribe to them.
    fn all(&self) -> Vec<(String, Arc<Entry>)> {
        self.entries()
            .by_channel
            .iter()
            .map(|(channel, entry)| (channel.clone(), Arc::clone(entry)))
            .collect()
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
