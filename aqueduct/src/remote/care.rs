//! [`Care`]: the limits and the circuit breaker of the calls to one remote agent.
//!
//! ```text
//!         `failures` failures in a row          `pause` is over: one call may probe
//! closed ────────────────────────────► open ───────────────────────────────────────► half open
//!    ▲                                   ▲                                               │  │
//!    │                                   └─────────────── the probe fails ───────────────┘  │
//!    └──────────────────────────── the probe gets a response ───────────────────────────────┘
//! ```
//!
//! Failures that count are: no connection, a connection that breaks before the response, no response in time, and a response
//! 502, 503 or 504. Any other response, an error included, shows that the agent is available. Calls whose connections break
//! together count as one failure: a restart of the agent cuts all open calls, and the next call may succeed. The limits apply
//! per agent and per process. A call waits for each limit for at most `patience`.

mod settings;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_core::service::BoxFuture;
use aqueduct_transport_http::{CallGuard, CallRefused, CallWatch, Error as HttpError};
use http::StatusCode;
use http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

pub use self::settings::{AgentHealth, CareSettings};

/// The code of a call that was not sent because its agent is at its limit.
pub const BUSY: &str = "upstream_busy";
/// The code of a call that was not sent because the agent did not respond to the last ones.
pub const CIRCUIT_OPEN: &str = "upstream_circuit_open";

/// The pause before the first retry of a connect. It doubles with each further retry. Up to half of the pause is added at
/// random, so that callers do not retry at the same time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The most units in the budget for retries of connects. Each call adds one unit: with [`RETRY_COST`] that is one retry for
/// ten calls, so retries add little load to an agent that is down.
const RETRY_BUDGET: u32 = 100;
/// The units of the budget that one retry costs.
const RETRY_COST: u32 = 10;

/// The circuit and the token bucket of one agent.
#[derive(Debug)]
struct State {
    /// Consecutive failures.
    failures: u32,
    /// When a call may probe the agent; `None` while the circuit is closed.
    probe_at: Option<Instant>,
    /// Set while a call probes the agent; that call alone clears it.
    is_probing: bool,
    last_failure: Option<String>,
    /// When the last counted failure happened.
    failed_at: Option<Instant>,
    /// When the last response arrived.
    answered_at: Option<Instant>,
    /// The number of calls that may be sent, as of `filled_at`.
    tokens: f64,
    filled_at: Instant,
    /// How often the circuit opened.
    opened: u64,
}

/// Limits and observes the calls to one agent.
pub struct Care {
    settings: CareSettings,
    /// The permits of `limits.concurrency`.
    permits: Option<Arc<Semaphore>>,
    state: Mutex<State>,
    /// The budget for retries of connects, in units of [`RETRY_BUDGET`].
    budget: AtomicU32,
    in_flight: AtomicU64,
    connects: AtomicU64,
    calls: AtomicU64,
    retries: AtomicU64,
    /// The observer of the host: measurements, trace context.
    inner: Option<Arc<dyn CallWatch>>,
}

aqueduct_core::debug_fields!(Care { settings });

impl Care {
    /// Returns the limits and the closed circuit of an agent. `inner` observes the calls that are sent.
    pub fn new(settings: CareSettings, inner: Option<Arc<dyn CallWatch>>) -> Self {
        let state = State {
            failures: 0,
            probe_at: None,
            is_probing: false,
            last_failure: None,
            failed_at: None,
            answered_at: None,
            tokens: settings.rate.map_or(0.0, f64::from),
            filled_at: Instant::now(),
            opened: 0,
        };
        Self {
            permits: settings.concurrency.map(|most| Arc::new(Semaphore::new(most))),
            settings,
            state: Mutex::new(state),
            budget: AtomicU32::new(RETRY_BUDGET),
            in_flight: AtomicU64::new(0),
            connects: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            inner,
        }
    }

