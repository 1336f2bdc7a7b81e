//! [`CareSettings`]: the limits on the calls to one remote agent; [`AgentHealth`]: the results of its last calls.
//!
//! Both are plain values: the limits are enforced, and the results are counted, in [`Care`](super::Care).

use std::time::Duration;

aqueduct_core::with_defaults! {
    /// Limits on the calls to one remote agent.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct CareSettings {
        /// Calls and streams at once; `None` for no limit.
        pub concurrency: Option<usize> = None,
        /// Calls per second, with bursts of as many; `None` for no limit.
        pub rate: Option<u32> = None,
        /// The number of retries of a connect.
        pub connect_retries: u32 = 2,
        /// Consecutive calls that do not reach the agent before the circuit opens for `pause`; 0 for never.
        pub failures: u32 = 5,
        /// How long the circuit stays open.
        pub pause: Duration = Duration::from_secs(10),
        /// How long a call waits for its turn.
        pub patience: Duration = Duration::from_secs(5),
    }
}

aqueduct_core::setters! {
    impl CareSettings {
        /// Limits concurrent calls and streams.
        pub fn with_concurrency(concurrency: Option<usize>);
        /// Limits calls per second.
        pub fn with_rate(rate: Option<u32>);
        /// Sets the number of retries of a connect.
        pub fn with_connect_retries(connect_retries: u32);
        /// Sets how long a call waits for its turn.
        pub fn with_patience(patience: Duration);
    }
}

impl CareSettings {
    /// Sets the number of consecutive failures that open the circuit, and for how long.
    pub fn with_circuit(mut self, failures: u32, pause: Duration) -> Self {
        (self.failures, self.pause) = (failures, pause);
        self
    }
}

/// The results of the last calls to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AgentHealth {
    /// Unset while the circuit is open.
    pub is_available: bool,
    /// Calls and streams that are open.
    pub in_flight: usize,
    /// Consecutive failures.
    pub failures: u32,
    /// Why the last call failed; `None` if it was answered, or there was none.
    pub last_failure: Option<String>,
    /// The time since the last response.
    pub answered_ago: Option<Duration>,
    /// Connections opened. Further calls reused one.
    pub connects: u64,
    /// Calls sent.
    pub calls: u64,
    /// Retries of connects.
    pub retries: u64,
    /// How often the circuit opened.
    pub circuit_opened: u64,
}
