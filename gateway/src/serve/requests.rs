//! Assigns an id to every request before its route, and counts and logs it afterwards.
//!
//! ```text
//! request ──► id (`X-Request-Id`, the caller's or a new one), surface ──► route ──► count; log refusals, or all if configured
//! ```
//!
//! The id is part of every log line written while the request is handled, including the start of a run, and of the
//! response. A refusal is logged with its code, its reason and the configuration key that decides it. Queries and
//! headers are not logged: they contain tokens.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use aqueduct_transport_http::{RefusalReason, Surface};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tracing::Instrument as _;

use crate::service::Gateway;
use crate::telemetry::metrics::{RefusalLabels, RequestLabels};

/// The header of the request id, in requests and responses.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id of a caller, in characters. A UUID has 36; more would be a payload in the logs.
const LONGEST: usize = 64;

/// Gives every request of the router its id and its surface, and counts it.
///
/// The outermost layer: requests that admission, authentication or a quota refuses are counted and logged like others.
pub(super) fn identified(router: Router, gateway: &Arc<Gateway>) -> Router {
    router.layer(from_fn_with_state(Arc::clone(gateway), identify))
}

/// Handles one request inside a span with its id. For a stream, count and log describe its head: the body is sent after
/// this function has returned.
async fn identify(State(gateway): State<Arc<Gateway>>, mut request: Request, next: Next) -> Response {
    let id = request.headers().get(&HEADER).and_then(given).unwrap_or_else(made);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let surface = surface_of(&path);
    request.extensions_mut().insert(Surface(surface));
    let page = Page::of(&method, request.headers());
    // The field `trace` is filled in when a run starts, if its trace is exported.
    let span = tracing::info_span!("request", id, %method, path, trace = tracing::field::Empty);
    async move {
        let begun_at = Instant::now();
        let mut response = next.run(request).await;
        let ms = u64::try_from(begun_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let completed = Completed { gateway: &gateway, surface, path: &path, ms };
        completed.count(&response);
        completed.log(&response);
        page.log(&gateway, &response);
        // An id from a header, or of digits, is a valid header value.
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(HEADER, value);
        }
        response
    }
    .instrument(span)
    .await
}

/// Returns the surface of a path, as metrics name it.
///
/// A fixed set of names: paths are chosen by callers, and must not become metric labels. A test checks that every route
/// has a surface.
fn surface_of(path: &str) -> &'static str {
    let mut segments = path.trim_start_matches('/').split('/');
    // The first and the third segment: `/agents/{name}/ws`.
    match (segments.next().unwrap_or_default(), segments.nth(1)) {
        ("ws", _) | ("agents", Some("ws")) => "ws",
        ("agents" | "runs" | "threads", _) => "agui",
        ("a2a" | ".well-known", _) => "a2a",
        ("aqueduct.v1.AgentStream", _) => "grpc",
        ("lf.a2a.v1.A2AService" | "a2a.v1.A2AService", _) => "a2a_grpc",
        ("inspector", _) => "inspector",
        ("healthz" | "readyz" | "metrics", _) => "probe",
        _ => "other",
    }
}

/// The facts of a completed request that metrics and logs contain.
struct Completed<'a> {
    gateway: &'a Gateway,
    surface: &'static str,
    path: &'a str,
    ms: u64,
}

impl Completed<'_> {
    /// Returns the agent of the path if it is configured: callers must not choose metric labels.
    fn agent(&self) -> String {
        let mut segments = self.path.trim_start_matches('/').split('/');
        let name = match segments.next() {
            Some("agents" | "a2a") => segments.next().unwrap_or_default(),
            _ => "",
        };
        self.gateway.agent(name).map(|agent| agent.name.clone()).unwrap_or_default()
    }

    /// Counts the request by surface, agent and status, and a refusal by its code.
    fn count(&self, response: &Response) {
        let (surface, metrics) = (self.surface, self.gateway.metrics());
        let status = response.status().as_u16();
        metrics.requests.get_or_create(&RequestLabels { surface, agent: self.agent(), status }).inc();
        if let Some((code, _)) = refusal_of(response) {
            let code = code.into_owned();
            metrics.refusals.get_or_create(&RefusalLabels { surface, code }).inc();
        }
    }

    /// Logs a refusal always, at `warn` if the gateway or an agent is at fault; any other response at `info` if
    /// `log.access` is set, else at `debug`.
    fn log(&self, response: &Response) {
        let (status, ms) = (response.status().as_u16(), self.ms);
        let Some((code, reason)) = refusal_of(response) else {
            if self.gateway.config().log.access {
                tracing::info!(status, ms, "answered");
            } else {
                tracing::debug!(status, ms, "answered");
            }
            return;
        };
        let key = key_of(&code);
        if status >= 500 {
            tracing::warn!(status, ms, code = &*code, key, reason = &*reason, "refused");
        } else {
            tracing::info!(status, ms, code = &*code, key, reason = &*reason, "refused");
        }
    }
}

