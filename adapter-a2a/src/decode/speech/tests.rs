//! Each shape in which frameworks stream, alone and mixed: the answer is shown once and as the answer, each notice once
//! and separately.

use aqueduct_core::event::EndReason;
use aqueduct_core::testing::{InvariantChecker, run_to_end};
use aqueduct_core::{BlockEvent, BlockId, Channel, SourceEvent, SpanKind};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Decoder;
use crate::config::{DecodeConfig, StreamShape, Unclear};
use crate::wire::Frame;

/// The final content that a reader sees.
#[derive(Debug, Default, PartialEq)]
struct Read {
    answers: Vec<String>,
    notices: Vec<String>,
    thoughts: Vec<String>,
    bytes: usize,
}

fn fold(events: Vec<SourceEvent>) -> Read {
    let events = run_to_end(events);
    InvariantChecker::check_all(&events).unwrap();
    let mut read = Read::default();
    let mut blocks: Vec<(BlockId, SpanKind, Channel, String)> = Vec::new();
    for event in &events {
        match event {
            BlockEvent::BlockStarted(head) => {
                match blocks.iter_mut().find(|(id, ..)| head.continues.as_ref() == Some(id)) {
                    Some(block) => block.0 = head.id.clone(),
                    None => blocks.push((head.id.clone(), head.kind, head.channel, String::new())),
                }
            }
            BlockEvent::BlockDelta { block, delta } => {
                read.bytes += delta.len();
                let found = blocks.iter_mut().find(|(id, ..)| *id == block.id).unwrap();
                found.3.push_str(delta);
            }
            BlockEvent::BlockEnded { block, reason: EndReason::Replaced } => {
                blocks.retain(|(id, ..)| *id != block.id);
            }
            _ => {}
        }
    }
    for (_, kind, channel, text) in blocks {
        match (kind, channel) {
            (SpanKind::Thinking, _) => read.thoughts.push(text),
            (_, Channel::Answer) => read.answers.push(text),
            (_, Channel::Intermediate) => read.notices.push(text),
        }
    }
    read
}

fn decode(stream: StreamShape, events: &[Value]) -> Read {
    let config = DecodeConfig { stream, ..DecodeConfig::root() };
    let (mut decoder, mut out) = (Decoder::new(config), Vec::new());
    for event in events {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
    }
    decoder.handle_end(&mut out);
    fold(out)
}

fn auto(events: &[Value]) -> Read {
    decode(StreamShape::Auto, events)
}

/// Builds the events of an agent. Each call assigns a new message id.
#[derive(Default)]
struct Agent {
    events: Vec<Value>,
    ids: usize,
}

impl Agent {
    fn id(&mut self) -> String {
        self.ids += 1;
        format!("m{}", self.ids)
    }

    fn status_of(&mut self, state: &str, message: &Value) {
        let status = json!({"state": state, "message": message});
        self.events.push(json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}));
    }

    fn says(&mut self, text: &str) -> Value {
        json!({"messageId": self.id(), "role": "ROLE_AGENT", "parts": [{"text": text}]})
    }

    fn working(&mut self, text: &str) -> &mut Self {
        let message = self.says(text);
        self.status_of("TASK_STATE_WORKING", &message);
        self
    }

    fn cumulative(&mut self, pieces: &[&str]) -> &mut Self {
        for end in 1..=pieces.len() {
            self.working(&pieces[..end].concat());
        }
        self
    }

    fn artifact(&mut self, id: &str, text: &str, append: bool, last: bool) -> &mut Self {
        self.events.push(
            json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append, "lastChunk": last,
            "artifact": {"artifactId": id, "parts": [{"text": text}]}}}),
        );
        self
    }

    fn done(&mut self) -> &[Value] {
        self.events.push(json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}));
        &self.events
    }

    fn done_with(&mut self, text: &str) -> &[Value] {
        let message = self.says(text);
        self.status_of("TASK_STATE_COMPLETED", &message);
        &self.events
    }
}

const PIECES: [&str; 4] = ["The ", "quick ", "brown ", "fox."];

#[test]
fn fragments_then_the_whole_are_one_answer() {
    let mut agent = Agent::default();
    for piece in PIECES {
        agent.working(piece);
    }
    agent.working("The quick brown fox.").artifact("a", "The quick brown fox.\n", false, true);
    let read = auto(agent.done());
    assert_eq!((read.answers, read.notices), (vec!["The quick brown fox.".to_owned()], vec![]));
    assert_eq!(read.bytes, 20);
}

#[test]
fn fragments_stream_from_the_first_token() {
    let mut agent = Agent::default();
    agent.working("The ").working("quick ");
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    for (at, event) in agent.events.iter().enumerate() {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
        assert_eq!(out.len(), at + 1);
    }
}

