//! HTTP+JSON: the routes of both versions.
//!
//! ```text
//! GET  /tasks/t?historyLength=2         1.0  ►  Method::Get,       {"id": "t", "historyLength": "2"}
//! POST /acme/message:send {…}           1.0  ►  Method::Send,      {…}, tenant "acme"
//! GET  /v1/tasks/t:subscribe            0.3  ►  Method::Subscribe, {"id": "t"}
//! ```
//!
//! A request becomes one object of parameters, from its path, its query or its body, which the reader of JSON-RPC
//! parameters parses too ([`params`](super::params)). Members of the path take precedence over those of the body.
//!
//! `:subscribe` is accepted by `GET` and by `POST` (the proto file and the text of the specification disagree). A
//! path that begins with `/v1` is one of 0.3, so `v1` cannot be a tenant.

use serde_json::{Map, Value};

use super::agent::AgentServer;
use super::card::CardConfig;
use super::http::{HttpAnswer, HttpCall, content_type, context, is_json, read_json};
use super::params::{Method, Spelling, call as read_call};
use super::payload::ItemPayloads;
use super::result;
use super::{Answer, ServerError};
use crate::encode::Envelope;
use crate::rest::decoded;
use crate::version::{A2A_JSON, Binding, JSON, Version};
use crate::wire::ErrorKind;

