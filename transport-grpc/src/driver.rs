//! [`EventPump`]: sends the events of one run as the messages of one call.
//!
//! ```text
//!  EventStream ──all ready events──► EventWriter ──one message──► HTTP/2, which polls when the client's window has room
//! ```
//!
//! Invariants:
//!
//! * events are pulled: none is read from the service before the client's window has room, so a slow client costs one message
//!   and the buffers of HTTP/2, however fast the service is;
//! * the first message is sent at once and contains the run id, so that even an empty stream can be resumed;
//! * the stream ends with `OK` only after the terminal event, sent in this stream or before the client resumed;
//! * dropping the pump drops the service's stream, so the service notices a disconnected client at once.
//!
//! A stalled client cannot be detected here, because HTTP/2 does not poll the pump: see [`stall`](crate::stall).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aqueduct_core::service::{EventStream, NumberedEvent};
use aqueduct_core::{Coalescer, RunId};
use aqueduct_transport_http::{Counters, Gauge, OpenGuard, Total};
use futures_core::Stream;
use tokio::time::{Instant, Sleep};
use tonic::Status;

use crate::call::{Bounds, ServerEnd};
use crate::config::{Config, Limits, Timeouts};
use crate::convert::EventWriter;
use crate::proto::StreamMessage;
use crate::stall::Stallable;
use crate::status::Statuses;

/// The state that all calls of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) statuses: Statuses,
    pub(crate) counters: Counters,
}

impl Shared {
    /// Returns the state for a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limits: config.limits.clone(),
            timeouts: config.timeouts.clone(),
            statuses: Statuses { retry_after: config.timeouts.retry_after },
            counters: Counters::default(),
        }
    }

    /// Counts a sent message and its events.
    pub(crate) fn count_message(&self, events: usize) {
        self.counters.add(Total::Events, events);
        self.counters.count(Total::MessagesOut);
    }
}

/// The stream of messages of one call.
pub(crate) struct EventPump {
    events: EventStream,
    writer: EventWriter,
    shared: Arc<Shared>,
    /// The number of the last event that was written, or after which the client resumed.
    last: u64,
    /// Set for a client that resumes, until the first poll of the events: if they end at once, the client already has the
    /// terminal event.
    is_after_end: bool,
    /// Set if the last message was full, so that more events may wait.
    is_behind: bool,
    state: State,
    bounds: Bounds,
    /// When an empty message is sent, if no event is before.
    heartbeat_at: Option<Instant>,
    /// The timer of the deadline and the heartbeat.
    timer: Option<Pin<Box<Sleep>>>,
    server_end: ServerEnd,
    _open: OpenGuard,
}

/// The state of a pump.
#[derive(Debug)]
enum State {
    /// No message was sent yet.
    Fresh,
    /// Events may follow.
    Running,
    /// Only the collected events follow, then the status, if the stream failed.
    Ending(Option<Box<Status>>),
}

