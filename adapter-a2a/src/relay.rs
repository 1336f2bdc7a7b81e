//! Calls that a proxy forwards: reads what kind of call it is, and writes metadata into it.
//!
//! A proxy forwards bodies unchanged. [`PassingCall`] reads the few members that identify and relate a call, and writes
//! one entry of metadata into the body without changing any other byte. [`move_card`] writes the proxy's address into
//! cards. This module validates no call: the agent refuses malformed ones.

mod card;
mod reply;
mod scope;
mod unique;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::version::Version;
pub use card::move_card;
pub use reply::{continue_event, reply_body};
pub use scope::{
    AnswerIds, CallScope, Reach, listed_tasks, query_contexts, replace_contexts, replace_query_contexts,
    retain_tasks,
};

/// The JSON-RPC code for errors that the caller did not cause.
const INTERNAL_ERROR: i64 = -32603;

/// The kind of a call, as far as a proxy distinguishes it. Both versions and both bindings have all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassingKind {
    /// Sends a message: starts or continues a task.
    Send,
    /// Streams the rest of a task.
    Subscribe,
    /// Reads a task.
    Look,
    /// Cancels a task.
    Cancel,
    /// Reads the extended card, which requires authentication.
    ExtendedCard,
    /// Anything else: lists, push configurations, and what is not part of the protocol. Forwarded like any call.
    Other,
}

/// A call that is being forwarded to an agent. Borrows from the body. A body that cannot be parsed gives a call
/// without ids.
///
/// ```text
/// {"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"m","taskId":"t"}}}
/// ► kind Send, task_id "t", message_id "m", version 1.0, id "7"
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PassingCall<'b> {
    /// The kind of the call.
    pub kind: PassingKind,
    /// The task that the call names; empty for none.
    pub task_id: Cow<'b, str>,
    /// The context that the call names; empty for none.
    pub context_id: Cow<'b, str>,
    /// The id of the message; empty for none.
    pub message_id: Cow<'b, str>,
    /// The version of the call, derived from its method or path; `None` if it could be either.
    pub version: Option<Version>,
    /// The JSON text of its JSON-RPC id (`7`, `"x"`), for the response. `None` over REST, and if the call has none.
    pub id: Option<&'b str>,
    /// Set for a call over REST.
    is_rest: bool,
    /// The complete body, to which the offsets of edits refer.
    body: &'b str,
    /// The text of the parameters: the complete body in REST.
    params: Option<&'b str>,
    /// The text of the message; `None` for calls that send none.
    message: Option<&'b str>,
    /// The text of the message's metadata, of whatever type.
    message_metadata: Option<&'b str>,
    /// The text of the call's metadata, of whatever type.
    metadata: Option<&'b str>,
}

/// A range of a body and its replacement.
type Edit = (usize, usize, String);

/// The members of a JSON object, each as its text.
type Members<'b> = BTreeMap<Cow<'b, str>, &'b RawValue>;

impl<'b> PassingCall<'b> {
    /// Parses the body of a JSON-RPC call. Never fails: what cannot be read is empty, and the agent refuses the
    /// call itself.
    pub fn of_jsonrpc(body: &'b str) -> Self {
        let top = members(body);
        let method = top.get("method").and_then(|raw| text(raw)).unwrap_or_default();
        let kind = match &*method {
            "SendMessage" | "SendStreamingMessage" | "message/send" | "message/stream" => PassingKind::Send,
            "SubscribeToTask" | "tasks/resubscribe" => PassingKind::Subscribe,
            "GetTask" | "tasks/get" => PassingKind::Look,
            "CancelTask" | "tasks/cancel" => PassingKind::Cancel,
            "GetExtendedAgentCard" | "agent/getAuthenticatedExtendedCard" => PassingKind::ExtendedCard,
            _ => PassingKind::Other,
        };
        let text_of_params = top.get("params").map(|raw| raw.get());
        let params = text_of_params.map(members).unwrap_or_default();
        let mut call = Self::new(kind, body, &params);
        call.params = text_of_params;
        call.version = version_of(&method);
        call.id = top.get("id").map(|raw| raw.get());
        if matches!(kind, PassingKind::Subscribe | PassingKind::Look | PassingKind::Cancel) {
            call.task_id = params.get("id").and_then(|raw| text(raw)).unwrap_or_default();
        }
        call
    }

