//! The plain mode: one run of the path's agent on one connection, for clients without `aqueduct.v1`.
//!
//! ```text
//! Waiting ──input──► Starting ──service──► Following ──terminal event──► Finished (1000)
//!    │                  │                      └── run lost ──────────► Finished (1011)
//!    │                  └── refused ──► Finished (4xxx)
//!    └── too late ──► closed (4408)
//! ```
//!
//! A plain client knows the payloads of the agent protocol only: no envelope, no references, no
//! resume. Errors are close codes, because the protocol has no message for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aqueduct_core::json::is_deeper_than;
use aqueduct_core::protocol::Encoding;
use aqueduct_core::service::{Caller, EventEncoder, ServiceFuture, StartedRun};
use aqueduct_transport_http::Gauge;
use bytes::Bytes;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::batch::Batch;
use super::envelope::Envelope;
use super::session::{Session, Shared, refusal_of};
use super::subscriptions::{Subscription, Subscriptions};
use crate::close::CloseReason;

/// A plain connection.
pub(crate) struct PlainSession {
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    agent: String,
    awaits_token: bool,
    state: State,
}

/// The state of a plain connection.
enum State {
    Waiting,
    Starting { run: ServiceFuture<'static, StartedRun>, encoder: Option<Box<dyn EventEncoder>> },
    Following(Subscriptions),
    Finished(CloseReason),
}

impl PlainSession {
    /// Returns the state of a connection for one run of `agent`, which the first message starts.
    pub(crate) fn new(shared: Arc<Shared>, caller: Arc<Caller>, agent: String) -> Self {
        let awaits_token = shared.requires_token(&caller, Some(&agent));
        Self { shared, caller, agent, awaits_token, state: State::Waiting }
    }

    /// Watches the run that was started; its payloads are sent without envelope.
    fn follow(&mut self, started: StartedRun, encoder: Box<dyn EventEncoder>) -> State {
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(Subscription {
            reference: String::new(),
            run: started.run_id.as_str().to_owned(),
            envelope: Envelope::Plain,
            events: started.events,
            after: 0,
            encoder,
            _open: self.shared.counters.open(Gauge::Streams),
        });
        State::Following(subscriptions)
    }
}

impl Session for PlainSession {
    fn handle_text(&mut self, text: &Utf8Bytes) -> Result<(), CloseReason> {
        if !matches!(self.state, State::Waiting) {
            let reason = "a plain connection takes one input: connect again, or offer aqueduct.v1.json";
            return Err(CloseReason::new(CloseReason::CONFLICT, reason));
        }
        let json_depth = self.shared.config.limits.json_depth;
        if is_deeper_than(text.as_bytes(), json_depth) {
            let reason = format!("JSON is nested deeper than {json_depth} levels: flatten it");
            return Err(CloseReason::new(CloseReason::BAD_MESSAGE, reason));
        }
        let read = self
            .shared
            .protocol
            .read_input(&self.agent, text.as_bytes(), Encoding::Json)
            .map_err(|error| CloseReason::from(&error))?;
        let (service, caller) = (Arc::clone(&self.shared.service), Arc::clone(&self.caller));
        let agent = self.agent.clone();
        let run = Box::pin(async move { service.start(&caller, &agent, read.input).await });
        self.state = State::Starting { run, encoder: Some(read.encoder) };
        Ok(())
    }

    fn handle_binary(&mut self, _data: &Bytes) -> Result<(), CloseReason> {
        Err(CloseReason::new(CloseReason::UNSUPPORTED_DATA, "send the run input as a text message"))
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> bool {
        let State::Starting { run, encoder } = &mut self.state else { return false };
        let Poll::Ready(result) = run.as_mut().poll(cx) else { return false };
        self.state = match (result, encoder.take()) {
            (Ok(started), Some(encoder)) => self.follow(started, encoder),
            (Ok(_), None) => State::Finished(CloseReason::new(CloseReason::INTERNAL, "started twice")),
            (Err(error), _) => State::Finished(CloseReason::from(&error)),
        };
        true
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let State::Following(subscriptions) = &mut self.state else { return };
        let mut endings = VecDeque::new();
        subscriptions
            .poll_fill(cx, &self.shared.config.limits, batch, |_, ending| endings.push_back(ending.complete));
        match endings.pop_front() {
            None => {}
            Some(true) => {
                self.state = State::Finished(CloseReason::new(CloseReason::NORMAL, "the run has ended"));
            }
            Some(false) => {
                let reason = "the run was lost before its end: start it again";
                self.state = State::Finished(CloseReason::new(CloseReason::INTERNAL, reason));
            }
        }
    }

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    fn is_backlogged(&self) -> bool {
        false
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn awaits_token(&self) -> bool {
        self.awaits_token
    }

    fn close_reason(&self) -> Option<CloseReason> {
        if let Some(refused) = refusal_of(&self.caller) {
            return Some(refused);
        }
        match &self.state {
            State::Finished(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    fn first_message_limit(&self) -> Option<(Duration, CloseReason)> {
        let rules = &self.shared.config;
        if self.awaits_token {
            // A plain client has no message for a token, so there is nothing to wait for.
            let reason = "bring a token: header Authorization, or subprotocols aqueduct.v1.plain and aqueduct.bearer.…";
            return Some((Duration::ZERO, CloseReason::new(CloseReason::UNAUTHENTICATED, reason)));
        }
        let reason = || CloseReason::new(CloseReason::TIMEOUT, "no run input in time");
        matches!(self.state, State::Waiting).then(|| (rules.timeouts.input, reason()))
    }
}
