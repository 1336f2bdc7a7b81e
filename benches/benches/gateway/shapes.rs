//! The shapes in which frameworks stream an answer over A2A, as items of version 0.3, which every relay supports.
//!
//! Texts differ from each other: `@ag-ui/a2a` drops a status text that equals the one before. Each ends with the mark `~`
//! and a space; the mark occurs nowhere else.

/// Texts of a stream that repeats the answer so far: its bytes grow with the square of their number.
const CUMULATIVE_CHUNKS: u64 = 200;

/// One way to stream an answer.
pub(crate) struct Shape {
    /// The path of the agent.
    pub(crate) mode: &'static str,
    pub(crate) name: &'static str,
    /// Items of one stream.
    pub(crate) chunks: u64,
    /// Streams of one round, one after another.
    pub(crate) streams: u64,
    /// Writes the item with that number.
    pub(crate) item: fn(u64) -> String,
}

/// All shapes. Status texts are fewer than chunks, because `@ag-ui/a2a` compares each with the whole text before it.
pub(crate) const SHAPES: [Shape; 6] = [
    Shape { mode: "burst", name: "artifact chunks", chunks: 200_000, streams: 1, item: chunk },
    Shape {
        mode: "fragments",
        name: "status texts, pieces (Strands)",
        chunks: 20_000,
        streams: 5,
        item: fragment,
    },
    Shape { mode: "marked", name: "the same with metadata (ADK)", chunks: 20_000, streams: 5, item: marked },
    Shape {
        mode: "cumulative",
        name: "the text so far (LangGraph)",
        chunks: CUMULATIVE_CHUNKS,
        streams: 50,
        item: cumulative,
    },
    Shape { mode: "deltas", name: "deltas of one message (Agno)", chunks: 20_000, streams: 5, item: delta },
    Shape { mode: "notices", name: "progress reports", chunks: 20_000, streams: 5, item: notice },
];

/// Returns the shape of a mode. A paced or idle stream has none.
pub(crate) fn shape(mode: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.mode == mode)
}

/// Twenty-one bytes of text.
fn text(number: u64) -> String {
    format!("a text {number:06} bytes~ ")
}

/// An artifact chunk. The first one creates the artifact.
fn chunk(number: u64) -> String {
    chunk_of(&text(number), number > 0)
}

/// An artifact chunk with that text.
pub(crate) fn chunk_of(text: &str, append: bool) -> String {
    format!(
        r#"{{"kind":"artifact-update","taskId":"task-1","contextId":"context-1","artifact":{{"artifactId":"artifact-1","parts":[{{"kind":"text","text":"{text}"}}]}},"append":{append}}}"#
    )
}

fn fragment(number: u64) -> String {
    status(&text(number), number, "")
}

fn marked(number: u64) -> String {
    let metadata = r#","metadata":{"adk_user_id":"A2A_USER_context-1","adk_session_id":"context-1","adk_event_id":"8466d192-02a6-495b-be8b-c284b6e9ecee","adk_author":"agent","adk_actions":{"requestedToolConfirmations":{},"artifactDelta":{},"requestedAuthConfigs":{},"stateDelta":{}},"adk_app_name":"agent","adk_invocation_id":"e-09a6ad67-b37b-48f1-a6fd-08214815d719"}"#;
    status(&text(number), number, metadata)
}

fn cumulative(number: u64) -> String {
    let whole: String = (0..=number).map(text).collect();
    status(&whole, number, "")
}

fn notice(number: u64) -> String {
    status(&format!("Reading page {number:06}~…"), number, "")
}

/// A status text with a message id of its own and a time.
fn status(text: &str, number: u64, metadata: &str) -> String {
    format!(
        r#"{{"contextId":"context-1","final":false,"kind":"status-update","status":{{"message":{{"contextId":"context-1","kind":"message","messageId":"38be2194-678a-4ac5-8d9f-{number:012x}","parts":[{{"kind":"text","text":"{text}"}}],"role":"agent","taskId":"task-1"}},"state":"working","timestamp":"2026-11-17T04:08:12.214170+00:00"}},"taskId":"task-1"{metadata}}}"#
    )
}

fn delta(number: u64) -> String {
    let text = text(number);
    format!(
        r#"{{"contextId":"context-1","kind":"message","messageId":"38be2194-678a-4ac5-8d9f-000000000000","metadata":{{"agno_content_category":"content"}},"parts":[{{"kind":"text","text":"{text}"}}],"role":"agent","taskId":"task-1"}}"#
    )
}
