//! `/a2a/{name}`: forwards A2A calls to an A2A agent that has the interface for them, or has them answered by the
//! gateway's own server of the agent. In both cases a call of a run's sub-agent is shown in that run.
//!
//! ```text
//! call ──► access to the agent? ──► card?  yes ──► the agent's card, with the interfaces of the gateway
//!                                  └ no ──► agent has the interface?  no ──► the gateway's own server
//!                                             └ yes ──► related run? ──┬ no ──► agent ──► response, unchanged
//!                                                                      └ yes ──► lane ──► agent ──► a copy to the
//!                                                                                             lane, response unchanged
//! ```
//!
//! Invariants: the body is forwarded unchanged, except for the token in the metadata of a related message and for
//! private context names of the caller; the response is forwarded unchanged, except for those names and for an
//! interrupt that the user of the run answers ([`raise`]); the caller's own credentials are not forwarded; when the
//! caller disconnects, the connection to the agent is closed, and nothing is cancelled; when the run is cancelled, its
//! tasks are cancelled, and the caller's streams continue until the agent ends them.

mod answer;
mod callee;
mod card;
mod contexts;
mod events;
mod grpc;
mod owners;
mod passage;
mod raise;
mod relay;

use std::sync::Arc;

use aqueduct::a2a::{RemoteAgent, Servers};
use aqueduct_adapter_a2a::card::WELL_KNOWN_PATHS;
use aqueduct_adapter_a2a::mark::EXTENSION;
use aqueduct_adapter_a2a::relay::PassingCall;
use aqueduct_adapter_a2a::server::turn_of;
use aqueduct_adapter_a2a::version::{
    Binding, EXTENSIONS_HEADER, EXTENSIONS_HEADER_V03, VERSION_HEADER, Version,
};
use aqueduct_adapter_a2a::wire::Dialect;
use aqueduct_core::service::Proof;
use aqueduct_runlog::RunMeta;
use aqueduct_runs::RunPlace;
use aqueduct_transport_http::{Refusal, caller, read_body, read_json};
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper::body::Body as _;

use self::answer::{Answer, AnswerBody, passed_back, refuse};
use self::callee::Callee;
use self::card::card;
pub(super) use self::grpc::mount_grpc;
use self::passage::Passage;
use self::raise::Question;
use self::relay::Relay;
use crate::config::CardAccess;
use crate::service::{AgentEntry, Gateway};
use crate::source::Forwarded;
use crate::tee::call::LaneCall;
use crate::tee::relation::LANE_HEADER;
use crate::tee::{Requester, Tapped};

/// Request headers that are forwarded to the agent, beside trace context and configured headers.
///
/// An allow list: cookies, `authorization` and hop-by-hop headers of the caller belong to the gateway. The credential
/// of the agent is added by its connection. `last-event-id` lets a caller resume a stream at the agent itself.
const PASSED: [&str; 7] = [
    "accept",
    "content-type",
    "last-event-id",
    "user-agent",
    VERSION_HEADER,
    EXTENSIONS_HEADER,
    EXTENSIONS_HEADER_V03,
];

/// An agent to which calls are forwarded: an A2A agent with `expose = "proxy"` and a binding other than gRPC.
pub(super) struct Passable {
    agent: Arc<AgentEntry>,
    /// The client of the agent, with its card cache, its limits and its circuit.
    source: RemoteAgent,
}

impl Passable {
    /// Returns the agent if calls to it are forwarded. Returns `None` for an agent that the gateway serves itself.
    pub(super) fn of(agent: Arc<AgentEntry>) -> Option<Self> {
        Some(Self { source: agent.a2a.clone()?, agent })
    }
}

