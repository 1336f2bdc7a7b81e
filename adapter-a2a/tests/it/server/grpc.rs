//! What is refused over gRPC, case by case, in both packages: code, reason, fields at fault.

use aqueduct_adapter_a2a::mark::EXTENSION;
use aqueduct_adapter_a2a::pb::read::Asked;
use aqueduct_adapter_a2a::pb::serve::{GrpcAnswer, GrpcStatus};
use aqueduct_adapter_a2a::pb::status::{BadRequest, ErrorInfo, RpcStatus};
use aqueduct_adapter_a2a::pb::{v1, v03};
use aqueduct_adapter_a2a::server::ServerConfig;
use aqueduct_adapter_a2a::version::Version;
use aqueduct_core::service::Caller;
use aqueduct_core::{ContentBlock, RunOutcome, SourceEvent, Update};
use prost::Message as _;
use serde_json::json;
use std::time::Duration;

use super::support::{Served, message, serve, serve_with, settle};

const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;
const FAILED_PRECONDITION: i32 = 9;
const UNIMPLEMENTED: i32 = 12;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

fn served() -> Served {
    serve(|_| {
        let done = SourceEvent::Finished { outcome: RunOutcome::Success, result: None };
        vec![SourceEvent::from(Update::new(ContentBlock::text("done"))), done]
    })
}

/// A request under construction.
struct Ask {
    method: &'static str,
    message: Vec<u8>,
    headers: Vec<(String, String)>,
    token: Option<String>,
}

fn ask(method: &'static str, message: impl Into<Vec<u8>>) -> Ask {
    let headers = vec![("a2a-extensions".to_owned(), EXTENSION.to_owned())];
    Ask { method, message: message.into(), headers, token: None }
}

impl Ask {
    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn by(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }
}

impl Served {
    async fn grpc(&self, version: Version, ask: Ask) -> Result<GrpcAnswer, GrpcStatus> {
        let caller = Caller { token: ask.token, headers: ask.headers, ..Caller::default() };
        let asked = Asked::read(version, ask.method, &ask.message);
        self.server.handle_grpc(caller, version, asked, &self.card).await
    }
}

/// One row: what, the request, the code, the reason (1.0) and the field at fault, if one is.
type Row = (&'static str, Ask, i32, &'static str, &'static str);

/// Each row gets what it says: in 1.0 as `ErrorInfo` and `BadRequest`, in 0.3 as the class before the words.
async fn check(served: &Served, version: Version, rows: Vec<Row>) {
    for (what, ask, code, reason, field) in rows {
        let refused = served.grpc(version, ask).await;
        let Err(status) = refused else { panic!("{version} {what}: {refused:?}") };
        assert_eq!(status.code, code, "{version} {what}: {status:?}");
        if version == Version::V03 {
            let class = class_of(reason);
            assert!(status.message.starts_with(&format!("{class}: ")), "{what}: {}", status.message);
            assert!(status.message.contains(field), "{what}: {}", status.message);
            assert!(status.details.is_empty(), "{what}: 0.3 has no details");
            continue;
        }
        let details = RpcStatus::decode(&*status.details).unwrap();
        assert_eq!((details.code, &details.message), (code, &status.message), "{what}");
        assert!(!status.message.is_empty(), "{what}");
        let info = ErrorInfo::decode(&*details.details[0].value).unwrap();
        assert!(details.details[0].type_url.ends_with("/google.rpc.ErrorInfo"), "{what}");
        assert_eq!((&*info.reason, &*info.domain), (reason, "a2a-protocol.org"), "{what}");
        let faults = details.details.get(1).map(|detail| BadRequest::decode(&*detail.value).unwrap());
        let named = faults.map(|faults| faults.field_violations[0].field.clone()).unwrap_or_default();
        assert_eq!(named, field, "{what}");
    }
}

fn class_of(reason: &str) -> &'static str {
    match reason {
        "PARSE_ERROR" => "JSONParseError",
        "INVALID_PARAMS" => "InvalidParamsError",
        "METHOD_NOT_FOUND" => "MethodNotFoundError",
        "TASK_NOT_FOUND" => "TaskNotFoundError",
        "TASK_NOT_CANCELABLE" => "TaskNotCancelableError",
        "UNSUPPORTED_OPERATION" => "UnsupportedOperationError",
        "CONTENT_TYPE_NOT_SUPPORTED" => "ContentTypeNotSupportedError",
        "PUSH_NOTIFICATION_NOT_SUPPORTED" => "PushNotificationNotSupportedError",
        "VERSION_NOT_SUPPORTED" => "VersionNotSupportedError",
        "EXTENSION_SUPPORT_REQUIRED" => "ExtensionSupportRequiredError",
        _ => "InternalError",
    }
}

