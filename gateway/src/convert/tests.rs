//! Cuts, places, several runs and chosen ids, on small inputs.

use std::io::Read;

use crate::cli::{ConvertArgs, FromDialect, TextView, ToDialect};

use super::{ConvertError, convert};

fn args(from: FromDialect, to: ToDialect) -> ConvertArgs {
    ConvertArgs {
        file: None,
        from,
        to,
        sse: false,
        subagents: None,
        intermediate: TextView::Reasoning,
        interrupts: None,
        thread: None,
        run: None,
    }
}

fn run(args: &ConvertArgs, input: &str) -> (Result<(), ConvertError>, String, String) {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let result = convert(args, &mut input.as_bytes(), &mut out, &mut notes);
    (result, String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
}

fn events(output: &str) -> Vec<String> {
    let name = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value.get("event").or_else(|| value.get("type")).unwrap().as_str().unwrap().to_owned()
    };
    output.lines().map(name).collect()
}

const AGUI: FromDialect = FromDialect::Agui;

#[test]
fn a_run_as_one_value_has_its_answer_its_outcome_and_its_failure() {
    let run = |end: &str| {
        format!(
            "data: {{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}}\n\n\
             data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"Hel\"}}\n\n\
             data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"lo\"}}\n\n{end}"
        )
    };
    let finished = "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";
    let (_, out, _) = super::tests::run(&args(AGUI, ToDialect::Response), &run(finished));
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["status"], &value["text"]), (&"success".into(), &"Hello".into()));
    let (_, out, _) = super::tests::run(&args(AGUI, ToDialect::Response), &run(""));
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["status"], &value["text"]), (&"failed".into(), &"Hello".into()));
    assert_eq!(value["failure"]["code"], "upstream_ended");
}

#[test]
fn a_cut_stream_comes_out_ended_and_says_so() {
    let input = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                 data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n\
                 data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"half\"}\n\n\
                 data: {\"type\":\"TEXT_MESS";
    let (result, out, _) = run(&args(AGUI, ToDialect::Blocks), input);
    result.unwrap();
    assert_eq!(events(&out), ["run.started", "block.started", "block.delta", "block.ended", "run.failed"]);
    assert!(out.contains("upstream_ended"));
}

#[test]
fn nothing_at_all_was_a_cut_stream() {
    for from in [AGUI, FromDialect::A2a, FromDialect::Magentic] {
        let (result, out, _) = run(&args(from, ToDialect::Agui), "");
        result.unwrap();
        assert_eq!(events(&out), ["RUN_STARTED", "RUN_ERROR"]);
    }
}

#[test]
fn unreadable_input_ends_its_run_and_is_told_with_its_place() {
    let begin = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n";
    for (rest, line, column) in [
        ("{\"type\":\"RAW\",}\n", 2, 15),
        ("[1]\n", 2, 1),
        ("{\"type\":\"TEXT_MESSAGE_CONTENT\"}\n", 2, 1),
        ("{\n\"type\":\n}\n", 4, 1),
    ] {
        let (result, out, _) = run(&args(AGUI, ToDialect::Agui), &format!("{begin}{rest}"));
        let Err(ConvertError::Unreadable { line: l, column: c, what }) = result else {
            panic!("{rest} can be read")
        };
        assert_eq!((l, c), (line, column), "{rest}: {what}");
        assert_eq!(events(&out), ["RUN_STARTED", "RUN_ERROR"], "{rest}");
    }
}

#[test]
fn the_place_in_server_sent_events_counts_the_field_name() {
    let (result, ..) = run(&args(FromDialect::A2a, ToDialect::Blocks), ": hi\n\ndata: {\"a\" 1}\n\n");
    let Err(ConvertError::Unreadable { line: 3, column: 12, .. }) = result else { panic!("{result:?}") };
}

#[test]
fn several_runs_come_out_as_several_runs_with_ids_of_their_own() {
    let run_of = |id: &str| {
        format!(
            "{{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"{id}\"}}\n\
             {{\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"{id}\"}}\n"
        )
    };
    let cut = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"cut\"}\n";
    let input = format!("{}{}{cut}{}", run_of("a"), run_of("a"), run_of("b"));
    let (result, out, _) = run(&args(AGUI, ToDialect::Agui), &input);
    result.unwrap();
    let ids: Vec<String> = out
        .lines()
        .filter(|line| line.contains("RUN_STARTED"))
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["runId"].to_string())
        .collect();
    assert_eq!(ids, ["\"a\"", "\"a-2\"", "\"cut\"", "\"b\""]);
    assert_eq!(out.matches("RUN_ERROR").count(), 1);
}

