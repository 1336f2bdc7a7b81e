//! Handling of requests: each is checked against the connection's limits, then passed to the service.
//!
//! Limits are checked before the service is called: subscriptions and starts that wait for one (`runs`), publishers (`publishers`), payloads
//! that are not acknowledged (`window_payloads`, `window_bytes`). Exceeding a window closes the connection, because the client ignores flow
//! control; every other limit is a refusal of its request.

use std::future::poll_fn;
use std::sync::Arc;

use aqueduct_core::RunId;
use aqueduct_core::service::{
    BoxFuture, Caller, EventEncoder, EventStream, Proof, PublishRequest, RefusalKind, ServiceError,
};
use aqueduct_transport_http::Gauge;
use bytes::Bytes;
use serde::Deserialize;

use super::{MuxSession, Outcome};
use crate::close::CloseReason;
use crate::driver::publisher::{Feeder, Publisher};
use crate::message::{Reply, Request};

impl MuxSession {
    /// Adds a future to the work. Returns `false` if there are too many.
    pub(super) fn begin(&mut self, reference: Option<&String>, work: BoxFuture<'static, Outcome>) -> bool {
        // Publishers are work for their whole lifetime; they have a limit of their own.
        let max = self.shared.config.limits.requests + self.publishers.len();
        if self.work.len() >= max {
            let message = format!("more than {max} requests at once (limit `requests`): wait for answers");
            self.replies.push_back(Reply::error(reference.cloned(), "busy", message));
            return false;
        }
        self.work.push(work);
        true
    }

    /// Counts a request that asks something of the service, as requests of HTTP are counted.
    pub(super) fn admit(&self, request: &Request<'_>) -> Result<(), ServiceError> {
        let Some(account) = self.caller.account().filter(|_| request.asks_service()) else { return Ok(()) };
        self.quotas.admit(&account, &self.shared.service.quota(&account))
    }

    /// Has the token of an `auth` message checked. Requests wait for the result.
    pub(super) fn authenticate(&mut self, token: String) {
        let mut caller = Caller::clone(&self.caller);
        (caller.token, caller.proof) = (Some(token), Proof::Unchecked);
        let service = Arc::clone(&self.shared.service);
        self.is_checking = true;
        self.work.push(Box::pin(async move {
            Outcome::Authenticated(Box::new(service.authenticate(caller).await))
        }));
    }

    /// Handles `list`: replies with the agents that the caller may run.
    pub(super) fn list(&mut self, reference: String) {
        let (service, caller) = (Arc::clone(&self.shared.service), Arc::clone(&self.caller));
        let named = reference.clone();
        self.begin(
            Some(&named),
            Box::pin(async move {
                Outcome::Answered(match service.list_agents(&caller).await {
                    Ok(agents) => Reply::Agents { reference, agents },
                    Err(error) => Reply::refusal(Some(reference), None, error),
                })
            }),
        );
    }

    /// Handles `start`: starts a run of the named agent, or of the agent of the path, and watches it.
    pub(super) fn start(&mut self, reference: String, agent: Option<String>, input: &str) {
        let Some(agent) = agent.or_else(|| self.agent.clone()) else {
            let message = "a `start` message needs `agent` on a path that names none";
            return self.replies.push_back(Reply::error(Some(reference), "invalid", message));
        };
        let read = match self.shared.protocol.read_input(&agent, input.as_bytes(), self.encoding) {
            Ok(read) => read,
            Err(error) => return self.replies.push_back(Reply::refusal(Some(reference), None, error)),
        };
        let run = read.input.run_id.as_str();
        if let Some(refused) = self.refuse_run(&reference, run) {
            return self.replies.push_back(refused);
        }
        let (service, caller) = (Arc::clone(&self.shared.service), Arc::clone(&self.caller));
        let named = reference.clone();
        let work = Box::pin(async move {
            match service.start(&caller, &agent, read.input).await {
                Ok(started) => Outcome::Opened {
                    reference,
                    run: started.run_id.as_str().to_owned(),
                    events: started.events,
                    encoder: read.encoder,
                    after: None,
                },
                Err(error) => Outcome::NotOpened(Reply::refusal(Some(reference), None, error)),
            }
        });
        self.opening += usize::from(self.begin(Some(&named), work));
    }

