//! [`RemoteAgent`]: an AG-UI agent at another address, as an [`Agent`].
//!
//! ```text
//! AgentRequest ──► POST ──► event stream ──► Decoder ──► source events
//!                                ▲    │ cut
//!                                └────┘ resumed after the last event id
//! ```
//!
//! A stream that is cut is resumed (`resume`) if the agent supports it, as agents behind an Aqueduct gateway do. Any other
//! stream without a terminal event ends without one here too, and the driver of the run reports the cut. AG-UI has no
//! cancel request, so a cancel closes the connection.
//!
//! The run of an agent that can resume also survives its owner (`takeover`): the log holds the id of the run at the agent, and
//! with each append the event id up to which the stream was decoded.

mod resume;
mod takeover;

use std::any::Any;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::decode::Decoder;
use aqueduct_adapter_agui::ids::IdMap;
use aqueduct_adapter_agui::input::run_agent_input;
use aqueduct_adapter_agui::resume::resume_from_text;
use aqueduct_adapter_agui::wire::RunAgentInput;
use aqueduct_core::agent::{CallContext, Checkpoint, Takeover, ThreadFold};
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{
    Agent, AgentRequest, BlockEvent, OpenInterrupts, RunFailure, RunId, RunInput, RunOutcome, SourceEvent,
    SourceStream,
};
use aqueduct_transport_http::sse::Event;
use aqueduct_transport_http::{Error as HttpError, SseStream};
use futures_core::Stream;
use serde_json::{Value, json};

use crate::error::Error;
use crate::remote::{AgentHealth, Connection, RemoteSettings, failure_of, invalid, unsent, work_lost};
use resume::{Missed, Position};
use takeover::{RemoteRun, Replay};

/// Source events after which the decoding of one read pauses, to return them.
const EVENTS_TOGETHER: usize = 128;

/// An AG-UI agent at another address, as an [`Agent`]. Clones share connections.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), aqueduct::Error> {
/// use aqueduct::agui::RemoteAgent;
///
/// let agent = RemoteAgent::new("http://127.0.0.1:8000/agent")?;
/// # drop(agent);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RemoteAgent {
    shared: Arc<Shared>,
}

/// The state that clones of a [`RemoteAgent`] share.
#[derive(Debug)]
struct Shared {
    connection: Connection,
    url: String,
    /// Set if streams that were cut are resumed, where the agent supports it.
    resume: bool,
}

impl RemoteAgent {
    /// Returns the agent whose runs are posted to `url`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RemoteAgent::with_settings`].
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::with_settings(url, &RemoteSettings::default())
    }

    /// Returns the agent whose runs are posted to `url`, with credentials, timeouts, limits and TLS.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Address`] if `url` is not an absolute HTTP address, and [`Error::Client`] if the TLS settings
    /// cannot be used.
    pub fn with_settings(url: impl Into<String>, settings: &RemoteSettings) -> Result<Self, Error> {
        let url = url.into();
        let connection = Connection::new(&url, settings)?;
        Ok(Self { shared: Arc::new(Shared { connection, url, resume: true }) })
    }

    /// Sets whether streams that were cut are resumed, if the agent supports it. The default is `true`.
    pub fn resuming(self, resume: bool) -> Self {
        let Shared { connection, url, .. } = &*self.shared;
        Self { shared: Arc::new(Shared { connection: connection.clone(), url: url.clone(), resume }) }
    }

    /// Returns the results of the last calls to the agent.
    pub fn health(&self) -> AgentHealth {
        self.shared.connection.health()
    }

    /// Posts the input of a run, and returns the input with the undecoded stream of the response, for recorders.
    ///
    /// # Errors
    ///
    /// Returns the failure that a run would have.
    pub async fn open(&self, request: &AgentRequest) -> Result<(RunAgentInput, SseStream), RunFailure> {
        self.shared.open(request).await
    }
}