#[test]
fn a_cumulative_text_is_shown_once_and_linear() {
    let words: Vec<String> = (0..100).map(|n| format!("word{n} ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let whole = words.concat();
    let mut agent = Agent::default();
    agent.cumulative(&words).artifact("a", whole.trim_end(), false, true);
    let read = auto(agent.done());
    assert_eq!((read.answers, read.bytes), (vec![whole.clone()], whole.len()));
}

#[test]
fn langgraph_is_known_by_its_task_id() {
    let event = |text: &str, id: &str| {
        json!({"result": {"taskId": "c:run", "contextId": "c", "kind": "status-update", "status": {"state": "TASK_STATE_WORKING",
        "message": {"kind": "message", "role": "ROLE_AGENT", "messageId": id, "parts": [{"kind": "text", "text": text}]}}}})
    };
    let events =
        [event("ha", "1"), event("ha", "2"), event("haha", "3"), event("Other", "4"), event("Others", "5")];
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    decoder.handle_frame(Frame::data(&events[0].to_string().into()), &mut out);
    assert_eq!(out.len(), 1, "streams from the first token");
    let read = auto(&events);
    assert_eq!(read.answers, ["haha", "Others"]);
}

#[test]
fn deltas_of_one_message_are_one_message() {
    for metadata in [json!({"agno_content_category": "content"}), Value::Null] {
        let mut agent = Agent::default();
        agent.events.push(json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}));
        for delta in ["ha", "ha", "ha", "! ", "1", "10", " 100"] {
            let mut message = json!({"messageId": "m", "taskId": "t", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": delta}]});
            if !metadata.is_null() {
                message["metadata"] = metadata.clone();
            }
            agent.events.push(json!({"message": message}));
        }
        assert_eq!(auto(agent.done()).answers, ["hahaha! 110 100"]);
    }
}

#[test]
fn a_status_that_the_artifact_repeats_is_the_answer() {
    for again in ["It is 21 degrees in Paris.", " It is 21 degrees in Paris.\n"] {
        let mut agent = Agent::default();
        agent
            .working("Searching the web")
            .working("It is 21 degrees in Paris.")
            .artifact("a", again, false, true);
        let read = auto(agent.done());
        assert_eq!(
            (&*read.answers, &*read.notices),
            (&[again.to_owned()][..], &["Searching the web".to_owned()][..])
        );
    }
    // As above without an artifact, and with a final status.
    let mut agent = Agent::default();
    agent.working("Searching…").working("It is 21.");
    let mut other = Agent::default();
    other.working("Searching…").working("It is 21.");
    for events in [agent.done(), other.done_with("It is 21.")] {
        let read = auto(events);
        assert_eq!(
            (&*read.answers, &*read.notices),
            (&["It is 21.".to_owned()][..], &["Searching…".to_owned()][..])
        );
    }
}

#[test]
fn notices_are_never_glued() {
    let notices = ["Searching…", "Reading…", "Looking it up", "Found 3 files.", "Searching", "Reading"];
    let mut agent = Agent::default();
    for notice in notices {
        agent.working(notice);
    }
    agent.artifact("a", "The answer.", false, true);
    let read = auto(agent.done());
    assert_eq!(
        (read.answers, read.notices),
        (vec!["The answer.".to_owned()], notices.map(str::to_owned).to_vec())
    );
}

#[test]
fn a_held_text_is_shown_when_nothing_follows() {
    let mut agent = Agent::default();
    agent.working("Looking it up");
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    decoder.handle_frame(Frame::data(&agent.events[0].to_string().into()), &mut out);
    assert!(out.is_empty() && decoder.holds_text());
    decoder.release_held(&mut out);
    assert!(out.len() == 1 && !decoder.holds_text());
}

#[test]
fn without_holding_texts_show_at_once_and_still_once() {
    let mut agent = Agent::default();
    agent.working("Searching the web").working("Reading").working("It is 21 degrees.");
    agent.artifact("a", "It is 21 degrees.\n", false, true).done();
    let config = DecodeConfig { unclear: Unclear::Show, ..DecodeConfig::root() };
    let (mut decoder, mut out) = (Decoder::new(config), Vec::new());
    for (at, event) in agent.events.iter().take(3).enumerate() {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
        assert_eq!(out.len(), at + 1);
    }
    for event in agent.events.iter().skip(3) {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
    }
    assert_eq!(fold(out).answers, ["Searching the web", "Reading", "It is 21 degrees."]);
}

#[test]
fn a_replacement_by_the_end_of_what_stands_adds_nothing() {
    let mut agent = Agent::default();
    agent.artifact("a", "Let me look.", false, false).artifact(
        "a",
        "It is 21 degrees in Paris.",
        true,
        false,
    );
    agent.artifact("a", "It is 21 degrees in Paris.", false, true);
    assert_eq!(auto(agent.done()).answers, ["Let me look.It is 21 degrees in Paris."]);
}

#[test]
fn an_artifact_in_chunks_that_restates_fragments_adds_nothing_until_it_differs() {
    for (chunks, expected) in [
        (&["The ", "quick brown ", "fox."][..], &["The quick brown fox."][..]),
        (&["The ", "quick brown ", "fox.", " It jumps."], &["The quick brown fox. It jumps."]),
        (&["The ", "report", " is here."], &["The quick brown fox.", "The report is here."]),
    ] {
        let mut agent = Agent::default();
        for piece in PIECES {
            agent.working(piece);
        }
        for (at, chunk) in chunks.iter().enumerate() {
            agent.artifact("a", chunk, at > 0, false);
        }
        assert_eq!(auto(agent.done()).answers, expected, "{chunks:?}");
    }
}

#[test]
fn a_setting_overrides_the_guess() {
    let mut agent = Agent::default();
    let events = agent.working("One").working("One two").working("Three").done().to_vec();
    for (shape, answers) in [
        (StreamShape::Fragments, &["OneOne twoThree"][..]),
        (StreamShape::Deltas, &["OneOne twoThree"]),
        (StreamShape::Cumulative, &["One two", "Three"]),
        (StreamShape::Answer, &["One", "One two", "Three"]),
        (StreamShape::Notices, &["Three"]),
    ] {
        assert_eq!(decode(shape, &events).answers, answers, "{shape:?}");
    }
}

/// The shape of the answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    Fragments,
    Cumulative,
    Deltas,
    Chunks,
    Whole,
    Nothing,
}

#[derive(Debug, Clone)]
enum Again {
    Status,
    Artifact,
    Chunks,
    History,
    Final,
}

fn text() -> impl Strategy<Value = Vec<String>> {
    let word = "[A-Za-z]{2,8}[,]?";
    (prop::collection::vec(word, 3..30), any::<bool>()).prop_map(|(words, leads)| {
        let last = words.len() - 1;
        words
            .into_iter()
            .enumerate()
            .map(|(at, word)| match (leads, at) {
                (true, 0) => word,
                (true, _) if at == last => format!(" {word}."),
                (true, _) => format!(" {word}"),
                (false, _) if at == last => format!("{word}."),
                (false, _) => format!("{word} "),
            })
            .collect()
    })
}

fn notice() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Z][a-z]{3,8}…",
        "[A-Z][a-z]{3,8} the [a-z]{3,8}",
        "[A-Z][a-z]{3,8} [0-9] files\\.",
        "🔎 [A-Z][a-z]{3,8}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_read_once_and_notices_apart(
        pieces in text(),
        notices in prop::collection::vec(notice(), 0..4),
        told in prop::sample::select(vec![Told::Fragments, Told::Cumulative, Told::Deltas, Told::Chunks, Told::Whole, Told::Nothing]),
        mut again in prop::collection::vec(prop_oneof![Just(Again::Status), Just(Again::Artifact), Just(Again::Chunks), Just(Again::History)], 0..3),
        concludes in any::<bool>(),
        pad in prop::sample::select(vec!["", "\n", " "]),
    ) {
        let whole = pieces.concat();
        let mut agent = Agent::default();
        let mut bytes_in = 0;
        for notice in &notices {
            agent.working(notice);
            bytes_in += notice.len();
        }
        match told {
            Told::Fragments => pieces.iter().for_each(|piece| { agent.working(piece); }),
            Told::Cumulative => { agent.cumulative(&pieces.iter().map(String::as_str).collect::<Vec<_>>()); }
            Told::Deltas => for piece in &pieces {
                agent.events.push(json!({"message": {"messageId": "answer", "taskId": "t", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": piece}]}}));
            },
            Told::Chunks => for (at, piece) in pieces.iter().enumerate() {
                agent.artifact("answer", piece, at > 0, at + 1 == pieces.len());
            },
            Told::Whole => { agent.working(&whole); }
            Told::Nothing => {}
        }
        if told == Told::Deltas {
            // The stream of a task begins with the task.
            agent.events.insert(0, json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}));
        }
        if told == Told::Nothing {
            again.insert(0, Again::Artifact);
        }
        if told == Told::Chunks {
            // A status text after the artifact is a separate one.
            again.retain(|again| !matches!(again, Again::Status | Again::Artifact | Again::Chunks));
        }
        if concludes {
            again.push(Again::Final);
        }
        // One artifact has one form.
        let mut artifacts = 0;
        again.retain(|again| {
            artifacts += usize::from(matches!(again, Again::Artifact | Again::Chunks));
            artifacts < 2 || !matches!(again, Again::Artifact | Again::Chunks)
        });
        let restated = format!("{pad}{whole}{pad}");
        let mut after_artifact = told == Told::Nothing;
        for again in &again {
            match again {
                Again::Status if !after_artifact && matches!(told, Told::Fragments | Told::Cumulative) => { agent.working(&whole); }
                Again::Artifact => {
                    after_artifact = true;
                    agent.artifact("copy", &restated, false, true);
                }
                Again::Chunks => {
                    after_artifact = true;
                    for (at, piece) in pieces.iter().enumerate() {
                        agent.artifact("copy", piece, at > 0, at + 1 == pieces.len());
                    }
                }
                Again::History => {
                    let message = agent.says(&restated);
                    agent.events.push(json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, "history": [message]}}));
                }
                Again::Status | Again::Final => {}
            }
        }
        let events = if concludes { agent.done_with(&restated) } else { agent.done() };
        let read = auto(events);
        let answers: Vec<&str> = read.answers.iter().map(|text| text.trim()).collect();
        prop_assert_eq!(&answers, &[whole.trim()], "{:#?}", events);
        prop_assert_eq!(&read.notices, &notices);
        prop_assert!(read.bytes <= bytes_in + 2 * whole.len() + 4, "{} bytes of {}", read.bytes, whole.len());
    }
}