/// The method and parameters of a path.
#[derive(Debug, PartialEq)]
struct Route {
    /// The version whose routes contain the path.
    version: Version,
    /// The segment before the route, in 1.0; empty if there is none.
    tenant: String,
    method: Method,
    /// Members that the path contains.
    named: Vec<(&'static str, String)>,
}

/// Handles a request. Returns the version too: the caller writes the headers of that version. A refusal is a
/// response with the HTTP status of the error.
pub(super) async fn answer(
    server: &AgentServer,
    call: &HttpCall<'_>,
    card: &CardConfig,
) -> (HttpAnswer, Version) {
    let version = if is_v03(call.path) { Version::V03 } else { Version::V1 };
    let answer = match respond(server, call, card).await {
        Ok(answer) => answer,
        Err(error) => HttpAnswer::json(error.http_status(), JSON, &result::rest_error(&error, version))
            .challenged(&error),
    };
    (answer, version)
}

/// Returns `true` for a path of 0.3.
fn is_v03(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// Identifies the caller, parses the request and calls the server, in this order: unauthenticated callers do not
/// learn which paths exist.
///
/// # Errors
///
/// Returns the refusal for the caller.
async fn respond(
    server: &AgentServer,
    call: &HttpCall<'_>,
    card: &CardConfig,
) -> Result<HttpAnswer, ServerError> {
    server.identify(call.caller)?;
    let Route { version, tenant, method, named } = Route::find(call.method, call.path)?;
    let by = Spelling { version, binding: Binding::HttpJson };
    let mut beside = context(call, version)?;
    let mut params = params(call, method)?;
    // The tenant of the path takes precedence over that of the body.
    if let Some(Value::String(tenant)) = params.get("tenant") {
        beside.tenant.clone_from(tenant);
    }
    if !tenant.is_empty() {
        beside.tenant = tenant;
    }
    // The path wins over a member of the body with the same name.
    for (key, value) in named {
        params.insert(key.to_owned(), value.into());
    }
    let asked = read_call(method, &params, by)?;
    let answered = server.handle_with_card(call.caller.clone(), beside, asked, card).await?;
    Ok(match answered {
        Answer::Stream(items) => {
            HttpAnswer::stream(Box::new(ItemPayloads::new(items, version, Envelope::Bare)))
        }
        answer => {
            let media_type = if version == Version::V1 { A2A_JSON } else { JSON };
            HttpAnswer::json(200, media_type, &result::json(answer, by, method == Method::Send))
        }
    })
}

/// Returns the members of the body, or of the query for requests without a body. Values of a query are strings;
/// the reader accepts numbers and flags in that form.
///
/// # Errors
///
/// Returns `ContentTypeNotSupported` for a body of another media type, `Parse` if the body is not JSON, and
/// `InvalidRequest` if it is not an object.
fn params(call: &HttpCall<'_>, method: Method) -> Result<Map<String, Value>, ServerError> {
    // A `POST` that needs no body (cancel, subscribe) may have none, and then no content type either.
    let takes_body = matches!(method, Method::Send | Method::Stream | Method::CreatePush);
    if call.method != "POST" || (call.body.is_empty() && !takes_body) {
        let pairs = query_pairs(call.query).filter(|(key, _)| key != "A2A-Version");
        return Ok(pairs.map(|(key, value)| (key, Value::String(value))).collect());
    }
    if !is_json(&content_type(call.caller)) {
        let words =
            "the body must be JSON: send it with `Content-Type: application/a2a+json` or `application/json`";
        return Err(ServerError::new(ErrorKind::ContentTypeNotSupported, words));
    }
    match read_json(call.body)? {
        Value::Object(params) => Ok(params),
        _ => Err(ServerError::new(ErrorKind::InvalidRequest, "the body must be an object")),
    }
}

impl Route {
    /// Finds the route of a path.
    ///
    /// # Errors
    ///
    /// Returns `MethodNotFound` if no route matches, with the path, shortened.
    fn find(verb: &str, path: &str) -> Result<Self, ServerError> {
        let unknown = || {
            let shown: String = path.chars().take(120).collect();
            ServerError::new(ErrorKind::MethodNotFound, format!("there is no {verb} {shown}"))
        };
        // Segments are decoded after the split: an encoded slash belongs to an id.
        let mut segments: Vec<String> = path.trim_start_matches('/').split('/').map(decoded).collect();
        let version = if is_v03(path) { Version::V03 } else { Version::V1 };
        let mut tenant = String::new();
        if version == Version::V03 {
            segments.remove(0);
        } else if segments.len() > 1 && !matches!(segments.first().map(String::as_str), Some("tasks")) {
            tenant = segments.remove(0);
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (method, named) = Self::method(verb, &segments, version).ok_or_else(unknown)?;
        Ok(Self { version, tenant, method, named })
    }

    /// Returns the method of a path below the tenant or the prefix of 0.3, and the members that the path
    /// contains, by the names of the version's parameters.
    fn method(
        verb: &str,
        segments: &[&str],
        version: Version,
    ) -> Option<(Method, Vec<(&'static str, String)>)> {
        let is_v1 = version == Version::V1;
        let (task_key, config_key) =
            if is_v1 { ("taskId", "id") } else { ("id", "pushNotificationConfigId") };
        let none = Vec::new;
        Some(match (verb, segments) {
            ("POST", ["message:send"]) => (Method::Send, none()),
            ("POST", ["message:stream"]) => (Method::Stream, none()),
            ("GET", ["tasks"]) if is_v1 => (Method::List, none()),
            ("GET", ["extendedAgentCard"]) if is_v1 => (Method::ExtendedCard, none()),
            ("GET", ["card"]) if !is_v1 => (Method::ExtendedCard, none()),
            (verb, ["tasks", task]) => {
                let (id, method) = match (verb, task.rsplit_once(':')) {
                    ("POST", Some((id, "cancel"))) => (id, Method::Cancel),
                    ("GET" | "POST", Some((id, "subscribe"))) => (id, Method::Subscribe),
                    ("GET", _) => (*task, Method::Get),
                    _ => return None,
                };
                (method, vec![("id", id.to_owned())])
            }
            ("POST", ["tasks", task, "pushNotificationConfigs"]) => {
                (Method::CreatePush, vec![("taskId", (*task).to_owned())])
            }
            ("GET", ["tasks", task, "pushNotificationConfigs"]) => {
                (Method::ListPush, vec![(task_key, (*task).to_owned())])
            }
            ("GET" | "DELETE", ["tasks", task, "pushNotificationConfigs", config]) => {
                let method = if verb == "GET" { Method::GetPush } else { Method::DeletePush };
                (method, vec![(task_key, (*task).to_owned()), (config_key, (*config).to_owned())])
            }
            _ => return None,
        })
    }
}

/// Returns the first value of that name in a query.
pub(super) fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    query_pairs(query).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Returns the decoded pairs of a query. `+` is a space.
fn query_pairs(query: Option<&str>) -> impl Iterator<Item = (String, String)> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(&key.replace('+', " ")), decoded(&value.replace('+', " ")))
    })
}
