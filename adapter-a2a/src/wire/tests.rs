//! One model for all dialects: parsed, kept and encoded again.

use aqueduct_core::ByteString;
use serde_json::{Value, json};

use super::*;

fn item(json: &str) -> StreamItem<'_> {
    match FrameContent::parse(json, Dialect::V1).unwrap() {
        FrameContent::Item(item) => item,
        other => panic!("not an item: {other:?}"),
    }
}

#[test]
fn one_chunk_reads_alike_in_every_dialect_and_binding() {
    let v1 = r#"{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","name":"n","parts":[{"text":"x"}]},"append":true}}"#;
    let rpc = format!(r#"{{"result": {v1}, "id": 1, "jsonrpc": "2.0"}}"#);
    let v03 = r#"{"id":"q","jsonrpc":"2.0","result":{"append":true,"artifact":{"artifactId":"a","name":"n","parts":[{"kind":"text","text":"x"}]},"contextId":"c","kind":"artifact-update","lastChunk":false,"taskId":"t"}}"#;
    let snake = r#"{"artifact_update":{"task_id":"t","context_id":"c","artifact":{"artifact_id":"a","name":"n","parts":[{"text":"x"}]},"append":true}}"#;
    for json in [v1, &rpc, v03, snake] {
        let StreamItem::Artifact(update) = item(json) else { panic!("{json}") };
        assert_eq!((&*update.task_id, &*update.context_id), ("t", "c"));
        assert_eq!(&*update.artifact.artifact_id, "a");
        assert_eq!(update.artifact.text(), "x");
        assert!(update.append && !update.last_chunk);
    }
}

#[test]
fn texts_without_escapes_borrow_from_the_frame() {
    let json = r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"plain — ✅"},{"text":"a\nb"}]}}"#;
    let StreamItem::Message(message) = item(json) else { panic!() };
    let texts: Vec<_> = message.parts.iter().filter_map(Part::as_text).collect();
    assert!(matches!(texts[0].0, std::borrow::Cow::Borrowed(_)));
    assert!(matches!(texts[1].0, std::borrow::Cow::Owned(_)));
    assert_eq!(texts[1].as_str(), "a\nb");
}