#[test]
fn what_follows_the_end_is_left_out_and_told() {
    let input = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\
                 {\"type\":\"RUN_ERROR\",\"message\":\"no\"}\n\
                 {\"type\":\"CUSTOM\",\"name\":\"x\",\"value\":1}\n";
    let (result, out, notes) = run(&args(AGUI, ToDialect::Agui), input);
    result.unwrap();
    assert_eq!(events(&out), ["RUN_STARTED", "RUN_ERROR"]);
    assert!(notes.contains("1 payload after the end of its run was left out"), "{notes}");
}

#[test]
fn a_task_that_waited_goes_on_in_a_second_run() {
    let status = |state: &str, text: &str| {
        let message = format!(
            "{{\"messageId\":\"{text}\",\"role\":\"ROLE_AGENT\",\"parts\":[{{\"text\":\"{text}\"}}]}}"
        );
        format!(
            "{{\"statusUpdate\":{{\"taskId\":\"T\",\"contextId\":\"C\",\"status\":{{\"state\":\"TASK_STATE_{state}\",\"message\":{message}}}}}}}\n"
        )
    };
    let input = [status("INPUT_REQUIRED", "which?"), status("WORKING", "ah"), status("COMPLETED", "done")];
    let (result, out, _) = run(&args(FromDialect::A2a, ToDialect::Blocks), &input.concat());
    result.unwrap();
    let events = events(&out);
    assert_eq!(events.iter().filter(|event| *event == "run.started").count(), 2, "{out}");
    assert_eq!(events.iter().filter(|event| *event == "run.finished").count(), 2, "{out}");
    assert!(out.contains("\"thread\":\"C\""));
}

#[test]
fn ids_can_be_chosen() {
    let chosen = ConvertArgs {
        thread: Some("T".to_owned()),
        run: Some("R".to_owned()),
        ..args(FromDialect::A2a, ToDialect::Blocks)
    };
    let (_, out, _) = run(&chosen, "");
    assert!(out.starts_with("{\"event\":\"run.started\",\"thread\":\"T\",\"run\":\"R\"}"), "{out}");
}

#[test]
fn a_workflow_comes_out_as_an_a2a_task_that_comes_back_whole() {
    let lines = concat!(
        "{\"seq\": 0, \"type\": \"output\", \"executor_id\": \"writer\", \"data\": \"Rust is fast.\"}\n",
        "{\"seq\": 1, \"type\": \"status\", \"state\": \"IDLE\"}\n",
    );
    let (result, task, _) = run(&args(FromDialect::Magentic, ToDialect::A2a), lines);
    assert!(result.is_ok());
    assert!(task.starts_with("{\"task\":"), "{task}");
    assert!(task.contains("Rust is fast.") && task.contains("TASK_STATE_COMPLETED"), "{task}");
    let (result, back, _) = run(&args(FromDialect::A2a, ToDialect::Blocks), &task);
    assert!(result.is_ok());
    assert!(back.contains("Rust is fast.") && back.contains("\"writer\""), "{back}");
}

#[test]
fn server_sent_events_are_framed_with_line_feeds() {
    let framed = ConvertArgs { sse: true, ..args(AGUI, ToDialect::Agui) };
    let (_, out, _) = run(&framed, "");
    assert!(out.starts_with("data: {") && out.ends_with("}\n\n") && !out.contains('\r'));
}

/// A reader that closes the output early causes no failure, and input is not read ahead of output.
#[test]
fn output_follows_input_line_by_line() {
    struct Slow<'a>(Vec<&'a str>);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some(line) = (!self.0.is_empty()).then(|| self.0.remove(0)) else { return Ok(0) };
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }
    struct Count(Vec<usize>);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut input = Slow(vec![
        "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n",
        "{\"type\":\"CUSTOM\",\"name\":\"x\",\"value\":1}\n",
        "{\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n",
    ]);
    let mut out = Count(Vec::new());
    convert(&args(AGUI, ToDialect::Agui), &mut input, &mut out, &mut std::io::sink()).unwrap();
    assert_eq!(out.0.len(), 3);
}
