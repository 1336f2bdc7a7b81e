//! The runs that a connection watches: polled in turn when they are ready, and never while the socket is full.
//!
//! Events stay with the service until the socket can accept them, so a stalled reader holds one batch and blocks no other.
//! Each run may add a share of events to a batch before the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use aqueduct_core::Coalescer;
use aqueduct_core::service::{EventEncoder, EventStream, NumberedEvent};
use aqueduct_transport_http::OpenGuard;
use futures_util::task::AtomicWaker;

use super::batch::Batch;
use super::envelope::{Envelope, EventWriter};
use crate::config::Limits;

/// One watched run.
pub(crate) struct Subscription {
    /// The client's reference.
    pub(crate) reference: String,
    /// The id of the run.
    pub(crate) run: String,
    /// The addressing of its events.
    pub(crate) envelope: Envelope,
    /// The events of the run.
    pub(crate) events: EventStream,
    /// The number after which they start.
    pub(crate) after: u64,
    /// The encoder of the events.
    pub(crate) encoder: Box<dyn EventEncoder>,
    /// Counts the stream as open.
    pub(crate) _open: OpenGuard,
}

/// The end of a subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) reference: String,
    pub(crate) run: String,
    /// The number of its last event.
    pub(crate) number: u64,
    /// `false` if the service lost the run. A watcher that had already received the last event gets a stream that ends at once.
    pub(crate) complete: bool,
}

/// All watched runs of a connection.
#[derive(Default)]
pub(crate) struct Subscriptions {
    followed: Vec<Followed>,
    /// The index of the next run to poll.
    turn: usize,
    /// Set if more events wait for the reader than the last batch could hold.
    is_behind: bool,
    connection: Arc<AtomicWaker>,
}

/// A subscription with its readiness.
struct Followed {
    subscription: Subscription,
    number: u64,
    /// Set until its events were first polled.
    is_fresh: bool,
    signal: Arc<Signal>,
    waker: Waker,
}

/// Set when a run may be ready; wakes the connection.
struct Signal {
    is_set: AtomicBool,
    connection: Arc<AtomicWaker>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.connection.wake();
    }
}

/// The outcome of polling a run.
enum Turn {
    /// The run is pending.
    Idle,
    /// The run used up its share.
    More,
    /// The run has ended.
    Ended { complete: bool },
}

impl Subscriptions {
    /// Returns the number of watched runs.
    pub(crate) fn len(&self) -> usize {
        self.followed.len()
    }

    /// Returns `true` if the run is watched on this connection.
    pub(crate) fn contains(&self, run: &str) -> bool {
        self.followed.iter().any(|followed| followed.subscription.run == run)
    }

    /// Adds a run. Its stream wakes only itself: the driver polls the runs that were woken.
    pub(crate) fn add(&mut self, subscription: Subscription) {
        let signal =
            Arc::new(Signal { is_set: AtomicBool::new(true), connection: Arc::clone(&self.connection) });
        let waker = Waker::from(Arc::clone(&signal));
        let number = subscription.after;
        // There are many connections, and most watch one run: no spare capacity.
        self.followed.reserve_exact(1);
        self.followed.push(Followed { subscription, number, is_fresh: true, signal, waker });
    }

    /// Stops watching a run. Returns `false` if it was not watched.
    pub(crate) fn remove(&mut self, run: &str) -> bool {
        let before = self.followed.len();
        self.followed.retain(|followed| followed.subscription.run != run);
        before != self.followed.len()
    }

    /// Appends events of the runs to `batch`, until it is full or all runs are pending. Calls `ended` at the end of a run, so that
    /// its message follows the run's last event.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &Context<'_>,
        limits: &Limits,
        batch: &mut Batch,
        mut ended: impl FnMut(&mut Batch, Ending),
    ) {
        self.connection.register(cx.waker());
        let merge_bytes = if self.is_behind { limits.merge_bytes } else { 0 };
        self.fill(cx, limits, merge_bytes, batch, &mut ended);
        self.is_behind = batch.len() >= limits.batch_bytes;
    }

    /// Polls ready runs in turn until the batch is full.
    fn fill(
        &mut self,
        cx: &Context<'_>,
        limits: &Limits,
        merge_bytes: usize,
        batch: &mut Batch,
        ended: &mut impl FnMut(&mut Batch, Ending),
    ) {
        let mut idle_in_a_row = 0;
        let mut turns = 0;
        while idle_in_a_row < self.followed.len() && batch.len() < limits.batch_bytes {
            turns += 1;
            if turns > MOST_TURNS {
                return cx.waker().wake_by_ref();
            }
            if self.turn >= self.followed.len() {
                self.turn = 0;
            }
            let Some(followed) = self.followed.get_mut(self.turn) else { return };
            match followed.poll_turn(limits, merge_bytes, batch) {
                Turn::Idle => idle_in_a_row += 1,
                Turn::More => idle_in_a_row = 0,
                Turn::Ended { complete } => {
                    let Followed { subscription, number, .. } = self.followed.remove(self.turn);
                    let Subscription { reference, run, .. } = subscription;
                    ended(batch, Ending { reference, run, number, complete });
                    continue;
                }
            }
            self.turn += 1;
        }
    }
}

