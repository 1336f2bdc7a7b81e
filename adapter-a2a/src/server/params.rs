//! Parses the JSON parameters of requests into [`Call`]s: the inverse of what [`crate::jsonrpc`] and
//! [`crate::rest`] encode.
//!
//! ```text
//! Send, 1.0:           {"message":{…},"configuration":{"returnImmediately":true}}   ►  return_immediately: true
//! Send, 0.3 JSON-RPC:  {"message":{…},"configuration":{"blocking":false}}           ►  return_immediately: true
//! GetPush, 0.3:        {"id":"t","pushNotificationConfigId":"c"}                    ►  task_id: "t", id: "c"
//! Get, 1.0:            {"id":7}                                                     ►  violation: `id` must be a string
//! ```
//!
//! Members have their JSON names or those of the proto file, as for `ProtoJSON` parsers. Unknown ones are ignored
//! (spec 5.7). Of known ones, all violations are collected, and named in one refusal with their paths
//! (`configuration.historyLength`).
//!
//! Not here: whether ids exist, and the content of messages ([`check`](super::check)).

use serde_json::{Map, Value};

use super::{FieldViolation, ServerError};
use crate::call::{Call, ListTasks, PushConfig, SendMessage};
use crate::version::{Binding, Version};
use crate::wire::{Message, TaskState};

/// The methods, independent of version and binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    CreatePush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
}

impl Method {
    /// The names over JSON-RPC: of 1.0, and of 0.3 if it has the method.
    const NAMES: [(Self, &'static str, Option<&'static str>); 11] = [
        (Self::Send, "SendMessage", Some("message/send")),
        (Self::Stream, "SendStreamingMessage", Some("message/stream")),
        (Self::Get, "GetTask", Some("tasks/get")),
        (Self::List, "ListTasks", None),
        (Self::Cancel, "CancelTask", Some("tasks/cancel")),
        (Self::Subscribe, "SubscribeToTask", Some("tasks/resubscribe")),
        (Self::CreatePush, "CreateTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/set")),
        (Self::GetPush, "GetTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/get")),
        (Self::ListPush, "ListTaskPushNotificationConfigs", Some("tasks/pushNotificationConfig/list")),
        (Self::DeletePush, "DeleteTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/delete")),
        (Self::ExtendedCard, "GetExtendedAgentCard", Some("agent/getAuthenticatedExtendedCard")),
    ];

    /// Returns the method of a name, and the version that uses the name.
    pub(super) fn by_name(name: &str) -> Option<(Self, Version)> {
        Self::NAMES.iter().find_map(|(method, v1, v03)| match name {
            name if name == *v1 => Some((*method, Version::V1)),
            name if Some(name) == *v03 => Some((*method, Version::V03)),
            _ => None,
        })
    }
}

/// Returns the 1.0 names of the methods that a server handles.
pub fn method_names() -> impl Iterator<Item = &'static str> {
    Method::NAMES.iter().map(|(_, name, _)| *name)
}

/// The version and binding of the parameters. Together they determine names and defaults.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spelling {
    pub(super) version: Version,
    pub(super) binding: Binding,
}

/// Parses the call of a method from its parameters.
///
/// # Errors
///
/// Returns `InvalidParams` with all violations. A message that is missing or not readable is reported alone.
pub(super) fn call(method: Method, params: &Map<String, Value>, by: Spelling) -> Result<Call, ServerError> {
    let mut fields = Fields { object: params, at: "", violations: Vec::new() };
    let is_v1 = by.version == Version::V1;
    let (task_key, config_key) = if is_v1 { ("taskId", "id") } else { ("id", "pushNotificationConfigId") };
    let call = match method {
        Method::Send | Method::Stream => {
            let send = Box::new(send(params, by)?);
            if method == Method::Send { Call::SendMessage(send) } else { Call::SendStreamingMessage(send) }
        }
        Method::Get => {
            Call::GetTask { id: fields.id("id"), history_length: history(fields.count("historyLength"), by) }
        }
        Method::List => Call::ListTasks(Box::new(list(&mut fields))),
        Method::Cancel => {
            Call::CancelTask { id: fields.id("id"), metadata: fields.object("metadata").cloned() }
        }
        Method::Subscribe => Call::SubscribeToTask { id: fields.id("id") },
        Method::CreatePush => return push(params, by).map(|config| Call::CreatePushConfig(Box::new(config))),
        Method::GetPush => {
            // In 0.3 the only push configuration of a task needs no name.
            let id = if is_v1 { fields.id(config_key) } else { fields.text(config_key).unwrap_or_default() };
            Call::GetPushConfig { task_id: fields.id(task_key), id }
        }
        Method::ListPush => Call::ListPushConfigs { task_id: fields.id(task_key) },
        Method::DeletePush => {
            Call::DeletePushConfig { task_id: fields.id(task_key), id: fields.id(config_key) }
        }
        Method::ExtendedCard => Call::GetExtendedCard,
    };
    fields.finish(call)
}

