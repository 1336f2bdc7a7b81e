//! Outcomes of requests: replies, subscriptions and acknowledgements.
//!
//! ```text
//! request ──► future in `work` ──► Outcome ──► reply, subscription, or the next step of a publisher
//!                                               └ a publisher is a chain of futures: each step queues the next
//! ```
//!
//! Invariant: every request that was accepted leads to exactly one reply, in the order in which the service answers. Acknowledgements that wait
//! for a slow client are merged, so the queue of replies does not grow with payloads.

use std::sync::Arc;

use aqueduct_core::protocol::Encoding;
use aqueduct_core::service::{EventEncoder, EventStream};
use aqueduct_transport_http::Gauge;

use super::{MuxSession, Outcome};
use crate::driver::envelope::Envelope;
use crate::driver::publisher::{Feeder, Step};
use crate::driver::subscriptions::Subscription;
use crate::message::Reply;

impl MuxSession {
    /// Handles the result of a request that was served in the background.
    pub(super) fn handle_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered(reply) => self.replies.push_back(reply),
            Outcome::Authenticated(caller) => {
                self.caller = Arc::new(*caller);
                self.is_checking = false;
            }
            Outcome::NotOpened(reply) => {
                self.opening -= 1;
                self.replies.push_back(reply);
            }
            Outcome::Opened { reference, run, events, encoder, after } => {
                self.opening -= 1;
                self.follow(reference, run, events, encoder, after);
            }
            Outcome::Publishing { reference, feeder } => {
                let limits = &self.shared.config.limits;
                self.replies.push_back(Reply::Publishing {
                    reference: reference.clone(),
                    run: feeder.ingest.run_id().as_str().to_owned(),
                    acknowledged: feeder.ingest.acknowledged(),
                    window: limits.window_payloads,
                    window_bytes: limits.window_bytes,
                });
                self.feed(reference, feeder);
            }
            Outcome::NotPublishing { reference, error } => {
                self.publishers.remove(&reference);
                self.replies.push_back(Reply::refusal(Some(reference), None, error));
            }
            Outcome::Stepped { reference, step, feeder } => self.handle_step(reference, step, feeder),
        }
    }

    /// Adds a subscription, unless the run cannot be watched on this connection.
    ///
    /// The reply is queued before the subscription is added: it precedes the first event.
    fn follow(
        &mut self,
        reference: String,
        run: String,
        events: EventStream,
        encoder: Box<dyn EventEncoder>,
        after: Option<u64>,
    ) {
        // The service may have chosen another id than the input's, and two requests may have raced.
        if let Some(refused) =
            self.subscriptions.contains(&run).then(|| self.refuse_run(&reference, &run)).flatten()
        {
            return self.replies.push_back(refused);
        }
        let is_binary = self.encoding == Encoding::Binary;
        let envelope = if is_binary { Envelope::Binary(run.clone()) } else { Envelope::json(&run) };
        let (named, of) = (reference.clone(), run.clone());
        self.replies.push_back(if after.is_none() {
            Reply::Started { reference: named, run: of }
        } else {
            Reply::Watching { reference: named, run: of }
        });
        let open = self.shared.counters.open(Gauge::Streams);
        let after = after.unwrap_or(0);
        self.subscriptions.add(Subscription {
            reference,
            run,
            envelope,
            events,
            after,
            encoder,
            _open: open,
        });
    }

    /// Queues the next step of a publisher as work.
    fn feed(&mut self, reference: String, feeder: Feeder) {
        self.work.push(Box::pin(async move {
            let (step, feeder) = feeder.step().await;
            Outcome::Stepped { reference, step, feeder }
        }));
    }

    /// Handles the outcome of a publisher's step.
    fn handle_step(&mut self, reference: String, step: Step, feeder: Feeder) {
        match step {
            Step::Acknowledged(number) => {
                if let Some(publisher) = self.publishers.get_mut(&reference) {
                    publisher.handle_acknowledged(number);
                }
                self.acknowledge(&reference, number);
                self.feed(reference, feeder);
            }
            Step::Replied(reply) => {
                self.replies.push_back(Reply::Interrupt { reference: reference.clone(), reply });
                self.feed(reference, feeder);
            }
            Step::Finished => {
                self.publishers.remove(&reference);
                self.replies.push_back(Reply::Finished { reference });
            }
            Step::Abandoned => {
                drop(feeder);
                self.publishers.remove(&reference);
                self.replies.push_back(Reply::Abandoned { reference });
            }
            Step::Failed(error) => {
                self.publishers.remove(&reference);
                let run = feeder.ingest.run_id().as_str().to_owned();
                self.replies.push_back(Reply::refusal(Some(reference), Some(run), error));
            }
        }
    }

    /// Queues an acknowledgement. It replaces one that still waits, because the higher number includes it.
    fn acknowledge(&mut self, reference: &str, number: u64) {
        match self.replies.back_mut() {
            Some(Reply::Ack { reference: waiting, number: old }) if waiting == reference => *old = number,
            _ => self.replies.push_back(Reply::Ack { reference: reference.to_owned(), number }),
        }
    }
}
