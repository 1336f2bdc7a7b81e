//! Runs that somebody else feeds. One format is taken, `text`: each payload is a JSON string, a piece of the answer.
//!
//! Invariant: a payload is acknowledged once its events are in the log, and a number that was acknowledged is not taken
//! twice, so a publisher that comes back after a cut neither loses nor repeats.

use std::sync::Arc;

use aqueduct_core::service::{BoxFuture, Ingest, PublishRequest, RefusalKind, ServiceError};
use aqueduct_core::{
    ByteString, InterruptReply, RunId, RunInfo, RunOutcome, SourceEvent, StreamContext, ThreadId, Update,
};
use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{LoggedAgents, Run, locked, refused};

/// The one format.
const FORMAT: &str = "text";

/// A run that somebody feeds.
#[derive(Debug)]
pub(crate) struct Feed {
    run: Run,
    acknowledged: u64,
}

/// Opens a run, or continues one whose publisher has gone.
pub(crate) async fn open(
    service: &LoggedAgents,
    request: PublishRequest,
) -> Result<Box<dyn Ingest>, ServiceError> {
    if request.format != FORMAT {
        return Err(ServiceError::new(RefusalKind::Unsupported, "only the format `text` is taken here"));
    }
    let chosen = || RunId::from(format!("published-{}", locked(&service.fed).len() + 1));
    let id = request.run_id.unwrap_or_else(chosen);
    let known = locked(&service.fed).get(&id).cloned();
    let feed = if let Some(feed) = known {
        feed
    } else {
        let thread = ThreadId::new(request.thread_id.unwrap_or_else(|| ByteString::from("published")));
        let lease = service.open(&request.agent, &thread, &id).await?;
        let context = StreamContext::new(RunInfo::new(thread.as_str(), id.as_str()));
        let run = Run { log: Arc::clone(&service.log), lease, context };
        let feed = Arc::new(Mutex::new(Feed { run, acknowledged: 0 }));
        locked(&service.fed).insert(id.clone(), Arc::clone(&feed));
        feed
    };
    // Held for as long as the publisher is there: two that feed one run would mix.
    let feed = feed.try_lock_owned();
    let feed =
        feed.map_err(|_| ServiceError::new(RefusalKind::Conflict, "another publisher feeds that run"))?;
    Ok(Box::new(TextIngest { id, feed }))
}

struct TextIngest {
    id: RunId,
    feed: OwnedMutexGuard<Feed>,
}

impl TextIngest {
    async fn take(&mut self, number: u64, payload: &[u8]) -> Result<u64, ServiceError> {
        let next = self.feed.acknowledged + 1;
        if number > next {
            let message = format!("payload {number} came, but {next} is next");
            return Err(ServiceError::new(RefusalKind::Conflict, message));
        }
        if number == next {
            let text: String = serde_json::from_slice(payload).map_err(|error| {
                ServiceError::new(RefusalKind::Invalid, format!("a payload is a JSON string: {error}"))
            })?;
            self.feed.run.handle_event(Update::text(text));
            self.feed.run.write().await.map_err(|error| refused(&error))?;
            self.feed.acknowledged = number;
        }
        Ok(self.feed.acknowledged)
    }
}

impl Ingest for TextIngest {
    fn run_id(&self) -> &RunId {
        &self.id
    }

    fn acknowledged(&self) -> u64 {
        self.feed.acknowledged
    }

    fn accept(&mut self, number: u64, payload: Bytes) -> BoxFuture<'_, Result<u64, ServiceError>> {
        Box::pin(async move { self.take(number, &payload).await })
    }

    fn reply(&mut self) -> BoxFuture<'_, InterruptReply> {
        Box::pin(std::future::pending())
    }

    fn finish(&mut self) -> BoxFuture<'_, Result<(), ServiceError>> {
        self.feed.run.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None });
        Box::pin(async move { self.feed.run.write().await.map_err(|error| refused(&error)) })
    }
}