    /// Handles `watch`: watches a run after the event with the number `after`.
    /// A run that is watched after a number gets an encoder that has skipped the events before it, if
    /// the encoder has state.
    pub(super) fn watch(&mut self, reference: String, run: String, after: u64, options: Option<&str>) {
        if let Some(refused) = self.refuse_run(&reference, &run) {
            return self.replies.push_back(refused);
        }
        let declared = match declared_version(options) {
            Ok(declared) => declared,
            Err(error) => return self.replies.push_back(Reply::refusal(Some(reference), Some(run), error)),
        };
        let (service, caller) = (Arc::clone(&self.shared.service), Arc::clone(&self.caller));
        let (protocol, encoding) = (Arc::clone(&self.shared.protocol), self.encoding);
        let named = reference.clone();
        let work = Box::pin(async move {
            let id = RunId::from(run.as_str());
            let opened = async {
                // Access is checked first, because the encoding would reveal the agent of the run.
                let events = service.watch(&caller, &id, after).await?;
                let agent = service.agent_of(&caller, &id).await?.unwrap_or_default();
                let declared = match declared {
                    Some(declared) => Some(declared),
                    None => service.version_of(&caller, &id).await?,
                };
                let mut encoder = protocol.encoder(&agent, declared.as_deref(), encoding);
                if encoder.has_state() && after > 0 {
                    catch_up(service.watch(&caller, &id, 0).await, after, &mut *encoder).await?;
                }
                Ok((events, encoder))
            };
            match opened.await {
                Ok((events, encoder)) => {
                    Outcome::Opened { reference, run, events, encoder, after: Some(after) }
                }
                Err(error) => Outcome::NotOpened(Reply::refusal(Some(reference), Some(run), error)),
            }
        });
        self.opening += usize::from(self.begin(Some(&named), work));
    }

    /// Returns a refusal if this run cannot be watched on this connection.
    pub(super) fn refuse_run(&self, reference: &str, run: &str) -> Option<Reply> {
        let max = self.shared.config.limits.runs;
        let (code, message) = if self.subscriptions.contains(run) {
            ("conflict", "this connection follows that run already: use `unwatch` first".to_owned())
        } else if self.subscriptions.len() + self.opening >= max {
            ("busy", format!("more than {max} runs on one connection (limit `runs`): open another"))
        } else {
            return None;
        };
        Some(Reply::Error { reference: Some(reference.to_owned()), run: Some(run.to_owned()), code, message })
    }

    /// Handles `unwatch`. The run continues.
    pub(super) fn unwatch(&mut self, run: String) {
        self.replies.push_back(if self.subscriptions.remove(&run) {
            Reply::Unwatched { run }
        } else {
            let message = "this connection does not watch that run: send `watch` first".to_owned();
            Reply::Error { reference: None, run: Some(run), code: "not_found", message }
        });
    }

    /// Handles `cancel`.
    pub(super) fn cancel(&mut self, reference: Option<String>, run: String) {
        let (service, caller) = (Arc::clone(&self.shared.service), Arc::clone(&self.caller));
        let named = reference.clone();
        self.begin(
            named.as_ref(),
            Box::pin(async move {
                Outcome::Answered(match service.cancel(&caller, &RunId::from(run.as_str())).await {
                    Ok(running) => Reply::Cancelled { reference, run, running },
                    Err(error) => Reply::refusal(reference, Some(run), error),
                })
            }),
        );
    }

