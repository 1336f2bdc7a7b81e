//! A2A streams in the shapes of real frameworks: decoded, received by the client of a task, and carried to AG-UI bytes.
//!
//! `decode` is the [`Decoder`] alone (tee, replay, convert); `receive` is the [`TaskClient`], the path of remote agents.
//!
//! | case | framework | one frame |
//! |---|---|---|
//! | chunks | the SDKs' samples, Strands and ADK with artifacts | one text part appended to an artifact |
//! | unlike envelopes | agents that number their frames | the same, with an id of its own |
//! | fragments | Strands | a status text with a message id of its own and a timestamp, a piece of the answer |
//! | marked fragments | Google ADK | the same, with a page of metadata |
//! | cumulative | `LangGraph` | a status text that is the whole answer so far |
//! | deltas | Agno | a bare message, all of one message id |
//! | notices | progress reports | a status text that stands for itself |

use aqueduct_adapter_a2a::call::{SendMessage, user_message};
use aqueduct_adapter_a2a::wire::{Dialect, Frame, Part};
use aqueduct_adapter_a2a::{ClientConfig, DecodeConfig, Decoder, TaskClient};
use aqueduct_core::{RunInfo, SourceEvent, StreamContext};
use aqueduct_transport_http::sse;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::stream::{Bytes as AguiBytes, dialects};
use crate::{EVENTS, case, is_wanted};

/// The size of a read, as from a socket.
const READ: usize = 64 * 1024;
/// Frames of a cumulative text, whose bytes grow with the square of their number.
const CUMULATIVE: usize = 200;

const TASK: &str = "2341df29-947c-45e5-81aa-434a0c5f80d3";
const CONTEXT: &str = "dbac6b00-1c8b-5249-9bd3-41e53153f71f";
/// A task id of `LangGraph`: the context, a colon, the run.
const RUN_TASK: &str = "dbac6b00-1c8b-5249-9bd3-41e53153f71f:2341df29-947c-45e5-81aa-434a0c5f80d3";

pub(crate) fn run() {
    let shapes: [(&str, Dialect, Item); 8] = [
        ("1.0 chunks", Dialect::V1, chunk_v1),
        ("0.3 chunks", Dialect::V03JsonRpc, chunk_v03),
        (UNLIKE, Dialect::V1, chunk_v1),
        ("0.3 fragments", Dialect::V03JsonRpc, fragment),
        ("1.0 marked fragments", Dialect::V1, marked_fragment),
        (GROWING, Dialect::V1, cumulative),
        ("0.3 deltas", Dialect::V03JsonRpc, delta),
        ("0.3 notices", Dialect::V03JsonRpc, notice),
    ];
    for (name, dialect, item) in shapes {
        let (frames, task) = if name == GROWING { (CUMULATIVE, RUN_TASK) } else { (EVENTS, TASK) };
        let body = || body(frames, task, name == UNLIKE, item);
        if is_wanted(&format!("decode {name}")) {
            let body = body();
            case(frames, || decode(&body, dialect));
        }
        if is_wanted(&format!("receive {name}")) {
            let body = body();
            case(frames, || receive(&body, dialect));
        }
        if is_wanted(&format!("carry {name} to AG-UI")) {
            let ([settings, _], body) = (dialects(), body());
            let mut out = AguiBytes::new(settings);
            case(frames, || carry(&body, dialect, &mut out));
        }
    }
}

const UNLIKE: &str = "1.0 chunks, unlike envelopes";
const GROWING: &str = "1.0 cumulative";

/// Writes the item with that number.
type Item = fn(usize) -> Value;

fn chunk_v1(number: usize) -> Value {
    let artifact = json!({"artifactId": "artifact-1", "parts": [{"text": text(number)}]});
    json!({"artifactUpdate": {"taskId": TASK, "contextId": CONTEXT, "artifact": artifact, "append": number > 0}})
}

fn chunk_v03(number: usize) -> Value {
    let artifact = json!({"artifactId": "artifact-1", "parts": [{"kind": "text", "text": text(number)}]});
    json!({
        "kind": "artifact-update", "taskId": TASK, "contextId": CONTEXT, "artifact": artifact,
        "append": number > 0,
    })
}

fn fragment(number: usize) -> Value {
    status_v03(&message_id(number), &text(number))
}

fn notice(number: usize) -> Value {
    status_v03(&message_id(number), &format!("Reading page {number:06} now…"))
}

fn status_v03(id: &str, text: &str) -> Value {
    let message = json!({
        "contextId": CONTEXT, "kind": "message", "messageId": id, "parts": [{"kind": "text", "text": text}],
        "role": "agent", "taskId": TASK,
    });
    let status =
        json!({"message": message, "state": "working", "timestamp": "2026-11-17T04:08:12.214170+00:00"});
    json!({"contextId": CONTEXT, "final": false, "kind": "status-update", "status": status, "taskId": TASK})
}

