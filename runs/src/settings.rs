//! Limits and times of the engine, and of the runs of one agent.

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
    /// Runs that go on at once; a start past it is refused as busy.
    pub limit: usize,
    /// How long the lease of a run lasts after its owner was last heard of. Fixed for the life of the engine.
    pub lease: Duration,
    /// How long a replica that shares the log may be silent before others take its runs over. Fixed for the life of the
    /// engine.
    pub silence: Duration,
    /// How long an ended run can be watched.
    pub keep: Duration,
    /// What becomes of an agent's work when the log has lost its run.
    pub on_log_loss: OnLogLoss,
    /// Which processes read the log; `None` for what the log says of itself.
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
    /// Returns the settings with another limit of runs.
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the settings with another lease.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Returns the settings with another time that a replica may be silent.
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Returns the settings with another rule for runs that the log has lost.
    pub fn with_on_log_loss(mut self, on_log_loss: OnLogLoss) -> Self {
        self.on_log_loss = on_log_loss;
        self
    }

    /// Returns the settings with another time for which ended runs are kept.
    pub fn with_keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Returns the settings for a log that these processes read, whatever it says of itself.
    pub fn with_scope(mut self, scope: LogScope) -> Self {
        self.scope = Some(scope);
        self
    }
}

/// What becomes of an agent's work when the log has lost its run (keys that vanished, a store that came back empty): no
/// watcher can see the rest of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLogLoss {
    /// The agent is told to stop.
    #[default]
    Cancel,
    /// The agent is left to finish.
    Keep,
}

/// What becomes of a run without watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDisconnect {
    /// It goes on, and is cancelled if no watcher comes back within [`AgentOptions::grace`].
    #[default]
    Continue,
    /// It is cancelled at once.
    Cancel,
}

/// Options of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentOptions {
    /// What the agent is for, as lists of agents show it.
    pub description: String,
    /// How long a run may take.
    pub run_timeout: Duration,
    /// How long a run waits for watchers, or for its publisher, to come back.
    pub grace: Duration,
    /// How long the stream of the agent is held for a reply to what a sub-agent asks.
    pub reply_timeout: Duration,
    /// What becomes of a run without watchers.
    pub on_disconnect: OnDisconnect,
    /// How much a run may hold open at once.
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
    /// Returns the options with a description.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Returns the options with another time that a run may take.
    pub fn with_run_timeout(mut self, timeout: Duration) -> Self {
        self.run_timeout = timeout;
        self
    }

    /// Returns the options with another time that a run waits for watchers.
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Returns the options with another time for replies to what a sub-agent asks.
    pub fn with_reply_timeout(mut self, timeout: Duration) -> Self {
        self.reply_timeout = timeout;
        self
    }

    /// Returns the options with another rule for runs without watchers.
    pub fn with_on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.on_disconnect = on_disconnect;
        self
    }

    /// Returns the options with other limits of what a run may hold open.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the options with headers of the caller that the agent receives.
    pub fn with_forward_headers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.forward_headers = names.into_iter().collect();
        self
    }
}