impl Shared {
    /// Encodes the input of a run, posts it, and returns it with the stream of the response.
    async fn open(&self, request: &AgentRequest) -> Result<(RunAgentInput, SseStream), RunFailure> {
        let forwarded = with_run_token(&request.input.forwarded, request.context.run_token());
        let mut input = RunInput { forwarded, ..(*request.input).clone() };
        if let Some(thread) = request.thread.as_ref().and_then(|thread| thread.downcast_ref::<AguiThread>()) {
            thread.apply(&mut input);
        }
        let input = run_agent_input(&input, Dialect::V1_0);
        let body = serde_json::to_vec(&input)
            .map_err(|error| invalid(format!("the input cannot be written: {error}")))?;
        let headers = [("content-type", "application/json"), ("accept", "text/event-stream")];
        let context = &*request.context;
        let request = self.connection.request("POST", &self.url, &headers, context, body.into());
        let stream = self.connection.client().open_stream(request.map_err(unsent)?).await;
        Ok((input, stream.map_err(|error| failure_of(&error))?))
    }
}

impl Agent for RemoteAgent {
    fn thread_fold(&self) -> Option<Box<dyn ThreadFold>> {
        Some(Box::new(AguiThread::default()))
    }

    fn run(&self, request: AgentRequest) -> SourceStream {
        let cancel = request.cancel.clone();
        let shared = Arc::clone(&self.shared);
        let run = request.input.run_id.detached();
        let reopening =
            shared.can_resume(&run).then(|| shared.reopening(&request, Position::new(run.clone())));
        let keeps_checkpoints = reopening.as_ref().is_some_and(|reopening| reopening.keeps_checkpoints);
        let announced = keeps_checkpoints.then(|| RemoteRun::announced(run).to_checkpoint());
        Box::pin(Turn {
            events: announced.into_iter().flatten().collect(),
            state: State::Opening(Box::pin(async move { shared.open(&request).await })),
            cancelled: Box::pin(async move { cancel.cancelled().await }),
            reopening,
            replay: None,
            is_taken_over: false,
        })
    }

    fn can_resume(&self, checkpoint: &Checkpoint) -> bool {
        RemoteRun::of(checkpoint).is_some_and(|remote| self.shared.can_resume(&remote.run))
    }

    fn can_hand_over(&self, checkpoint: &Checkpoint) -> bool {
        self.can_resume(checkpoint) && RemoteRun::of(checkpoint).is_some_and(|remote| remote.is_known)
    }

    fn resume(&self, request: AgentRequest, takeover: Takeover) -> SourceStream {
        self.shared.take_over(&request, &takeover)
    }
}

/// The state of a thread that the next input to the agent needs: the agent's own ids, and the open interrupts.
#[derive(Debug, Default)]
struct AguiThread {
    ids: IdMap,
    interrupts: OpenInterrupts,
}

impl AguiThread {
    /// Converts a reply to an interrupt from text to `resume`, and replaces emitted ids by those of the agent.
    fn apply(&self, input: &mut RunInput) {
        resume_from_text(input, self.interrupts.open());
        self.ids.apply(input);
    }
}

impl ThreadFold for AguiThread {
    fn handle_event(&mut self, event: &BlockEvent) {
        self.ids.handle_event(event);
        self.interrupts.handle_event(event);
    }

    fn message_ids(&self) -> Vec<String> {
        self.ids.message_ids().map(str::to_owned).collect()
    }

    fn finish(self: Box<Self>) -> Arc<dyn Any + Send + Sync> {
        Arc::new(*self)
    }
}

/// The source events of one run.
struct Turn {
    /// Decoded events that were not returned yet.
    events: VecDeque<SourceEvent>,
    state: State,
    /// Completes when the run is cancelled. Created once, because each such future registers a listener.
    cancelled: BoxFuture<'static, ()>,
    /// The state for resuming, or `None` if a cut ends the run.
    reopening: Option<Reopening>,
    /// Set while the stream of a run that was taken over repeats events that the log holds.
    replay: Option<Replay>,
    /// Set for a run that was taken over, until its first new event.
    is_taken_over: bool,
}

/// What is needed to resume the stream of a run that was cut.
struct Reopening {
    shared: Arc<Shared>,
    context: Arc<dyn CallContext>,
    run: RunId,
    position: Position,
    /// Set if the host stores checkpoints and positions.
    keeps_checkpoints: bool,
    /// Set once the host has received a checkpoint with `known`: the agent has sent an event of the run.
    is_known: bool,
}