#[test]
fn the_three_spellings_of_a_part_are_one() {
    let part = |json: &str| serde_json::from_str::<Part<'_>>(json).unwrap().into_owned();
    let bytes = Part {
        filename: "f.png".into(),
        media_type: "image/png".into(),
        ..Part::new(Content::Bytes("iVBORw0KGgoAAf7/".into()))
    };
    assert_eq!(part(r#"{"raw":"iVBORw0KGgoAAf7/","filename":"f.png","mediaType":"image/png"}"#), bytes);
    assert_eq!(
        part(r#"{"kind":"file","file":{"bytes":"iVBORw0KGgoAAf7/","mimeType":"image/png","name":"f.png"}}"#),
        bytes
    );
    // Python's 0.3 REST server encodes twice; a peer that does not is decoded as well.
    for encoded in ["aVZCT1J3MEtHZ29BQWY3Lw==", "iVBORw0KGgoAAf7/"] {
        let json =
            format!(r#"{{"file":{{"fileWithBytes":"{encoded}","mimeType":"image/png","name":"f.png"}}}}"#);
        assert_eq!(part(&json), bytes);
    }
    assert_eq!(part(r#"{"raw":"-_8"}"#).content, Content::Bytes("+/8=".into()));
    for json in [r#"{"url":"u"}"#, r#"{"kind":"file","file":{"uri":"u"}}"#, r#"{"file":{"fileWithUri":"u"}}"#]
    {
        assert_eq!(part(json).content, Content::Url("u".into()));
    }
    let nested = r#"{"message":{"parts":[{"data":{"data":{"n":1}}},{"data":{"data":1,"n":2}}]}}"#;
    let data = |dialect| {
        let Ok(FrameContent::Item(StreamItem::Message(message))) = FrameContent::parse(nested, dialect)
        else {
            panic!()
        };
        message.parts.iter().filter_map(Part::data_value).collect::<Vec<_>>()
    };
    assert_eq!(data(Dialect::V03Rest), [json!({"n": 1}), json!({"data": 1, "n": 2})]);
    assert_eq!(data(Dialect::V1), [json!({"data": {"n": 1}}), json!({"data": 1, "n": 2})]);
}

#[test]
fn printed_defaults_read_as_absent() {
    let part: Part<'_> = serde_json::from_str(
        r#"{"text":"tick","raw":"","url":"","filename":"","mediaType":"","metadata":{}}"#,
    )
    .unwrap();
    assert_eq!(part, Part::text("tick"));
    let part: Part<'_> = serde_json::from_str(r#"{"text":"","url":"https://x"}"#).unwrap();
    assert_eq!(part.content, Content::Url("https://x".into()));
    let part: Part<'_> = serde_json::from_str(r#"{"text":""}"#).unwrap();
    assert_eq!(part, Part::text(""));
}

#[test]
fn unknown_members_states_roles_and_parts_are_kept() {
    let json = r#"{"statusUpdate":{"taskId":"t","newField":[1,{"x":null}],"status":{"state":"TASK_STATE_PAUSED","message":{"role":"ROLE_TOOL","parts":[{"kind":"video","frames":3}]}}}}"#;
    let StreamItem::Status(update) = item(json) else { panic!() };
    assert_eq!(update.extra.get("newField").unwrap().to_value(), json!([1, {"x": null}]));
    assert_eq!(update.status.state, TaskState::Other("TASK_STATE_PAUSED".into()));
    assert_eq!(update.status.state.class(), StateClass::Active);
    let message = update.status.message.as_ref().unwrap();
    assert_eq!(message.role, Role::Other("ROLE_TOOL".into()));
    assert_eq!(message.parts[0].content, Content::Unknown("video".into()));
    assert_eq!(message.parts[0].extra.get("frames").unwrap().as_str(), "3");
    let written = StreamItem::Status(update.clone()).to_json(Dialect::V1);
    assert_eq!(written, serde_json::from_str::<Value>(json).unwrap());
}

#[test]
fn a_string_where_a_message_belongs_is_its_text() {
    let json = r#"{"kind":"status-update","taskId":"t","status":{"state":"completed","message":"All \"done\""},"final":true}"#;
    let StreamItem::Status(update) = item(json) else { panic!() };
    assert_eq!(update.status.message.unwrap().text(), "All \"done\"");
}

#[test]
fn bare_objects_are_told_by_their_members() {
    assert!(
        matches!(item(r#"{"id":"t","status":{"state":"working"}}"#), StreamItem::Task(task) if &*task.id == "t")
    );
    assert!(matches!(item(r#"{"taskId":"t","status":{"state":"working"}}"#), StreamItem::Status(_)));
    assert!(matches!(item(r#"{"taskId":"t","artifact":{"parts":[]}}"#), StreamItem::Artifact(_)));
    assert!(matches!(item(r#"{"role":"agent","parts":[]}"#), StreamItem::Message(_)));
    let rest = item(r#"{"message":{"content":[{"text":"x"}]}}"#);
    assert!(
        matches!(rest, StreamItem::Message(message) if message.parts_as_content && message.text() == "x")
    );
    assert!(matches!(
        item(r#"{"jsonrpc":"2.0","id":7,"result":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}}"#),
        StreamItem::Task(_)
    ));
}

#[test]
fn what_no_rule_knows_is_kept_whole() {
    for json in [r#"{"progress":{"done":3}}"#, r#"{"jsonrpc":"2.0","id":1,"result":{"progress":3}}"#] {
        assert!(
            matches!(FrameContent::parse(json, Dialect::V1).unwrap(), FrameContent::Unknown(raw) if raw.as_str() == json)
        );
    }
    assert!(FrameContent::parse("{\"task\":{\"id\":", Dialect::V1).is_err());
    assert!(FrameContent::parse("[1]", Dialect::V1).is_err());
}

#[test]
fn errors_are_told_apart_in_every_shape() {
    let error = |status, body: &str| WireError::from_response(status, body.as_bytes()).unwrap();
    let info = r#"[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{}}]"#;
    let rpc = error(
        200,
        &format!(
            r#"{{"error":{{"code":-32001,"message":"Task not found","data":{info}}},"id":1,"jsonrpc":"2.0"}}"#
        ),
    );
    assert_eq!((rpc.kind(), rpc.message.as_str()), (ErrorKind::TaskNotFound, "Task not found"));
    let rest = error(
        400,
        &format!(
            r#"{{"error":{{"code":400,"status":"FAILED_PRECONDITION","message":"no","details":{info}}}}}"#
        ),
    );
    assert_eq!(rest.kind(), ErrorKind::TaskNotFound, "the reason says more than the status");
    assert_eq!(error(404, r#"{"message":"gone"}"#).message, "gone");
    assert_eq!(error(404, r#"{"message":"gone"}"#).kind(), ErrorKind::TaskNotFound);
    assert_eq!(
        error(500, r#"{"type":"about:blank","title":"Oops","status":500,"detail":"why"}"#).message,
        "why"
    );
    assert_eq!(error(502, "<html>Bad gateway</html>").kind(), ErrorKind::Unavailable);
    assert_eq!(error(401, "").kind(), ErrorKind::Unauthorized);
    assert_eq!(
        error(200, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"data":null,"message":"x"}}"#).kind(),
        ErrorKind::Internal
    );
    assert!(WireError::from_response(200, br#"{"task":{"id":"t","status":{}}}"#).is_none());
}

#[test]
fn every_recorded_error_names_its_kind() {
    use ErrorKind as K;
    let recorded = include_str!("../../../tests/fixtures/a2a/v1-errors.txt");
    let mut kinds = Vec::new();
    for case in recorded.split("----\n").filter(|case| !case.trim().is_empty()) {
        let (head, body) =
            case.replace("\r\n", "\n").split_once("\n\n").map(|(h, b)| (h.to_owned(), b.to_owned())).unwrap();
        let status = head.lines().find_map(|line| line.strip_prefix("HTTP/1.1 ")).unwrap();
        let status: u16 = status.split(' ').next().unwrap().parse().unwrap();
        kinds.push(WireError::from_response(status, body.trim().as_bytes()).unwrap().kind());
    }
    assert_eq!(
        kinds,
        [
            K::VersionNotSupported,
            K::VersionNotSupported,
            K::VersionNotSupported,
            K::MethodNotFound,
            K::Parse,
            K::InvalidParams,
            K::TaskNotFound,
            K::TaskNotFound,
            K::TaskNotFound,
            K::VersionNotSupported,
            K::Internal,
            K::TaskNotFound,
            K::UnsupportedOperation,
        ]
    );
}

mod round_trip {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Text<'static>> {
        prop_oneof!["[a-z]{1,8}", "\\PC{1,6}"].prop_map(Text::from)
    }

    fn json() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from)
        ]
        .prop_flat_map(|value| prop_oneof![Just(json!({"k": value})), Just(json!([value]))])
    }

    fn part() -> impl Strategy<Value = Part<'static>> {
        let content = prop_oneof![
            text().prop_map(Content::Text),
            Just(Content::Bytes("AAEC".into())),
            text().prop_map(Content::Url),
            json().prop_map(|value| Content::Data(Raw::from_value(&value))),
        ];
        (content, any::<bool>()).prop_map(|(content, metadata)| Part {
            metadata: metadata.then(|| Raw::from_value(&json!({"k": 1}))),
            ..Part::new(content)
        })
    }

    fn message() -> impl Strategy<Value = Message<'static>> {
        (text(), text(), proptest::collection::vec(part(), 1..4), proptest::collection::vec(text(), 0..2))
            .prop_map(|(message_id, context_id, parts, extensions)| Message {
                message_id,
                context_id,
                role: Role::Agent,
                parts,
                extensions,
                ..Message::default()
            })
    }

    fn stream_item() -> impl Strategy<Value = StreamItem<'static>> {
        let status = (message(), Just(TaskState::Canceled))
            .prop_map(|(message, state)| TaskStatus {
                state,
                message: Some(message),
                ..TaskStatus::default()
            })
            .boxed();
        let artifact = (text(), proptest::collection::vec(part(), 1..3))
            .prop_map(|(artifact_id, parts)| Artifact { artifact_id, parts, ..Artifact::default() })
            .boxed();
        prop_oneof![
            message().prop_map(StreamItem::Message),
            (status.clone(), text()).prop_map(|(status, task_id)| StreamItem::Status(StatusUpdate {
                task_id,
                status,
                ..StatusUpdate::default()
            })),
            (artifact.clone(), text(), any::<bool>(), any::<bool>()).prop_map(
                |(artifact, task_id, append, last_chunk)| {
                    StreamItem::Artifact(ArtifactUpdate {
                        task_id,
                        artifact,
                        append,
                        last_chunk,
                        ..ArtifactUpdate::default()
                    })
                }
            ),
            (
                status,
                proptest::collection::vec(artifact, 0..3),
                proptest::collection::vec(message(), 0..3),
                text()
            )
                .prop_map(|(status, artifacts, history, id)| {
                    StreamItem::Task(Task { id, status, artifacts, history, ..Task::default() })
                }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_what_it_was(item in stream_item()) {
            for dialect in [Dialect::V1, Dialect::V03JsonRpc, Dialect::V03Rest] {
                let json = item.to_json(dialect).to_string();
                let read = FrameContent::parse(&json, dialect).unwrap();
                let FrameContent::Item(read) = read else { panic!("{json}") };
                prop_assert_eq!(read.to_json(Dialect::V1), item.to_json(Dialect::V1));
            }
        }

        #[test]
        fn no_text_can_make_the_reader_panic(text in "\\PC{0,80}") {
            drop(FrameContent::parse(&text, Dialect::V03Rest));
            drop(WireError::from_response(200, text.as_bytes()));
            drop(crate::card::parse(&text));
        }

        #[test]
        fn no_json_can_make_the_reader_panic(
            key in prop_oneof![Just("task"), Just("message"), Just("statusUpdate"), Just("artifactUpdate"), Just("result"),
                Just("error"), Just("kind"), Just("parts"), Just("status"), Just("artifact"), Just("jsonrpc")],
            inner in prop_oneof![Just("task"), Just("parts"), Just("status"), Just("text"), Just("file"), Just("code")],
            value in prop_oneof![Just(json!(null)), Just(json!(-1.5)), Just(json!("x")), Just(json!([])), Just(json!({})),
                Just(json!([null, 1])), Just(json!({"parts": 3}))],
        ) {
            for json in [json!({key: value}), json!({key: {inner: value}}), json!({"jsonrpc": "2.0", key: {inner: value}})] {
                let text = json.to_string();
                drop(FrameContent::parse(&text, Dialect::V03Rest));
                drop(WireError::from_response(500, text.as_bytes()));
            }
        }
    }
}

/// The official Rust server over HTTP+JSON; Python's `event: error` with plain text.
#[test]
fn an_error_without_anything_around_it_is_no_message() {
    let data = r#"[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INTERNAL_ERROR"}]"#;
    let bare: ByteString = format!(r#"{{"code":-32603,"message":"boom","data":{data}}}"#).into();
    let FrameContent::Error(error) = Frame::data(&bare).parse(Dialect::V1).unwrap() else { panic!() };
    assert_eq!((error.kind(), &*error.message), (ErrorKind::Internal, "boom"));
    let words: ByteString = r#"{"message":"boom"}"#.into();
    let named = Frame { event: Some("error"), data: &words };
    let FrameContent::Error(error) = named.parse(Dialect::V1).unwrap() else { panic!() };
    assert_eq!(error.message, "boom");
    // A string instead of a message is accepted.
    assert!(matches!(Frame::data(&words).parse(Dialect::V1), Ok(FrameContent::Item(StreamItem::Message(_)))));
}