    /// Parses a REST call: its method, its path below the interface's address, and its body. The task id of the
    /// path is not percent-decoded.
    pub fn of_rest(method: &str, path: &'b str, body: &'b str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let (name, verb) = last.rsplit_once(':').unwrap_or((last, ""));
        let of_task = path.rsplit('/').nth(1) == Some("tasks");
        let kind = match (method, name, verb) {
            ("POST", "message", "send" | "stream") => PassingKind::Send,
            (_, _, "subscribe") if of_task => PassingKind::Subscribe,
            ("POST", _, "cancel") if of_task => PassingKind::Cancel,
            ("GET", _, "") if of_task => PassingKind::Look,
            ("GET", "extendedAgentCard" | "card", "") => PassingKind::ExtendedCard,
            _ => PassingKind::Other,
        };
        let mut call = Self::new(kind, body, &members(body));
        call.is_rest = true;
        call.params = Some(body.trim());
        call.version = Some(if path.starts_with("v1/") { Version::V03 } else { Version::V1 });
        if of_task {
            call.task_id = Cow::Borrowed(name);
        }
        call
    }

    /// Reads the members that both bindings have: the message and its ids, and both metadata.
    fn new(kind: PassingKind, body: &'b str, params: &Members<'b>) -> Self {
        let text_of = |from: &Members<'b>, name: &str| from.get(name).and_then(|raw| text(raw));
        let raw_of = |from: &Members<'b>, name: &str| from.get(name).map(|raw| raw.get());
        let message = raw_of(params, "message").filter(|text| is_object(text) && kind == PassingKind::Send);
        let inside = message.map(members).unwrap_or_default();
        Self {
            kind,
            task_id: text_of(&inside, "taskId").unwrap_or_default(),
            context_id: text_of(&inside, "contextId").unwrap_or_default(),
            version: None,
            id: None,
            is_rest: false,
            body,
            params: None,
            message,
            message_id: text_of(&inside, "messageId").unwrap_or_default(),
            message_metadata: raw_of(&inside, "metadata"),
            metadata: raw_of(params, "metadata"),
        }
    }

    /// Returns a string in the metadata of the message, or else of the call.
    pub fn metadata(&self, key: &str) -> Option<String> {
        let of = |object: &'b str| members(object).get(key).and_then(|raw| text(raw)).map(Cow::into_owned);
        self.message_metadata.and_then(of).or_else(|| self.metadata.and_then(of))
    }

    /// Returns the body with that string in the metadata of the call, and without it in the metadata of the message,
    /// which agents store and show; all other bytes are unchanged. Returns `None` if the call has no message.
    pub fn with_metadata(&self, key: &str, value: &str) -> Option<String> {
        self.message?;
        let mut edits = vec![self.entry_edit(key, value)?];
        edits.extend(self.removal_edit(key));
        edited(self.body, edits)
    }

    /// Returns the edit that sets an entry in the metadata of the call.
    fn entry_edit(&self, key: &str, value: &str) -> Option<Edit> {
        // Four cases: no metadata, metadata that are not an object (replaced), a known entry (its value
        // replaced), and an object without the entry (inserted at its beginning).
        let entry = format!("{}:{}", Value::from(key), Value::from(value));
        let Some(object) = self.metadata else {
            let params = self.params?;
            let end = self.offset(params)? + params.len().checked_sub(1)?;
            // The object contains a message, so the new member follows another one.
            return Some((end, end, format!(",\"metadata\":{{{entry}}}")));
        };
        let inside = members(object);
        if !is_object(object) {
            let start = self.offset(object)?;
            return Some((start, start + object.len(), format!("{{{entry}}}")));
        }
        if let Some(old) = inside.get(key).map(|raw| raw.get()) {
            let start = self.offset(old)?;
            return Some((start, start + old.len(), Value::from(value).to_string()));
        }
        let start = self.offset(object)? + 1;
        let comma = if inside.is_empty() { "" } else { "," };
        Some((start, start, format!("{entry}{comma}")))
    }

