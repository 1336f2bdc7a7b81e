//! `/a2a/{name}`: A2A calls that pass through to an A2A agent.
//!
//! ```text
//! call ──► token of the agent? ──► card?  yes ──► the agent's card, with this address
//!                                    └ no ──► whose call? ──┬ nobody's ──► agent ──► answer as it is
//!                                                           └ a run's ──► lane ──► agent ──► a copy to the lane,
//!                                                                                            answer as it is
//! ```
//!
//! Invariants: the body goes to the agent as it came, but for the token in the metadata of a related message; the
//! answer comes back byte by byte as it was sent; the caller's own credentials stay here; when the caller goes away the
//! agent's connection is closed, as the caller would have closed it, and nothing is cancelled; when the run is stopped
//! its tasks are cancelled, and the caller's streams go on until the agent ends them.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_adapter_a2a::card::{Endpoint, WELL_KNOWN_PATHS};
use aqueduct_adapter_a2a::relay::{PassingCall, PassingKind, move_card};
use aqueduct_adapter_a2a::version::{
    Binding, EXTENSIONS_HEADER, EXTENSIONS_HEADER_V03, VERSION_HEADER, Version,
};
use aqueduct_core::RunFailure;
use aqueduct_transport_http::{ByteStream, ClientError, Refusal, caller, read_body, read_json, sse};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::a2a::public_base;
use crate::config::CardAccess;
use crate::service::{AgentEntry, Gateway};
use crate::source::Forwarded;
use crate::source::a2a::{A2aSource, NO_INTERFACE};
use crate::source::upstream::{TIMEOUT, failure_of, is_json, refusal_words, unsent};
use crate::tee::Trail;
use crate::tee::lane::{CALLER_GONE, Lane};
use crate::tee::relate::TOKEN_METADATA;

/// Headers of calls that the agent gets, beside those of a trace and those that are configured.
const PASSED: [&str; 7] = [
    "accept",
    "content-type",
    "last-event-id",
    "user-agent",
    VERSION_HEADER,
    EXTENSIONS_HEADER,
    EXTENSIONS_HEADER_V03,
];
/// Headers of answers that are between two neighbours (RFC 9110 §7.6.1), or this server's to say.
const KEPT: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Chunks between agent and caller. One in flight keeps both busy; more would only hide that the caller is slow.
const CHUNKS: usize = 1;
/// A call that is not answered for so long is shown before there is an answer: a person looks twice within a second.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// An agent to which calls pass.
pub(super) struct Passable {
    agent: Arc<AgentEntry>,
    source: Arc<A2aSource>,
}

impl Passable {
    /// None for an agent that the gateway serves itself.
    pub(super) fn of(agent: Arc<AgentEntry>) -> Option<Self> {
        Some(Self { source: agent.a2a.clone()?, agent })
    }
}

/// Lets a call pass.
pub(super) async fn pass(gateway: &Arc<Gateway>, to: &Passable, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let who = caller(&parts);
    // As it was written: a path that was decoded could not be told from one with other segments.
    let path = parts.uri.path().to_owned();
    let rest = path.splitn(4, '/').nth(3).unwrap_or_default();
    let is_get = parts.method == Method::GET;
    let is_card = is_get && WELL_KNOWN_PATHS.iter().any(|path| path.trim_start_matches('/') == rest);
    let Passable { agent, source } = to;
    if !(is_card && agent.config.card == CardAccess::Public)
        && let Err(error) = gateway.authenticate(agent, &who)
    {
        return Refusal::from(error).into_response();
    }
    if !is_below(rest) {
        let message = "the path leads out of the agent's address";
        return Refusal::new(StatusCode::NOT_FOUND, "not_found", message).into_response();
    }
    let forwarded = Forwarded::of(&who, &agent.config.forward_headers);
    if is_card {
        return card(gateway, agent, source, &forwarded, &parts).await;
    }
    let request = Request::from_parts(parts, body);
    // A body that a web page could send without asking is refused; some calls have none.
    let has_type = request.headers().contains_key(header::CONTENT_TYPE);
    let read = if has_type && !is_get { read_json(request).await } else { read_body(request).await };
    let (parts, body) = match read {
        Ok(read) => read,
        Err(refusal) => return refusal.into_response(),
    };
    if !has_type && !body.is_empty() {
        let message = "the body must be JSON: send it with `Content-Type: application/json`";
        return Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
            .into_response();
    }
    let passage = Passage { gateway, agent, source: Arc::clone(source), parts, body, rest };
    passage.run(forwarded).await
}

