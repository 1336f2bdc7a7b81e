//! Real Microsoft Agent Framework workflows, run by `sdk/python` with scripted models, decoded: each gives the answer
//! of its script, attributed, intermediate work separate, every tool call with its result, and the right outcome.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::verify::{Level, verify};
use aqueduct_core::testing::trace;
use aqueduct_core::{BlockEvent, Channel, RunOutcome, SpanKind};
use aqueduct_tests::agui::convert;
use aqueduct_tests::magentic;
use serde_json::Value;

struct Case {
    name: String,
    lines: String,
    expected: Value,
}

fn cases() -> Vec<Case> {
    let folder = env::var_os("AQUEDUCT_INTEROP_MAGENTIC_CASES").expect("run `cargo xtask interop magentic`");
    let folder = PathBuf::from(folder);
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<Case> = names
        .filter_map(|name| name.strip_suffix(".expected.json").map(ToOwned::to_owned))
        .map(|name| {
            let lines = fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
            let expected = fs::read_to_string(folder.join(format!("{name}.expected.json"))).unwrap();
            Case { name, lines, expected: serde_json::from_str(&expected).unwrap() }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 10, "only {} workflows", cases.len());
    cases
}

/// The texts of a run on one channel: agent and text, in the order of their start.
fn texts(blocks: &[BlockEvent], channel: Channel) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String, String)> = Vec::new();
    for event in blocks {
        match event {
            BlockEvent::BlockStarted(block) if block.kind == SpanKind::Text && block.channel == channel => {
                texts.push((block.id.to_string(), block.lane.name().to_owned(), String::new()));
            }
            BlockEvent::BlockDelta { block, delta } => {
                if let Some((_, _, text)) = texts.iter_mut().find(|(id, _, _)| id == block.id.as_str()) {
                    text.push_str(delta);
                }
            }
            _ => {}
        }
    }
    texts.into_iter().map(|(_, agent, text)| (agent, text)).collect()
}

fn outcome(blocks: &[BlockEvent]) -> &'static str {
    match blocks.last() {
        Some(BlockEvent::RunFinished(end)) if end.outcome == RunOutcome::Interrupted => "interrupted",
        Some(BlockEvent::RunFinished(_)) => "success",
        Some(BlockEvent::RunFailed(_)) => "failed",
        other => panic!("a run ends with its terminal event, not {other:?}"),
    }
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn workflows_end_as_their_scripts_say() {
    for Case { name, lines, expected } in cases() {
        let runs = magentic::runs(&lines);
        let ends: Vec<&str> = runs.iter().map(|blocks| outcome(blocks)).collect();
        let wanted: Vec<&str> =
            expected["outcomes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(ends, wanted, "{name}");
        if let Some(failure) = expected["failure"].as_str() {
            let said = trace(runs.last().unwrap());
            assert!(said.contains(failure), "{name}: the failure must be told: {failure}\n{said}");
        }
    }
}

#[test]
fn the_answer_is_the_answer_once_and_attributed() {
    for Case { name, lines, expected } in cases() {
        let runs = magentic::runs(&lines);
        let answer = texts(runs.last().unwrap(), Channel::Answer);
        let wanted: Vec<(String, String)> = expected["answer"]
            .as_array()
            .unwrap()
            .iter()
            .map(|said| (word(said, "agent").to_owned(), word(said, "text").to_owned()))
            .collect();
        assert_eq!(answer, wanted, "{name}\n{}", trace(runs.last().unwrap()));
    }
}

#[test]
fn the_work_is_told_by_agent_and_apart_from_the_answer() {
    for Case { name, lines, expected } in cases() {
        let mut work: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for blocks in magentic::runs(&lines) {
            for (agent, text) in texts(&blocks, Channel::Intermediate) {
                work.entry(agent).or_default().push(text);
            }
        }
        let wanted: BTreeMap<String, Vec<String>> =
            serde_json::from_value(expected["intermediate"].clone()).unwrap();
        assert_eq!(work, wanted, "{name}");
    }
}

#[test]
fn tools_are_told_with_their_results() {
    for Case { name, lines, expected } in cases() {
        let blocks: Vec<BlockEvent> = magentic::runs(&lines).into_iter().flatten().collect();
        for tool in expected["tools"].as_array().unwrap() {
            let call = blocks.iter().find_map(|event| match event {
                BlockEvent::BlockStarted(block)
                    if block.kind == SpanKind::ToolUse
                        && block
                            .origin
                            .tool_call_id
                            .as_ref()
                            .is_some_and(|id| id.as_str() == word(tool, "call_id")) =>
                {
                    Some(block)
                }
                _ => None,
            });
            let call = call.unwrap_or_else(|| panic!("{name}: no call {tool}\n{}", trace(&blocks)));
            assert_eq!(&*call.tool_name, word(tool, "name"), "{name}");
            if let Some(result) = tool["result"].as_str() {
                let told = blocks.iter().any(|event| {
                    matches!(event, BlockEvent::ToolResult(told)
                        if told.call_id == call.tool_call_id() && &*told.output.to_text() == result)
                });
                assert!(told, "{name}: no result {tool}\n{}", trace(&blocks));
            }
        }
    }
}

#[test]
fn every_workflow_is_legal_agui_in_both_dialects() {
    for Case { name, lines, .. } in cases() {
        for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
            let runs = magentic::runs(&lines);
            let events: Vec<_> =
                runs.iter().flat_map(|blocks| convert(blocks, &Settings::new(dialect))).collect();
            let found = verify(&events, dialect, Level::Strict);
            assert!(found.is_empty(), "{name} {dialect:?}: {found:#?}");
        }
    }
}