/// Returns the code and the reason if the response is a refusal.
///
/// In this order: the reason that the gateway attached; a gRPC status other than OK, whose HTTP status is 200; an HTTP
/// error status that a library produced, such as 405.
fn refusal_of(response: &Response) -> Option<(Cow<'static, str>, Cow<'_, str>)> {
    if let Some(RefusalReason { code, message }) = response.extensions().get() {
        return Some((Cow::Borrowed(code), Cow::Borrowed(message)));
    }
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    if let Some(code) = text("grpc-status").filter(|code| *code != "0") {
        let code = code.parse::<u8>().unwrap_or(2);
        return Some((format!("grpc_{code}").into(), text("grpc-message").unwrap_or_default().into()));
    }
    let status = response.status();
    let is_refusal = status.is_client_error() || status.is_server_error();
    let reason = status.canonical_reason().unwrap_or_default();
    is_refusal.then(|| (format!("http_{}", status.as_u16()).into(), Cow::Borrowed(reason)))
}

/// Returns the configuration key that decides a refusal, so that the log line names what to change; empty if none does.
fn key_of(code: &str) -> &'static str {
    match code {
        "host_not_allowed" => "server.hosts",
        "origin_not_allowed" => "server.origins",
        "unauthenticated" | "grpc_16" => "principals",
        "busy" => "runs.limit",
        "grpc_8"
        | "too_many_runs"
        | "too_many_requests"
        | "too_many_bytes"
        | "too_many_bodies"
        | "too_many_connections" => "quotas",
        "body_too_long" => "server.body",
        "upstream_timeout" => "agents.NAME.timeouts",
        "not_found" => "agents",
        _ => "",
    }
}

/// A request that a browser may have sent for a page of another origin. A page whose preflight fails sees only a
/// network error, so the reason has to be in the log of the gateway.
struct Page {
    origin: Option<String>,
    is_preflight: bool,
}

impl Page {
    /// Reads the headers, before the request is moved into its route.
    fn of(method: &Method, headers: &HeaderMap) -> Self {
        let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        let is_preflight =
            *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        Self { origin: origin.map(str::to_owned), is_preflight }
    }

    /// Logs which key to set, if the browser will hide the response from the page.
    fn log(&self, gateway: &Gateway, response: &Response) {
        let Some(origin) = self.origin.as_deref().filter(|_| self.is_preflight) else { return };
        if response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        let is_foreign = response
            .extensions()
            .get()
            .is_some_and(|reason: &RefusalReason| reason.code == "origin_not_allowed");
        let remedy = match (is_foreign, gateway.config().server.cors) {
            (true, true) => "add the origin to `server.origins`",
            (true, false) => "add the origin to `server.origins`, and set `server.cors = true`",
            (false, _) => "set `server.cors = true`",
        };
        tracing::warn!(origin, remedy, "a page may not use this gateway: its preflight was refused");
    }
}

/// Returns the caller's request id if it is short and cannot forge a log line.
fn given(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_id = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_plain);
    is_id.then(|| text.to_owned())
}

/// Returns an id that is unique in the process and differs from those of an earlier process: a counter, hashed with a
/// random key. It is not a secret.
fn made() -> String {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}", KEYS.hash_one(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_kept_if_it_is_one() {
        let given = |text: &str| given(&HeaderValue::from_str(text).unwrap());
        assert_eq!(given("3f2a-1").as_deref(), Some("3f2a-1"));
        for bad in ["", "two words", "a\"b", "é", &"x".repeat(65)] {
            assert_eq!(
                HeaderValue::from_str(bad).ok().and_then(|value| super::given(&value)),
                None,
                "{bad:?}"
            );
        }
        assert_ne!(made(), made());
    }

    #[test]
    fn every_route_has_a_surface() {
        for route in crate::serve::routes::ROUTES {
            assert_ne!(surface_of(route.path), "other", "{}", route.path);
        }
        assert_eq!([surface_of("/agents/a"), surface_of("/agents/a/ws")], ["agui", "ws"]);
        assert_eq!(surface_of("/"), "other");
    }
}
