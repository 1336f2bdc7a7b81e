//! [`Passage`]: one call on its way through the proxy, to an agent and back.
//!
//! ```text
//! scope of the call ──► owners: may the caller name these tasks? ──► place in the quota ──► lane ──► request ──► agent
//!         caller ◄── response ◄── caller's names of contexts ◄── owners: claim new ids, filter lists ◄──────────┘
//! ```
//!
//! The steps are in this order because each is cheaper than the next and none has to be undone: a refused call takes no
//! place, opens no lane and reaches no agent.

use std::sync::Arc;

use aqueduct::a2a::{RemoteAgent, Servers};
use aqueduct::remote::unsent;
use aqueduct_adapter_a2a::card::Endpoint;
use aqueduct_adapter_a2a::relay::{CallScope, PassingCall, PassingKind, Reach, query_contexts};
use aqueduct_adapter_a2a::server::ServerError;
use aqueduct_adapter_a2a::version::Binding;
use aqueduct_core::Principal;
use aqueduct_runs::RunPlace;
use aqueduct_transport_http::caller;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;

use super::answer::{refuse, refuse_call};
use super::callee::{Callee, ask_agent};
use super::card::{own_card, place};
use super::contexts::Renames;
use super::owners::{Owners, admit_push};
use super::raise::Question;
use super::relay::Relay;
use super::{PASSED, held, respond, tap};
use crate::service::{AgentEntry, Gateway};
use crate::source::Forwarded;
use crate::tee::relation::TOKEN_METADATA;
use crate::tee::{RunContext, Tapped};

/// One forwarded call: the parts of the request, and where it goes. Borrows everything from [`pass`](super::pass).
pub(super) struct Passage<'p> {
    pub(super) gateway: &'p Arc<Gateway>,
    /// For the gateway's own card, which an extended card is rewritten with, and for its signature.
    pub(super) servers: &'p Servers,
    pub(super) agent: &'p Arc<AgentEntry>,
    /// The stored form of the caller's principal.
    pub(super) owner: &'p String,
    pub(super) source: RemoteAgent,
    pub(super) parts: &'p Parts,
    pub(super) body: &'p Bytes,
    /// The path below the agent's mount, still percent-encoded; empty for JSON-RPC.
    pub(super) rest: &'p str,
}

