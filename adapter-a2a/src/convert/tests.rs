//! The encoded items.

use aqueduct_core::testing::run_to_end;
use aqueduct_core::{
    ContentBlock, IntermediateView, Interrupt, RunFailure, RunOutcome, Source, SourceEvent, Update, wellknown,
};
use serde_json::{Value, json};

use super::converters;
use crate::config::Settings;
use crate::wire::Dialect;

fn settings() -> Settings {
    Settings::new("t", "c")
}

fn items(source: impl IntoIterator<Item = SourceEvent>, settings: &Settings, dialect: Dialect) -> Vec<Value> {
    let set = converters(settings);
    let mut out = Vec::new();
    for event in run_to_end(source) {
        set.convert(&event, &mut out);
    }
    out.iter().map(|item| item.to_json(dialect)).collect()
}

fn finished(outcome: RunOutcome) -> SourceEvent {
    SourceEvent::Finished { outcome, result: None }
}

fn asking(reason: &'static str) -> SourceEvent {
    SourceEvent::InterruptRequested {
        source: Source::root(),
        interrupt: Box::new(Interrupt::new("i", reason)),
    }
}

#[test]
fn an_answer_is_an_artifact_in_chunks() {
    let source = [Update::text("Hi").last().into(), finished(RunOutcome::Success)];
    let update = |artifact: Value, flags: Value| {
        let mut update = json!({"taskId": "t", "contextId": "c", "artifact": artifact});
        update.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        json!({ "artifactUpdate": update })
    };
    let expected = [
        json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, "metadata": {"aqueduct/v1": {"run": "run"}}}}),
        update(
            json!({"artifactId": "run/2", "name": "answer", "parts": [{"text": ""}], "metadata": {"aqueduct/v1": {"kind": "text"}}}),
            json!({}),
        ),
        update(json!({"artifactId": "run/2", "parts": [{"text": "Hi"}]}), json!({"append": true})),
        update(
            json!({"artifactId": "run/2", "parts": [{"text": ""}]}),
            json!({"append": true, "lastChunk": true}),
        ),
        json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}),
    ];
    assert_eq!(items(source, &settings(), Dialect::V1), expected);
}

#[test]
fn version_03_says_kind_append_and_final() {
    let source = [Update::text("Hi").last().into(), finished(RunOutcome::Success)];
    let items = items(source, &settings(), Dialect::V03JsonRpc);
    assert_eq!(items[1]["kind"], "artifact-update");
    assert_eq!((&items[1]["append"], &items[3]["lastChunk"]), (&json!(false), &json!(true)));
    assert_eq!((&items[4]["status"]["state"], &items[4]["final"]), (&json!("completed"), &json!(true)));
}

#[test]
fn every_end_has_its_state() {
    let failure = SourceEvent::Failed(RunFailure::new("code_7", "it broke"));
    let cases = [
        (vec![finished(RunOutcome::Success)], "completed"),
        (vec![finished(RunOutcome::Cancelled)], "canceled"),
        (vec![failure], "failed"),
        (vec![asking("input_required"), finished(RunOutcome::Interrupted)], "input-required"),
        (vec![asking("auth_required"), finished(RunOutcome::Interrupted)], "auth-required"),
        (vec![], "failed"),
    ];
    for (source, state) in cases {
        let items = items(source, &settings(), Dialect::V03JsonRpc);
        let last = items.last().unwrap();
        assert_eq!(last["status"]["state"], state);
        // Interrupts and failures contain a text that every client can show.
        let says = last["status"]["message"]["parts"][0]["text"].as_str();
        assert_eq!(says.is_some(), !matches!(state, "completed" | "canceled"), "{last}");
    }
}

#[test]
fn the_code_of_a_failure_is_in_its_mark() {
    let items = items([SourceEvent::Failed(RunFailure::new("code_7", "it broke"))], &settings(), Dialect::V1);
    let message = &items.last().unwrap()["statusUpdate"]["status"]["message"];
    assert_eq!(message["parts"], json!([{"text": "it broke"}]));
    assert_eq!(message["metadata"]["aqueduct/v1"]["failure"]["code"], "code_7");
}

