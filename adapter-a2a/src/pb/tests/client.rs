//! Calls as messages, responses as items, statuses as errors; and the client machine over all of them.

use prost::Message as _;
use serde_json::json;

use super::super::answer::{read_event, read_task_answer};
use super::super::status::{ERROR_INFO_TYPE, ErrorInfo, RpcStatus};
use super::super::{v1, v03};
use crate::call::{Call, ListTasks, PushConfig, SendMessage, TaskRef, follow_up};
use crate::card::Endpoint;
use crate::client::Purpose;
use crate::error::Error;
use crate::version::{Binding, Version};
use crate::wire::{Dialect, ErrorKind, Frame, FrameContent, Part, StreamItem, TaskState, WireError};
use crate::{ClientConfig, Settled, TaskClient};

fn endpoint(version: Version) -> Endpoint {
    let mut endpoint = Endpoint::new("agent:50051", Binding::Grpc, version);
    endpoint.tenant = "acme".to_owned();
    endpoint.extensions = vec!["https://a".to_owned(), "https://b".to_owned()];
    endpoint
}

fn send() -> SendMessage {
    let task = TaskRef { task_id: "t".to_owned(), context_id: "c".to_owned() };
    let mut send =
        SendMessage::new(follow_up("m1", &task, vec![Part::text("prod"), Part::data(&json!([1]))]));
    send.return_immediately = true;
    send.metadata = json!({"k": 1}).as_object().cloned();
    send
}

#[test]
fn a_follow_up_carries_both_ids_in_both_packages() {
    let call = Call::SendStreamingMessage(Box::new(send()));
    let request = endpoint(Version::V1).grpc_request(&call).unwrap();
    assert_eq!(request.path, "/lf.a2a.v1.A2AService/SendStreamingMessage");
    assert_eq!(
        request.metadata,
        [("a2a-version", "1.0".to_owned()), ("a2a-extensions", "https://a,https://b".to_owned())]
    );
    assert!(request.streaming);
    let read = v1::SendMessageRequest::decode(&*request.message).unwrap();
    let message = read.message.unwrap();
    assert_eq!((&*message.task_id, &*message.context_id, message.parts.len()), ("t", "c", 2));
    assert_eq!((&*read.tenant, read.configuration.unwrap().return_immediately), ("acme", true));
    assert_eq!(read.metadata.unwrap().fields.len(), 1);
    let request = endpoint(Version::V03).grpc_request(&call).unwrap();
    assert_eq!(request.path, "/a2a.v1.A2AService/SendStreamingMessage");
    assert!(request.metadata.iter().all(|(name, _)| *name != "a2a-version"));
    let read = v03::SendMessageRequest::decode(&*request.message).unwrap();
    let message = read.request.unwrap();
    assert_eq!((&*message.task_id, &*message.context_id, message.content.len()), ("t", "c", 2));
    assert!(!read.configuration.unwrap().blocking);
}

#[test]
fn every_call_has_its_method_in_both_packages() {
    let (task, id) = (|| "t".to_owned(), || "p".to_owned());
    let push = PushConfig { task_id: task(), id: id(), url: "https://h".to_owned(), ..Default::default() };
    let configs = "tasks/t/pushNotificationConfigs/p";
    let calls = [
        (Call::GetTask { id: task(), history_length: Some(2) }, "GetTask", "GetTask", "tasks/t"),
        (Call::CancelTask { id: task(), metadata: None }, "CancelTask", "CancelTask", "tasks/t"),
        (Call::SubscribeToTask { id: task() }, "SubscribeToTask", "TaskSubscription", "tasks/t"),
        (
            Call::CreatePushConfig(Box::new(push)),
            "CreateTaskPushNotificationConfig",
            "CreateTaskPushNotificationConfig",
            configs,
        ),
        (
            Call::GetPushConfig { task_id: task(), id: id() },
            "GetTaskPushNotificationConfig",
            "GetTaskPushNotificationConfig",
            configs,
        ),
        (
            Call::ListPushConfigs { task_id: task() },
            "ListTaskPushNotificationConfigs",
            "ListTaskPushNotificationConfig",
            "tasks/t",
        ),
        (
            Call::DeletePushConfig { task_id: task(), id: id() },
            "DeleteTaskPushNotificationConfig",
            "DeleteTaskPushNotificationConfig",
            configs,
        ),
        (Call::GetExtendedCard, "GetExtendedAgentCard", "GetAgentCard", ""),
    ];
    for (call, new, old, name) in calls {
        let request = endpoint(Version::V1).grpc_request(&call).unwrap();
        assert_eq!(request.path, format!("/lf.a2a.v1.A2AService/{new}"));
        assert!(contains(&request.message, b"acme"), "{new}: the tenant is sent back");
        let request = endpoint(Version::V03).grpc_request(&call).unwrap();
        assert_eq!(request.path, format!("/a2a.v1.A2AService/{old}"));
        assert!(contains(&request.message, name.as_bytes()), "{old}");
        assert_eq!(request.streaming, old == "TaskSubscription");
    }
}

