//! [`RunsBuilder`]: the parts of an engine: agents, log, settings, access policy, extensions, clock.
//!
//! The builder starts no task: housekeeping is spawned by the host ([`Runs::run_housekeeping`]).

use std::collections::HashMap;
use std::sync::Arc;

use aqueduct_core::{Agent, RunFailure, RunInput, SourceEvent, Timestamp};
use aqueduct_runlog::{MemoryLog, RunLog};
use serde_json::Value;

use crate::access::{AccessPolicy, OpenAccess};
use crate::agents::AgentEntry;
use crate::extension::RunExtensions;
use crate::publish::{LineDecoder, text};
use crate::runs::{Runs, now};
use crate::settings::{AgentOptions, Settings};

/// Creates the decoder for one publisher.
pub type MakeDecoder = fn() -> Box<dyn LineDecoder>;

/// Returns the logged form of a run's input: its messages from the given index on. Returns `None` if there is nothing to log.
pub type RecordInput = fn(&RunInput, usize) -> Option<Value>;

/// Inspects every source event of one run before the stream machine; an error ends the run as failed.
pub type EventGuard = Box<dyn FnMut(&SourceEvent) -> Result<(), Box<RunFailure>> + Send + Sync>;

/// Creates the guard of a run from its input.
pub type MakeGuard = fn(&RunInput) -> EventGuard;

/// The clock by which an engine counts leases and the age of runs.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns 128 bits that no other call on any replica returns, for the ids of side runs.
pub type UniqueBits = Arc<dyn Fn() -> std::io::Result<u128> + Send + Sync>;

/// Returns random bits of the operating system.
///
/// # Errors
///
/// Returns an error if the operating system has no source of randomness.
pub fn random_bits() -> std::io::Result<u128> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u128::from_ne_bytes(bits))
}

/// Builds [`Runs`].
///
/// # Examples
///
/// ```
/// use aqueduct_core::{RunInput, Update};
/// use aqueduct_runs::{AgentOptions, Runs};
/// use futures_util::stream;
///
/// let echo = |input: RunInput| stream::iter([Update::text(input.text())]);
/// let options = AgentOptions::default().with_description("Repeats the prompt.");
/// let runs = Runs::builder().agent_with("echo", echo, options).build();
/// assert_eq!(runs.agent_names(), ["echo"]);
/// ```
#[derive(Clone)]
pub struct RunsBuilder {
    pub(crate) log: Option<Arc<dyn RunLog>>,
    pub(crate) settings: Settings,
    pub(crate) agents: Vec<Arc<AgentEntry>>,
    pub(crate) host: Host,
}

/// The parts that the host provides.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) access: Arc<dyn AccessPolicy>,
    pub(crate) extensions: Option<Arc<dyn RunExtensions>>,
    pub(crate) formats: HashMap<String, MakeDecoder>,
    pub(crate) record_input: Option<RecordInput>,
    pub(crate) guard: Option<MakeGuard>,
    pub(crate) clock: Clock,
    pub(crate) unique_bits: UniqueBits,
}

aqueduct_core::debug_fields!(RunsBuilder { agents });

impl Default for RunsBuilder {
    fn default() -> Self {
        let host = Host {
            access: Arc::new(OpenAccess),
            extensions: None,
            formats: HashMap::from([(text::NAME.to_owned(), text_lines as MakeDecoder)]),
            record_input: None,
            guard: None,
            clock: Arc::new(now),
            unique_bits: Arc::new(random_bits),
        };
        Self { log: None, settings: Settings::default(), agents: Vec::new(), host }
    }
}

/// Returns the decoder of the built-in payload format: each payload is a JSON string.
fn text_lines() -> Box<dyn LineDecoder> {
    Box::new(text::TextLines::default())
}

impl RunsBuilder {
    /// Adds an agent.
    pub fn agent(self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agent_with(name, agent, AgentOptions::default())
    }

    /// Adds an agent with its options.
    pub fn agent_with(self, name: impl Into<String>, agent: impl Agent, options: AgentOptions) -> Self {
        self.entry(Arc::new(AgentEntry::new(name, Arc::new(agent), options)))
    }

    /// Adds an agent whose runs a publisher sends in.
    pub fn published(self, name: impl Into<String>, options: AgentOptions) -> Self {
        self.entry(Arc::new(AgentEntry::published(name, options)))
    }

    /// Adds an agent by its entry.
    pub fn entry(mut self, entry: Arc<AgentEntry>) -> Self {
        self.agents.push(entry);
        self
    }

    /// Sets the run log. The default is a log in memory.
    pub fn log(self, log: impl RunLog) -> Self {
        self.shared_log(Arc::new(log))
    }

    /// Sets a run log that is shared with other components.
    pub fn shared_log(mut self, log: Arc<dyn RunLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Sets limits and times of the engine.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the access policy. Under the default all callers are the anonymous principal.
    pub fn access(mut self, access: Arc<dyn AccessPolicy>) -> Self {
        self.host.access = access;
        self
    }

    /// Sets the extensions that are attached to runs.
    pub fn extensions(mut self, extensions: Arc<dyn RunExtensions>) -> Self {
        self.host.extensions = Some(extensions);
        self
    }

    /// Adds a payload format for publishers.
    pub fn ingest_format(mut self, name: impl Into<String>, make: MakeDecoder) -> Self {
        self.host.formats.insert(name.into(), make);
        self
    }

    /// Sets the function that records inputs. By default inputs are not logged, and threads cannot be restored from the log.
    pub fn record_input(mut self, record: RecordInput) -> Self {
        self.host.record_input = Some(record);
        self
    }

    /// Sets the guard that inspects the events of an agent before they become part of its run. Agents are foreign: an
    /// event that would harm watchers or the log ends the run instead.
    pub fn guard_events(mut self, make: MakeGuard) -> Self {
        self.host.guard = Some(make);
        self
    }

    /// Sets the clock of leases and of the age of runs. The default is the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.host.clock = clock;
        self
    }

    /// Sets the source of the ids of side runs. The default is [`random_bits`]; a simulation replays from seeded ones.
    pub fn unique_bits(mut self, unique_bits: UniqueBits) -> Self {
        self.host.unique_bits = unique_bits;
        self
    }

    /// Builds the engine.
    pub fn build(self) -> Runs {
        let Self { log, settings, agents, host } = self;
        let log = log.unwrap_or_else(|| Arc::new(MemoryLog::default()));
        Runs::with_parts(log, settings, agents, host)
    }
}
