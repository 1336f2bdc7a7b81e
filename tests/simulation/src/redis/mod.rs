//! [`Redis`]: a simulated server for the engine on Redis: the real engine with its scripts runs against it.
//!
//! ```text
//! RedisLog (one per replica) ──► connection ──► Redis ──► script (Lua) ──► store
//!                                                 └ journal of changes: a failover replays it without its last moments
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`reply`] | commands and replies on the wire |
//! | [`store`] | keys and commands |
//! | [`script`] | scripts |
//! | [`connection`] | connections and their faults |
//!
//! Not simulated: clusters, Sentinel, memory limits, and persistence other than by a failover that loses the last moments.

pub mod connection;
pub mod reply;
pub mod script;
pub mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use aqueduct_core::{BlockEvent, RunId};
use aqueduct_runlog::{LogError, LogLimits, RedisConfig, RedisLog, RunLog as _, RunState};
use tokio::sync::mpsc;

use self::connection::{Direct, Faulty};
use self::reply::{Reply, Text};
use self::script::Scripts;
use self::store::{Store, entry_id, is_write, name_of, text};
use crate::facts::{LogFacts, Write};
use crate::node::Node;
use crate::planted::Planted;
use crate::trace::{Trace, locked};

/// A server, and everything that a world notes about it. Clones share it.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    trace: Trace,
    /// The time at which the world begins, in milliseconds.
    epoch: i64,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    keys: Keys,
    scripts: Scripts,
    connections: BTreeMap<u64, Connection>,
    made: u64,
    planted: Option<Planted>,
}

/// The keys, and what happened to them.
#[derive(Default)]
struct Keys {
    store: Store,
    /// All changes, with their times in the world.
    journal: Vec<(i64, Vec<Text>)>,
    /// Publications that are not delivered yet.
    published: Vec<(Text, Text)>,
    facts: LogFacts,
    /// The highest epoch of each run.
    granted: BTreeMap<RunId, u64>,
    /// Epochs that began with a takeover, and those in which the new owner did anything.
    taken: BTreeSet<(RunId, u64)>,
    used: BTreeSet<(RunId, u64)>,
    /// Runs whose owner has released the lease: it could append lost events before that.
    released: BTreeSet<RunId>,
    /// The name of the replica whose command is executed.
    caller: String,
}

struct Connection {
    name: String,
    replies: mpsc::Sender<Text>,
    channels: BTreeSet<Text>,
}

/// What the keys of a run say.
#[derive(Debug)]
struct Run {
    id: RunId,
    /// The common beginning of its keys.
    tag: Text,
    head: u64,
    epoch: u64,
    is_open: bool,
}

impl Redis {
    /// Returns an empty server in a world that begins at `epoch`.
    pub fn new(epoch: i64, trace: Trace, planted: Option<Planted>) -> Self {
        Self(Arc::new(Inner { state: Mutex::new(State { planted, ..State::default() }), trace, epoch }))
    }