/// Forwards a call to the agent, or has the gateway's own server answer it (`next`) if the agent has no interface of
/// the call's binding and version.
///
/// The order of the checks matters: access first, so that a caller without access learns neither the card nor the
/// bindings of the agent; then the path; then the body, which is read only for a caller that may use it. Every check
/// that fails responds with a [`Refusal`] and sends nothing to the agent.
pub(super) async fn pass(
    gateway: &Arc<Gateway>,
    servers: &Servers,
    to: &Passable,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let who = caller(&parts);
    // The path stays encoded: a decoded path could not be distinguished from one with other segments.
    let path = parts.uri.path().to_owned();
    // `/a2a/{name}/{rest}`: empty for the JSON-RPC endpoint, with or without its trailing slash.
    let rest = path.splitn(4, '/').nth(3).unwrap_or_default();
    let is_get = parts.method == Method::GET;
    let place = rest.trim_end_matches('/');
    let is_card = is_get && WELL_KNOWN_PATHS.iter().any(|path| path.trim_start_matches('/') == place);
    let Passable { agent, source } = to;
    // A public card needs no principal: the card is the only response that an anonymous caller of such an agent
    // receives.
    let owner = match gateway.authenticate(agent, &who) {
        Ok(owner) => owner,
        Err(_) if is_card && agent.config.card == CardAccess::Public => String::new(),
        Err(error) => return Err(error.into()),
    };
    if !is_below(rest) {
        let message = "the path leads out of the agent's address: remove `.` and `..`";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
    }
    let forwarded = Forwarded::of(&who, &agent.config.forward_headers);
    if is_card {
        return Ok(card(servers, agent, source, &forwarded, &parts).await);
    }
    let request = Request::from_parts(parts, body);
    // A body that a web page could send without a preflight is refused; some calls have no body.
    let has_type = request.headers().contains_key(header::CONTENT_TYPE);
    let read = if has_type && !is_get { read_json(request).await } else { read_body(request).await };
    let (parts, body) = read?;
    if !has_type && !body.is_empty() {
        let message = "the body must be JSON: send it with `Content-Type: application/json`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    // The interface decides between proxy and own server: an agent without REST is still usable over REST here.
    let spoken = Spoken::of(&parts, rest, &body);
    Ok(match source.interface(spoken.binding, spoken.version, &forwarded).await {
        Ok(Some(door)) => {
            let passage = Passage {
                gateway,
                servers,
                agent,
                owner: &owner,
                source: source.clone(),
                parts: &parts,
                body: &body,
                rest,
            };
            passage.run(spoken.call, door, forwarded).await
        }
        Ok(None) => serve_call(gateway, servers, (agent, &owner), (parts, body.clone()), &spoken, next).await,
        Err(failure) => refuse(&spoken.call, &failure),
    })
}

/// Has a call answered by the gateway's own server of an agent. The call may be one of a run's sub-agent.
///
/// The route of the inner server (`next`) authenticates and parses the call again. This function authenticates first
/// only to find the principal of the call, by which the call is related to a run. Cards are never related to a run, and
/// a name without an agent is refused by the inner server.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    servers: &Servers,
    name: &str,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let path = request.uri().path().to_owned();
    let rest = path.splitn(4, '/').nth(3).unwrap_or_default();
    let who = gateway.agent(name).filter(|_| !rest.starts_with(".well-known/"));
    let Some(agent) = who else { return Ok(next.run(request).await) };
    let (parts, body) = request.into_parts();
    let owner = gateway.authenticate(&agent, &caller(&parts))?;
    let (parts, body) = read_body(Request::from_parts(parts, body)).await?;
    let spoken = Spoken::of(&parts, rest, &body);
    Ok(serve_call(gateway, servers, (&agent, &owner), (parts, body.clone()), &spoken, next).await)
}

/// Has the gateway's own server answer a call, and copies the response to the lane if the call is related to a run.
///
/// An unrelated call is passed to `next` unchanged. A related call is made inside this process: its request carries
/// [`LANE_HEADER`], so that the run which the inner server starts does not claim the relation keys of the outer run.
async fn serve_call(
    gateway: &Arc<Gateway>,
    servers: &Servers,
    (agent, owner): (&AgentEntry, &String),
    (mut parts, body): (Parts, Bytes),
    spoken: &Spoken<'_>,
    next: Next,
) -> Response {
    let dialect = spoken.binding.dialect(spoken.version);
    let lane = tap(gateway, (agent, owner), &parts.headers, &spoken.call, dialect).await;
    let name = agent.name.as_str();
    let Some(lane) = lane else { return next.run(Request::from_parts(parts, body.into())).await };
    // The lane needs the content of the extension, and copy and response are one stream.
    parts.headers.append(EXTENSIONS_HEADER, HeaderValue::from_static(EXTENSION));
    let callee = Callee::Served {
        servers: servers.clone(),
        name: name.to_owned(),
        headers: Box::new(parts.headers.clone()),
        proof: parts.extensions.get::<Proof>().cloned().unwrap_or_default(),
        version: spoken.version,
    };
    let mut request = Request::from_parts(parts, body);
    request.headers_mut().insert(LANE_HEADER, HeaderValue::from_static("1"));
    let frame = agent.config.limits.frame;
    let asked = request.clone();
    let relay = Relay::new(callee, lane).raising(|| Question::new(asked, dialect, frame));
    match relay.answer(request).await {
        Ok(answer) => respond(answer, Body::from),
        Err(failure) => refuse(&spoken.call, &failure),
    }
}

