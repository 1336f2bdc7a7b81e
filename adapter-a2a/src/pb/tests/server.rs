//! Requests decoded as calls, refusals as statuses, cards as messages.

use serde_json::json;

use super::super::card::{v1_card, v03_card};
use super::super::read::Asked;
use super::super::serve::GrpcStatus;
use super::super::v1;
use crate::call::{Call, ListTasks, PushConfig, SendMessage, user_message};
use crate::card::Endpoint;
use crate::server::ServerError;
use crate::version::{Binding, Version};
use crate::wire::{ErrorKind, Part, WireError};

fn calls() -> Vec<Call> {
    let (task, id) = (|| "t".to_owned(), || "p".to_owned());
    let push = PushConfig {
        task_id: task(),
        id: id(),
        url: "https://h".to_owned(),
        token: Some("tok".to_owned()),
        authentication: Some(("Bearer".to_owned(), "abc".to_owned())),
    };
    let mut send = SendMessage::new(user_message(
        "m",
        Some("c".to_owned()),
        vec![Part::text("hello"), Part::data(&json!([1]))],
    ));
    send.accepted_output_modes = vec!["text/plain".to_owned()];
    send.history_length = Some(3);
    send.push = Some(PushConfig { task_id: String::new(), ..push.clone() });
    send.metadata = json!({"k": "v"}).as_object().cloned();
    vec![
        Call::SendMessage(Box::new(send.clone())),
        Call::SendStreamingMessage(Box::new(SendMessage { return_immediately: true, ..send })),
        Call::GetTask { id: task(), history_length: Some(2) },
        Call::GetTask { id: task(), history_length: None },
        Call::CancelTask { id: task(), metadata: None },
        Call::SubscribeToTask { id: task() },
        Call::CreatePushConfig(Box::new(push)),
        Call::GetPushConfig { task_id: task(), id: id() },
        Call::ListPushConfigs { task_id: task() },
        Call::DeletePushConfig { task_id: task(), id: id() },
        Call::GetExtendedCard,
    ]
}

fn through(call: &Call, version: Version) -> Asked {
    let mut endpoint = Endpoint::new("x", Binding::Grpc, version);
    endpoint.tenant = "acme".to_owned();
    let request = endpoint.grpc_request(call).unwrap();
    let (_, method) = request.path.rsplit_once('/').unwrap();
    Asked::read(version, method, &request.message)
}

#[test]
fn every_call_is_read_as_it_was_written() {
    for call in calls() {
        let asked = through(&call, Version::V1);
        assert_eq!((asked.call.unwrap(), &*asked.tenant), (call.clone(), "acme"));
        let asked = through(&call, Version::V03);
        assert_eq!((asked.call.unwrap(), &*asked.tenant), (call, ""));
    }
    let new = [
        Call::GetTask { id: "t".to_owned(), history_length: Some(0) },
        Call::CancelTask { id: "t".to_owned(), metadata: json!({"k": true}).as_object().cloned() },
        Call::ListTasks(Box::new(ListTasks {
            context_id: Some("c".to_owned()),
            status: Some("TASK_STATE_WORKING".to_owned()),
            page_size: Some(5),
            page_token: Some("next".to_owned()),
            history_length: Some(0),
            status_timestamp_after: Some("2026-11-16T01:49:08Z".to_owned()),
            include_artifacts: Some(false),
        })),
        Call::ListTasks(Box::default()),
    ];
    for call in new {
        assert_eq!(through(&call, Version::V1).call.unwrap(), call);
    }
}