    /// Handles `publish`: opens a publication under the `ref` of the request.
    pub(super) fn publish(&mut self, reference: String, request: PublishRequest) {
        let limits = &self.shared.config.limits;
        if self.publishers.contains_key(&reference) {
            let message = "that `ref` names a publisher already: choose another";
            return self.replies.push_back(Reply::error(Some(reference), "conflict", message));
        }
        if self.publishers.len() >= limits.publishers {
            let message = format!(
                "more than {} publishers (limit `publishers`): open another connection",
                limits.publishers
            );
            return self.replies.push_back(Reply::error(Some(reference), "busy", message));
        }
        let (publisher, inbox) = Publisher::new(limits, self.shared.counters.open(Gauge::Publishers));
        let (service, caller) = (Arc::clone(&self.shared.service), Arc::clone(&self.caller));
        let named = reference.clone();
        let work = async move {
            match service.publish(&caller, request).await {
                Ok(ingest) => Outcome::Publishing { reference, feeder: Feeder { ingest, inbox } },
                Err(error) => Outcome::NotPublishing { reference, error },
            }
        };
        if self.begin(Some(&named), Box::pin(work)) {
            self.publishers.insert(named, publisher);
        }
    }

    /// Returns the publisher of a reference, unless it was abandoned.
    pub(super) fn publisher(&mut self, reference: &str) -> Option<&mut Publisher> {
        self.publishers.get_mut(reference).filter(|publisher| !publisher.is_abandoned())
    }

    /// Passes a payload to its publisher. Exceeding the window closes the connection.
    pub(super) fn payload(&mut self, reference: &str, number: u64, data: Bytes) -> Result<(), CloseReason> {
        let shared = Arc::clone(&self.shared);
        let limits = &shared.config.limits;
        let Some(publisher) = self.publisher(reference) else {
            self.replies.push_back(unknown_publisher(reference));
            return Ok(());
        };
        if publisher.handle_payload(limits, number, data) {
            return Ok(());
        }
        let reason = format!(
            "payload {number} exceeds the window of {} payloads and {} bytes: wait for `ack`",
            limits.window_payloads, limits.window_bytes
        );
        Err(CloseReason::new(CloseReason::TOO_MANY, reason))
    }
}

/// The options of a watcher.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchOptions {
    /// The version of the agent protocol that the watcher supports.
    protocol_version: Option<String>,
}

/// Parses the options of a watcher.
fn declared_version(options: Option<&str>) -> Result<Option<String>, ServiceError> {
    let read = options.map_or_else(|| Ok(WatchOptions::default()), serde_json::from_str);
    read.map(|options| options.protocol_version).map_err(|error| {
        let message = format!("`options` must be an object such as {{\"protocolVersion\":\"1.0\"}}: {error}");
        ServiceError::new(RefusalKind::Invalid, message)
    })
}

/// Returns the error for a `ref` that names no open publication.
pub(super) fn unknown_publisher(reference: &str) -> Reply {
    Reply::error(
        Some(reference.to_owned()),
        "not_found",
        "that `ref` names no publisher: it ended, or never began",
    )
}

/// Passes the events up to number `after`, which the watcher has already received, to a stateful encoder. If the log no longer
/// holds the first events of the run, the encoder lacks them.
///
/// # Errors
///
/// Returns a refusal if the events cannot be read: the watcher would get other payloads than before.
async fn catch_up(
    seen: Result<EventStream, ServiceError>,
    after: u64,
    encoder: &mut dyn EventEncoder,
) -> Result<(), ServiceError> {
    let mut seen = match seen {
        Err(ServiceError { kind: RefusalKind::Gone { .. }, .. }) => return Ok(()),
        seen => seen?,
    };
    while let Some(numbered) = poll_fn(|cx| seen.as_mut().poll_next(cx)).await {
        if numbered.number <= after {
            encoder.skip(&numbered.event);
        }
        if numbered.number >= after || numbered.event.is_terminal() {
            return Ok(());
        }
    }
    let message = "the run log was lost while the events before were read: try again";
    Err(ServiceError::new(RefusalKind::Unavailable, message))
}
