//! That texts read by a template give the events of the general way: over streams that mix shapes, ids, texts and metadata.

use aqueduct_core::{ByteString, Source};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::call::{SendMessage, user_message};
use crate::client::TaskClient;
use crate::config::{ClientConfig, DecodeConfig, StreamShape, SubAgents};
use crate::wire::{Dialect, FrameContent};

const TEXTS: [&str; 16] = [
    "The ",
    "The quick ",
    "The quick brown fox",
    "quick ",
    "fox",
    "fox.",
    "Searching…",
    "🔧 Calling tool: **search**",
    "✅ Tool **search** completed",
    "a line\nand \"another\"\n",
    "é🦀 ",
    "",
    " ",
    "It is 21 degrees in Paris.",
    "ha",
    "haha",
];
const IDS: [&str; 6] = ["m1", "m2", "m3", "m-4", "", "a\"b"];
const TIMES: [&str; 4] = ["", "2026-11-17T04:08:12.214170+00:00", "2026-11-17T04:08:13Z", "soon"];

/// Returns the metadata of an event.
fn metadata(form: usize) -> Value {
    match form {
        0 => json!({"adk_event_id": "e1", "adk_author": "agent", "adk_app_name": "agent"}),
        1 => json!({"adk_event_id": "e2", "adk_author": "helper", "adk_app_name": "agent"}),
        2 => json!({"adk_event_id": "e1", "adk_usage_metadata": {"promptTokenCount": 7}}),
        3 => json!({"adk_event_id": "e3", "adk_actions": {"stateDelta": {"a": 1}}}),
        4 => json!({"adk_actions": {"stateDelta": {}}}),
        _ => json!({"agno_content_category": "content", "x": [1, {}]}),
    }
}

#[derive(Debug, Clone)]
struct Step {
    kind: usize,
    text: &'static str,
    id: &'static str,
    time: &'static str,
    /// The metadata of the event and of the message.
    metadata: (Option<usize>, Option<usize>),
    /// An event name that only one kind of frame has.
    is_error: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any_of = |list: &'static [&'static str]| prop::sample::select(list);
    // Mostly equal frames: otherwise no template would ever be used.
    let form = || prop_oneof![5 => Just(None), 1 => (0..6_usize).prop_map(Some)];
    let kind = prop_oneof![12 => Just(0), 3 => Just(1), 4 => Just(2), 1 => 3..8_usize];
    let step =
        (kind, any_of(&TEXTS), any_of(&IDS), any_of(&TIMES), form(), form(), prop::bool::weighted(0.02));
    let step = step.prop_map(|(kind, text, id, time, event, own, is_error)| Step {
        kind,
        text,
        id,
        time,
        metadata: (event, own),
        is_error,
    });
    prop::collection::vec(step, 1..40)
}

fn frame(step: &Step) -> Value {
    let parts = json!([{"kind": "text", "text": step.text}]);
    let mut message =
        json!({"kind": "message", "messageId": step.id, "parts": parts, "role": "agent", "taskId": "t"});
    if let Some(form) = step.metadata.1 {
        message["metadata"] = metadata(form);
    }
    let state = match step.kind {
        3 => "input-required",
        4 => "of-its-own",
        5 => "submitted",
        _ => "working",
    };
    let mut status = json!({"message": message, "state": state});
    if !step.time.is_empty() {
        status["timestamp"] = step.time.into();
    }
    let mut update = json!({"kind": "status-update", "taskId": "t", "contextId": "c", "status": status});
    if let Some(form) = step.metadata.0 {
        update["metadata"] = metadata(form);
    }
    let item = match step.kind {
        1 => {
            json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING", "message": message}}})
        }
        2 => message,
        6 => json!({"kind": "status-update", "taskId": "other", "contextId": "c", "status": status}),
        7 => {
            json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": parts}})
        }
        _ => update,
    };
    json!({"jsonrpc": "2.0", "id": 1, "result": item})
}