/// A field of bytes: its key, its length, and them.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut written = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut written);
    written.extend_from_slice(bytes);
    written
}

/// Appends metadata to a message: lists in lists, ten thousand deep. By hand, because libraries write by recursion too.
fn with_deep_metadata(message: &[u8]) -> Vec<u8> {
    let mut value = vec![1 << 3, 0];
    for _ in 0..10_000 {
        // `Value.list_value` of `ListValue.values`.
        value = field(6, &field(1, &value));
    }
    let entry = [field(1, b"k"), field(2, &value)].concat();
    [message, &field(6, &field(1, &entry))].concat()
}

fn v1_text(text: &str) -> v1::Part {
    v1::Part { content: Some(v1::part::Content::Text(text.to_owned())), ..Default::default() }
}

fn v1_message() -> v1::Message {
    let (message_id, role) = ("m".to_owned(), v1::Role::User as i32);
    v1::Message { message_id, role, parts: vec![v1_text("hi")], ..Default::default() }
}

fn v1_send(message: v1::Message) -> Vec<u8> {
    v1::SendMessageRequest { message: Some(message), ..Default::default() }.encode_to_vec()
}

fn v1_get(id: &str) -> Vec<u8> {
    v1::GetTaskRequest { id: id.to_owned(), ..Default::default() }.encode_to_vec()
}

fn v03_message() -> v03::Message {
    let part = v03::Part { part: Some(v03::part::Part::Text("hi".to_owned())), ..Default::default() };
    let (message_id, role) = ("m".to_owned(), v03::Role::User as i32);
    v03::Message { message_id, role, content: vec![part], ..Default::default() }
}

fn v03_send(message: v03::Message) -> Vec<u8> {
    v03::SendMessageRequest { request: Some(message), ..Default::default() }.encode_to_vec()
}

fn v03_get(name: &str) -> Vec<u8> {
    v03::GetTaskRequest { name: name.to_owned(), ..Default::default() }.encode_to_vec()
}

