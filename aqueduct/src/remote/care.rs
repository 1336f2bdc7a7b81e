//! [`Care`]: limits and circuit breaker of the calls to a remote agent.
//!
//! ```text
//!          failures in a row = `failures`                 `pause` is over: one call may try
//! closed ───────────────────────────────► open ──────────────────────────────────────────► half open
//!    ▲                                      ▲ it fails                                         │
//!    └──────────────────────────────────────┴──────────────────────────────── it is answered ──┘
//! ```
//!
//! A failure of the circuit is a call that found no agent: no connection, no answer in time, or 502, 503 or 504. An agent
//! that answers with an error is there. Calls whose connections break together are one failure: a restart of the agent cuts
//! all open calls, and the next one may succeed. Limits hold per agent and per process. A call that waits for its turn waits
//! at most as long as a connection may take.

mod settings;

use std::fmt;
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

/// The pause before the first retry of a connect; it doubles with each further one, with up to a half of it added at
/// random, so that callers do not retry together.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The largest number of saved retries of connects, and what each retry costs: one retry for ten calls, so that an
/// agent that is down is not called twice as often as one that is up.
const RETRY_BUDGET: u32 = 100;
const RETRY_COST: u32 = 10;

/// The circuit and the token bucket of one agent.
#[derive(Debug)]
struct State {
    failures: u32,
    /// Set while the circuit is open: when a call may probe.
    closed_again: Option<Instant>,
    /// Set while a call probes.
    is_trying: bool,
    last_failure: Option<String>,
    /// When the last failure that counts was seen.
    failed_at: Option<Instant>,
    answered_at: Option<Instant>,
    /// The number of calls that may be sent, as of `filled_at`.
    tokens: f64,
    filled_at: Instant,
    opened: u64,
}

/// Limits and observes the calls to one agent.
pub struct Care {
    settings: CareSettings,
    turns: Option<Arc<Semaphore>>,
    state: Mutex<State>,
    budget: AtomicU32,
    in_flight: AtomicU64,
    connects: AtomicU64,
    calls: AtomicU64,
    retries: AtomicU64,
    /// The observer of the host: measurements, trace context.
    inner: Option<Arc<dyn CallWatch>>,
}