/// The most polls before the connection checks its socket again: events without payloads never fill a batch.
const MOST_TURNS: usize = 1024;

impl Followed {
    /// Polls one run for its share of events, and writes them.
    fn poll_turn(&mut self, limits: &Limits, merge_bytes: usize, batch: &mut Batch) -> Turn {
        if !self.signal.is_set.swap(false, Ordering::AcqRel) {
            return Turn::Idle;
        }
        let mut waiting = Coalescer::default();
        let turn = self.gather(limits, merge_bytes, &mut waiting, batch);
        self.subscription.write(&mut waiting, batch);
        if matches!(turn, Turn::More) {
            self.signal.is_set.store(true, Ordering::Release);
        }
        turn
    }

    /// Takes the share of one run's events; unwritten ones stay in `waiting`.
    fn gather(
        &mut self,
        limits: &Limits,
        merge_bytes: usize,
        waiting: &mut Coalescer,
        batch: &mut Batch,
    ) -> Turn {
        let mut cx = Context::from_waker(&self.waker);
        for _ in 0..limits.fair_share {
            if batch.len() + waiting.waiting_bytes() >= limits.batch_bytes {
                break;
            }
            let is_fresh = std::mem::replace(&mut self.is_fresh, false);
            let numbered = match self.subscription.events.as_mut().poll_next(&mut cx) {
                Poll::Pending => return Turn::Idle,
                Poll::Ready(None) => {
                    return Turn::Ended { complete: is_fresh && self.subscription.after > 0 };
                }
                Poll::Ready(Some(numbered)) => numbered,
            };
            self.number = numbered.number;
            let is_terminal = numbered.event.is_terminal();
            if let Some(numbered) = waiting.handle_event(numbered, merge_bytes) {
                self.subscription.write(waiting, batch);
                waiting.handle_event(numbered, merge_bytes);
            }
            if is_terminal {
                return Turn::Ended { complete: true };
            }
        }
        Turn::More
    }
}

impl Subscription {
    /// Writes the coalesced events: merged if the encoder allows it and writes one payload for them, otherwise one by one.
    fn write(&mut self, waiting: &mut Coalescer, batch: &mut Batch) {
        let Some(gathered) = waiting.take() else { return };
        if let Some(merged) = gathered.merged().filter(|merged| self.encoder.can_merge(&merged.event)) {
            let messages = batch.messages();
            self.encode(&merged, batch);
            if batch.messages() <= messages + 1 {
                return;
            }
            // A merged event with several payloads could not be resumed in the middle: the run has no such event.
            batch.truncate(messages);
        }
        for event in gathered.parts() {
            self.encode(event, batch);
        }
    }

    /// Encodes one event as one or more messages.
    fn encode(&mut self, numbered: &NumberedEvent, batch: &mut Batch) {
        let mut writer = EventWriter::new(batch, &self.envelope, numbered.number, self.encoder.is_binary());
        self.encoder.encode(&numbered.event, &mut writer);
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_core::service::PayloadSink;
    use aqueduct_core::testing::run_to_end;
    use aqueduct_core::{BlockEvent, SourceEvent, Update};
    use aqueduct_transport_http::{Counters, Gauge};

    use super::*;

    /// Holds texts until ten are there, then writes each as one payload, and later ones as they come.
    #[derive(Default)]
    struct HoldingEncoder {
        held: Vec<String>,
        is_open: bool,
    }

    impl EventEncoder for HoldingEncoder {
        fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
            let BlockEvent::BlockDelta { delta, .. } = event else { return };
            self.held.push(delta.to_string());
            self.is_open |= self.held.concat().len() >= 10;
            if self.is_open {
                self.held.drain(..).for_each(|text| sink.push(&mut |out| out.extend(text.as_bytes())));
            }
        }

        fn media_type(&self) -> &'static str {
            "application/json"
        }

        fn is_binary(&self) -> bool {
            false
        }

        fn has_state(&self) -> bool {
            true
        }
    }

    /// The second encoding of a delta would lack what the first one released.
    #[test]
    fn an_encoder_with_state_encodes_every_delta_once() {
        let texts = ('a'..='z').map(|letter| SourceEvent::from(Update::text(letter.to_string())));
        let events = (1..).zip(run_to_end(texts));
        let events: Vec<_> = events.map(|(number, event)| NumberedEvent { number, event }).collect();
        let mut subscriptions = Subscriptions { is_behind: true, ..Subscriptions::default() };
        subscriptions.add(Subscription {
            reference: String::new(),
            run: String::new(),
            envelope: Envelope::Plain,
            events: Box::pin(futures_util::stream::iter(events)),
            after: 0,
            encoder: Box::new(HoldingEncoder::default()),
            _open: Counters::default().open(Gauge::Streams),
        });
        let limits = Limits { merge_bytes: 4, ..Limits::default() };
        let (mut batch, cx) = (Batch::default(), Context::from_waker(Waker::noop()));
        subscriptions.poll_fill(&cx, &limits, &mut batch, |_, _| {});
        assert_eq!(String::from_utf8_lossy(batch.bytes()), ('a'..='z').collect::<String>());
        assert_eq!(batch.messages(), 26, "one message per delta");
    }
}