/// Bytes that are no message of any type; `field` is the number of the request's first field of text.
fn malformed(field: u8) -> Vec<Row> {
    let key = |wire: u8| field << 3 | wire;
    let row = |what, message: Vec<u8>| (what, ask("GetTask", message), INVALID_ARGUMENT, "PARSE_ERROR", "");
    vec![
        row("no key", vec![0xff]),
        row("a key without end", vec![0xff; 12]),
        row("a text that is longer than the message", vec![key(2), 5, b'a']),
        row("a text of more bytes than there are", vec![key(2), 0xff, 0xff, 0xff, 0xff, 0x0f]),
        row("a number where a text belongs", vec![key(0), 7]),
        row("four bytes where a text belongs", vec![key(5), 1, 2, 3, 4]),
        row("a text that is no UTF-8", vec![key(2), 2, 0xc3, 0x28]),
        row("a group that nothing ends", vec![15 << 3 | 3]),
        row("the end of no group", vec![15 << 3 | 4]),
        row("field number zero", vec![0x02, 1, b'a']),
        row("no wire type", vec![key(7), 1]),
    ]
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_message_are_refused() {
    let served = served();
    check(&served, Version::V1, malformed(2)).await;
    check(&served, Version::V03, malformed(1)).await;
    for (version, deep) in [
        (Version::V1, field(2, &with_deep_metadata(&v1_message().encode_to_vec()))),
        (Version::V03, field(1, &with_deep_metadata(&v03_message().encode_to_vec()))),
    ] {
        let rows = vec![
            ("deep metadata", ask("SendMessage", deep.clone()), INVALID_ARGUMENT, "PARSE_ERROR", ""),
            (
                "deep metadata, streamed",
                ask("SendStreamingMessage", deep),
                INVALID_ARGUMENT,
                "PARSE_ERROR",
                "",
            ),
        ];
        check(&served, version, rows).await;
    }
    assert_eq!(served.runs.count(), 0, "nothing of this starts a run");
    let unknown = [v1_get("nope"), vec![15 << 3 | 2, 1, b'x']].concat();
    let refused = served.grpc(Version::V1, ask("GetTask", unknown)).await.unwrap_err();
    assert_eq!(refused.code, NOT_FOUND, "fields that nobody knows are no fault");
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn requests_of_1_0_that_make_no_sense_are_refused() {
    let served = served();
    let send = |message: v1::Message| ask("SendMessage", v1_send(message));
    let (bad, missing) = (INVALID_ARGUMENT, NOT_FOUND);
    let list = |list: v1::ListTasksRequest| ask("ListTasks", list.encode_to_vec());
    let configured = |configuration: v1::SendMessageConfiguration| {
        let message = Some(v1_message());
        let request =
            v1::SendMessageRequest { message, configuration: Some(configuration), ..Default::default() };
        ask("SendMessage", request.encode_to_vec())
    };
    let cancel = v1::CancelTaskRequest { id: "nope".to_owned(), ..Default::default() }.encode_to_vec();
    let subscribe =
        v1::SubscribeToTaskRequest { id: "nope".to_owned(), ..Default::default() }.encode_to_vec();
    let push = |task_id: &str, url: &str| {
        v1::TaskPushNotificationConfig {
            task_id: task_id.to_owned(),
            url: url.to_owned(),
            ..Default::default()
        }
        .encode_to_vec()
    };
    let rows: Vec<Row> = vec![
        ("unknown method", ask("Fly", ""), UNIMPLEMENTED, "METHOD_NOT_FOUND", ""),
        ("a method of 0.3", ask("TaskSubscription", ""), UNIMPLEMENTED, "METHOD_NOT_FOUND", ""),
        ("no method", ask("", ""), UNIMPLEMENTED, "METHOD_NOT_FOUND", ""),
        ("no message", ask("SendMessage", ""), bad, "INVALID_PARAMS", "message"),
        (
            "no message id",
            send(v1::Message { message_id: String::new(), ..v1_message() }),
            bad,
            "INVALID_PARAMS",
            "message.messageId",
        ),
        ("no role", send(v1::Message { role: 0, ..v1_message() }), bad, "INVALID_PARAMS", "message.role"),
        (
            "no parts",
            send(v1::Message { parts: Vec::new(), ..v1_message() }),
            bad,
            "INVALID_PARAMS",
            "message.parts",
        ),
        (
            "a part without content",
            send(v1::Message { parts: vec![v1::Part::default()], ..v1_message() }),
            bad,
            "INVALID_PARAMS",
            "message.parts[0]",
        ),
        (
            "history below zero",
            configured(v1::SendMessageConfiguration { history_length: Some(-1), ..Default::default() }),
            bad,
            "INVALID_PARAMS",
            "configuration.historyLength",
        ),
        (
            "media types",
            configured(v1::SendMessageConfiguration {
                accepted_output_modes: vec!["video/mp4".to_owned()],
                ..Default::default()
            }),
            bad,
            "CONTENT_TYPE_NOT_SUPPORTED",
            "",
        ),
        ("no id", ask("GetTask", ""), bad, "INVALID_PARAMS", "id"),
        ("no id to cancel", ask("CancelTask", ""), bad, "INVALID_PARAMS", "id"),
        ("no id to watch", ask("SubscribeToTask", ""), bad, "INVALID_PARAMS", "id"),
        ("unknown task", ask("GetTask", v1_get("nope")), missing, "TASK_NOT_FOUND", ""),
        ("an id of blanks", ask("GetTask", v1_get("  ")), missing, "TASK_NOT_FOUND", ""),
        ("an id of a path", ask("GetTask", v1_get("../../etc/passwd")), missing, "TASK_NOT_FOUND", ""),
        ("an id of a megabyte", ask("GetTask", v1_get(&"x".repeat(1 << 20))), missing, "TASK_NOT_FOUND", ""),
        (
            "message to an unknown task",
            send(v1::Message { task_id: "nope".to_owned(), ..v1_message() }),
            missing,
            "TASK_NOT_FOUND",
            "",
        ),
        ("cancel an unknown task", ask("CancelTask", cancel), missing, "TASK_NOT_FOUND", ""),
        ("watch an unknown task", ask("SubscribeToTask", subscribe), missing, "TASK_NOT_FOUND", ""),
        (
            "a page of none",
            list(v1::ListTasksRequest { page_size: Some(0), ..Default::default() }),
            bad,
            "INVALID_PARAMS",
            "pageSize",
        ),
        (
            "a page of too many",
            list(v1::ListTasksRequest { page_size: Some(101), ..Default::default() }),
            bad,
            "INVALID_PARAMS",
            "pageSize",
        ),
        (
            "a page below zero",
            list(v1::ListTasksRequest { page_size: Some(-1), ..Default::default() }),
            bad,
            "INVALID_PARAMS",
            "pageSize",
        ),
        (
            "a token of ours it is not",
            list(v1::ListTasksRequest { page_token: "x".to_owned(), ..Default::default() }),
            bad,
            "INVALID_PARAMS",
            "pageToken",
        ),
        (
            "no such state",
            list(v1::ListTasksRequest { status: 99, ..Default::default() }),
            bad,
            "INVALID_PARAMS",
            "status",
        ),
        (
            "no push",
            ask("CreateTaskPushNotificationConfig", push("t", "https://x.test")),
            FAILED_PRECONDITION,
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
            "",
        ),
        (
            "push without a place",
            ask("CreateTaskPushNotificationConfig", push("t", "")),
            bad,
            "INVALID_PARAMS",
            "url",
        ),
        ("no other card", ask("GetExtendedAgentCard", ""), FAILED_PRECONDITION, "UNSUPPORTED_OPERATION", ""),
        (
            "another version",
            ask("GetTask", v1_get("t")).header("a2a-version", "2.0"),
            FAILED_PRECONDITION,
            "VERSION_NOT_SUPPORTED",
            "",
        ),
        (
            "the version before",
            ask("GetTask", v1_get("t")).header("a2a-version", "0.3"),
            FAILED_PRECONDITION,
            "VERSION_NOT_SUPPORTED",
            "",
        ),
        (
            "no version at all",
            ask("GetTask", v1_get("t")).header("a2a-version", "banana"),
            FAILED_PRECONDITION,
            "VERSION_NOT_SUPPORTED",
            "",
        ),
        (
            "the same major version",
            ask("GetTask", v1_get("t")).header("a2a-version", "1.7"),
            missing,
            "TASK_NOT_FOUND",
            "",
        ),
        ("a stranger", ask("GetTask", "").by("wrong"), UNAUTHENTICATED, "UNAUTHENTICATED", ""),
        ("a stranger without a method", ask("Fly", "").by("wrong"), UNAUTHENTICATED, "UNAUTHENTICATED", ""),
    ];
    check(&served, Version::V1, rows).await;
    assert_eq!(served.runs.count(), 0, "nothing of this starts a run");
}

#[tokio::test(start_paused = true)]
async fn requests_of_0_3_that_make_no_sense_are_refused() {
    let served = served();
    let send = |message: v03::Message| ask("SendMessage", v03_send(message));
    let (bad, missing) = (INVALID_ARGUMENT, NOT_FOUND);
    let cancel = v03::CancelTaskRequest { name: "tasks/nope".to_owned() }.encode_to_vec();
    let subscribe = v03::TaskSubscriptionRequest { name: "tasks/nope".to_owned() }.encode_to_vec();
    let below = v03::GetTaskRequest { name: "tasks/t".to_owned(), history_length: -1 }.encode_to_vec();
    let modes = v03::SendMessageConfiguration {
        accepted_output_modes: vec!["video/mp4".to_owned()],
        ..Default::default()
    };
    let modes = v03::SendMessageRequest {
        request: Some(v03_message()),
        configuration: Some(modes),
        ..Default::default()
    };
    let push =
        v03::CreateTaskPushNotificationConfigRequest { parent: "tasks/t".to_owned(), ..Default::default() };
    let rows: Vec<Row> = vec![
        ("unknown method", ask("Fly", ""), UNIMPLEMENTED, "METHOD_NOT_FOUND", ""),
        ("a method of 1.0", ask("ListTasks", ""), UNIMPLEMENTED, "METHOD_NOT_FOUND", ""),
        ("no message", ask("SendMessage", ""), bad, "INVALID_PARAMS", "message"),
        (
            "no message id",
            send(v03::Message { message_id: String::new(), ..v03_message() }),
            bad,
            "INVALID_PARAMS",
            "message.messageId",
        ),
        ("no role", send(v03::Message { role: 0, ..v03_message() }), bad, "INVALID_PARAMS", "message.role"),
        (
            "no parts",
            send(v03::Message { content: Vec::new(), ..v03_message() }),
            bad,
            "INVALID_PARAMS",
            "message.parts",
        ),
        (
            "a part without content",
            send(v03::Message { content: vec![v03::Part::default()], ..v03_message() }),
            bad,
            "INVALID_PARAMS",
            "message.parts[0]",
        ),
        ("media types", ask("SendMessage", modes.encode_to_vec()), bad, "CONTENT_TYPE_NOT_SUPPORTED", ""),
        ("no name", ask("GetTask", ""), bad, "INVALID_PARAMS", "name"),
        ("a name without an id", ask("GetTask", v03_get("tasks/")), bad, "INVALID_PARAMS", "name"),
        ("history below zero", ask("GetTask", below), bad, "INVALID_PARAMS", "historyLength"),
        ("unknown task", ask("GetTask", v03_get("tasks/nope")), missing, "TASK_NOT_FOUND", ""),
        ("unknown task without prefix", ask("GetTask", v03_get("nope")), missing, "TASK_NOT_FOUND", ""),
        (
            "message to an unknown task",
            send(v03::Message { task_id: "nope".to_owned(), ..v03_message() }),
            missing,
            "TASK_NOT_FOUND",
            "",
        ),
        ("cancel an unknown task", ask("CancelTask", cancel), missing, "TASK_NOT_FOUND", ""),
        ("watch an unknown task", ask("TaskSubscription", subscribe), missing, "TASK_NOT_FOUND", ""),
        (
            "push without a place",
            ask("CreateTaskPushNotificationConfig", push.encode_to_vec()),
            bad,
            "INVALID_PARAMS",
            "url",
        ),
        (
            "another version",
            ask("GetTask", v03_get("tasks/t")).header("a2a-version", "1.0"),
            FAILED_PRECONDITION,
            "VERSION_NOT_SUPPORTED",
            "",
        ),
        ("a stranger", ask("GetTask", "").by("wrong"), UNAUTHENTICATED, "", ""),
    ];
    check(&served, Version::V03, rows).await;
    assert_eq!(served.runs.count(), 0, "nothing of this starts a run");
}

/// Tasks that have ended, works that cannot be spoken to, tasks that are gone, and a service that takes no more.
#[tokio::test(start_paused = true)]
async fn tasks_in_the_wrong_state_are_refused() {
    let served = served();
    let ended = served.rpc("SendMessage", json!({"message": message("hi")})).await["result"]["task"].clone();
    let id = ended["id"].as_str().unwrap().to_owned();
    settle().await;
    let rows = |code, cancelled, said| {
        let cancel = v1::CancelTaskRequest { id: id.clone(), ..Default::default() }.encode_to_vec();
        let subscribe = v1::SubscribeToTaskRequest { id: id.clone(), ..Default::default() }.encode_to_vec();
        let more = v1_send(v1::Message { task_id: id.clone(), ..v1_message() });
        let new: Vec<Row> = vec![
            ("cancel", ask("CancelTask", cancel), code, cancelled, ""),
            ("watch", ask("SubscribeToTask", subscribe), code, said, ""),
            ("say more", ask("SendMessage", more), code, said, ""),
        ];
        let name = format!("tasks/{id}");
        let cancel = v03::CancelTaskRequest { name: name.clone() }.encode_to_vec();
        let subscribe = v03::TaskSubscriptionRequest { name }.encode_to_vec();
        let more = v03_send(v03::Message { task_id: id.clone(), ..v03_message() });
        let old: Vec<Row> = vec![
            ("cancel", ask("CancelTask", cancel), code, cancelled, ""),
            ("watch", ask("TaskSubscription", subscribe), code, said, ""),
            ("say more", ask("SendMessage", more), code, said, ""),
        ];
        [(Version::V1, new), (Version::V03, old)]
    };
    for (version, rows) in rows(FAILED_PRECONDITION, "TASK_NOT_CANCELABLE", "UNSUPPORTED_OPERATION") {
        check(&served, version, rows).await;
    }
    tokio::time::sleep(Duration::from_secs(3_601)).await;
    for (version, rows) in rows(NOT_FOUND, "TASK_NOT_FOUND", "TASK_NOT_FOUND") {
        check(&served, version, rows).await;
    }
    let busy = v1::Message { parts: vec![v1_text("BUSY")], ..v1_message() };
    let rows: Vec<Row> = vec![("busy", ask("SendMessage", v1_send(busy)), UNAVAILABLE, "UNAVAILABLE", "")];
    check(&served, Version::V1, rows).await;
}

#[tokio::test(start_paused = true)]
async fn extensions_are_demanded() {
    let required_extensions = vec!["https://must".to_owned()];
    let served = serve_with(ServerConfig { required_extensions, ..ServerConfig::default() }, |_| Vec::new());
    let (code, reason) = (FAILED_PRECONDITION, "EXTENSION_SUPPORT_REQUIRED");
    check(&served, Version::V1, vec![("1.0", ask("GetTask", v1_get("t")), code, reason, "")]).await;
    check(&served, Version::V03, vec![("0.3", ask("GetTask", v03_get("tasks/t")), code, reason, "")]).await;
    let asked = ask("GetTask", v1_get("t")).header("a2a-extensions", "https://must");
    assert_eq!(served.grpc(Version::V1, asked).await.unwrap_err().code, NOT_FOUND);
}
