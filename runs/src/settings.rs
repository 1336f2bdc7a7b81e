//! Limits and times of the engine ([`Settings`]), and of the runs of one agent ([`AgentOptions`]).

use std::time::Duration;

use aqueduct_core::Limits;
use aqueduct_runlog::LogScope;

/// Settings of the engine.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let settings = aqueduct_runs::Settings::default().with_lease(Duration::from_secs(5));
/// assert_eq!(settings.lease, Duration::from_secs(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The most runs in progress; further starts are refused as busy.
    pub limit: usize,
    /// The time for which a lease is valid after its last renewal. Fixed for the lifetime of the engine.
    pub lease: Duration,
    /// The time without heartbeat after which other replicas take over the runs of a replica that shares the log. Fixed for
    /// the lifetime of the engine.
    pub silence: Duration,
    /// The time for which an ended run can be watched.
    pub keep: Duration,
    /// The handling of an agent whose run the log has lost.
    pub on_log_loss: OnLogLoss,
    /// The processes that share the log; `None` for the log's own statement.
    pub scope: Option<LogScope>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: 10_000,
            lease: Duration::from_secs(15),
            silence: Duration::from_secs(2),
            keep: Duration::from_secs(60 * 60),
            on_log_loss: OnLogLoss::default(),
            scope: None,
        }
    }
}

impl Settings {
    /// Sets the limit of runs in progress.
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the duration of a lease.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the time without heartbeat after which a replica counts as dead.
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets the handling of agents whose run the log has lost.
    pub fn with_on_log_loss(mut self, on_log_loss: OnLogLoss) -> Self {
        self.on_log_loss = on_log_loss;
        self
    }

    /// Sets the retention time of ended runs.
    pub fn with_keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the processes that share the log, overriding the log's own statement.
    pub fn with_scope(mut self, scope: LogScope) -> Self {
        self.scope = Some(scope);
        self
    }
}

/// The handling of an agent whose run the log has lost (deleted keys, a store that restarted empty): no watcher can receive
/// the rest of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLogLoss {
    /// The agent is cancelled.
    #[default]
    Cancel,
    /// The agent continues to its end.
    Keep,
}

/// The handling of a run without watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDisconnect {
    /// The run continues, and is cancelled if no watcher reconnects within [`AgentOptions::grace`].
    #[default]
    Continue,
    /// The run is cancelled at once.
    Cancel,
}

/// Options of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentOptions {
    /// A description for lists of agents.
    pub description: String,
    /// The longest duration of a run.
    pub run_timeout: Duration,
    /// The time that a run waits for watchers, or for its publisher, to reconnect.
    pub grace: Duration,
    /// How long the stream of the agent is held for a reply to an interrupt of a sub-agent.
    pub reply_timeout: Duration,
    /// The handling of a run without watchers.
    pub on_disconnect: OnDisconnect,
    /// The limits of a run's open state.
    pub limits: Limits,
    /// Headers of the caller that the agent receives, beside those of the trace context. Names in lower case.
    pub forward_headers: Vec<String>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            description: String::new(),
            run_timeout: Duration::from_secs(60 * 60),
            grace: Duration::from_secs(60),
            reply_timeout: Duration::from_secs(10 * 60),
            on_disconnect: OnDisconnect::default(),
            limits: Limits::default(),
            forward_headers: Vec::new(),
        }
    }
}

impl AgentOptions {
    /// Sets the description.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the longest duration of a run.
    pub fn with_run_timeout(mut self, timeout: Duration) -> Self {
        self.run_timeout = timeout;
        self
    }

    /// Sets the time that a run waits for watchers or its publisher to reconnect.
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the time for replies to interrupts of sub-agents.
    pub fn with_reply_timeout(mut self, timeout: Duration) -> Self {
        self.reply_timeout = timeout;
        self
    }

    /// Sets the handling of a run without watchers.
    pub fn with_on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.on_disconnect = on_disconnect;
        self
    }

    /// Sets the limits of a run's open state.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the headers of the caller that the agent receives. Names in lower case.
    pub fn with_forward_headers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.forward_headers = names.into_iter().collect();
        self
    }
}