#[test]
fn tools_are_data_parts() {
    let source = [
        Update::new(ContentBlock::tool_use("call", "search", "{}")).last().into(),
        Update::new(ContentBlock::tool_result("call", "found")).into(),
    ];
    let items = items(source, &settings(), Dialect::V1);
    let data = |at: usize| &items[at]["artifactUpdate"]["artifact"]["parts"][0]["data"];
    assert_eq!(data(1), &json!({"type": "tool-call", "id": "call", "name": "search"}));
    assert_eq!(data(2), &json!({"type": "tool-call-arguments", "id": "call", "delta": "{}"}));
    let result = json!({"type": "tool-result", "toolCallId": "call", "name": "search", "payload": "found"});
    assert_eq!(data(4), &result);
}

#[test]
fn files_are_file_parts_if_one_can_hold_them() {
    let part = |value: Value| {
        let source = [Update::new(ContentBlock::custom(wellknown::FILE, value)).into()];
        items(source, &settings(), Dialect::V1)[1]["artifactUpdate"]["artifact"]["parts"][0].clone()
    };
    assert_eq!(
        part(json!({"data": "aGk=", "mediaType": "text/plain"})),
        json!({"raw": "aGk=", "mediaType": "text/plain"})
    );
    assert_eq!(
        part(json!({"url": "https://x/y", "name": "y"})),
        json!({"url": "https://x/y", "filename": "y"})
    );
    for odd in
        [json!({"data": "no base64!"}), json!({"url": "u", "size": 3}), json!({"url": "u", "data": "aGk="})]
    {
        assert_eq!(part(odd.clone()), json!({ "data": odd }));
    }
}

#[test]
fn thoughts_words_on_the_way_and_signals_can_be_left_out() {
    let source = || {
        [
            Update::new(ContentBlock::thinking("Hm")).last().into(),
            Update::text("draft").intermediate().last().into(),
            SourceEvent::StepStarted { source: Source::root(), name: "plan".into() },
            Update::text("Hi").last().into(),
            finished(RunOutcome::Success),
        ]
    };
    let all = items(source(), &settings(), Dialect::V1);
    let said = |at: usize| &all[at]["statusUpdate"]["status"]["message"]["parts"][0];
    assert_eq!(said(1), &json!({"text": "Hm", "metadata": {"thought": true}}));
    assert_eq!(said(3), &json!({"text": "draft"}));
    let shown = |all: &[Value], word: &str| all.iter().any(|item| item.to_string().contains(word));
    let quiet =
        Settings { thinking: false, signals: false, intermediate: IntermediateView::Hidden, ..settings() };
    let few = items(source(), &quiet, Dialect::V1);
    for word in ["Hm", "draft", "plan"] {
        assert!(shown(&all, word) && !shown(&few, word), "{word}");
    }
    assert!(shown(&few, "Hi"));
}

#[test]
fn a_plain_status_bears_no_mark_and_an_artifact_keeps_its_name() {
    let beside = |mut update: Update, key: &str, value: Value| {
        let metadata = [(key.to_owned(), value)].into_iter().collect::<aqueduct_core::Metadata>();
        update.details_mut().metadata = Some(metadata.into());
        SourceEvent::from(update)
    };
    let source = [
        beside(Update::text("Calling tool").intermediate().last(), super::PLAIN_STATUS, json!(true)),
        beside(Update::text("Hi").last(), "a2a.artifactName", json!("report")),
        finished(RunOutcome::Success),
    ];
    let items = items(source, &settings(), Dialect::V1);
    let message = &items[1]["statusUpdate"]["status"]["message"];
    assert_eq!(message["parts"], json!([{"text": "Calling tool"}]));
    assert!(message.get("metadata").is_none(), "{message}");
    assert_eq!(items[2]["artifactUpdate"]["artifact"]["name"], "report");
}