fn contains(message: &[u8], text: &[u8]) -> bool {
    text.is_empty() || message.windows(text.len()).any(|window| window == text)
}

#[test]
fn filters_that_protobuf_cannot_carry_are_refused() {
    let list = |list: ListTasks| endpoint(Version::V1).grpc_request(&Call::ListTasks(Box::new(list)));
    let good = ListTasks {
        status: Some("TASK_STATE_WORKING".to_owned()),
        status_timestamp_after: Some("2026-11-16T01:49:08.5Z".to_owned()),
        page_size: Some(5),
        ..ListTasks::default()
    };
    let read = v1::ListTasksRequest::decode(&*list(good.clone()).unwrap().message).unwrap();
    assert_eq!((read.status, read.page_size, read.history_length), (2, Some(5), None));
    assert_eq!(read.status_timestamp_after.unwrap().nanos, 500_000_000);
    let bad = ListTasks { status: Some("busy".to_owned()), ..good.clone() };
    assert!(matches!(list(bad), Err(Error::Filter { filter: "status", .. })));
    let bad = ListTasks { status_timestamp_after: Some("yesterday".to_owned()), ..good };
    assert!(matches!(list(bad), Err(Error::Filter { filter: "statusTimestampAfter", .. })));
    let old = endpoint(Version::V03).grpc_request(&Call::ListTasks(Box::default()));
    assert!(matches!(old, Err(Error::NotInVersion { .. })));
}

fn details(reason: &str) -> Vec<u8> {
    let info =
        ErrorInfo { reason: reason.to_owned(), domain: "a2a-protocol.org".to_owned(), ..Default::default() };
    let detail = prost_types::Any { type_url: ERROR_INFO_TYPE.to_owned(), value: info.encode_to_vec() };
    RpcStatus { code: 9, message: String::new(), details: vec![detail] }.encode_to_vec()
}

#[test]
fn statuses_are_the_errors_they_stand_for() {
    let kind = |code, message: &str, details: &[u8]| WireError::from_grpc(code, message, details).kind();
    for (code, reason, expected) in [
        (5, "TASK_NOT_FOUND", ErrorKind::TaskNotFound),
        (9, "TASK_NOT_CANCELABLE", ErrorKind::TaskNotCancelable),
        (9, "UNSUPPORTED_OPERATION", ErrorKind::UnsupportedOperation),
        (9, "VERSION_NOT_SUPPORTED", ErrorKind::VersionNotSupported),
        (13, "INVALID_AGENT_RESPONSE", ErrorKind::InvalidAgentResponse),
    ] {
        assert_eq!(kind(code, "words", &details(reason)), expected, "{reason}");
    }
    // 0.3 writes the class before the message.
    assert_eq!(kind(12, "TaskNotCancelableError: it is done", b""), ErrorKind::TaskNotCancelable);
    assert_eq!(kind(12, "UnsupportedOperationError: no", b""), ErrorKind::UnsupportedOperation);
    // A status alone is classified by its code.
    for (code, expected) in [
        (14, ErrorKind::Unavailable),
        (4, ErrorKind::Unavailable),
        (8, ErrorKind::Unavailable),
        (16, ErrorKind::Unauthorized),
        (7, ErrorKind::Unauthorized),
        (5, ErrorKind::TaskNotFound),
        (12, ErrorKind::UnsupportedOperation),
        (3, ErrorKind::InvalidRequest),
        (13, ErrorKind::Internal),
        (2, ErrorKind::Internal),
        (99, ErrorKind::Internal),
    ] {
        assert_eq!(kind(code, "", b"not protobuf"), expected, "{code}");
    }
    let error = WireError::from_grpc(9, "words", &details("TASK_NOT_CANCELABLE"));
    assert_eq!(error.data.unwrap()[0]["domain"], "a2a-protocol.org");
    assert_eq!(WireError::from_grpc(14, "", b"").message, "gRPC status UNAVAILABLE");
}