impl fmt::Debug for Care {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Care").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Care {
    /// Returns the care for an agent; `inner` observes the calls that are sent.
    pub fn new(settings: CareSettings, inner: Option<Arc<dyn CallWatch>>) -> Self {
        let state = State {
            failures: 0,
            closed_again: None,
            is_trying: false,
            last_failure: None,
            failed_at: None,
            answered_at: None,
            tokens: settings.rate.map_or(0.0, f64::from),
            filled_at: Instant::now(),
            opened: 0,
        };
        Self {
            turns: settings.concurrency.map(|most| Arc::new(Semaphore::new(most))),
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
            is_available: state.closed_again.is_none(),
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

    /// Admits a call; while the circuit is half open, only one at a time.
    fn check_circuit(&self) -> Result<(), CallRefused> {
        let mut state = self.state();
        let Some(closed_again) = state.closed_again else { return Ok(()) };
        if Instant::now() >= closed_again && !state.is_trying {
            state.is_trying = true;
            return Ok(());
        }
        let (failures, pause) = (state.failures, self.settings.pause);
        let last = state.last_failure.as_deref().unwrap_or("no answer");
        let reason = format!(
            "the agent did not answer {failures} calls in a row, and is asked again after {pause:?} (`circuit`): {last}"
        );
        Err(CallRefused { code: CIRCUIT_OPEN, reason })
    }

    /// Reserves a place in the rate. Returns how long the call must wait, or `None` if it would wait too long.
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

    /// Waits for a place in the concurrency and in the rate.
    async fn take_turn(&self) -> Result<Option<OwnedSemaphorePermit>, CallRefused> {
        let busy = |limit: String| CallRefused {
            code: BUSY,
            reason: format!("the agent is at its limit ({limit}): retry later"),
        };
        let permit = match &self.turns {
            None => None,
            Some(turns) => {
                let most = self.settings.concurrency.unwrap_or_default();
                let turn = tokio::time::timeout(self.settings.patience, Arc::clone(turns).acquire_owned());
                let full = || busy(format!("`limits.concurrency` = {most}"));
                Some(turn.await.ok().and_then(Result::ok).ok_or_else(full)?)
            }
        };
        let rate = self.settings.rate.unwrap_or_default();
        let wait = self.reserve().ok_or_else(|| busy(format!("`limits.rate` = {rate} per second")))?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(permit)
    }

    /// Records a response: closes the circuit.
    fn handle_answered(&self) {
        let mut state = self.state();
        (state.failures, state.closed_again, state.is_trying) = (0, None, false);
        (state.last_failure, state.answered_at) = (None, Some(Instant::now()));
    }

    /// Handles a call whose connection broke. Those that were under way at the last failure are part of it.
    fn handle_broken(&self, why: String, begun_at: Instant) {
        let mut state = self.state();
        if state.failed_at.is_some_and(|failed_at| begun_at <= failed_at) {
            state.last_failure = Some(why);
            return;
        }
        drop(state);
        self.handle_absent(why);
    }

    /// Counts a call that found no agent, and opens the circuit at the limit.
    fn handle_absent(&self, why: String) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        (state.last_failure, state.failed_at) = (Some(why), Some(Instant::now()));
        state.is_trying = false;
        if self.settings.failures > 0 && state.failures >= self.settings.failures {
            state.opened += u64::from(state.closed_again.is_none());
            state.closed_again = Some(Instant::now() + self.settings.pause);
        }
    }
}

/// A call that was sent, observed by the care and by the host.
#[derive(Debug)]
struct CareGuard {
    care: Arc<Care>,
    /// The permit, held until the call ends.
    turn: Option<OwnedSemaphorePermit>,
    inner: Option<Box<dyn CallGuard>>,
    begun_at: Instant,
    is_settled: bool,
}

impl CallGuard for CareGuard {
    fn handle_head(&mut self, status: StatusCode) {
        self.is_settled = true;
        if matches!(status.as_u16(), 502..=504) {
            self.care.handle_absent(format!("the agent answered {status}"));
        } else {
            self.care.handle_answered();
        }
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
            self.care.handle_absent(error.to_string());
        }
        // A call that was part of an earlier failure is not settled: if it was the one that tried, another one may.
        self.is_settled |= is_absent;
        if let Some(inner) = &mut self.inner {
            inner.handle_failure(error);
        }
    }
}

impl Drop for CareGuard {
    fn drop(&mut self) {
        drop(self.turn.take());
        self.care.in_flight.fetch_sub(1, Ordering::Relaxed);
        // A call that its caller abandoned shows nothing about the agent; another one may probe.
        if !self.is_settled {
            self.care.state().is_trying = false;
        }
    }
}

/// The observer of an HTTP client; its guards hold clones of the care.
#[derive(Debug, Clone)]
pub struct CareWatch(pub Arc<Care>);

impl CallWatch for CareWatch {
    fn begin<'a>(&'a self, head: &'a mut Parts) -> BoxFuture<'a, Result<Box<dyn CallGuard>, CallRefused>> {
        let care = &self.0;
        Box::pin(async move {
            care.check_circuit()?;
            // From here on, a caller that abandons the wait releases the probe for another call.
            care.in_flight.fetch_add(1, Ordering::Relaxed);
            let begun_at = Instant::now();
            let mut guard =
                CareGuard { care: Arc::clone(care), turn: None, inner: None, begun_at, is_settled: false };
            guard.turn = care.take_turn().await?;
            care.calls.fetch_add(1, Ordering::Relaxed);
            let save = |saved: u32| Some(saved.saturating_add(1).min(RETRY_BUDGET));
            care.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, save).ok();
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
        let pay = |saved: u32| saved.checked_sub(RETRY_COST);
        care.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).ok()?;
        care.retries.fetch_add(1, Ordering::Relaxed);
        let pause = FIRST_PAUSE * 2u32.saturating_pow(attempt.saturating_sub(1).min(10));
        Some(pause + pause.mul_f64(chance() / 2.0))
    }
}

/// Returns a random number from 0 to 1.
fn chance() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