impl Reopening {
    /// Returns the events to append after those of one read: the position, and after the first read the checkpoint that the
    /// agent has the run.
    fn after_read(&mut self) -> impl Iterator<Item = SourceEvent> + use<> {
        let position = self.position.last_id().filter(|_| self.keeps_checkpoints).map(ToString::to_string);
        let is_new = position.is_some() && !std::mem::replace(&mut self.is_known, true);
        let known = is_new.then(|| RemoteRun::known(self.run.clone()).to_checkpoint());
        let position = position.map(|id| SourceEvent::Position(Value::from(id)));
        // The driver appends a batch of events at once, and a checkpoint ends the batch: the position comes first, so that it is
        // in the batch of its events.
        position.into_iter().chain(known.into_iter().flatten())
    }
}

/// The connection of a turn.
enum State {
    Opening(BoxFuture<'static, Result<(RunAgentInput, SseStream), RunFailure>>),
    Streaming(Box<(SseStream, Decoder)>),
    /// The stream was cut, and an attempt to resume it is in progress. The decoder keeps its state.
    Reopening(BoxFuture<'static, Result<SseStream, Missed>>, Box<Decoder>),
    /// No more input; queued events are still returned.
    Ended,
}

impl Stream for Turn {
    type Item = SourceEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SourceEvent>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            if matches!(this.state, State::Ended) {
                return Poll::Ready(None);
            }
            if this.cancelled.as_mut().poll(cx).is_ready() {
                this.end([SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None }]);
                continue;
            }
            match &mut this.state {
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok((input, stream)) => {
                        let decoder = Decoder::new().with_input(&input);
                        this.state = State::Streaming(Box::new((stream, decoder)));
                    }
                    Err(failure) => this.end([SourceEvent::Failed(failure)]),
                },
                State::Streaming(streaming) => {
                    let (stream, decoder) = &mut **streaming;
                    let Some(first) = ready!(Pin::new(&mut *stream).poll_next(cx)) else {
                        this.handle_cut(None);
                        continue;
                    };
                    let position = this.reopening.as_mut().map(|reopening| &mut reopening.position);
                    let read = decode(first, stream, decoder, &mut this.events, (position, &mut this.replay));
                    if this.replay.is_none()
                        && let Some(reopening) = &mut this.reopening
                    {
                        this.is_taken_over &= this.events.is_empty();
                        this.events.extend(reopening.after_read());
                    }
                    match read {
                        Ok(Read::More) => {}
                        Ok(Read::Ended) => this.state = State::Ended,
                        Ok(Read::Cut(failure)) => this.handle_cut(failure.map(|failure| *failure)),
                        // The events before a failure are returned before it.
                        Err(failure) => this.end([SourceEvent::Failed(this.final_failure(*failure))]),
                    }
                }
                State::Reopening(reopening, ..) => {
                    let reopened = ready!(reopening.as_mut().poll(cx));
                    this.handle_reopened(reopened);
                }
                State::Ended => {}
            }
        }
    }
}

impl Turn {
    /// Ends the turn with this event, after the queued ones.
    fn end(&mut self, last: [SourceEvent; 1]) {
        self.state = State::Ended;
        self.events.extend(last);
    }

    /// Resumes the stream after the last event, or ends the turn: with the failure of the cut, or without an event.
    fn handle_cut(&mut self, failure: Option<RunFailure>) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let decoder = match state {
            State::Streaming(streaming) => {
                let (stream, decoder) = *streaming;
                if let Some(reopening) = &mut self.reopening
                    && reopening.position.is_empty()
                {
                    reopening.position.set_id(stream.decoder().last_event_id());
                }
                Box::new(decoder)
            }
            State::Reopening(_, decoder) => decoder,
            State::Opening(_) | State::Ended => return,
        };
        let next = self.reopening.as_mut().and_then(|reopening| {
            let attempt = reopening.position.next_attempt()?;
            let (shared, context) = (Arc::clone(&reopening.shared), Arc::clone(&reopening.context));
            Some(Box::pin(shared.reopen(context, reopening.run.clone(), attempt)))
        });
        match next {
            Some(next) => self.state = State::Reopening(next, decoder),
            None => {
                self.events.extend(failure.map(|failure| SourceEvent::Failed(self.final_failure(failure))));
            }
        }
    }

    /// Returns the failure to report. Before the first new event of a takeover, it reports that the run was lost.
    fn final_failure(&self, failure: RunFailure) -> RunFailure {
        if self.is_taken_over { work_lost(&failure) } else { failure }
    }

    /// Continues with a resumed stream, retries, or ends the turn.
    fn handle_reopened(&mut self, reopened: Result<SseStream, Missed>) {
        match reopened {
            Ok(stream) => {
                if let State::Reopening(_, decoder) = std::mem::replace(&mut self.state, State::Ended) {
                    self.state = State::Streaming(Box::new((stream, *decoder)));
                }
            }
            Err(Missed::Passing(failure)) => self.handle_cut(Some(failure)),
            Err(Missed::Final(failure)) => self.end([SourceEvent::Failed(self.final_failure(failure))]),
        }
    }
}