    /// Returns the edit that removes an entry from the metadata of the message, if it is present.
    fn removal_edit(&self, key: &str) -> Option<Edit> {
        let object = self.message_metadata.filter(|object| is_object(object))?;
        let inside = members(object);
        let value = inside.get(key)?.get();
        // The value is found by its place, and its name by reading backwards from it. One comma beside the entry
        // goes with it: the one after it, or else the one before.
        let at = self.offset(value)? - self.offset(object)?;
        let (before, after) = (object.get(..at)?, object.get(at + value.len()..)?);
        let name = before.trim_end().strip_suffix(':')?.trim_end().strip_suffix('"')?;
        let start = name.rfind('"')?;
        let rest = after.trim_start();
        let start_of_object = self.offset(object)?;
        let end = at + value.len() + (after.len() - rest.len());
        let (start, end) = match (rest.starts_with(','), name.get(..start)?.trim_end().strip_suffix(',')) {
            (true, _) => (start, end + 1),
            (false, Some(head)) => (head.len(), at + value.len()),
            (false, None) => (start, at + value.len()),
        };
        Some((start_of_object + start, start_of_object + end, String::new()))
    }

    /// Returns the response of a proxy that could not forward the call: status and body, in the format of the binding.
    /// JSON-RPC reports errors with status 200, and with the id `null` if the call has none.
    pub fn refusal(&self, status: u16, reason: &str, message: &str) -> (u16, String) {
        let info = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "aqueduct",
        }]);
        if self.is_rest {
            let name = if status == 504 { "DEADLINE_EXCEEDED" } else { "UNAVAILABLE" };
            let error = json!({ "code": status, "status": name, "message": message, "details": info });
            return (status, json!({ "error": error }).to_string());
        }
        let id = self.id.unwrap_or("null");
        let error = json!({ "code": INTERNAL_ERROR, "message": message, "data": info });
        (200, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"))
    }

    /// Returns the offset of a slice of the body. Members are slices of the text that they were parsed from, so
    /// the difference of the addresses is their offset.
    fn offset(&self, part: &str) -> Option<usize> {
        part.as_ptr().addr().checked_sub(self.body.as_ptr().addr())
    }
}

/// Returns a body with its edits. Returns `None` if an edit is outside of the body.
fn edited(body: &str, mut edits: Vec<Edit>) -> Option<String> {
    // From the end, so that offsets stay valid.
    edits.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
    let mut body = body.to_owned();
    for (start, end, text) in edits {
        body = [body.get(..start)?, text.as_str(), body.get(end..)?].concat();
    }
    Some(body)
}

/// Returns the version of a method: names of 0.3 contain a slash, those of 1.0 are one word.
fn version_of(method: &str) -> Option<Version> {
    match method {
        "" => None,
        path if path.contains('/') => Some(Version::V03),
        _ => Some(Version::V1),
    }
}

/// Returns `true` for the text of an object. Texts of members have no leading whitespace.
fn is_object(text: &str) -> bool {
    text.starts_with('{')
}

/// Returns the members of an object, each as its text; none for anything else. Of repeated members the last
/// counts.
fn members(text: &str) -> Members<'_> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the value of a JSON string, or `None` for another type. Borrowed unless it has escapes.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let quoted = raw.get();
    let plain = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match plain {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        Some(_) => serde_json::from_str(quoted).ok().map(Cow::Owned),
        None => None,
    }
}

#[cfg(test)]
mod tests;