/// True if no server could read the path as one that is elsewhere.
fn is_below(rest: &str) -> bool {
    let dots =
        |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    !rest.contains('\\') && !rest.split('/').any(dots)
}

/// The agent's card, which says that the agent is here.
async fn card(
    gateway: &Gateway,
    agent: &AgentEntry,
    source: &A2aSource,
    forwarded: &Forwarded,
    parts: &Parts,
) -> Response {
    let version = parts.headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
    let text = match source.card(forwarded, version).await {
        Ok(text) => text,
        Err(failure) => return refuse_http(&failure),
    };
    let Ok(Value::Object(mut card)) = serde_json::from_str(&text) else {
        return refuse_http(&RunFailure::new(RunFailure::UPSTREAM_INVALID, "the agent's card is no object"));
    };
    move_card(&mut card, &address(gateway, agent, parts), &[Binding::JsonRpc, Binding::HttpJson]);
    let mut response = Response::new(Body::from(Value::Object(card).to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("host, a2a-version"));
    response
}

/// Where the caller found the agent. The walls have seen the host.
fn address(gateway: &Gateway, agent: &AgentEntry, parts: &Parts) -> String {
    format!("{}/a2a/{}", public_base(parts, &gateway.config()), agent.name)
}

/// One call.
struct Passage<'p> {
    gateway: &'p Arc<Gateway>,
    agent: &'p Arc<AgentEntry>,
    source: Arc<A2aSource>,
    parts: Parts,
    body: Bytes,
    rest: &'p str,
}

