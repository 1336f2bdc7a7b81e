//! [`PublisherIngest`]: the connection of one publisher to its run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aqueduct_core::service::{BoxFuture, Ingest, RefusalKind, ServiceError, ServiceFuture};
use aqueduct_core::{ByteString, InterruptId, InterruptReply, RunId};
use bytes::Bytes;

use super::Published;
use super::adopt::position;
use crate::runs::Runs;

/// One publisher of a run.
pub(super) struct PublisherIngest {
    runs: Runs,
    published: Arc<Published>,
    /// The number of this connection among those of the publication.
    connection: u64,
    acknowledged: u64,
    finished: bool,
    /// Replies that this publisher has received.
    given: Vec<InterruptId>,
}

impl PublisherIngest {
    /// Registers one more publisher of the run.
    pub(super) async fn new(runs: Runs, published: Arc<Published>) -> Self {
        let connection = published.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let acknowledged = published.state.lock().await.acknowledged;
        Self { runs, published, connection, acknowledged, finished: false, given: Vec::new() }
    }

    /// Decodes a payload in order and sends its events to the run.
    async fn take(&mut self, number: u64, payload: Bytes) -> Result<u64, ServiceError> {
        let mut state = self.published.state.lock().await;
        let expected = state.acknowledged + 1;
        if number > expected {
            let message = format!("payload {number} came before payload {expected}: send them in order");
            return Err(ServiceError::new(RefusalKind::Conflict, message));
        }
        if number == expected {
            let invalid = |message: String| ServiceError::new(RefusalKind::Invalid, message);
            let line = ByteString::try_from(payload)
                .map_err(|_| invalid("a payload is not UTF-8: encode it as UTF-8".to_owned()))?;
            state.decoder.handle_line(&line).map_err(invalid)?;
            state.acknowledged = number;
            state.position = self.published.format.as_ref().map(|_| position(number, Some(&line)));
            self.published.note_taken(&*state.decoder, &line);
        }
        state.drain(&self.runs, &self.published).await?;
        self.acknowledged = state.acknowledged;
        Ok(self.acknowledged)
    }

    /// Returns the next reply that this publisher has not received. Cancel safe: state changes only when a reply is returned.
    async fn next_reply(&mut self) -> InterruptReply {
        let Self { published, given, .. } = self;
        let mut replies = published.replies.subscribe();
        loop {
            let next = replies.borrow_and_update().iter().find(|reply| !given.contains(&reply.id)).cloned();
            if let Some(reply) = next {
                given.push(reply.id.clone());
                return reply;
            }
            if replies.changed().await.is_err() {
                // Unreachable while `published` is held here, because it owns the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ends the publication: the decoder handles its end, and the run receives the last events.
    async fn end(&mut self) -> Result<(), ServiceError> {
        let mut state = self.published.state.lock().await;
        let read = state.decoder.handle_eof();
        let acknowledged = state.acknowledged;
        state.position = self.published.format.as_ref().map(|_| position(acknowledged, None));
        state.drain(&self.runs, &self.published).await?;
        state.out = None;
        state.mailbox = None;
        self.finished = true;
        self.runs.published().remove(&self.published.key);
        read.map_err(|message| ServiceError::new(RefusalKind::Invalid, message))
    }
}

impl Ingest for PublisherIngest {
    fn run_id(&self) -> &RunId {
        &self.published.run_id
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn accept(&mut self, number: u64, payload: Bytes) -> ServiceFuture<'_, u64> {
        Box::pin(self.take(number, payload))
    }

    fn reply(&mut self) -> BoxFuture<'_, InterruptReply> {
        Box::pin(self.next_reply())
    }

    fn finish(&mut self) -> ServiceFuture<'_, ()> {
        Box::pin(self.end())
    }
}

impl Drop for PublisherIngest {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (runs, published) = (self.runs.clone(), Arc::clone(&self.published));
        let connection = self.connection;
        // Without a runtime the process is ending.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(published.agent.options().grace).await;
            if published.connections.load(Ordering::Relaxed) == connection {
                let mut state = published.state.lock().await;
                state.out = None;
                state.mailbox = None;
                runs.published().remove(&published.key);
            }
        });
    }
}
