//! The terminal contract of workflows, held to the table in all three outputs: canonical events, AG-UI and A2A each show
//! the answer and the work by agent, and the outcome, as `tests/fixtures/magentic/expected.jsonl` states them.

use std::collections::{HashMap, HashSet};

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::{BlockEvent, BlockId, Channel, Role, RunInfo, RunMerger, SpanKind};
use aqueduct_tests::fixture::fixtures;
use aqueduct_tests::{a2a, agui, magentic};
use aqueduct_transport_grpc::convert::{completed_from_proto, completed_to_proto};
use serde_json::Value;

/// Agents and their text.
type Said = Vec<(String, String)>;

/// The result of a run in one output format.
#[derive(Debug, PartialEq)]
struct Told {
    answer: Said,
    work: Said,
    outcome: String,
}

struct Row {
    name: String,
    blocks: Vec<BlockEvent>,
    wanted: Told,
}

fn rows() -> Vec<Row> {
    let table = fixtures("magentic", "jsonl").into_iter().find(|fixture| fixture.name == "expected").unwrap();
    let recorded = fixtures("magentic", "events.jsonl");
    String::from_utf8(table.bytes)
        .unwrap()
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let case = row["case"].as_str().unwrap();
            let fixture = recorded.iter().find(|fixture| fixture.name == case).unwrap();
            let mut runs = magentic::runs(std::str::from_utf8(&fixture.bytes).unwrap());
            let run = usize::try_from(row["run"].as_u64().unwrap()).unwrap();
            let said = |key: &str| -> Said { serde_json::from_value(row[key].clone()).unwrap() };
            let outcome = row["outcome"].as_str().unwrap().split(':').next().unwrap().to_lowercase();
            let wanted = Told { answer: said("answer"), work: said("intermediate"), outcome };
            Row { name: format!("{case} run {run}"), blocks: runs.remove(run), wanted }
        })
        .collect()
}

/// Collects texts, in the order of their start; a block that continues another adds to its text.
#[derive(Default)]
struct Texts {
    said: Said,
    places: HashMap<String, usize>,
}

impl Texts {
    fn start(&mut self, id: &str, agent: &str, continues: Option<&str>) {
        let earlier = continues.and_then(|earlier| self.places.get(earlier).copied());
        let place = earlier.unwrap_or_else(|| {
            self.said.push((agent.to_owned(), String::new()));
            self.said.len() - 1
        });
        self.places.insert(id.to_owned(), place);
    }

    fn say(&mut self, id: &str, delta: &str) {
        if let Some(place) = self.places.get(id) {
            self.said[*place].1.push_str(delta);
        }
    }
}

fn of_blocks(blocks: &[BlockEvent]) -> Told {
    let (mut answer, mut work) = (Texts::default(), Texts::default());
    let mut outcome = String::new();
    for event in blocks {
        match event {
            BlockEvent::BlockStarted(block) if block.kind == SpanKind::Text => {
                let texts = if block.channel == Channel::Answer { &mut answer } else { &mut work };
                let continues = block.continues.as_ref().map(BlockId::as_str);
                texts.start(block.id.as_str(), block.lane.name(), continues);
            }
            BlockEvent::BlockDelta { block, delta } => {
                answer.say(block.id.as_str(), delta);
                work.say(block.id.as_str(), delta);
            }
            BlockEvent::RunFinished(end) => outcome = format!("{:?}", end.outcome).to_lowercase(),
            BlockEvent::RunFailed(_) => "failed".clone_into(&mut outcome),
            _ => {}
        }
    }
    Told { answer: answer.said, work: work.said, outcome }
}