/// Returns the lane of a call, if the call is related to a run.
///
/// Returns `None` if no run of the caller's principal matches, if more than one run matches, if the call is not about a
/// task, or if the run shows no lane for the call (a read of a task that it does not know). Every call is counted,
/// related or not.
async fn tap(
    gateway: &Arc<Gateway>,
    (agent, owner): (&AgentEntry, &String),
    headers: &HeaderMap,
    call: &PassingCall<'_>,
    dialect: Dialect,
) -> Option<Tapped> {
    // A supervisor may call on behalf of other principals, because one supervisor process serves the runs of all users.
    let supervisors = &agent.config.supervisors;
    let requester = Requester { is_supervisor: supervisors.contains(owner), principal: owner.clone() };
    let found = gateway.tee().relate(&requester, headers, call, |run| gateway.runs().drives(run)).await;
    gateway.metrics().passed(found.as_ref().map(|(_, way)| *way));
    let (caller, way) = found?;
    // A client that comes back to a task is in the trace of the run that the task is: it did not call from within.
    if turn_of(&call.task_id, &RunMeta::id_in(caller.run())).is_some() {
        return None;
    }
    let lane = Tapped::begin(gateway, &caller, LaneCall::of(agent, call, dialect)?).await?;
    tracing::debug!(agent = agent.name, ?way, "a call was related to a run");
    Some(lane)
}

/// Binding, version and kind of a call: the facts by which an interface of the agent is selected.
struct Spoken<'c> {
    call: PassingCall<'c>,
    binding: Binding,
    version: Version,
}

impl<'c> Spoken<'c> {
    /// Reads the call. Never fails: a body that is not UTF-8 or not JSON yields a call of kind `Other`, which the agent
    /// or the inner server refuses.
    ///
    /// A `POST` to the mount itself is JSON-RPC; every other method or path is REST. Without a version in the method,
    /// the path or the header the call is A2A 1.0.
    fn of(parts: &Parts, rest: &'c str, body: &'c Bytes) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let is_rpc = rest.is_empty() && parts.method == Method::POST;
        let call = if is_rpc {
            PassingCall::of_jsonrpc(text)
        } else {
            PassingCall::of_rest(parts.method.as_str(), rest, text)
        };
        let header = parts.headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
        // The form of a call is more reliable than its version header, which clients omit.
        let version = call.version.or_else(|| Version::parse(header)).unwrap_or(Version::V1);
        let binding = if is_rpc { Binding::JsonRpc } else { Binding::HttpJson };
        Self { call, binding, version }
    }
}

/// Returns a response for the caller. `whole` may rewrite a complete body.
///
/// Status and allowed headers come from the agent; a stream is forwarded chunk by chunk, without a buffer of its own.
fn respond(answer: Answer, whole: impl FnOnce(Bytes) -> Body) -> Response {
    let (head, body) = answer.into_parts();
    let mut response = Response::new(match body {
        AnswerBody::Whole(bytes) => whole(bytes),
        AnswerBody::Stream(stream) => Body::from_stream(stream),
    });
    *response.status_mut() = head.status;
    *response.headers_mut() = passed_back(&head.headers);
    response
}

/// Holds the place of a call until its response has been sent, so that a caller cannot open more streams than its quota
/// allows runs.
///
/// A body of known length is complete already: its place is released at once. The place of a stream is moved into the
/// body and released when the body is dropped, at its end or when the caller disconnects.
fn held(place: Option<RunPlace>, response: Response) -> Response {
    let Some(place) = place.filter(|_| response.body().size_hint().exact().is_none()) else {
        return response;
    };
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _held = &place;
        }))
    })
}

/// Returns `true` if no server could resolve the path to a parent directory.
///
/// The path is appended to the agent's address, and the gateway adds its credential for the agent: a path such as
/// `tasks/../../admin` must not leave the address that the credential is meant for. Percent-encoded dots and
/// backslashes count, because some servers decode them before they resolve a path.
fn is_below(rest: &str) -> bool {
    let dots =
        |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    !rest.contains('\\') && !rest.split('/').any(dots)
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn no_path_leads_elsewhere() {
        for (path, good) in [
            ("message:send", true),
            ("tasks/a..b", true),
            ("v1/tasks/x:cancel", true),
            ("../admin", false),
            ("tasks/%2e%2E/admin", false),
            ("tasks/./x", false),
            ("tasks/..\\admin", false),
        ] {
            assert_eq!(is_below(path), good, "{path}");
        }
    }
}
