//! Limits and times of the engine ([`Settings`]), and of the runs of one agent ([`AgentOptions`]).

use std::time::Duration;

use aqueduct_core::Limits;
use aqueduct_runlog::LogScope;

aqueduct_core::with_defaults! {
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
        pub limit: usize = 10_000,
        /// The time for which a lease is valid after its last renewal. Fixed for the lifetime of the engine.
        pub lease: Duration = Duration::from_secs(15),
        /// The time without heartbeat after which other replicas take over the runs of a replica that shares the log.
        /// Fixed for the lifetime of the engine.
        pub silence: Duration = Duration::from_secs(2),
        /// The time for which an ended run can be watched.
        pub keep: Duration = Duration::from_secs(60 * 60),
        /// The handling of an agent whose run the log has lost.
        pub on_log_loss: OnLogLoss,
        /// The processes that share the log; `None` for the log's own statement.
        pub scope: Option<LogScope> = None,
    }
}

aqueduct_core::setters! {
    impl Settings {
        /// Sets the limit of runs in progress.
        pub fn with_limit(limit: usize);
        /// Sets the duration of a lease.
        pub fn with_lease(lease: Duration);
        /// Sets the time without heartbeat after which a replica counts as dead.
        pub fn with_silence(silence: Duration);
        /// Sets the handling of agents whose run the log has lost.
        pub fn with_on_log_loss(on_log_loss: OnLogLoss);
        /// Sets the retention time of ended runs.
        pub fn with_keep(keep: Duration);
    }
}

impl Settings {
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

aqueduct_core::with_defaults! {
    /// Options of one agent.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct AgentOptions {
        /// A description for lists of agents.
        pub description: String = String::new(),
        /// The longest duration of a run.
        pub run_timeout: Duration = Duration::from_secs(60 * 60),
        /// The time that a run waits for watchers, or for its publisher, to reconnect.
        pub grace: Duration = Duration::from_secs(60),
        /// How long the stream of the agent is held for a reply to an interrupt of a sub-agent.
        pub reply_timeout: Duration = Duration::from_secs(10 * 60),
        /// The handling of a run without watchers.
        pub on_disconnect: OnDisconnect,
        /// The limits of a run's open state.
        pub limits: Limits,
        /// Headers of the caller that the agent receives, beside those of the trace context. Names in lower case.
        pub forward_headers: Vec<String> = Vec::new(),
    }
}

aqueduct_core::setters! {
    impl AgentOptions {
        /// Sets the longest duration of a run.
        pub fn with_run_timeout(run_timeout: Duration);
        /// Sets the time that a run waits for watchers or its publisher to reconnect.
        pub fn with_grace(grace: Duration);
        /// Sets the time for replies to interrupts of sub-agents.
        pub fn with_reply_timeout(reply_timeout: Duration);
        /// Sets the handling of a run without watchers.
        pub fn with_on_disconnect(on_disconnect: OnDisconnect);
        /// Sets the limits of a run's open state.
        pub fn with_limits(limits: Limits);
    }
}

impl AgentOptions {
    /// Sets the description.
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the headers of the caller that the agent receives. Names in lower case.
    pub fn with_forward_headers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.forward_headers = names.into_iter().collect();
        self
    }
}
