//! Resumes a stream that was cut, at the address of the run, after the last received event.
//!
//! An agent supports this if its stream has event ids of the form `{run}.{number}.{payload}` with the id of the posted
//! run ([`EventPosition`]), and its address ends in `/agents/NAME`. Any other stream that is cut ends the run.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::agent::CallContext;
use aqueduct_core::{ByteString, RunFailure, RunId};
use aqueduct_transport_http::EventPosition;
use aqueduct_transport_http::sse::Event;
use aqueduct_transport_http::{Error as HttpError, SseStream};
use bytes::Bytes;

use super::Shared;
use crate::remote::{failure_of, unsent};

/// Consecutive attempts without an event.
const ATTEMPTS: u32 = 8;
/// The pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The position in the stream of a run.
#[derive(Debug)]
pub(super) struct Position {
    run: RunId,
    /// The id of the last event, or `None` if no id had the expected form.
    last_id: Option<ByteString>,
    attempts: u32,
}

/// Why a stream was not resumed.
pub(super) enum Missed {
    /// Another attempt may succeed.
    Passing(RunFailure),
    Final(RunFailure),
}

impl Position {
    /// Returns the position before the first event.
    pub(super) fn new(run: RunId) -> Self {
        Self { run, last_id: None, attempts: 0 }
    }

    /// Returns the position of a run that was taken over: its stream is read from the start.
    pub(super) fn at_start(run: RunId) -> Self {
        let last_id = Some(EventPosition::start(run.clone()).to_string().into());
        Self { last_id, ..Self::new(run) }
    }

    /// Returns the id of the run at the agent.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the id of the last event.
    pub(super) fn last_id(&self) -> Option<&ByteString> {
        self.last_id.as_ref()
    }

    /// Returns `true` if no id of the run was received.
    pub(super) fn is_empty(&self) -> bool {
        self.last_id.is_none()
    }

    /// Records an event that was received completely.
    pub(super) fn advance(&mut self, event: &Event) {
        self.attempts = 0;
        if let Some(id) = &event.id
            && event.terminated
        {
            self.set_id(id);
        }
    }

    /// Records the id with which a stream began, before its first event.
    pub(super) fn set_id(&mut self, id: &ByteString) {
        if EventPosition::parse(id).is_some_and(|position| position.run == self.run) {
            self.last_id = Some(id.clone());
        }
    }

    /// Returns the id to resume after and the pause before the next attempt, or `None` if the stream cannot be resumed.
    pub(super) fn next_attempt(&mut self) -> Option<(ByteString, Duration)> {
        let last_id = self.last_id.clone()?;
        if self.attempts >= ATTEMPTS {
            return None;
        }
        let pause = match self.attempts {
            0 => Duration::ZERO,
            more => (FIRST_PAUSE * 2_u32.saturating_pow(more - 1)).min(LONGEST_PAUSE),
        };
        self.attempts += 1;
        Some((last_id, pause))
    }
}

/// Returns the address of a run's events at the gateway that serves `url`, or `None` if `url` is not `…/agents/NAME`.
fn events_url(url: &str, run: &RunId) -> Option<String> {
    let path = url.split(['?', '#']).next()?;
    let (gateway, name) = path.rsplit_once("/agents/")?;
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let mut encoded = String::new();
    for byte in run.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").ok()?;
        }
    }
    // Merged, the stream of a takeover could lack the id at which the log ends.
    Some(format!("{gateway}/runs/{encoded}/events?protocolVersion=1.0&merge=false"))
}

impl Shared {
    /// Returns `true` if the address of the agent allows resuming a run.
    pub(super) fn can_resume(&self, run: &RunId) -> bool {
        self.resume && events_url(&self.url, run).is_some()
    }

    /// Opens the stream of a run after an event.
    pub(super) async fn reopen(
        self: Arc<Self>,
        context: Arc<dyn CallContext>,
        run: RunId,
        (last_id, pause): (ByteString, Duration),
    ) -> Result<SseStream, Missed> {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let url = events_url(&self.url, &run).unwrap_or_default();
        let headers = [("accept", "text/event-stream"), ("last-event-id", &*last_id)];
        let request = self.connection.request("GET", &url, &headers, &*context, Bytes::new());
        let request = request.map_err(|error| Missed::Final(unsent(error)))?;
        let opened = self.connection.client().open_stream(request).await;
        opened.map_err(|error| {
            let failure = failure_of(&error);
            match error {
                HttpError::NotAStream(answer) if answer.status().is_client_error() => {
                    let message = format!(
                        "the stream was cut, and the agent does not know the run: {}",
                        failure.message
                    );
                    Missed::Final(RunFailure::new(RunFailure::UPSTREAM_ENDED, message))
                }
                _ => Missed::Passing(failure),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_beside_the_agents_of_its_gateway() {
        let url = |url: &str, run: &str| events_url(url, &RunId::from(run));
        let found = url("http://host:1/base/agents/story?x=1", "a b/ä%");
        assert_eq!(
            found.unwrap(),
            "http://host:1/base/runs/a%20b%2F%C3%A4%25/events?protocolVersion=1.0&merge=false"
        );
        for other in ["http://host/run", "http://host/agents/", "http://host/agents/a/run"] {
            assert_eq!(url(other, "r"), None, "{other}");
        }
    }

    #[test]
    fn only_ids_of_the_run_count_and_attempts_end() {
        let mut position = Position::new(RunId::from("r"));
        for foreign in ["", "7", "other.3.1", "r"] {
            position.set_id(&foreign.into());
            assert!(position.next_attempt().is_none(), "{foreign:?}");
        }
        position.set_id(&"r.3.1".into());
        let pauses: Vec<Duration> =
            std::iter::from_fn(|| position.next_attempt()).map(|(_, pause)| pause).collect();
        assert_eq!(pauses.len(), 8);
        assert_eq!((pauses[0], pauses[1], pauses[7]), (Duration::ZERO, FIRST_PAUSE, LONGEST_PAUSE));
    }
}
