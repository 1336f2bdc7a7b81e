//! Pumps one stream of events against one call: [`EventPump`].
//!
//! ```text
//!  EventStream ──all that is ready──► EventWriter ──one message──► (asked for by HTTP/2 when the peer has room)
//! ```
//!
//! Invariants:
//!
//! * pulled, never pushed: nothing is read from the service before the peer has room, so a slow reader holds one message
//!   and what HTTP/2 has taken, whatever the service could say;
//! * the first message goes out at once and names the run, so that even an empty stream can be resumed;
//! * the stream ends with `OK` after a terminal event and after nothing else;
//! * dropping the pump drops the service's stream: a client that goes away is known to the service at once.
//!
//! A reader that takes nothing cannot be noticed here, because then nobody polls: see [`stall`](crate::stall).

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

/// What all pumps of a set of services share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) statuses: Statuses,
    pub(crate) counters: Counters,
}

impl Shared {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limits: config.limits.clone(),
            timeouts: config.timeouts.clone(),
            statuses: Statuses { retry_after: config.timeouts.retry_after },
            counters: Counters::default(),
        }
    }

    /// Counts a message and the events in it.
    pub(crate) fn count_message(&self, events: usize) {
        self.counters.add(Total::Events, events);
        self.counters.count(Total::MessagesOut);
    }
}

/// The messages of one stream.
pub(crate) struct EventPump {
    events: EventStream,
    writer: EventWriter,
    shared: Arc<Shared>,
    last: u64,
    /// The reader comes back, and the events were not asked for yet: if they are over at once, it has the terminal event
    /// already.
    is_after_end: bool,
    /// More waits for the reader than the last message could hold.
    is_behind: bool,
    state: State,
    bounds: Bounds,
    heartbeat_at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    server_end: ServerEnd,
    _open: OpenGuard,
}

#[derive(Debug)]
enum State {
    /// Nothing was sent yet.
    Fresh,
    /// Events may follow.
    Running,
    /// Only what is gathered follows, then the failure, if there is one.
    Ending(Option<Box<Status>>),
}

impl EventPump {
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

    /// Moves what is ready into the message, up to its limits.
    fn gather(&mut self, cx: &mut Context<'_>) {
        let merge_bytes = if self.is_behind { self.shared.limits.merge_bytes } else { 0 };
        let mut waiting = Coalescer::default();
        while self.may_follow() && !self.is_full(waiting.waiting_bytes()) {
            let is_after_end = std::mem::replace(&mut self.is_after_end, false);
            match self.events.as_mut().poll_next(cx) {
                Poll::Pending => break,
                // The first message names the run, also in a stream that is over.
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

    /// True while the service's stream is of interest.
    fn may_follow(&self) -> bool {
        matches!(self.state, State::Fresh | State::Running)
    }

    fn is_full(&self, waiting_bytes: usize) -> bool {
        let limits = &self.shared.limits;
        self.writer.waiting() >= limits.events_per_message
            || self.writer.waiting_bytes() + waiting_bytes >= limits.message_bytes
    }

    fn push_all(&mut self, waiting: &mut Coalescer) {
        let Some(gathered) = waiting.take() else { return };
        if let Some(merged) = gathered.merged() {
            return self.push(&merged);
        }
        gathered.parts().for_each(|event| self.push(event));
    }

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

    /// Nothing follows what is gathered. The service's stream goes now, not when the peer has read the rest.
    fn end(&mut self, how: Result<(), Status>) {
        self.state = State::Ending(how.err().map(Box::new));
        self.events = Box::pin(futures_util::stream::empty());
    }

    /// The next message, if there is something to say.
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
        self.rest();
        Some(self.writer.take())
    }

    /// Starts the time until the next heartbeat.
    fn rest(&mut self) {
        self.heartbeat_at = self.shared.timeouts.heartbeat.map(|pause| Instant::now() + pause);
    }

    /// What time brings: an end, a heartbeat, or nothing yet.
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
        self.rest();
        Poll::Ready(Ok(StreamMessage::default()))
    }

    fn is_past_deadline(&self) -> bool {
        self.bounds.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

impl Stream for EventPump {
    type Item = Result<StreamMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.may_follow() {
            // First, because a source that is never done would never let time have its turn.
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
        let timely = ready!(this.poll_time(cx));
        if timely.is_err() {
            this.end(Ok(()));
        }
        Poll::Ready(Some(timely))
    }
}

impl Stallable for EventPump {
    fn stalled(&self) -> Status {
        self.shared.counters.count(Total::WriteStalls);
        self.shared.statuses.stalled(Some(self.last))
    }
}
