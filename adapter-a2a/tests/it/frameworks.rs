//! Recorded streams of real frameworks: each has its trace, and the answer is read once and as the answer.

use aqueduct_adapter_a2a::DecodeConfig;
use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_adapter_a2a::config::{InterruptView, SubAgents};
use aqueduct_adapter_a2a::input::{Recipient, answering, message};
use aqueduct_adapter_a2a::wire::Dialect;
use aqueduct_core::{
    BlockEvent, Channel, ContentBlock, Interrupt, InterruptReply, RunInput, SourceEvent, SpanKind,
};
use serde_json::{Value, json};

use crate::support::{assert_golden, balanced, decode, decode_json, fixture_dir, split, traced};

const FRAMEWORKS: [&str; 10] = [
    "google-adk",
    "google-adk-sse",
    "google-adk-new",
    "strands",
    "strands-compliant",
    "langgraph",
    "agno",
    "pydantic-ai",
    "agent-framework",
    "agent-framework-whole",
];

fn stream(framework: &str, scenario: &str) -> Option<Vec<u8>> {
    std::fs::read(fixture_dir().join(framework).join(format!("{scenario}.sse"))).ok()
}

/// All words of a recording, by kind and channel.
fn words(bytes: &[u8], kind: SpanKind, channel: Channel) -> Vec<String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for event in balanced(decode(&split(bytes), DecodeConfig::root())) {
        if let BlockEvent::BlockDelta { block, delta } = event
            && (block.kind, block.channel) == (kind, channel)
        {
            match texts.last_mut().filter(|(id, _)| *id == block.id.as_str()) {
                Some((_, text)) => text.push_str(&delta),
                None => texts.push((block.id.to_string(), delta.to_string())),
            }
        }
    }
    texts.into_iter().map(|(_, text)| text.trim().to_owned()).collect()
}

#[test]
fn every_recorded_framework_has_its_trace() {
    for framework in FRAMEWORKS {
        let mut seen = 0;
        for entry in std::fs::read_dir(fixture_dir().join(framework)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sse") {
                let scenario = path.file_stem().unwrap().to_str().unwrap();
                let trace = traced(decode(&split(&std::fs::read(&path).unwrap()), DecodeConfig::root()));
                assert_golden(&format!("{framework}-{scenario}"), &trace);
                seen += 1;
            }
        }
        assert!(seen > 5, "{framework}: the fixtures are there");
    }
}

#[test]
fn the_answer_of_every_framework_is_read_once() {
    for framework in FRAMEWORKS {
        for (scenario, answer) in [
            ("text", "The quick brown fox jumps over the lazy dog."),
            ("tool", "It is 21 degrees in Paris."),
            ("thinking", "The fox wins."),
        ] {
            let Some(bytes) = stream(framework, scenario) else { continue };
            let answers = words(&bytes, SpanKind::Text, Channel::Answer);
            let notices = words(&bytes, SpanKind::Text, Channel::Intermediate);
            let all: String = answers.concat();
            assert!(all.ends_with(answer), "{framework} {scenario}: {answers:?}");
            assert_eq!(all.matches(answer).count(), 1, "{framework} {scenario}: {answers:?}");
            assert_eq!(notices.concat().matches(answer).count(), 0, "{framework} {scenario}: {notices:?}");
            let thoughts = words(&bytes, SpanKind::Thinking, Channel::Answer);
            let more = words(&bytes, SpanKind::Thinking, Channel::Intermediate);
            let thoughts = [thoughts, more].concat().concat();
            assert!(thoughts.matches("Foxes are quick").count() <= 1, "{framework} {scenario}: {thoughts}");
        }
    }
}

fn trace(framework: &str, scenario: &str, config: DecodeConfig) -> String {
    traced(decode(&split(&stream(framework, scenario).unwrap()), config))
}

#[test]
fn tool_calls_of_every_framework_that_tells_them_are_tool_calls() {
    for framework in ["google-adk", "google-adk-sse", "google-adk-new", "agno"] {
        let trace = trace(framework, "tool", DecodeConfig::root());
        assert_eq!(trace.matches("tool+ ").count(), 1, "{framework}: {trace}");
        assert!(trace.contains("\"weather\"") && trace.contains("Paris"), "{framework}: {trace}");
        assert_eq!(trace.matches("\nresult ").count(), 1, "{framework}: {trace}");
    }
    // LangGraph tells results alone.
    let langgraph = trace("langgraph", "tool", DecodeConfig::root());
    assert!(langgraph.contains("\"weather\"") && langgraph.contains("\"21 degrees\""), "{langgraph}");
    for framework in ["google-adk", "google-adk-sse", "google-adk-new", "langgraph"] {
        let trace = trace(framework, "tool-error", DecodeConfig::root());
        assert!(trace.contains(" ERROR "), "{framework}: {trace}");
    }
}