impl Passage<'_> {
    async fn run(&self, forwarded: Forwarded) -> Response {
        let text = std::str::from_utf8(&self.body).unwrap_or_default();
        let is_rpc = self.rest.is_empty() && self.parts.method == Method::POST;
        let call = if is_rpc {
            PassingCall::of_jsonrpc(text)
        } else {
            PassingCall::of_rest(self.parts.method.as_str(), self.rest, text)
        };
        let version = self.parts.headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok());
        let version = Version::parse(version).unwrap_or(Version::V1);
        let binding = if is_rpc { Binding::JsonRpc } else { Binding::HttpJson };
        let door = match self.source.door(binding, version, &forwarded).await {
            Ok(door) => door,
            Err(failure) => return refuse(&call, &failure),
        };
        let caller = self.gateway.tee().relate(&self.parts.headers, &call);
        self.gateway.metrics().passed(caller.as_ref().map(|(_, way)| *way));
        let lane = caller.and_then(|(caller, way)| {
            let dialect = door.binding.dialect(version);
            let lane = Lane::begin(&caller, self.agent, &call, dialect, self.gateway.metrics())?;
            tracing::debug!(agent = self.agent.name, ?way, "a call was related to a run");
            Some(lane)
        });
        let trail = lane.as_ref().map(Lane::trail).unwrap_or_default();
        let request = match self.request(&door, &call, forwarded.clone(), &trail) {
            Ok(request) => request,
            Err(what) => return refuse(&call, &unsent(what)),
        };
        let answered = match lane {
            None => ask(&self.source, request).await,
            Some(lane) => {
                let relay = Relay { source: Arc::clone(&self.source), door, forwarded, lane };
                let (sender, answer) = oneshot::channel();
                tokio::spawn(relay.run(request, sender));
                match answer.await {
                    Ok(answered) => answered,
                    // The relay always answers; without it, its task was ended with the process.
                    Err(_) => Err(RunFailure::new(RunFailure::UPSTREAM_ENDED, "the gateway is stopping")),
                }
            }
        };
        match answered {
            Ok(answer) => self.respond(&call, answer),
            Err(failure) => refuse(&call, &failure),
        }
    }

    /// The call as the agent gets it.
    fn request(
        &self,
        door: &Endpoint,
        call: &PassingCall<'_>,
        forwarded: Forwarded,
        trail: &Trail,
    ) -> Result<http::Request<Bytes>, String> {
        let mut url = door.url.clone();
        if door.binding == Binding::HttpJson {
            let base = url.trim_end_matches('/');
            // Cards of 0.3 name the address with or without the prefix; the route has it in either case.
            let base = base.strip_suffix("/v1").filter(|_| self.rest.starts_with("v1/")).unwrap_or(base);
            url = format!("{base}/{}", self.rest);
            if let Some(query) = self.parts.uri.query() {
                url = format!("{url}?{query}");
            }
        }
        let passed = PASSED.iter().filter_map(|name| {
            let value = self.parts.headers.get(*name)?.to_str().ok()?;
            (!forwarded.has(name)).then_some((*name, value))
        });
        let passed: Vec<(&str, &str)> = passed.collect();
        let body = trail.token().and_then(|token| call.with_metadata(TOKEN_METADATA, token));
        let body = body.map_or_else(|| self.body.clone(), Bytes::from);
        let forwarded = forwarded.with_baggage(&self.parts.headers).marked(trail);
        self.source.upstream().request(self.parts.method.as_str(), &url, &passed, &forwarded, body)
    }

    fn respond(&self, call: &PassingCall<'_>, answer: Answer) -> Response {
        let (head, body) = answer.into_parts();
        let body = match body {
            AnswerBody::Whole(bytes) if call.kind == PassingKind::ExtendedCard => self.moved(bytes),
            AnswerBody::Whole(bytes) => Body::from(bytes),
            AnswerBody::Stream(stream) => Body::from_stream(stream),
            AnswerBody::Relayed(chunks) => Body::from_stream(relayed(chunks)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = passed_back(head.headers);
        response
    }

    /// A card inside an answer.
    fn moved(&self, bytes: Bytes) -> Body {
        let Ok(mut answer) = serde_json::from_slice::<Value>(&bytes) else { return Body::from(bytes) };
        let address = address(self.gateway, self.agent, &self.parts);
        let card = if self.rest.is_empty() { answer.get_mut("result") } else { Some(&mut answer) };
        if let Some(card) = card.and_then(Value::as_object_mut) {
            move_card(card, &address, &[Binding::JsonRpc, Binding::HttpJson]);
        }
        Body::from(answer.to_string())
    }
}

/// What the agent answered.
type Answer = http::Response<AnswerBody>;

enum AnswerBody {
    Whole(Bytes),
    Stream(ByteStream),
    /// A stream of which a lane gets a copy.
    Relayed(mpsc::Receiver<Result<Bytes, ClientError>>),
}

async fn ask(source: &A2aSource, request: http::Request<Bytes>) -> Result<Answer, RunFailure> {
    match source.upstream().client.open_bytes(request, sse::is_event_stream).await {
        Ok((head, stream)) => Ok(head.map(|()| AnswerBody::Stream(stream))),
        Err(ClientError::NotAStream(response)) => Ok(response.map(AnswerBody::Whole)),
        Err(error) => {
            if matches!(error, ClientError::Connect { .. }) {
                source.forget_address();
            }
            Err(failure_of(&error))
        }
    }
}

/// A call of which a lane gets a copy. It is a task of its own, so that it can close its lane when the caller goes.
struct Relay {
    source: Arc<A2aSource>,
    door: Endpoint,
    forwarded: Forwarded,
    lane: Lane,
}

impl Relay {
    async fn run(
        mut self,
        request: http::Request<Bytes>,
        mut to: oneshot::Sender<Result<Answer, RunFailure>>,
    ) {
        let answer = {
            let source = Arc::clone(&self.source);
            let asked = ask(&source, request);
            let mut asked = std::pin::pin!(asked);
            let shown = tokio::time::sleep(SHOWN_AFTER);
            let mut shown = std::pin::pin!(shown);
            let mut is_shown = false;
            loop {
                tokio::select! {
                    answer = &mut asked => break Some(answer),
                    () = to.closed() => break None,
                    () = &mut shown, if !is_shown => {
                        is_shown = true;
                        self.lane.handle_wait().await;
                    }
                }
            }
        };
        match answer {
            None => self.caller_is_gone().await,
            Some(Err(failure)) => {
                self.lane.handle_failure(failure.clone()).await;
                to.send(Err(failure)).ok();
            }
            Some(Ok(answer)) => {
                let (head, body) = answer.into_parts();
                match body {
                    AnswerBody::Stream(stream) => {
                        let (sender, chunks) = mpsc::channel(CHUNKS);
                        to.send(Ok(Answer::from_parts(head, AnswerBody::Relayed(chunks)))).ok();
                        self.carry(stream, sender).await;
                    }
                    AnswerBody::Whole(bytes) => {
                        self.take_whole(&head, &bytes).await;
                        to.send(Ok(Answer::from_parts(head, AnswerBody::Whole(bytes)))).ok();
                        return self.watch_over().await;
                    }
                    AnswerBody::Relayed(_) => {}
                }
            }
        }
        self.lane.leave();
    }

    async fn take_whole(&mut self, head: &http::response::Parts, bytes: &Bytes) {
        let response = http::Response::from_parts(head.clone(), bytes.clone());
        if is_json(&response) || !head.status.is_success() {
            return self.lane.handle_body(head.status.as_u16(), bytes).await;
        }
        let words = refusal_words(&response);
        self.lane.handle_failure(RunFailure::new(RunFailure::UPSTREAM_INVALID, words)).await;
    }

    /// Carries a stream to the caller, after its copy went to the lane.
    async fn carry(&mut self, mut stream: ByteStream, to: mpsc::Sender<Result<Bytes, ClientError>>) {
        let mut is_told = false;
        loop {
            let task = self.lane.working_task().filter(|_| !is_told);
            tokio::select! {
                () = to.closed() => return self.caller_is_gone().await,
                () = self.lane.stopped(), if task.is_some() => {
                    is_told = true;
                    self.cancel(task.unwrap_or_default());
                }
                chunk = stream.next() => match chunk {
                    Some(Ok(bytes)) => {
                        self.lane.handle_chunk(bytes.clone()).await;
                        // A caller that has gone is seen above.
                        to.send(Ok(bytes)).await.ok();
                    }
                    Some(Err(error)) => {
                        self.lane.handle_failure(failure_of(&error)).await;
                        to.send(Err(error)).await.ok();
                        return;
                    }
                    None => return self.lane.handle_end().await,
                },
            }
        }
    }

    /// A task that works on without a stream is cancelled with its run; what is said of it comes with later calls.
    async fn watch_over(self) {
        let Self { source, door, forwarded, mut lane } = self;
        let task = lane.working_task();
        let watch = task.and_then(|task| Some((task, lane.watch()?)));
        lane.leave();
        if let Some((task, run)) = watch
            && run.stopped_before_its_end().await
        {
            source.cancel(&door, task, &forwarded).await;
        }
    }

    fn cancel(&self, task: String) {
        let (source, door, forwarded) = (Arc::clone(&self.source), self.door.clone(), self.forwarded.clone());
        tokio::spawn(async move { source.cancel(&door, task, &forwarded).await });
    }

    async fn caller_is_gone(&mut self) {
        let message = "the agent that called this one went away before it had the whole answer";
        self.lane.handle_failure(RunFailure::new(CALLER_GONE, message)).await;
    }
}

fn relayed(
    chunks: mpsc::Receiver<Result<Bytes, ClientError>>,
) -> impl futures_util::Stream<Item = Result<Bytes, ClientError>> {
    futures_util::stream::unfold(chunks, async |mut chunks| Some((chunks.recv().await?, chunks)))
}

/// The headers of an answer that are for the caller.
fn passed_back(headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let is_kept = |name: &HeaderName| {
        let name = name.as_str();
        // Who may read an answer is this server's to say.
        KEPT.contains(&name) || name.starts_with("access-control-") || named.iter().any(|other| other == name)
    };
    let mut passed = HeaderMap::new();
    let mut last = None;
    for (name, value) in headers {
        last = name.or(last);
        if let Some(name) = last.clone().filter(|name| !is_kept(name)) {
            passed.append(name, value);
        }
    }
    passed
}

fn status_of(failure: &RunFailure) -> StatusCode {
    match &*failure.code {
        TIMEOUT => StatusCode::GATEWAY_TIMEOUT,
        NO_INTERFACE => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn refuse_http(failure: &RunFailure) -> Response {
    Refusal::new(status_of(failure), "upstream_error", failure.message.to_string()).into_response()
}

/// A failure on the way to the agent, as the binding tells errors.
fn refuse(call: &PassingCall<'_>, failure: &RunFailure) -> Response {
    let reason = failure.code.to_ascii_uppercase();
    let (status, body) = call.refusal(status_of(failure).as_u16(), &reason, &failure.message);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
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
