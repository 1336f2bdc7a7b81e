//! [`Passage`]: one call on its way through the proxy, to an agent and back.

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

/// One forwarded call.
pub(super) struct Passage<'p> {
    pub(super) gateway: &'p Arc<Gateway>,
    pub(super) servers: &'p Servers,
    pub(super) agent: &'p Arc<AgentEntry>,
    /// The stored form of the caller's principal.
    pub(super) owner: &'p String,
    pub(super) source: RemoteAgent,
    pub(super) parts: &'p Parts,
    pub(super) body: &'p Bytes,
    pub(super) rest: &'p str,
}

impl Passage<'_> {
    pub(super) async fn run(&self, call: PassingCall<'_>, door: Endpoint, forwarded: Forwarded) -> Response {
        let (is_rpc, owners) = (self.rest.is_empty(), self.owners());
        let scope = self.scope(is_rpc);
        let push = self.gateway.config().server.push;
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
        // The lane of the relay holds its own.
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

    /// Builds the request to the agent.
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

    /// Returns the body for the agent.
    pub(super) fn sent_body(&self, renames: &Renames, token: Option<&str>) -> Bytes {
        let Ok(text) = std::str::from_utf8(self.body) else { return self.body.clone() };
        let changed = renames.body(text, self.rest.is_empty());
        let text = changed.as_deref().unwrap_or(text);
        let marked = token.and_then(|token| {
            let call = match self.rest {
                "" => PassingCall::of_jsonrpc(text),
                rest => PassingCall::of_rest(self.parts.method.as_str(), rest, text),
            };
            call.with_metadata(TOKEN_METADATA, token)
        });
        marked.or(changed).map_or_else(|| self.body.clone(), Bytes::from)
    }

    /// Rewrites a card inside a response.
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