#[test]
fn tokens_are_counted_once_per_event() {
    for framework in ["google-adk", "google-adk-sse", "google-adk-new"] {
        let trace = trace(framework, "tool", DecodeConfig::root());
        assert_eq!(trace.matches("\nusage ").count(), 2, "{framework}: {trace}");
    }
}

#[test]
fn sub_agents_of_google_adk_have_lanes() {
    let bytes = String::from_utf8(stream("google-adk", "text").unwrap()).unwrap();
    let bytes = bytes.replace("\"adk_author\": \"google_adk\"", "\"adk_author\": \"writer\"");
    let bytes = bytes.replace("\"adk_author\":\"google_adk\"", "\"adk_author\":\"writer\"");
    let config = DecodeConfig { sub_agents: SubAgents::Lanes, ..DecodeConfig::root() };
    let lanes = traced(decode(&split(bytes.as_bytes()), config.clone()));
    assert!(lanes.contains("lane+") && lanes.contains("writer"), "{lanes}");
    assert_eq!(lanes.matches("The quick brown fox").count(), 1, "{lanes}");
    let own = trace("google-adk", "text", config);
    assert!(!own.contains("lane+"), "{own}");
}

fn asked(framework: &str) -> Interrupt {
    let events = decode(&split(&stream(framework, "question").unwrap()), DecodeConfig::root());
    let mut interrupts = events.into_iter().filter_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(*interrupt),
        _ => None,
    });
    let first = interrupts.next().expect(framework);
    assert!(interrupts.next().is_none(), "{framework}");
    first
}

/// What goes back is what the framework was seen to accept (`question-2` of the recordings).
#[test]
fn questions_have_their_words_and_replies_their_shape() {
    for (framework, words, reply) in [
        ("google-adk", "Deploy to prod?", json!({"confirmed": true})),
        ("google-adk-sse", "Deploy to prod?", json!({"confirmed": true})),
        ("google-adk-new", "Deploy to prod?", json!({"confirmed": true})),
        ("strands", "Deploy to prod?", json!("yes")),
        ("strands-compliant", "Deploy to prod?", json!("yes")),
        ("langgraph", "Deploy to prod?", Value::Null),
    ] {
        let interrupt = asked(framework);
        assert_eq!(interrupt.message.as_deref(), Some(words), "{framework}");
        let mut input = RunInput::prompt("thread", "run", "old words");
        let payload = Some(json!("yes"));
        input.resume = vec![InterruptReply { id: interrupt.id.clone(), resolved: true, payload }];
        let task = TaskRef { task_id: "t".to_owned(), context_id: "c".to_owned() };
        let to = Recipient::Task(task);
        let message = message(&input, "m", &to);
        let part = message.parts[0].to_json(Dialect::V1);
        match framework {
            "langgraph" => assert_eq!(part, json!({"text": "yes"})),
            "strands" | "strands-compliant" => {
                assert_eq!(part["data"]["interruptResponse"]["response"], reply);
            }
            _ => {
                assert_eq!(part["metadata"], json!({"adk_type": "function_response"}));
                assert_eq!(part["data"]["name"], "adk_request_confirmation");
                assert_eq!(part["data"]["response"], reply);
                assert!(interrupt.response_schema.is_some());
            }
        }
        // Words without a reply answer it as well.
        input.resume.clear();
        input.messages[0].contents = vec![ContentBlock::text("yes")];
        let words = answering(&input, "m", &to, &[interrupt.id]);
        assert_eq!(words.parts[0].to_json(Dialect::V1), part, "{framework}");
    }
}

#[test]
fn a_question_of_data_alone_shows_its_data() {
    let status = json!({"state": "TASK_STATE_INPUT_REQUIRED", "message": {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"data": {"amount": 5}}]}});
    let event = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}});
    let events = decode_json(std::slice::from_ref(&event), DecodeConfig::root());
    let asked = events.iter().find_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => interrupt.message.as_deref(),
        _ => None,
    });
    assert_eq!(asked, Some("{\"amount\":5}"));
    let config = DecodeConfig { interrupts: InterruptView::Text, ..DecodeConfig::root() };
    let text = traced(decode_json(&[event], config));
    assert!(text.contains(r#""{\"amount\":5}""#), "{text}");
}