#[test]
fn what_is_missing_or_unreadable_is_named() {
    let refused =
        |version, method: &str, message: &[u8]| Asked::read(version, method, message).call.unwrap_err();
    let missing = refused(Version::V1, "GetTask", b"");
    assert_eq!((missing.kind, &*missing.violations[0].field), (ErrorKind::InvalidParams, "id"));
    assert_eq!(refused(Version::V03, "CancelTask", b"").violations[0].field, "name");
    assert_eq!(refused(Version::V1, "SendMessage", b"").violations[0].field, "message");
    assert_eq!(refused(Version::V1, "GetTask", b"\xff\xff").kind, ErrorKind::Parse);
    assert_eq!(refused(Version::V1, "Fly", b"").kind, ErrorKind::MethodNotFound);
    assert_eq!(refused(Version::V03, "ListTasks", b"").kind, ErrorKind::MethodNotFound);
    let negative = v1::GetTaskRequest { id: "t".to_owned(), history_length: Some(-1), ..Default::default() };
    let negative = prost::Message::encode_to_vec(&negative);
    assert_eq!(refused(Version::V1, "GetTask", &negative).violations[0].field, "historyLength");
}

/// The client recognises every refusal of the server.
#[test]
fn refusals_are_the_same_on_the_other_side() {
    for kind in [
        ErrorKind::TaskNotFound,
        ErrorKind::TaskNotCancelable,
        ErrorKind::PushNotificationNotSupported,
        ErrorKind::UnsupportedOperation,
        ErrorKind::ContentTypeNotSupported,
        ErrorKind::InvalidAgentResponse,
        ErrorKind::ExtendedCardNotConfigured,
        ErrorKind::ExtensionSupportRequired,
        ErrorKind::VersionNotSupported,
        ErrorKind::Parse,
        ErrorKind::InvalidRequest,
        ErrorKind::MethodNotFound,
        ErrorKind::InvalidParams,
        ErrorKind::Internal,
    ] {
        for version in [Version::V1, Version::V03] {
            let status = GrpcStatus::of(&ServerError::new(kind, "words"), version);
            let read = WireError::from_grpc(status.code, &status.message, &status.details);
            assert_eq!(read.kind(), kind, "{version}");
            assert!(read.message.ends_with("words"));
        }
    }
    let status = GrpcStatus::of(&ServerError::new(ErrorKind::Unauthorized, "who?"), Version::V1);
    assert_eq!(status.code, 16);
    let read = WireError::from_grpc(status.code, &status.message, &status.details);
    assert_eq!(read.kind(), ErrorKind::Unauthorized);
    let status =
        GrpcStatus::of(&ServerError::invalid_field("message.parts", "must hold a part"), Version::V1);
    let read = WireError::from_grpc(status.code, &status.message, &status.details);
    assert_eq!(read.data.unwrap()[1]["fieldViolations"][0]["field"], "message.parts");
}

#[test]
fn cards_say_the_same_in_both_packages() {
    let card = crate::server::CardConfig {
        name: "weather".to_owned(),
        description: "tells it".to_owned(),
        version: "1".to_owned(),
        provider: Some(("us".to_owned(), "https://us".to_owned())),
        interfaces: vec![(Binding::JsonRpc, "https://a/".to_owned()), (Binding::Grpc, "a:443".to_owned())],
        bearer: true,
        extensions: vec![("https://x".to_owned(), true)],
        ..Default::default()
    }
    .to_json();
    let new = v1_card(&card);
    assert_eq!((&*new.name, new.supported_interfaces.len(), new.skills.len()), ("weather", 4, 1));
    assert_eq!(new.capabilities.unwrap().extensions[0].uri, "https://x");
    assert!(new.security_schemes["bearer"].scheme.is_some());
    assert!(new.security_requirements[0].schemes.contains_key("bearer"));
    let old = v03_card(&card);
    assert_eq!(
        (&*old.url, &*old.preferred_transport, &*old.protocol_version),
        ("https://a/", "JSONRPC", "0.3.0")
    );
    assert_eq!(old.additional_interfaces[0].transport, "GRPC");
    assert!(old.security_schemes["bearer"].scheme.is_some());
    assert!(old.security[0].schemes.contains_key("bearer"));
}
