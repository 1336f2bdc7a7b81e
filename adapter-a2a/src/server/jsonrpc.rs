//! JSON-RPC 2.0: one `POST` for all methods of both versions.
//!
//! ```text
//! {"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}
//! ► 200 {"jsonrpc":"2.0","id":1,"result":{…}}      or      200 {"jsonrpc":"2.0","id":1,"error":{"code":-32001,…}}
//! ```
//!
//! The name of a method determines its version, as in the Python server; the version header must agree. Errors
//! have status 200, except for those of HTTP itself (401, 405, 429). Batches are refused, as by the Python
//! server.

use serde_json::{Map, Value, json};

use super::agent::AgentServer;
use super::card::CardConfig;
use super::http::{HttpAnswer, HttpCall, content_type, context, is_json, read_json};
use super::params::{Method, Spelling, call as read_call};
use super::payload::ItemPayloads;
use super::result;
use super::{Answer, ServerError};
use crate::encode::Envelope;
use crate::version::{Binding, JSON, Version};
use crate::wire::ErrorKind;

/// A refusal, and what is known of the request so far: the response repeats the id, if it was read.
struct Refused {
    error: ServerError,
    id: Value,
    /// The version of the client, which determines the form of the error.
    version: Version,
}

/// Handles a request. Returns the version too: the caller writes the headers of that version.
pub(super) async fn answer(
    server: &AgentServer,
    call: &HttpCall<'_>,
    card: &CardConfig,
) -> (HttpAnswer, Version) {
    match respond(server, call, card).await {
        Ok(answered) => answered,
        Err(refused) => {
            let Refused { error, id, version } = *refused;
            // JSON-RPC errors are responses with status 200; unauthenticated callers and malformed requests get an HTTP
            // error.
            let status = match call.method {
                _ if error.is_of_http() => error.http_status(),
                "POST" => 200,
                _ => 405,
            };
            let body = json!({"jsonrpc": "2.0", "id": id, "error": result::rpc_error(&error, version)});
            let mut answer = HttpAnswer::json(status, JSON, &body).challenged(&error);
            if status == 405 {
                answer.headers.push(("allow", "POST".to_owned()));
            }
            (answer, version)
        }
    }
}

/// Parses the request, calls the server and encodes the response.
///
/// # Errors
///
/// Returns the refusal with the id of the request. Boxed, because it is large and rare.
async fn respond(
    server: &AgentServer,
    call: &HttpCall<'_>,
    card: &CardConfig,
) -> Result<(HttpAnswer, Version), Box<Refused>> {
    let request = Request::read(server, call)?;
    let Request { id, method, version, params } = request;
    let refuse = |error| Box::new(Refused { error, id: id.clone(), version });
    let by = Spelling { version, binding: Binding::JsonRpc };
    let mut beside = context(call, version).map_err(refuse)?;
    if let Some(tenant) = params.get("tenant").and_then(Value::as_str) {
        tenant.clone_into(&mut beside.tenant);
    }
    let asked = read_call(method, &params, by).map_err(refuse)?;
    let answered = server.handle_with_card(call.caller.clone(), beside, asked, card).await.map_err(refuse)?;
    let answer = match answered {
        Answer::Stream(items) => {
            HttpAnswer::stream(Box::new(ItemPayloads::new(items, version, Envelope::JsonRpc(id))))
        }
        answer => {
            let result = result::json(answer, by, method == Method::Send);
            HttpAnswer::json(200, JSON, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
    };
    Ok((answer, version))
}

/// Returns `true` for an id that every response can repeat unchanged: a string of at most `longest` bytes, or a
/// number that is printed as it was parsed. Clients compare ids by type and value; every event of a stream
/// contains the id, so it is bounded.
fn comes_back(id: &Value, longest: usize) -> bool {
    match id {
        Value::String(text) => text.len() <= longest,
        // Whole numbers beyond 64 bits are parsed as floats.
        Value::Number(number) => {
            !number.is_f64() || number.as_f64().is_some_and(|number| number.abs() < 1e15)
        }
        _ => false,
    }
}

/// A parsed request, before its parameters are read.
struct Request {
    id: Value,
    method: Method,
    version: Version,
    params: Map<String, Value>,
}

impl Request {
    /// Parses the envelope. Checks are ordered so that each error can be as specific as possible: identity, HTTP
    /// method, media type, JSON, id, envelope, method, parameters.
    ///
    /// # Errors
    ///
    /// Returns the refusal with the id, once that is known.
    fn read(server: &AgentServer, call: &HttpCall<'_>) -> Result<Self, Box<Refused>> {
        // Errors before the method is known have the form of the client's version.
        let version = context(call, Version::V03).map_or(Version::V1, |_| Version::V03);
        let mut id = Value::Null;
        let refuse = |id: &Value, error| Box::new(Refused { error, id: id.clone(), version });
        let wrong = |id: &Value, words: &str| refuse(id, ServerError::new(ErrorKind::InvalidRequest, words));
        // Unauthenticated callers do not learn what is wrong with their requests.
        server.identify(call.caller).map_err(|error| refuse(&id, error))?;
        if call.method != "POST" {
            return Err(wrong(&id, "JSON-RPC requests are sent by POST"));
        }
        if !is_json(&content_type(call.caller)) {
            let words = "the body must be JSON: send it with `Content-Type: application/json`";
            return Err(refuse(&id, ServerError::new(ErrorKind::ContentTypeNotSupported, words)));
        }
        let body = read_json(call.body).map_err(|error| refuse(&id, error))?;
        let Value::Object(mut body) = body else {
            let words = if body.is_array() {
                "batches are not supported: send one request"
            } else {
                "a request is an object"
            };
            return Err(wrong(&id, words));
        };
        match body.remove("id") {
            None | Some(Value::Null) => {}
            Some(given) if comes_back(&given, server.config().limits.id_bytes) => id = given,
            Some(_) => {
                return Err(wrong(
                    &id,
                    "`id` must be a short string, a number that fits in 64 bits, or null",
                ));
            }
        }
        if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(wrong(&id, "`jsonrpc` must be \"2.0\""));
        }
        let Some(Value::String(name)) = body.get("method") else {
            return Err(wrong(&id, "`method` must be a string"));
        };
        let Some((method, version)) = Method::by_name(name) else {
            let shown: String = name.chars().take(80).collect();
            let words = format!("there is no method {shown:?}");
            return Err(refuse(&id, ServerError::new(ErrorKind::MethodNotFound, words)));
        };
        let params = match body.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => {
                let error = ServerError::invalid_field("params", "must be an object");
                return Err(Box::new(Refused { error, id, version }));
            }
        };
        Ok(Self { id, method, version, params })
    }
}