impl EventPump {
    /// Returns the messages of a run whose `events` start after the number `after`. The stream ends with the run, at the
    /// client's deadline, or when the server stops.
    pub(crate) fn new(
        run: &RunId,
        after: u64,
        events: EventStream,
        bounds: Bounds,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            events,
            writer: EventWriter::new(run),
            last: after,
            is_after_end: after > 0,
            is_behind: false,
            state: State::Fresh,
            server_end: bounds.server_end(),
            bounds,
            heartbeat_at: None,
            timer: None,
            _open: shared.counters.open(Gauge::Streams),
            shared,
        }
    }

    /// Adds ready events to the next message, up to its limits.
    fn gather(&mut self, cx: &mut Context<'_>) {
        let merge_bytes = if self.is_behind { self.shared.limits.merge_bytes } else { 0 };
        let mut waiting = Coalescer::default();
        while self.may_follow() && !self.is_full(waiting.waiting_bytes()) {
            let is_after_end = std::mem::replace(&mut self.is_after_end, false);
            match self.events.as_mut().poll_next(cx) {
                Poll::Pending => break,
                // The first message contains the run id and must be sent before the end, even if there are no events.
                Poll::Ready(None) if is_after_end && matches!(self.state, State::Fresh) => {
                    self.is_after_end = true;
                    self.events = Box::pin(futures_util::stream::empty());
                    break;
                }
                Poll::Ready(None) if is_after_end => self.end(Ok(())),
                Poll::Ready(None) => {
                    self.push_all(&mut waiting);
                    self.end(Err(self.shared.statuses.lost(self.last)));
                }
                Poll::Ready(Some(event)) => {
                    let is_terminal = event.event.is_terminal();
                    if let Some(event) = waiting.handle_event(event, merge_bytes) {
                        self.push_all(&mut waiting);
                        waiting.handle_event(event, merge_bytes);
                    }
                    if is_terminal {
                        break;
                    }
                }
            }
        }
        self.push_all(&mut waiting);
        self.is_behind = self.is_full(0);
    }

    /// Returns `true` until the stream ends.
    fn may_follow(&self) -> bool {
        matches!(self.state, State::Fresh | State::Running)
    }

    /// Returns `true` if the next message has reached a limit, with `waiting_bytes` of text that is not written yet.
    fn is_full(&self, waiting_bytes: usize) -> bool {
        let limits = &self.shared.limits;
        self.writer.waiting() >= limits.events_per_message
            || self.writer.waiting_bytes() + waiting_bytes >= limits.message_bytes
    }

    /// Encodes the coalesced events: as one event if they are several deltas.
    fn push_all(&mut self, waiting: &mut Coalescer) {
        let Some(gathered) = waiting.take() else { return };
        if let Some(merged) = gathered.merged() {
            return self.push(&merged);
        }
        gathered.parts().for_each(|event| self.push(event));
    }

    /// Encodes one event. An event that the protocol cannot express ends the stream with a status that names its number.
    fn push(&mut self, event: &NumberedEvent) {
        if !self.may_follow() {
            return;
        }
        if let Err(error) = self.writer.push(event) {
            return self.end(Err(self.shared.statuses.unconvertible(event.number, &error)));
        }
        self.last = event.number;
        if event.event.is_terminal() {
            self.end(Ok(()));
        }
    }

    /// Ends the stream after the collected events. The service's stream is dropped at once, not when the client has read the
    /// rest.
    fn end(&mut self, how: Result<(), Status>) {
        self.state = State::Ending(how.err().map(Box::new));
        self.events = Box::pin(futures_util::stream::empty());
    }

    /// Returns the next message. Returns `None` if it has no events, unless it is the first one.
    fn message(&mut self) -> Option<StreamMessage> {
        let events = self.writer.waiting();
        let is_fresh = matches!(self.state, State::Fresh);
        if events == 0 && !is_fresh {
            return None;
        }
        if is_fresh {
            self.state = State::Running;
        }
        self.shared.count_message(events);
        self.restart_heartbeat();
        Some(self.writer.take())
    }

    /// Restarts the time until the next heartbeat.
    fn restart_heartbeat(&mut self) {
        self.heartbeat_at = self.shared.timeouts.heartbeat.map(|pause| Instant::now() + pause);
    }

    /// Waits for the stop of the server, the deadline (both return a status) or the next heartbeat (an empty message).
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Result<StreamMessage, Status>> {
        if self.server_end.poll(cx).is_ready() {
            return Poll::Ready(Err(self.shared.statuses.stopping(Some(self.last))));
        }
        let Some(next) = self.bounds.deadline.into_iter().chain(self.heartbeat_at).min() else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
        if timer.deadline() != next {
            timer.as_mut().reset(next);
        }
        ready!(timer.as_mut().poll(cx));
        if self.is_past_deadline() {
            return Poll::Ready(Err(self.shared.statuses.deadline()));
        }
        self.restart_heartbeat();
        Poll::Ready(Ok(StreamMessage::default()))
    }

    /// Returns `true` once the deadline of the client has passed.
    fn is_past_deadline(&self) -> bool {
        self.bounds.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

impl Stream for EventPump {
    type Item = Result<StreamMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.may_follow() {
            // Checked before the events, because the timers are not polled while events are ready.
            if this.is_past_deadline() {
                this.end(Err(this.shared.statuses.deadline()));
            } else if this.bounds.closing.is_cancelled() {
                this.end(Err(this.shared.statuses.stopping(Some(this.last))));
            }
        }
        this.gather(cx);
        if let Some(message) = this.message() {
            return Poll::Ready(Some(Ok(message)));
        }
        if let State::Ending(failure) = &mut this.state {
            return Poll::Ready(failure.take().map(|status| Err(*status)));
        }
        let message = ready!(this.poll_time(cx));
        if message.is_err() {
            this.end(Ok(()));
        }
        Poll::Ready(Some(message))
    }
}

impl Stallable for EventPump {
    fn stalled(&self) -> Status {
        self.shared.counters.count(Total::WriteStalls);
        self.shared.statuses.stalled(Some(self.last))
    }
}