/// Returns the history length; in 0.3 zero means all.
fn history(length: Option<u32>, by: Spelling) -> Option<u32> {
    length.filter(|length| by.version == Version::V1 || *length > 0)
}

/// Parses a message and its configuration. The proto file of 0.3 calls the message `request`; both names are
/// accepted in 0.3.
fn send(params: &Map<String, Value>, by: Spelling) -> Result<SendMessage, ServerError> {
    let message =
        params.get("message").or_else(|| params.get("request").filter(|_| by.version == Version::V03));
    let Some(message) = message.filter(|message| !message.is_null()) else {
        return Err(ServerError::invalid_field("message", "must be set"));
    };
    let mut send = SendMessage::new(read_message(message, by)?);
    let mut fields = Fields { object: params, at: "", violations: Vec::new() };
    send.metadata = fields.object("metadata").cloned();
    // Without a configuration the response waits for the end of the task, in every version.
    let Some(configuration) = fields.object("configuration") else { return fields.finish(send) };
    let mut inner = Fields { object: configuration, at: "configuration.", violations: Vec::new() };
    send.accepted_output_modes = inner.texts("acceptedOutputModes");
    send.history_length = history(inner.count("historyLength"), by);
    send.return_immediately = match (by.version, by.binding) {
        (Version::V1, _) => inner.flag("returnImmediately").unwrap_or(false),
        (Version::V03, Binding::JsonRpc) => !inner.flag("blocking").unwrap_or(true),
        // `ProtoJSON` omits false.
        (Version::V03, _) => !inner.flag("blocking").unwrap_or(false),
    };
    let key = match (by.version, by.binding) {
        (Version::V1, _) => "taskPushNotificationConfig",
        (Version::V03, Binding::JsonRpc) => "pushNotificationConfig",
        (Version::V03, _) => "pushNotification",
    };
    if let Some(config) = inner.object(key) {
        send.push = Some(push_config(config, &format!("configuration.{key}."))?);
    }
    fields.violations.append(&mut inner.violations);
    fields.finish(send)
}

/// Parses a message with the reader of the wire model, so that requests and responses have one parser.
///
/// The message is written and parsed again because the model borrows from text; messages are small beside the run
/// that they start.
fn read_message(value: &Value, by: Spelling) -> Result<Message<'static>, ServerError> {
    if !value.is_object() {
        return Err(ServerError::invalid_field("message", "must be an object"));
    }
    check_contents(value)?;
    let text = value.to_string();
    let mut message = serde_json::from_str::<Message<'_>>(&text)
        .map_err(|error| ServerError::invalid_field("message", format!("is not readable: {error}")))?
        .into_owned();
    if by.binding.dialect(by.version) == crate::wire::Dialect::V03Rest {
        message.parts.iter_mut().for_each(crate::wire::Part::unwrap_data);
    }
    Ok(message)
}

/// Checks that a part has one content: parsing one of two would lose the other.
fn check_contents(message: &Value) -> Result<(), ServerError> {
    let parts = message.get("parts").or_else(|| message.get("content")).and_then(Value::as_array);
    for (index, part) in parts.into_iter().flatten().enumerate() {
        // Encoders that print all defaults write `"text": ""` beside the relevant member.
        let is_set = |key: &&str| part.get(*key).is_some_and(|held| !held.is_null() && held != "");
        let held: Vec<&str> = ["text", "raw", "url", "data", "file"].into_iter().filter(is_set).collect();
        if held.len() > 1 {
            let words = format!("must hold one thing, not {}", held.join(" and "));
            return Err(ServerError::invalid_field(format!("message.parts[{index}]"), words));
        }
    }
    Ok(())
}

/// Parses the filters of a list. Their values are validated by the list itself, for all bindings.
fn list(fields: &mut Fields<'_>) -> ListTasks {
    ListTasks {
        context_id: fields.text("contextId"),
        status: fields.state("status"),
        page_size: fields.count("pageSize"),
        page_token: fields.text("pageToken"),
        history_length: fields.count("historyLength"),
        status_timestamp_after: fields.text("statusTimestampAfter"),
        include_artifacts: fields.flag("includeArtifacts"),
    }
}

/// Parses a push configuration. 1.0: flat. 0.3: separate from its task, over REST inside a `config`.
fn push(params: &Map<String, Value>, by: Spelling) -> Result<PushConfig, ServerError> {
    let mut fields = Fields { object: params, at: "", violations: Vec::new() };
    let task_id = fields.id("taskId");
    fields.finish(())?;
    // Over REST of 0.3 the configuration can be inside of `config`, as in the request of gRPC.
    let outer = params.get("config").and_then(Value::as_object).unwrap_or(params);
    let inner = match by.version {
        Version::V1 => Some(params),
        Version::V03 => member(outer, "pushNotificationConfig").and_then(Value::as_object),
    };
    let Some(inner) = inner else {
        return Err(ServerError::invalid_field("pushNotificationConfig", "must be an object"));
    };
    let at = if by.version == Version::V1 { "" } else { "pushNotificationConfig." };
    Ok(PushConfig { task_id, ..push_config(inner, at)? })
}

