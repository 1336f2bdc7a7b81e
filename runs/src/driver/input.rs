//! The input of a run: the events of its agent, polled in the driver's task, and those of its lanes.
//!
//! A poll collects what is ready, so that a burst costs one append. The agent is polled before the lanes and its events
//! are handled after theirs: a lane event that led to an event of the agent was sent before it, so it is in the channel
//! once the agent's event is seen. A checkpoint ends what is collected: the agent is polled again after the log has it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_core::{SourceEvent, SourceStream};
use futures_util::{Stream, StreamExt as _, stream};

use crate::feed::panicked;
use crate::handle::{LANE_EVENTS, LaneEvents};

/// Events of an agent that are handled together. A higher number gains little and delays the other events.
const EVENTS_TOGETHER: usize = 128;

/// The sources of a run.
pub(crate) struct Input {
    source: SourceStream,
    /// Set once the source has sent a position: its batches end with one, so that the log stores both together.
    is_positioned: bool,
    lanes: Option<LaneEvents>,
}

/// The events of one poll.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) lanes: Vec<SourceEvent>,
    pub(crate) events: Vec<SourceEvent>,
    /// Set if the agent's stream has ended.
    pub(crate) is_end: bool,
    /// Set if more events may be ready.
    pub(crate) is_full: bool,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.events.is_empty() && !self.is_end
    }
}

impl Input {
    /// Creates the input of a run without lanes.
    pub(super) fn new(source: SourceStream) -> Self {
        Self { source, is_positioned: false, lanes: None }
    }

    /// Sets the receiver of lane events; keeps the current one for `None`.
    pub(crate) fn set_lanes(&mut self, lanes: Option<LaneEvents>) {
        self.lanes = lanes.or_else(|| self.lanes.take());
    }

    /// Waits for input, and returns everything that is ready.
    pub(crate) async fn next(&mut self) -> Batch {
        std::future::poll_fn(|cx| self.poll_batch(cx)).await
    }

    /// Polls the agent before the lanes; see the module docs for the order.
    pub(super) fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Batch> {
        let mut batch = Batch::default();
        let (source, is_positioned) = (self.source.as_mut(), &mut self.is_positioned);
        let polled = catch_unwind(AssertUnwindSafe(|| poll_source(source, cx, &mut batch, is_positioned)));
        if polled.is_err() {
            self.source = Box::pin(stream::empty());
            batch.events.push(panicked());
        }
        if let Poll::Ready(lanes) = self.poll_lanes(cx) {
            batch.lanes = lanes;
        }
        if batch.is_empty() { Poll::Pending } else { Poll::Ready(batch) }
    }

    /// Waits for lane events and returns them.
    pub(super) async fn next_lanes(&mut self) -> Vec<SourceEvent> {
        std::future::poll_fn(|cx| self.poll_lanes(cx)).await
    }

    /// Returns the lane events that are ready.
    pub(super) fn ready_lanes(&mut self) -> Vec<SourceEvent> {
        let ready = self.lanes.iter_mut().flat_map(|lanes| std::iter::from_fn(|| lanes.try_recv().ok()));
        ready.take(LANE_EVENTS).map(|event| *event).collect()
    }

    /// Polls the receiver of lane events for at most [`LANE_EVENTS`] events.
    fn poll_lanes(&mut self, cx: &mut Context<'_>) -> Poll<Vec<SourceEvent>> {
        let Some(lanes) = &mut self.lanes else { return Poll::Pending };
        let mut events = Vec::new();
        while events.len() < LANE_EVENTS {
            match lanes.poll_recv(cx) {
                Poll::Ready(Some(event)) => events.push(*event),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if events.is_empty() { Poll::Pending } else { Poll::Ready(events) }
    }

    /// Polls the agent's stream to its end and drops the events, which belong to no run.
    pub(super) async fn finish(mut self) {
        while self.source.next().await.is_some() {}
    }
}

/// Collects the ready events of the agent.
fn poll_source(
    mut source: Pin<&mut (dyn Stream<Item = SourceEvent> + Send)>,
    cx: &mut Context<'_>,
    batch: &mut Batch,
    is_positioned: &mut bool,
) {
    while batch.events.len() < EVENTS_TOGETHER || *is_positioned {
        match source.as_mut().poll_next(cx) {
            Poll::Ready(Some(event)) => {
                // The agent is polled again once the log holds the checkpoint: its next effect could not be recovered
                // without it.
                let is_checkpoint = matches!(event, SourceEvent::Checkpoint(_));
                let is_position = matches!(event, SourceEvent::Position(_));
                batch.events.push(event);
                *is_positioned |= is_position;
                if is_checkpoint {
                    return;
                }
                if is_position && batch.events.len() >= EVENTS_TOGETHER {
                    break;
                }
            }
            Poll::Ready(None) => {
                batch.is_end = true;
                return;
            }
            Poll::Pending => return,
        }
    }
    batch.is_full = true;
}