    /// Locks the state. A panic of another holder leaves it valid.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the results of the last calls to the agent.
    pub fn health(&self) -> AgentHealth {
        let state = self.state();
        AgentHealth {
            is_available: state.probe_at.is_none(),
            in_flight: usize::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(usize::MAX),
            failures: state.failures,
            last_failure: state.last_failure.clone(),
            answered_ago: state.answered_at.map(|at| at.elapsed()),
            connects: self.connects.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            circuit_opened: state.opened,
        }
    }

    /// Admits a call if the circuit is closed, and one call at a time as a probe if it is half open. Returns `true` if the call
    /// is the probe.
    fn check_circuit(&self) -> Result<bool, CallRefused> {
        let mut state = self.state();
        let Some(probe_at) = state.probe_at else { return Ok(false) };
        if Instant::now() >= probe_at && !state.is_probing {
            state.is_probing = true;
            return Ok(true);
        }
        let (failures, pause) = (state.failures, self.settings.pause);
        let last = state.last_failure.as_deref().unwrap_or("no answer");
        let reason = format!(
            "the agent did not answer {failures} calls in a row, and is called again after {pause:?} (`circuit`): {last}"
        );
        Err(CallRefused { code: CIRCUIT_OPEN, reason })
    }

    /// Takes a token of the rate limit. Returns how long the call must wait, or `None` if it would wait longer than `patience`.
    fn reserve(&self) -> Option<Duration> {
        let Some(rate) = self.settings.rate.map(f64::from) else { return Some(Duration::ZERO) };
        let mut state = self.state();
        let now = Instant::now();
        let filled = now.duration_since(state.filled_at).as_secs_f64() * rate;
        state.tokens = (state.tokens + filled).min(rate);
        state.filled_at = now;
        let wait = Duration::from_secs_f64((1.0 - state.tokens).max(0.0) / rate);
        if wait > self.settings.patience {
            return None;
        }
        state.tokens -= 1.0;
        Some(wait)
    }

    /// Waits until the limits of concurrency and rate admit the call.
    async fn wait_for_limits(&self) -> Result<Option<OwnedSemaphorePermit>, CallRefused> {
        let busy = |limit: String| CallRefused {
            code: BUSY,
            reason: format!("the agent is at its limit ({limit}): retry later"),
        };
        let permit = match &self.permits {
            None => None,
            Some(permits) => {
                let most = self.settings.concurrency.unwrap_or_default();
                let permit =
                    tokio::time::timeout(self.settings.patience, Arc::clone(permits).acquire_owned());
                let full = || busy(format!("`limits.concurrency` = {most}"));
                Some(permit.await.ok().and_then(Result::ok).ok_or_else(full)?)
            }
        };
        let rate = self.settings.rate.unwrap_or_default();
        let wait = self.reserve().ok_or_else(|| busy(format!("`limits.rate` = {rate} per second")))?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(permit)
    }

    /// Records a response, and closes the circuit.
    fn handle_answered(&self) {
        let mut state = self.state();
        (state.failures, state.probe_at) = (0, None);
        (state.last_failure, state.answered_at) = (None, Some(Instant::now()));
    }

    /// Handles a call whose connection broke. A call that began before the last failure is part of that failure, and not counted.
    fn handle_broken(&self, why: String, begun_at: Instant) {
        let mut state = self.state();
        if state.failed_at.is_some_and(|failed_at| begun_at <= failed_at) {
            state.last_failure = Some(why);
            return;
        }
        drop(state);
        self.count_failure(why);
    }

    /// Counts a failure, and opens the circuit at the limit.
    fn count_failure(&self, why: String) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        (state.last_failure, state.failed_at) = (Some(why), Some(Instant::now()));
        if self.settings.failures > 0 && state.failures >= self.settings.failures {
            state.opened += u64::from(state.probe_at.is_none());
            state.probe_at = Some(Instant::now() + self.settings.pause);
        }
    }
}