fn marked_fragment(number: usize) -> Value {
    let message =
        json!({"messageId": message_id(number), "role": "ROLE_AGENT", "parts": [{"text": text(number)}]});
    let status = json!({
        "state": "TASK_STATE_WORKING", "message": message, "timestamp": "2026-11-17T04:07:02.827773Z",
    });
    let actions = json!({
        "requestedToolConfirmations": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "stateDelta": {},
    });
    let metadata = json!({
        "adk_user_id": "A2A_USER_dbac6b00-1c8b-5249-9bd3-41e53153f71f", "adk_session_id": CONTEXT,
        "adk_event_id": "8466d192-02a6-495b-be8b-c284b6e9ecee", "adk_author": "agent", "adk_actions": actions,
        "adk_app_name": "agent", "adk_invocation_id": "e-09a6ad67-b37b-48f1-a6fd-08214815d719",
    });
    json!({"statusUpdate": {"taskId": TASK, "contextId": CONTEXT, "status": status, "metadata": metadata}})
}

fn cumulative(number: usize) -> Value {
    let whole: String = (0..=number).map(text).collect();
    let message = json!({
        "kind": "message", "role": "ROLE_AGENT", "parts": [{"kind": "text", "text": whole}],
        "messageId": message_id(number), "taskId": RUN_TASK, "contextId": CONTEXT,
    });
    let status = json!({
        "state": "TASK_STATE_WORKING", "message": message, "timestamp": "2026-11-17T04:11:27.594093+00:00",
    });
    json!({"taskId": RUN_TASK, "contextId": CONTEXT, "kind": "status-update", "status": status, "final": false})
}

fn delta(number: usize) -> Value {
    json!({
        "contextId": CONTEXT, "kind": "message", "messageId": message_id(0),
        "metadata": {"agno_content_category": "content"}, "parts": [{"kind": "text", "text": text(number)}],
        "role": "agent", "taskId": TASK,
    })
}

/// Twenty-one bytes that differ from each other and end with a space.
fn text(number: usize) -> String {
    format!("some {number:06} bytes ok ")
}

fn message_id(number: usize) -> String {
    format!("38be2194-678a-4ac5-8d9f-{number:012x}")
}

/// Returns the SSE body of a task that works on: what `item` writes, frame by frame. Unlike envelopes have an id each.
fn body(frames: usize, task: &str, is_unlike: bool, item: Item) -> Bytes {
    let mut body = String::new();
    let mut push = |number: usize, item: &Value| {
        let id = if is_unlike { number } else { 1 };
        let frame = json!({"id": id, "jsonrpc": "2.0", "result": item});
        body.extend(["data: ", &frame.to_string(), "\n\n"]);
    };
    push(0, &json!({"kind": "task", "id": task, "contextId": CONTEXT, "status": {"state": "working"}}));
    for number in 0..frames {
        push(number + 1, &item(number));
    }
    body.into()
}

/// Decodes SSE bytes into source events.
fn decode(body: &Bytes, dialect: Dialect) -> usize {
    let mut seen = 0;
    read(body, dialect, |events| seen += events.drain(..).count());
    seen
}

/// Carries SSE bytes of A2A to payloads of AG-UI, through the stream machine.
fn carry(body: &Bytes, dialect: Dialect, out: &mut AguiBytes) -> usize {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    read(body, dialect, |events| {
        for event in events.drain(..) {
            if let Err(error) = context.handle_event(event) {
                context.handle_failure((&error).into());
            }
            while let Some(block) = context.poll_event() {
                out.write(&block);
            }
        }
    });
    out.take()
}

/// Receives SSE bytes by the client of a task, as a driver does: frame by frame, all events and requests taken.
fn receive(body: &Bytes, dialect: Dialect) -> usize {
    let mut config = ClientConfig::default();
    config.decode.dialect = dialect;
    let message = user_message("m-1", None, vec![Part::text("go")]);
    let mut client = TaskClient::new(config, SendMessage::new(message));
    let mut seen = 0;
    for_each_frame(body, |frame| {
        while client.poll_request().is_some() {}
        client.handle_frame(frame);
        while client.poll_event().is_some() {
            seen += 1;
        }
    });
    seen
}

fn read(body: &Bytes, dialect: Dialect, mut take: impl FnMut(&mut Vec<SourceEvent>)) {
    let mut decoder = Decoder::new(DecodeConfig { dialect, ..DecodeConfig::root() });
    let mut events = Vec::new();
    for_each_frame(body, |frame| {
        decoder.handle_frame(frame, &mut events);
        take(&mut events);
    });
}

/// Calls `handle` with each event of SSE bytes.
fn for_each_frame(body: &Bytes, mut handle: impl FnMut(Frame<'_>)) {
    let mut framing = sse::Decoder::default();
    for at in (0..body.len()).step_by(READ) {
        framing.handle_chunk(body.slice(at..body.len().min(at + READ)));
        while let Some(Ok(event)) = framing.poll_event() {
            handle(Frame { event: event.event.as_deref(), data: &event.data });
        }
    }
}
