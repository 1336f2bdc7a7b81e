//! Recorded AG-UI streams of real frameworks: each, decoded and converted to every output, has the content that its
//! scenario expects.
//!
//! `tests/interop/frameworks/agui/matrix.json` states the content once per scenario, for these tests and for the
//! comparison with real clients; `frameworks.json` beside it states what a framework does differently.

use std::fs;
use std::path::Path;

use aqueduct_adapter_agui::config::{Dialect, Errors, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::fold::Fold;
use aqueduct_adapter_agui::wire::RunAgentInput;
use aqueduct_core::{BlockEvent, RunInfo, ToolCallId};
use aqueduct_tests::content::Content;
use aqueduct_tests::fixture::{Fixture, fixtures};
use aqueduct_tests::{a2a, agui};
use serde_json::Value;

use crate::through_grpc::through_grpc;

/// Which part of a scenario a recording holds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// All of it.
    Whole,
    /// Up to the question, or to the call that the frontend answers.
    Asked,
    /// From the answer on.
    Answered,
}

fn table(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/frameworks/agui").join(name);
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .unwrap()
}

/// The scenario and phase of a recording, by its name. A framework without approval asks nothing.
fn scenario_of<'a>(name: &'a str, traits: &Value) -> (&'a str, Phase) {
    match name {
        "question" | "two-questions" if traits["approval"] == false => (name, Phase::Whole),
        "turns-1" | "tool-old" => ("tool", Phase::Whole),
        "turns-2" => ("two-tools", Phase::Whole),
        "thoughtful-turns-1" => ("thinking-tool", Phase::Whole),
        "thoughtful-turns-2" => ("tool-error", Phase::Whole),
        "turns-3" | "thoughtful-turns-3" => ("text", Phase::Whole),
        "question" | "two-questions" | "frontend" => (name, Phase::Asked),
        "legacy-question" => ("question", Phase::Asked),
        _ => name.strip_suffix("-answer").map_or((name, Phase::Whole), |asked| (asked, Phase::Answered)),
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// The content that a recording must have. Results are what the real result contains.
fn expected(expect: &Value, traits: &Value, phase: Phase) -> Content {
    let calls = expect["calls"].as_array().into_iter().flatten();
    let mut content = Content {
        texts: strings(&expect["texts"]),
        calls: calls
            .map(|call| (call["name"].as_str().unwrap().to_owned(), call["arguments"].clone()))
            .collect(),
        results: strings(&expect["results"]),
        reasoning: if traits["reasoning"] == false { Vec::new() } else { strings(&expect["reasoning"]) },
        outcome: "success".to_owned(),
    };
    if phase == Phase::Asked {
        (content.texts, content.results) = (Vec::new(), Vec::new());
        if expect["question"].is_string() && traits["open"].is_null() {
            "interrupted".clone_into(&mut content.outcome);
        }
    }
    if phase == Phase::Answered {
        content.calls.clear();
        if expect["question"].is_null() {
            content.results.clear();
        }
    }
    if expect["question"].is_string() || expect["runError"].is_string() {
        // The scenario continues with another turn.
        content.texts.truncate(1);
    }
    if expect["runError"].is_string() {
        "failed".clone_into(&mut content.outcome);
    }
    content
}

/// What is wrong with a content, by what is expected and what the framework does differently.
fn fault(mut held: Content, wanted: &Content, traits: &Value, phase: Phase) -> Option<String> {
    // A call that only asks for the confirmation of another.
    held.calls.retain(|(name, _)| name != "adk_request_confirmation");
    if phase == Phase::Asked && traits["open"].is_string() {
        // Such a framework asks in words of its own.
        held.texts.clear();
    }
    held.reasoning = vec![held.reasoning.concat()];
    held.results.sort();
    let mut pieces = wanted.results.clone();
    pieces.sort();
    let tells = |(held, piece): (&String, &String)| {
        held.contains(piece.as_str()) || (traits["hidden"].is_string() && held.starts_with("Error"))
    };
    let results = held.results.len() == pieces.len() && held.results.iter().zip(&pieces).all(tells);
    let results_held = if results { held.results.clone() } else { pieces };
    let wanted =
        Content { results: results_held, reasoning: vec![wanted.reasoning.concat()], ..wanted.clone() };
    (held != wanted).then(|| format!("holds {held:?}\n  not {wanted:?}"))
}

struct Recording {
    what: String,
    blocks: Vec<BlockEvent>,
    wanted: Content,
    traits: Value,
    phase: Phase,
    known: Vec<ToolCallId>,
}

impl Recording {
    fn new(framework: &str, fixture: &Fixture) -> Self {
        let input: RunAgentInput = serde_json::from_str(&fixture.sibling("request.json").unwrap()).unwrap();
        let known: Vec<ToolCallId> = calls_of(&fixture.sibling("request.json").unwrap());
        let blocks = agui::decode_sse(&fixture.bytes, Some(&input), &known);
        let traits = table("frameworks.json")[framework].clone();
        let (scenario, phase) = scenario_of(&fixture.name, &traits);
        let expect = &table("matrix.json")[scenario]["expect"];
        assert!(expect.is_object(), "no scenario `{scenario}` in matrix.json");
        let wanted = expected(expect, &traits, phase);
        Self { what: format!("{framework}, {}", fixture.name), blocks, wanted, traits, phase, known }
    }

    fn fault(&self, output: &str, held: Content) -> Option<String> {
        let fault = fault(held, &self.wanted, &self.traits, self.phase)?;
        Some(format!("{}, {output}: {fault}", self.what))
    }
}

/// The calls that stand in the history of a request.
fn calls_of(request: &str) -> Vec<ToolCallId> {
    let request: Value = serde_json::from_str(request).unwrap();
    let messages = request["messages"].as_array().unwrap().iter();
    let calls = messages.flat_map(|message| message["toolCalls"].as_array().into_iter().flatten());
    calls.map(|call| ToolCallId::new(call["id"].as_str().unwrap().to_owned())).collect()
}

/// The recordings of a framework, without scenarios that it cannot carry to their end.
fn recordings(framework: &str) -> Vec<Recording> {
    let traits = &table("frameworks.json")[framework];
    let unsupported =
        |fixture: &Fixture| !traits["unsupported"][scenario_of(&fixture.name, traits).0].is_null();
    let all = fixtures(&format!("agui/{framework}"), "sse");
    let supported = all.iter().filter(|fixture| !unsupported(fixture));
    supported.map(|fixture| Recording::new(framework, fixture)).collect()
}

/// One test per framework that has recordings.
macro_rules! frameworks {
    ($($test:ident: $framework:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            let faults: Vec<String> = recordings($framework).iter().flat_map(faults).collect();
            assert!(faults.is_empty(), "{}", faults.join("\n"));
        }
    )*};
}

frameworks! {
    adk: "adk",
    agent_framework: "agent-framework",
    agno: "agno",
    crewai: "crewai",
    langgraph: "langgraph",
    llama_index: "llama-index",
    pydantic_ai: "pydantic-ai",
    strands: "strands",
}

/// What is wrong with a recording in any output.
fn faults(recording: &Recording) -> Vec<String> {
    let mut faults = vec![recording.fault("canonical", Content::of_blocks(&recording.blocks))];
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        // Text that is written only for readers is not content: names of sub-agents, and failures as text.
        let settings = Settings::new(dialect)
            .with_subagents(Subagents::Attributed)
            .with_errors(Errors::Error)
            .with_interrupts(Interrupts::Interrupt);
        let events = agui::convert(&recording.blocks, &settings);
        faults.push(recording.fault(&format!("AG-UI {dialect:?}"), Content::of_agui(&events)));
    }
    faults.push(recording.fault("gRPC", Content::of_blocks(&through_grpc(&recording.blocks))));
    let items = a2a::convert(&recording.blocks, &RunInfo::new("thread", "run"));
    let again = a2a::decode_lines(&a2a::json_lines(&items), &recording.known);
    faults.push(recording.fault("A2A", Content::of_blocks(&again)));
    faults.into_iter().flatten().collect()
}

/// Frameworks that name the message of a call, or group calls in a snapshot: directly, a client holds their parallel
/// calls in one message.
const GROUPING: [&str; 6] = ["agent-framework", "agno", "crewai", "langgraph", "llama-index", "pydantic-ai"];

#[test]
fn parallel_calls_are_in_one_message() {
    for framework in GROUPING {
        let all = fixtures(&format!("agui/{framework}"), "sse");
        let fixture = all.iter().find(|fixture| fixture.name == "two-tools").unwrap();
        let events = agui::convert(&Recording::new(framework, fixture).blocks, &Settings::new(Dialect::V1_0));
        let mut client = Fold::new();
        for event in &events {
            client.handle_event(event);
        }
        let messages = client.messages(Dialect::V1_0);
        let calls: Vec<usize> =
            messages.iter().map(|message| message.tool_calls().len()).filter(|calls| *calls > 0).collect();
        assert_eq!(calls, [2], "{framework}: {messages:?}");
    }
}