/// Observes one call for the [`Care`] and for the observer of the host.
#[derive(Debug)]
struct CareGuard {
    care: Arc<Care>,
    /// The permit of `limits.concurrency`, held until the call ends.
    permit: Option<OwnedSemaphorePermit>,
    inner: Option<Box<dyn CallGuard>>,
    begun_at: Instant,
    /// Set once the call had a response or a counted failure.
    is_settled: bool,
    /// Set if the call is the probe, until it is settled.
    is_probe: bool,
}

impl CareGuard {
    /// Ends the probe, if this call is the one: another call may probe.
    fn end_probe(&mut self) {
        if std::mem::take(&mut self.is_probe) {
            self.care.state().is_probing = false;
        }
    }
}

impl CallGuard for CareGuard {
    fn handle_head(&mut self, status: StatusCode) {
        self.is_settled = true;
        if matches!(status.as_u16(), 502..=504) {
            self.care.count_failure(format!("the agent answered {status}"));
        } else {
            self.care.handle_answered();
        }
        self.end_probe();
        if let Some(inner) = &mut self.inner {
            inner.handle_head(status);
        }
    }

    fn handle_failure(&mut self, error: &HttpError) {
        let is_broken = matches!(error, HttpError::Request { .. });
        let is_absent = matches!(error, HttpError::Connect { .. })
            || matches!(error, HttpError::Timeout { .. } if !self.is_settled);
        if is_broken {
            self.care.handle_broken(error.to_string(), self.begun_at);
        } else if is_absent {
            self.care.count_failure(error.to_string());
        }
        // A broken call may be part of an earlier failure, and is never settled: if it was the probe, dropping the guard lets
        // another call probe.
        self.is_settled |= is_absent;
        if is_absent {
            self.end_probe();
        }
        if let Some(inner) = &mut self.inner {
            inner.handle_failure(error);
        }
    }
}

impl Drop for CareGuard {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.care.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A call that its caller dropped does not show whether the agent is available.
        self.end_probe();
    }
}

/// The [`Care`] of an agent as the observer of an HTTP client.
#[derive(Debug, Clone)]
pub struct CareWatch(pub Arc<Care>);

impl CallWatch for CareWatch {
    fn begin<'a>(&'a self, head: &'a mut Parts) -> BoxFuture<'a, Result<Box<dyn CallGuard>, CallRefused>> {
        let care = &self.0;
        Box::pin(async move {
            let is_probe = care.check_circuit()?;
            // From here on the guard ends the probe, also if the caller drops this future.
            care.in_flight.fetch_add(1, Ordering::Relaxed);
            let begun_at = Instant::now();
            let mut guard = CareGuard {
                care: Arc::clone(care),
                permit: None,
                inner: None,
                begun_at,
                is_settled: false,
                is_probe,
            };
            guard.permit = care.wait_for_limits().await?;
            care.calls.fetch_add(1, Ordering::Relaxed);
            let add = |units: u32| Some(units.saturating_add(1).min(RETRY_BUDGET));
            care.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok();
            if let Some(inner) = &care.inner {
                guard.inner = Some(inner.begin(head).await?);
            }
            Ok(Box::new(guard) as Box<dyn CallGuard>)
        })
    }

    fn handle_lookup(&self, took: Duration, is_found: bool) {
        if let Some(inner) = &self.0.inner {
            inner.handle_lookup(took, is_found);
        }
    }

    fn handle_connect(&self, took: Duration, is_made: bool) {
        self.0.connects.fetch_add(u64::from(is_made), Ordering::Relaxed);
        if let Some(inner) = &self.0.inner {
            inner.handle_connect(took, is_made);
        }
    }

    fn retry_connect(&self, attempt: u32) -> Option<Duration> {
        let care = &self.0;
        if attempt > care.settings.connect_retries {
            return None;
        }
        let pay = |units: u32| units.checked_sub(RETRY_COST);
        care.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).ok()?;
        care.retries.fetch_add(1, Ordering::Relaxed);
        let pause = FIRST_PAUSE * 2u32.saturating_pow(attempt.saturating_sub(1).min(10));
        Some(pause + pause.mul_f64(random_fraction() / 2.0))
    }
}

/// Returns a random number from 0 to 1.
fn random_fraction() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