/// The result of decoding one read.
enum Read {
    More,
    /// The run has ended.
    Ended,
    /// The stream was cut: with a failure of the connection, or without one in the middle of an event.
    Cut(Option<Box<RunFailure>>),
}

/// Decodes the events of one read into `events`, and advances the position. While `replay` is set, the decoded events are dropped.
fn decode(
    first: Result<Event, HttpError>,
    stream: &mut SseStream,
    decoder: &mut Decoder,
    events: &mut VecDeque<SourceEvent>,
    (mut position, replay): (Option<&mut Position>, &mut Option<Replay>),
) -> Result<Read, Box<RunFailure>> {
    let mut next = Some(first);
    while let Some(event) = next {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let failure = Box::new(failure_of(&error));
                let is_cut = *failure.code == *RunFailure::UPSTREAM_ENDED;
                return if is_cut { Ok(Read::Cut(Some(failure))) } else { Err(failure) };
            }
        };
        if !event.terminated && position.is_some() {
            // The resumed stream repeats the event completely.
            return Ok(Read::Cut(None));
        }
        let read = decoder.handle_payload(&event.data);
        let from_payload = std::iter::from_fn(|| decoder.poll_event());
        match replay {
            Some(replaying) => {
                from_payload.for_each(drop);
                if replaying.handle_event(&event, decoder.is_ended())? {
                    *replay = None;
                }
            }
            None => events.extend(from_payload),
        }
        match read {
            // The end of the stream cut the payload: the driver of the run reports the cut.
            Err(_) if !event.terminated => return Ok(Read::Cut(None)),
            Err(error) => return Err(Box::new(invalid(error))),
            Ok(()) if decoder.is_ended() => return Ok(Read::Ended),
            Ok(()) => {}
        }
        if let Some(position) = &mut position {
            position.advance(&event);
        }
        next = if events.len() < EVENTS_TOGETHER { stream.ready_event() } else { None };
    }
    Ok(Read::More)
}

/// Adds the run token to the forwarded properties, as `aqueduct.run`. Properties that are neither an object nor null, which no
/// known client sends, are returned unchanged.
fn with_run_token(forwarded: &Value, token: Option<&str>) -> Value {
    let mut properties = forwarded.clone();
    let Some(token) = token.filter(|_| forwarded.is_object() || forwarded.is_null()) else {
        return properties;
    };
    let mut own =
        properties.get("aqueduct").filter(|own| own.is_object()).cloned().unwrap_or_else(|| json!({}));
    set(&mut own, "run", token.into());
    if properties.is_null() {
        properties = json!({});
    }
    set(&mut properties, "aqueduct", own);
    properties
}

/// Sets a member if the value is an object.
fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_token_stands_beside_other_properties() {
        for (given, expected) in [
            (Value::Null, json!({ "aqueduct": { "run": "t" } })),
            (json!({ "a": 1 }), json!({ "a": 1, "aqueduct": { "run": "t" } })),
            (json!({ "aqueduct": { "x": 1 } }), json!({ "aqueduct": { "x": 1, "run": "t" } })),
            (json!("words"), json!("words")),
        ] {
            assert_eq!(with_run_token(&given, Some("t")), expected);
        }
        assert_eq!(with_run_token(&Value::Null, None), Value::Null);
    }
}
