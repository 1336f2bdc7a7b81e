//! Decoding of A2A on the client.

use aqueduct_adapter_a2a::call::{SendMessage, user_message};
use aqueduct_adapter_a2a::config::StreamShape;
use aqueduct_adapter_a2a::pb::answer::read_event;
use aqueduct_adapter_a2a::pb::read::Asked;
use aqueduct_adapter_a2a::pb::serve::write_event;
use aqueduct_adapter_a2a::version::Version;
use aqueduct_adapter_a2a::wire::Frame;
use aqueduct_adapter_a2a::{ClientConfig, TaskClient, card as cards};
use aqueduct_core::ByteString;
use serde_json::json;

use super::{check_balanced, lines};

const VERSIONS: [Version; 2] = [Version::V03, Version::V1];

fn client(config: ClientConfig) -> TaskClient {
    TaskClient::new(config, SendMessage::new(user_message("m", None, Vec::new())))
}

/// Handles the payloads of a stream, one per line. Special lines end the stream, return an answer that is no stream, or cancel.
pub(super) fn json(data: &[u8]) {
    let mut client = client(ClientConfig::default());
    let mut events = Vec::new();
    for line in lines(data) {
        let planned = client.poll_request();
        match (line.as_bytes().first(), planned) {
            (Some(b'!'), _) => client.handle_stream_end(),
            (Some(b'?'), Some(planned)) => {
                let body = ByteString::from(line.trim_start_matches('?'));
                client.handle_response(planned.purpose, 200, &body);
            }
            (Some(b'#'), _) => client.handle_cancel(),
            _ => client.handle_frame(Frame::data(&ByteString::from(line))),
        }
        events.extend(std::iter::from_fn(|| client.poll_event()));
    }
    check_balanced(events);
}

/// Every shape of streaming. The digit of its index selects it.
const SHAPES: [StreamShape; 6] = [
    StreamShape::Auto,
    StreamShape::Notices,
    StreamShape::Fragments,
    StreamShape::Cumulative,
    StreamShape::Deltas,
    StreamShape::Answer,
];

/// Handles status texts of one task, one per line, in the shape of streaming that the first byte selects. A line that starts
/// with `=` is the artifact.
pub(super) fn shapes(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let Some(shape) = SHAPES.get(usize::from(*choice) % SHAPES.len()) else { return };
    let mut config = ClientConfig::default();
    config.decode.stream = *shape;
    let mut client = client(config);
    let mut events = Vec::new();
    let mut handle = |result: serde_json::Value| {
        let payload = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
        client.handle_frame(Frame::data(&ByteString::from(payload)));
        events.extend(std::iter::from_fn(|| client.poll_event()));
    };
    for (n, line) in lines(data).take(64).enumerate() {
        handle(match line.strip_prefix('=') {
            Some(text) => json!({ "artifactUpdate": { "taskId": "t", "contextId": "c",
                "artifact": { "artifactId": "a", "parts": [{ "text": text }] }, "append": n % 2 == 0 } }),
            None => json!({ "statusUpdate": { "taskId": "t", "contextId": "c",
                "status": { "state": "TASK_STATE_WORKING",
                    "message": { "messageId": format!("m{}", n % 3), "role": "ROLE_AGENT", "parts": [{ "text": line }] } } } }),
        });
    }
    handle(
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
    );
    check_balanced(events);
}

/// Decodes messages of both protobuf packages. The first byte selects the method of a request.
pub(super) fn proto(data: &[u8]) {
    const METHODS: [&str; 6] = [
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "CancelTask",
        "ListTasks",
        "CreateTaskPushNotificationConfig",
    ];
    let Some((choice, message)) = data.split_first() else { return };
    for version in VERSIONS {
        let method = METHODS.get(usize::from(*choice) % METHODS.len()).copied().unwrap_or_default();
        drop(Asked::read(version, method, message));
        let Ok(Some(item)) = read_event(version, message) else { continue };
        let written = write_event(&item, version);
        let again = read_event(version, &written).expect("what was written is read");
        let again = again.expect("what says something is written");
        assert_eq!(write_event(&again, version), written);
        let mut client = client(ClientConfig::default());
        client.handle_item(item);
        check_balanced(std::iter::from_fn(|| client.poll_event()).collect());
    }
}

/// Parses an agent card.
pub(super) fn card(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(card) = cards::parse(text) {
        drop(cards::endpoints(&card));
        cards::has_extended_card(&card);
        drop(cards::missing_extensions(&card, &[]));
    }
    drop(cards::card_urls(text));
}