impl Passage<'_> {
    /// Forwards the call to the interface `door` of the agent and returns the response for the caller.
    ///
    /// Refusals of the gateway have the error format of the call's binding; failures of the agent have the status 502,
    /// 503 or 504, or the JSON-RPC error that corresponds to it.
    pub(super) async fn run(&self, call: PassingCall<'_>, door: Endpoint, forwarded: Forwarded) -> Response {
        let (is_rpc, owners) = (self.rest.is_empty(), self.owners());
        let scope = self.scope(is_rpc);
        let push = self.gateway.config().server.push;
        // Without owners (all callers are one principal) only the addresses of push notifications are checked. A call
        // whose scope cannot be parsed is then forwarded, and the agent refuses it; with owners it is refused here.
        let admitted = match (&owners, &scope) {
            (Some(owners), scope) => owners.admit(scope.as_ref(), &self.named_contexts(), push).await,
            (None, Some(scope)) => admit_push(scope, push).map(|()| Renames::default()),
            (None, None) => Ok(Renames::default()),
        };
        let renames = match admitted {
            Ok(renames) => renames,
            Err(error) => return refuse_call(&call, is_rpc, &error),
        };
        let place = match self.place(call.kind) {
            Ok(place) => place,
            Err(error) => return refuse_call(&call, is_rpc, &error),
        };
        let dialect = door.binding.dialect(door.version);
        let lane = tap(self.gateway, (self.agent, self.owner), &self.parts.headers, &call, dialect).await;
        let run_context = lane.as_ref().map(Tapped::run_context).unwrap_or_default();
        let request = match self.request(&door, &renames, forwarded.clone(), &run_context) {
            Ok(request) => request,
            Err(what) => return refuse(&call, &unsent(what)),
        };
        // The run context refers to the run. The lane holds a reference of its own until it is retired; this one must
        // not outlive the lane.
        drop(run_context);
        let answered = match lane {
            None => ask_agent(&self.source, request).await,
            Some(lane) => {
                let source = self.source.clone();
                let (asked, frame) = (request.clone(), self.agent.config.limits.frame);
                let relay = Relay::new(Callee::Agent { source, door, forwarded }, lane);
                relay.raising(|| Question::new(asked, dialect, frame)).answer(request).await
            }
        };
        // New ids are claimed before the caller receives them, so that no other caller can claim them first.
        let reach = scope.map_or(Reach::Unknown, |scope| scope.reach);
        let answered = match (owners, answered) {
            (Some(owners), Ok(answer)) => owners.filter(reach, renames, answer).await,
            (_, answered) => answered,
        };
        match answered {
            Ok(answer) => held(
                place,
                respond(answer, |whole| match call.kind {
                    PassingKind::ExtendedCard => self.moved(whole),
                    _ => Body::from(whole),
                }),
            ),
            Err(failure) => refuse(&call, &failure),
        }
    }

    /// Reserves a place among the runs of the caller for a call in which the agent works, as for a run that the gateway
    /// drives.
    ///
    /// Returns `None` for calls that only read or cancel, and for callers without an account, which no quota limits.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has as many runs as its quota allows.
    pub(super) fn place(&self, kind: PassingKind) -> Result<Option<RunPlace>, ServerError> {
        if !matches!(kind, PassingKind::Send | PassingKind::Subscribe) {
            return Ok(None);
        }
        let principal = Principal::from_stored(self.owner);
        Ok(self.gateway.runs().take_place(&principal, &caller(self.parts))?)
    }

    /// Returns the owners of the agent's tasks, or `None` if all callers are one principal.
    pub(super) fn owners(&self) -> Option<Owners> {
        Owners::new(self.gateway, &self.agent.name, self.owner, self.agent.config.limits.frame)
    }

    /// Returns the contexts that the query of the call names.
    ///
    /// REST lists tasks by `GET /tasks?contextId=C`; a JSON-RPC call names contexts only in its body.
    pub(super) fn named_contexts(&self) -> Vec<String> {
        let query = self.parts.uri.query().filter(|_| !self.rest.is_empty());
        query.map(query_contexts).unwrap_or_default()
    }

    /// Returns the tasks and contexts that the call accesses, or `None` if the call cannot be parsed.
    pub(super) fn scope(&self, is_rpc: bool) -> Option<CallScope> {
        let body = std::str::from_utf8(self.body).ok()?;
        if is_rpc {
            return CallScope::of_jsonrpc(body);
        }
        CallScope::of_rest(self.parts.method.as_str(), self.rest, body)
    }

    /// Builds the request to the agent: address of the interface, allowed headers, body with renamed contexts and the
    /// run's token.
    ///
    /// # Errors
    ///
    /// Returns the reason if address and path are not a valid URI, if the address is not allowed, or if a header is
    /// invalid.
    pub(super) fn request(
        &self,
        door: &Endpoint,
        renames: &Renames,
        forwarded: Forwarded,
        run_context: &RunContext,
    ) -> Result<http::Request<Bytes>, String> {
        let mut url = door.url.clone();
        if door.binding == Binding::HttpJson {
            let base = url.trim_end_matches('/');
            // Cards of 0.3 name the address with or without the prefix `/v1`; the route always contains it.
            let base = base.strip_suffix("/v1").filter(|_| self.rest.starts_with("v1/")).unwrap_or(base);
            url = format!("{base}/{}", self.rest);
            if let Some(query) = self.parts.uri.query() {
                url = format!("{url}?{}", renames.query(query));
            }
        }
        // A header that the configuration forwards is already in `forwarded`, and must not be sent twice.
        let passed = PASSED.iter().filter_map(|name| {
            let value = self.parts.headers.get(*name)?.to_str().ok()?;
            (!forwarded.has(name)).then_some((*name, value))
        });
        // A compressed response could not be copied to the lane.
        let passed: Vec<(&str, &str)> = passed.chain([("accept-encoding", "identity")]).collect();
        let body = self.sent_body(renames, run_context.token());
        let forwarded = forwarded.with_baggage(&self.parts.headers).marked(run_context);
        self.source.connection().request(self.parts.method.as_str(), &url, &passed, &forwarded, body)
    }

    /// Returns the body for the agent: the caller's bytes, except for renamed contexts and for the token of the run in
    /// the metadata of a message. A body that is not UTF-8 is returned unchanged.
    ///
    /// ```text
    /// {"method":"SendMessage","params":{"message":{…,"contextId":"C"}}}
    /// {"method":"SendMessage","params":{"message":{…,"contextId":"5f0c…"},"metadata":{"…":"token"}}}
    /// ```
    pub(super) fn sent_body(&self, renames: &Renames, token: Option<&str>) -> Bytes {
        let Ok(text) = std::str::from_utf8(self.body) else { return self.body.clone() };
        let changed = renames.body(text, self.rest.is_empty());
        let text = changed.as_deref().unwrap_or(text);
        let marked = token.and_then(|token| {
            // Parsed again: renaming has moved the offsets at which the entry is written.
            let call = match self.rest {
                "" => PassingCall::of_jsonrpc(text),
                rest => PassingCall::of_rest(self.parts.method.as_str(), rest, text),
            };
            call.with_metadata(TOKEN_METADATA, token)
        });
        marked.or(changed).map_or_else(|| self.body.clone(), Bytes::from)
    }

    /// Rewrites the extended card inside a response: it names the gateway's interfaces, and is signed by the gateway. A
    /// response without a card, such as an error, is returned unchanged in content.
    pub(super) fn moved(&self, bytes: Bytes) -> Body {
        let Ok(mut answer) = serde_json::from_slice::<Value>(&bytes) else { return Body::from(bytes) };
        let here = own_card(self.servers, self.agent, self.parts);
        let card = if self.rest.is_empty() { answer.get_mut("result") } else { Some(&mut answer) };
        if let Some(card) = card.and_then(Value::as_object_mut) {
            place(card, &here);
            self.servers.sign(card);
        }
        Body::from(answer.to_string())
    }
}