/// What the reader of an AG-UI stream sees: answers are text messages, work is reasoning marked as such. Thoughts are
/// reasoning too, and no part of the table.
fn of_agui(events: &[Event], thoughts: &HashSet<&str>) -> Told {
    let (mut answer, mut work) = (Texts::default(), Texts::default());
    let mut names: HashMap<String, String> = HashMap::new();
    let mut outcome = String::new();
    for event in events.iter().map(|event| serde_json::to_value(event).unwrap()) {
        let member = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let agent = names.get(&member("subagentRunId")).cloned().unwrap_or_default();
        let continues = event["metadata"]["aqueduct.continues"].as_str();
        match member("type").as_str() {
            "SUBAGENT_STARTED" => drop(names.insert(member("subagentRunId"), member("name"))),
            "TEXT_MESSAGE_START" => answer.start(&member("messageId"), &member("name"), continues),
            "TEXT_MESSAGE_CONTENT" => answer.say(&member("messageId"), &member("delta")),
            "REASONING_MESSAGE_START" if !thoughts.contains(member("messageId").as_str()) => {
                assert_eq!(event["metadata"]["aqueduct.channel"], "intermediate", "work is marked as such");
                work.start(&member("messageId"), &agent, continues);
            }
            "REASONING_MESSAGE_CONTENT" => work.say(&member("messageId"), &member("delta")),
            "RUN_FINISHED" => {
                let kind = event["outcome"]["type"].as_str().unwrap_or("success");
                outcome = if kind == "interrupt" { "interrupted".to_owned() } else { kind.to_owned() };
            }
            "RUN_ERROR" => "failed".clone_into(&mut outcome),
            _ => {}
        }
    }
    Told { answer: answer.said, work: work.said, outcome }
}

#[test]
fn canonical_events_keep_the_contract() {
    for row in rows() {
        assert_eq!(of_blocks(&row.blocks), row.wanted, "{}", row.name);
    }
}

/// What a caller of `Complete` gets, over the wire and back.
fn of_value(blocks: &[BlockEvent]) -> Told {
    let mut merger = RunMerger::default();
    for event in blocks {
        merger.handle_event(event).unwrap();
    }
    let run = completed_from_proto(completed_to_proto(&merger.finish()).unwrap()).unwrap();
    let said = |channel| {
        let messages = run.response.messages.iter();
        let spoken = messages.filter(|message| message.channel == channel && message.role == Role::Assistant);
        let spoken = spoken.map(|message| (message.source.name().to_owned(), message.text()));
        spoken.filter(|(_, text)| !text.is_empty()).collect()
    };
    let outcome = run.status().to_owned();
    Told { answer: said(Channel::Answer), work: said(Channel::Intermediate), outcome }
}

/// The table is in the order of the run; a value groups messages by agent.
fn grouped(mut told: Told) -> Told {
    for said in [&mut told.answer, &mut told.work] {
        let agents: Vec<String> = said.iter().map(|(agent, _)| agent.clone()).collect();
        said.sort_by_key(|(agent, _)| agents.iter().position(|name| name == agent));
    }
    told
}

#[test]
fn the_run_as_one_value_keeps_the_contract() {
    for row in rows() {
        assert_eq!(grouped(of_value(&row.blocks)), grouped(row.wanted), "{}", row.name);
    }
}

#[test]
fn agui_keeps_the_contract() {
    for row in rows() {
        let events = agui::convert(&row.blocks, &Settings::new(Dialect::V1_0));
        let thoughts = row.blocks.iter().filter_map(|event| match event {
            BlockEvent::BlockStarted(block) if block.kind == SpanKind::Thinking => Some(block.id.as_str()),
            _ => None,
        });
        assert_eq!(of_agui(&events, &thoughts.collect()), row.wanted, "{}", row.name);
    }
}

#[test]
fn a2a_keeps_the_contract() {
    for row in rows() {
        let run = RunInfo::new("thread", "run");
        let lines = a2a::json_lines(&a2a::convert(&row.blocks, &run));
        assert_eq!(of_blocks(&a2a::decode_lines(&lines, &[])), row.wanted, "{}\n{lines}", row.name);
    }
}