    /// Returns the run log of a replica on this server.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine refuses its configuration.
    pub fn log(&self, node: &Arc<Node>, limits: LogLimits) -> Result<RedisLog, LogError> {
        let dial = Faulty { redis: self.clone(), node: Arc::clone(node) };
        RedisLog::new(&RedisConfig {
            replica: Some(node.name().to_owned()),
            // Longer than a replica is cut off in most worlds, shorter than in some.
            patience: std::time::Duration::from_secs(3),
            limits,
            dial: Some(Arc::new(dial)),
            ..RedisConfig::new("redis://simulated")
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        locked(&self.0.state)
    }

    fn attach(&self, name: String, replies: mpsc::Sender<Text>) -> u64 {
        let mut state = self.state();
        state.made += 1;
        let number = state.made;
        state.connections.insert(number, Connection { name, replies, channels: BTreeSet::new() });
        number
    }

    fn detach(&self, number: u64) {
        self.state().connections.remove(&number);
    }

    /// Executes a command of a connection, and queues its reply and the notifications that it publishes.
    fn execute(&self, number: u64, command: &[Text]) {
        let now = self.0.trace.now();
        let mut state = self.state();
        let state = &mut *state;
        let Some(connection) = state.connections.get_mut(&number) else { return };
        state.keys.caller.clone_from(&connection.name);
        let args = command.get(1..).unwrap_or_default();
        let mut replies = Vec::new();
        match name_of(command).as_str() {
            "SUBSCRIBE" => {
                for channel in args {
                    connection.channels.insert(channel.clone());
                    replies.push(connection.subscription("subscribe", channel));
                }
            }
            "UNSUBSCRIBE" => {
                for channel in args {
                    connection.channels.remove(channel);
                    replies.push(connection.subscription("unsubscribe", channel));
                }
            }
            "SCRIPT" => {
                let script = text(args.get(1).map_or(&[], Vec::as_slice));
                replies.push(state.scripts.load(&script, state.planted));
            }
            "EVALSHA" => {
                let reply = state.evaluate(now, self.0.epoch, args);
                if let Some(name) = state.connections.get(&number).map(|connection| connection.name.clone()) {
                    self.0.trace.note("redis", || state.describe(&name, args, &reply));
                }
                replies.push(reply);
            }
            name => {
                let reply = state.keys.execute(now, self.0.epoch, command);
                if !is_read(name) {
                    self.0
                        .trace
                        .note("redis", || format!("{}: {}: {reply:?}", connection.name, shown(command)));
                }
                replies.push(reply);
            }
        }
        let mut out = Vec::new();
        for reply in replies {
            reply.write(&mut out);
        }
        state.send(number, out);
        state.deliver();
    }

    /// Loses everything after a time in the world, and closes all connections, as a failover to a replica that lags.
    pub fn fail_over(&self, to: i64) {
        let mut state = self.state();
        state.connections.clear();
        state.scripts.forget();
        let keys = &mut state.keys;
        let before = keys.runs();
        keys.journal.retain(|(at, _)| *at <= to);
        keys.replay(self.0.epoch);
        for run in before {
            match keys.runs().into_iter().find(|now| now.id == run.id) {
                Some(now) if now.head < run.head || now.epoch < run.epoch => {
                    keys.facts.lose(&run.id, run.head, now.epoch < run.epoch);
                }
                Some(_) => {}
                None => drop(keys.facts.vanished.insert(run.id)),
            }
        }
    }

    /// Loses the keys of a run, as an eviction. The lists still name the run.
    pub fn vanish(&self, run: &RunId) {
        let mut state = self.state();
        let keys = &mut state.keys;
        let Some(Run { tag, .. }) = keys.runs().into_iter().find(|known| known.id == *run) else { return };
        keys.journal.retain(|(_, command)| command.get(1).is_none_or(|key| !key.starts_with(&tag)));
        keys.facts.vanished.insert(run.clone());
        keys.replay(self.0.epoch);
    }

    /// Returns the runs that have not ended.
    pub fn open_runs(&self) -> Vec<RunId> {
        self.state().keys.runs().into_iter().filter(|run| run.is_open).map(|run| run.id).collect()
    }

    /// Returns all runs with their events, as the engine reads them over a connection without faults.
    pub async fn all(&self) -> Vec<(RunState, Arc<[BlockEvent]>)> {
        let runs = self.state().keys.runs();
        let config = RedisConfig {
            dial: Some(Arc::new(Direct(self.clone()))),
            ..RedisConfig::new("redis://simulated")
        };
        let Ok(log) = RedisLog::new(&config) else { return Vec::new() };
        let mut all = Vec::new();
        for Run { id, .. } in runs {
            let Ok(state) = log.state(&id).await else { continue };
            let (mut events, mut after) = (Vec::new(), state.earliest.saturating_sub(1));
            while let Ok(page) = log.read(&id, after, usize::MAX).await
                && let Some(last) = page.events.last()
            {
                after = last.number;
                events.extend(page.events.into_iter().map(|event| event.event));
            }
            all.push((state, events.into()));
        }
        all
    }

    /// Returns what the world notes about the log.
    pub fn facts(&self) -> LogFacts {
        let state = self.state();
        let Keys { facts, taken, used, .. } = &state.keys;
        let unknown = taken.difference(used).map(|(run, _)| run.clone()).collect();
        LogFacts { unknown_takeovers: unknown, ..facts.clone() }
    }
}

impl Connection {
    fn subscription(&self, kind: &str, channel: &Text) -> Reply {
        let names = [kind.as_bytes().to_vec(), channel.clone()].map(Reply::Bulk);
        Reply::List(names.into_iter().chain([Reply::count(self.channels.len())]).collect())
    }
}

impl State {
    /// Queues bytes for a connection. A connection whose queue is full is closed.
    fn send(&mut self, number: u64, bytes: Text) {
        let queued = self.connections.get(&number).map(|connection| connection.replies.try_send(bytes));
        if matches!(queued, Some(Err(_))) {
            self.connections.remove(&number);
        }
    }

    /// Queues the publications for their subscribers.
    fn deliver(&mut self) {
        for (channel, message) in std::mem::take(&mut self.keys.published) {
            let is_subscribed =
                |(_, connection): &(&u64, &Connection)| connection.channels.contains(&channel);
            let subscribers: Vec<u64> =
                self.connections.iter().filter(is_subscribed).map(|(number, _)| *number).collect();
            let mut bytes = Vec::new();
            Reply::texts([b"message".to_vec(), channel, message]).write(&mut bytes);
            for number in subscribers {
                self.send(number, bytes.clone());
            }
        }
    }

    fn evaluate(&mut self, now: i64, epoch: i64, args: &[Text]) -> Reply {
        let Some((hash, keys, args)) = parts(args) else {
            return Reply::Error("ERR wrong number of arguments".to_owned());
        };
        let own = &mut self.keys;
        self.scripts.execute(&hash, keys, args, |command| own.execute(now, epoch, command))
    }

    /// Returns a line of the trace: who called which script for which key, and the beginning of the reply.
    fn describe(&self, name: &str, args: &[Text], reply: &Reply) -> String {
        let Some((hash, keys, _)) = parts(args) else { return format!("{name}: an incomplete call") };
        let key = keys.first().map(|key| text(key)).unwrap_or_default();
        let word = match reply {
            Reply::List(list) => {
                let words = list.iter().filter_map(|reply| match reply {
                    Reply::Bulk(word) => Some(text(word)),
                    _ => None,
                });
                words.take(3).collect::<Vec<_>>().join(" ")
            }
            Reply::Bulk(word) => text(word).replace('\n', ", "),
            other => format!("{other:?}"),
        };
        format!("{name}: {} ({key}): {word}", self.scripts.title(&hash))
    }
}

/// Returns `true` for commands that every replica sends all the time, and that change nothing: the trace does not show them.
fn is_read(name: &str) -> bool {
    matches!(name, "CLIENT" | "HMGET" | "LLEN" | "PEXPIRE" | "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE")
}

/// Returns a command as a line of the trace, without the tokens of runs, which are random.
fn shown(command: &[Text]) -> String {
    let word =
        |word: &Text| text(word).split_once(":token/").map_or_else(|| text(word), |(key, _)| key.to_owned());
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the hash, the keys and the arguments of a call of a script.
fn parts(args: &[Text]) -> Option<(String, &[Text], &[Text])> {
    let (hash, rest) = args.split_first()?;
    let (count, rest) = rest.split_first()?;
    let (keys, args) = rest.split_at_checked(text(count).parse().ok()?)?;
    Some((text(hash), keys, args))
}

impl Keys {
    /// Executes a command of a connection or a script, and notes what it changed.
    fn execute(&mut self, now: i64, epoch: i64, command: &[Text]) -> Reply {
        let name = name_of(command);
        if let ("PUBLISH", [_, channel, message]) = (name.as_str(), command) {
            self.published.push((channel.clone(), message.clone()));
            return Reply::Integer(0);
        }
        let reply = self.store.execute(epoch + now, command);
        if is_write(&name) && !matches!(reply, Reply::Error(_)) {
            self.journal.push((now, command.to_vec()));
            self.note_change(&name, command);
        }
        reply
    }

    /// Notes events, takeovers and renewals.
    fn note_change(&mut self, name: &str, command: &[Text]) {
        match (name, command) {
            ("XADD", [_, key, id, ..]) => {
                if let (Some(run), Some((epoch, number))) = (self.run_of(key), entry_id(id)) {
                    self.note_entry(run, epoch, number);
                }
            }
            ("HSET", [_, key, field, until]) if field == b"until" => {
                let Some(run) = self.run_of(key) else { return };
                if until == b"0" && self.store.field(key, b"holder").as_ref() == Some(&self.caller) {
                    self.released.insert(run.id.clone());
                }
                self.used.insert((run.id, run.epoch));
            }
            _ => {}
        }
    }

    /// Notes an entry of a stream: an event, or the fence that begins an epoch.
    fn note_entry(&mut self, run: Run, epoch: u64, number: u64) {
        if number > 0 {
            let granted = self.granted.get(&run.id).copied().unwrap_or(1);
            self.used.insert((run.id.clone(), epoch));
            return self.facts.writes.push(Write { run: run.id, epoch, granted, last: number });
        }
        self.granted.insert(run.id.clone(), epoch);
        self.taken.insert((run.id.clone(), epoch));
        if self.released.remove(&run.id) {
            self.facts.takeovers += 1;
        } else {
            self.facts.take_over(&run.id, run.head);
        }
    }

    fn run_of(&self, key: &[u8]) -> Option<Run> {
        let tag = key.get(..=key.iter().rposition(|byte| *byte == b'}')?)?;
        let meta = [tag, b":meta"].concat();
        let number = |field: &[u8]| self.store.field(&meta, field)?.parse().ok();
        Some(Run {
            id: RunId::from(self.store.field(&meta, b"id")?),
            tag: tag.to_vec(),
            head: number(b"head")?,
            epoch: number(b"epoch")?,
            is_open: self.store.field(&meta, b"closed").is_none(),
        })
    }

    fn runs(&self) -> Vec<Run> {
        let metas = self.store.keys().filter(|key| key.ends_with(b"}:meta"));
        metas.filter_map(|key| self.run_of(key)).collect()
    }

    fn replay(&mut self, epoch: i64) {
        self.store = Store::default();
        for (at, command) in &self.journal {
            // The command succeeded before, or concerns a run that is gone.
            self.store.execute(epoch + at, command);
        }
    }
}