/// The client machine emits the same events whichever binding a recorded stream arrives by.
#[test]
fn a_stream_reads_the_same_over_grpc() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/a2a");
    let mut streams = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_stream = path.extension().is_some_and(|extension| extension == "sse");
        if !is_stream || !name.starts_with("v1-jsonrpc") {
            continue;
        }
        streams += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let (mut json, mut grpc) = (client(), client());
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let frame = line.into();
            json.handle_frame(Frame::data(&frame));
            match Frame::data(&frame).parse(Dialect::V1).unwrap() {
                FrameContent::Item(item) => {
                    let message = item.to_v1().encode_to_vec();
                    grpc.handle_item(read_event(Version::V1, &message).unwrap().unwrap());
                }
                FrameContent::Error(error) => grpc.handle_stream_error(error),
                FrameContent::Unknown(raw) => panic!("{name}: {raw:?}"),
            }
        }
        // Protobuf does not keep the order of members: streams with objects are compared by their outcome alone.
        if !name.contains("-data") && !name.contains("-input-required") {
            assert_eq!(said(&mut grpc), said(&mut json), "{name}");
        }
        assert_eq!(grpc.is_settled(), json.is_settled(), "{name}");
        assert_eq!(grpc.task_ref(), json.task_ref(), "{name}");
    }
    assert!(streams >= 10, "{streams}");
}

fn client() -> TaskClient {
    let mut client = TaskClient::new(ClientConfig::default(), send());
    client.poll_request().unwrap();
    client
}

fn said(client: &mut TaskClient) -> Vec<String> {
    // Protobuf does not distinguish 1 and 1.0.
    std::iter::from_fn(|| client.poll_event()).map(|event| format!("{event:?}").replace(".0)", ")")).collect()
}

fn task(state: TaskState<'static>) -> StreamItem<'static> {
    let mut task = crate::wire::Task { id: "t".into(), context_id: "c".into(), ..Default::default() };
    task.status.state = state;
    StreamItem::Task(task)
}

#[test]
fn a_cut_stream_is_taken_up_again_and_a_look_settles_it() {
    let mut client = client();
    client.handle_item(task(TaskState::Working));
    client.handle_stream_error(WireError::from_grpc(14, "connection reset", b""));
    let planned = client.poll_request().unwrap();
    assert_eq!(planned.purpose, Purpose::Subscribe);
    // The task ended in the meantime: the server refuses, and a read returns the outcome.
    let refused = WireError::from_grpc(9, "it is terminal", &details("UNSUPPORTED_OPERATION"));
    client.handle_response_error(Purpose::Subscribe, refused);
    let planned = client.poll_request().unwrap();
    assert_eq!(planned.purpose, Purpose::Get);
    let StreamItem::Task(done) = task(TaskState::Completed) else { panic!() };
    let message = v1::Task::from(&done).encode_to_vec();
    let answer = read_task_answer(&planned.call, Version::V1, &message).unwrap();
    client.handle_answer(Purpose::Get, answer);
    assert_eq!(client.is_settled(), Some(Settled::Completed));
}

#[test]
fn an_answer_with_nothing_in_it_is_an_error() {
    let call = Call::SendMessage(Box::new(send()));
    assert_eq!(read_task_answer(&call, Version::V1, b"").unwrap(), None);
    assert_eq!(read_event(Version::V03, b"").unwrap(), None, "an empty message says nothing");
    assert!(read_event(Version::V1, b"\xff\xff").is_err());
    let mut client = client();
    client.handle_answer(Purpose::Send, None);
    assert!(said(&mut client).last().unwrap().contains("neither a task nor a message"));
}