/// Decodes all frames, and returns the events of each with what was counted.
fn decode(frames: &[(ByteString, bool)], config: DecodeConfig, is_general: bool) -> Vec<String> {
    let mut decoder = Decoder::new(config);
    let mut all = Vec::new();
    for (data, is_error) in frames {
        let mut out = Vec::new();
        let frame = Frame { event: is_error.then_some("error"), data };
        if is_general {
            decoder.handle_any(frame, &mut out);
        } else {
            decoder.handle_frame(frame, &mut out);
        }
        all.push(format!("{out:#?} {:?} {:?}", decoder.counts(), decoder.settled()));
    }
    let mut out = Vec::new();
    decoder.handle_end(&mut out);
    all.push(format!("{out:#?}"));
    all
}

/// Returns what the client of a task emits for each frame, and what it emits if every frame takes the general way.
fn receive(frames: &[(ByteString, bool)], config: &DecodeConfig) -> [Vec<String>; 2] {
    let client = || {
        let config = ClientConfig { decode: config.clone(), ..ClientConfig::default() };
        TaskClient::new(config, SendMessage::new(user_message("m-0", None, vec![Part::text("go")])))
    };
    let (mut by_template, mut general) = (client(), client());
    let show = |client: &mut TaskClient| {
        let events: Vec<SourceEvent> = std::iter::from_fn(|| client.poll_event()).collect();
        format!("{events:#?} {:?}", client.is_settled())
    };
    let mut all = [Vec::new(), Vec::new()];
    for (data, _) in frames {
        by_template.handle_frame(Frame::data(data));
        // Items without the text of their frame have no template.
        if let FrameContent::Item(item) = Frame::data(data).parse(config.dialect).unwrap() {
            general.handle_item(item);
        }
        all[0].push(show(&mut by_template));
        all[1].push(show(&mut general));
    }
    all
}

fn config(setting: usize, lanes: bool) -> DecodeConfig {
    let stream = [
        StreamShape::Auto,
        StreamShape::Fragments,
        StreamShape::Cumulative,
        StreamShape::Deltas,
        StreamShape::Answer,
        StreamShape::Notices,
    ];
    let sub_agents = if lanes { SubAgents::Lanes } else { SubAgents::Inline };
    let source = if lanes { Source::root().child("agent") } else { Source::root() };
    DecodeConfig {
        dialect: Dialect::V03JsonRpc,
        stream: stream[setting],
        sub_agents,
        source,
        ..DecodeConfig::root()
    }
}

fn frames(steps: &[Step]) -> Vec<(ByteString, bool)> {
    let task = json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}});
    let first = (ByteString::from(json!({"jsonrpc": "2.0", "id": 1, "result": task}).to_string()), false);
    let others = steps.iter().map(|step| (ByteString::from(frame(step).to_string()), step.is_error));
    std::iter::once(first).chain(others).collect()
}

proptest! {
    #[test]
    fn a_template_gives_what_the_general_way_gives(
        steps in steps(),
        setting in 0..6_usize,
        lanes in any::<bool>(),
    ) {
        let frames = frames(&steps);
        let (by_template, general) =
            (decode(&frames, config(setting, lanes), false), decode(&frames, config(setting, lanes), true));
        for (at, (one, other)) in by_template.iter().zip(&general).enumerate() {
            prop_assert_eq!(one, other, "frame {}: {:?}", at, frames.get(at));
        }
    }

    #[test]
    fn the_client_of_a_task_emits_what_the_general_way_gives(
        steps in steps(),
        setting in 0..6_usize,
        lanes in any::<bool>(),
    ) {
        let frames = frames(&steps);
        let [by_template, general] = receive(&frames, &config(setting, lanes));
        for (at, (one, other)) in by_template.iter().zip(&general).enumerate() {
            prop_assert_eq!(one, other, "frame {}: {:?}", at, frames.get(at));
        }
    }
}

#[test]
fn frames_of_a_framework_are_read_by_one_template() {
    let step = |text, id, time| Step { kind: 0, text, id, time, metadata: (Some(0), None), is_error: false };
    let steps = [step("The ", "m1", TIMES[1]), step("quick ", "m2", TIMES[2]), step("fox", "m3", "soon")];
    let mut decoder = Decoder::new(config(0, false));
    for (data, _) in frames(&steps) {
        decoder.handle_frame(Frame::data(&data), &mut Vec::new());
    }
    assert_eq!(decoder.templates(), 1, "the second and third frame are not learned again");
}