/// Returns the names of the custom blocks, in their order.
fn customs(events: &[Value]) -> Vec<String> {
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    for event in events {
        decoder.handle_frame(Frame::data(&event.to_string().into()), &mut out);
    }
    let name = |event: &SourceEvent| match event {
        SourceEvent::Update(update) => match &update.block {
            aqueduct_core::ContentBlock::Custom(custom) => Some(custom.name.to_string()),
            _ => None,
        },
        _ => None,
    };
    out.iter().filter_map(name).collect()
}

/// A held message with a file, a data part or thinking beside its text, however its text is settled.
#[test]
fn what_stands_beside_a_held_text_is_shown() {
    let thought = json!({"text": "Hm, which one?", "metadata": {"adk_thought": true}});
    for beside in [json!({"url": "https://x/report.pdf"}), json!({"data": {"degrees": 21}}), thought] {
        let is_thought = beside.get("text").is_some();
        let mut cases = Vec::new();
        for (case, rest, artifact, end) in [
            ("no other text", None, None, None),
            ("a text that may continue it", Some("ing"), None, None),
            ("a text that continues it", Some("."), None, None),
            ("another text", Some("Searching…"), None, None),
            ("an artifact with another text", None, Some("It is 21 degrees."), None),
            ("an end with another text", None, None, Some("It is 21 degrees.")),
            ("an artifact with its text", None, Some("Sunny"), None),
            ("an end with its text", None, None, Some("Sunny")),
        ] {
            let mut agent = Agent::default();
            let parts = json!([beside, {"text": "Sunny"}]);
            let message = json!({"messageId": agent.id(), "role": "ROLE_AGENT", "parts": parts});
            agent.status_of("TASK_STATE_WORKING", &message);
            rest.map(|text| agent.working(text));
            artifact.map(|text| agent.artifact("a", text, false, true));
            let events = match end {
                Some(text) => agent.done_with(text).to_vec(),
                None => agent.done().to_vec(),
            };
            cases.push((case, events));
        }
        for (case, events) in cases {
            let read = auto(&events);
            let all = read.answers.concat() + &read.notices.concat();
            assert_eq!(all.matches("Sunny").count(), 1, "{case}: {read:?}");
            if is_thought {
                assert_eq!(read.thoughts, ["Hm, which one?"], "{case}");
            } else {
                assert_eq!(customs(&events).len(), 1, "{case}: {read:?}");
            }
        }
    }
}

#[test]
fn a_file_that_an_artifact_repeats_with_its_text_is_shown_once() {
    let mut agent = Agent::default();
    let parts = json!([{"url": "https://x/report.pdf"}, {"text": "Sunny"}]);
    let message = json!({"messageId": agent.id(), "role": "ROLE_AGENT", "parts": parts});
    agent.status_of("TASK_STATE_WORKING", &message);
    let mut events = agent.done().to_vec();
    let artifact = json!({"artifactId": "a", "parts": parts});
    let update =
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "lastChunk": true, "artifact": artifact}});
    events.insert(events.len() - 1, update);
    assert_eq!((auto(&events).answers.concat().as_str(), customs(&events).len()), ("Sunny", 1));
}