/// Parses the members of a push configuration. `at` is its path, for the names of violations. The address is
/// checked later, for all bindings.
fn push_config(object: &Map<String, Value>, at: &str) -> Result<PushConfig, ServerError> {
    let mut fields = Fields { object, at, violations: Vec::new() };
    let mut config = PushConfig {
        task_id: fields.text("taskId").unwrap_or_default(),
        id: fields.text("id").unwrap_or_default(),
        url: fields.text("url").unwrap_or_default(),
        token: fields.text("token"),
        authentication: None,
    };
    if config.url.is_empty() {
        fields.complain("url", "must be set");
    }
    if let Some(authentication) = fields.object("authentication") {
        let at = format!("{at}authentication.");
        let mut inner = Fields { object: authentication, at: &at, violations: Vec::new() };
        // 1.0 has one scheme, 0.3 a list, of which the first is used.
        let scheme = inner.text("scheme").or_else(|| inner.texts("schemes").into_iter().next());
        let credentials = inner.text("credentials").unwrap_or_default();
        config.authentication = scheme.map(|scheme| (scheme, credentials));
        fields.violations.append(&mut inner.violations);
    }
    fields.finish(config)
}

/// Returns a member by its JSON name, or else by its name in the proto file.
fn member<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    let found = object.get(key).or_else(|| object.get(&proto_name(key)));
    found.filter(|value| !value.is_null())
}

/// Returns the name in the proto file: `pageSize` is `page_size`.
fn proto_name(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + 2);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns a whole number; `2.0` is one too: JavaScript and protobuf have no other.
fn whole(number: f64) -> Option<u32> {
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    is_whole.then_some(number as u32)
}

/// Parses members and collects their errors. Empty and `null` count as absent.
struct Fields<'p> {
    /// The object whose members are parsed.
    object: &'p Map<String, Value>,
    /// The path of the object, with a dot at its end; empty for the parameters themselves.
    at: &'p str,
    violations: Vec<FieldViolation>,
}

impl<'p> Fields<'p> {
    /// Records a violation of a member.
    fn complain(&mut self, key: &str, description: &str) {
        let field = format!("{}{key}", self.at);
        self.violations.push(FieldViolation { field, description: description.to_owned() });
    }

    /// Returns the value, or all violations as one refusal.
    fn finish<T>(self, read: T) -> Result<T, ServerError> {
        if self.violations.is_empty() { Ok(read) } else { Err(ServerError::invalid_fields(self.violations)) }
    }

    /// Returns a member that is not `null`, in either spelling.
    fn get(&self, key: &str) -> Option<&'p Value> {
        member(self.object, key)
    }

    /// Parses a task state, by its name or its number.
    fn state(&mut self, key: &str) -> Option<String> {
        match self.get(key).and_then(Value::as_i64) {
            Some(number) => Some(TaskState::of_number(number).v1_name().to_owned()),
            None => self.text(key),
        }
    }

    /// Parses a string. Another type is a violation; an empty string is absent.
    fn text(&mut self, key: &str) -> Option<String> {
        let value = self.get(key)?;
        if value.as_str().is_none() {
            self.complain(key, "must be a string");
        }
        value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Parses a required string. Exactly one violation is recorded if it is absent or of another type.
    fn id(&mut self, key: &str) -> String {
        let before = self.violations.len();
        let id = self.text(key);
        if id.is_none() && self.violations.len() == before {
            self.complain(key, "must be set");
        }
        id.unwrap_or_default()
    }

    /// Parses a number or its text: `ProtoJSON` parsers accept both, and queries contain only text.
    fn count(&mut self, key: &str) -> Option<u32> {
        let value = self.get(key)?;
        let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        let count = number.and_then(|number| u32::try_from(number).ok()).or_else(|| whole(value.as_f64()?));
        if count.is_none() {
            self.complain(key, "must be a whole number from 0 on");
        }
        count
    }

    /// Parses a flag or its text, which queries contain.
    fn flag(&mut self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        let flag = match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if flag.is_none() {
            self.complain(key, "must be true or false");
        }
        flag
    }

    /// Parses an object. Another type is a violation.
    fn object(&mut self, key: &str) -> Option<&'p Map<String, Value>> {
        let value = self.get(key)?;
        if value.as_object().is_none() {
            self.complain(key, "must be an object");
        }
        value.as_object()
    }

    /// Parses a list of strings. A list with another type in it is a violation as a whole.
    fn texts(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let texts: Option<Vec<String>> = value
            .as_array()
            .and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        if texts.is_none() {
            self.complain(key, "must be a list of strings");
        }
        texts.unwrap_or_default()
    }
}
