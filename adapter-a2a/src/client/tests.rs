//! The client against a model of a server, with cuts and refusals at every step.

use aqueduct_core::testing::{InvariantChecker, run_to_end, trace};
use aqueduct_core::{BlockEvent, RunFailure, SpanKind};
use serde_json::{Value, json};

use super::*;
use crate::call::{follow_up, user_message};
use crate::config::Retry;
use crate::wire::{Dialect, Part, StreamItem, Task};

fn message() -> SendMessage {
    SendMessage::new(user_message("m-1", None, vec![Part::text("go")]))
}

fn client() -> TaskClient {
    TaskClient::new(ClientConfig::default(), message())
}

fn rpc(result: &Value) -> ByteString {
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string().into()
}

fn status(state: &str, id: &str, text: &str) -> Value {
    let mut status = json!({"state": state});
    if !text.is_empty() {
        status["message"] = json!({"messageId": id, "role": "ROLE_AGENT", "parts": [{"text": text}]});
    }
    json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}})
}

fn chunk(id: &str, text: &str, append: bool) -> Value {
    json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": append,
        "artifact": {"artifactId": id, "parts": [{"text": text}]}}})
}

fn task(state: &str) -> Value {
    json!({"task": {"id": "t", "contextId": "c", "status": {"state": state}}})
}

/// Returns a turn with every kind of content that a snapshot can repeat.
fn script() -> Vec<Value> {
    vec![
        task("TASK_STATE_SUBMITTED"),
        status("TASK_STATE_WORKING", "s1", "Planning"),
        status("TASK_STATE_WORKING", "s2", "🔧 Calling tool: **search**"),
        chunk("a", "Hello ", false),
        status("TASK_STATE_WORKING", "s3", "✅ Tool **search** completed"),
        chunk("b", "log 1\n", false),
        chunk("a", "wor", true),
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "f",
            "parts": [{"url": "https://x/f.pdf", "filename": "f.pdf"}]}}}),
        chunk("b", "log 2\n", true),
        chunk("a", "ld.", true),
        status("TASK_STATE_WORKING", "s4", "Nearly there"),
        chunk("b", "log 3\n", false),
        status("TASK_STATE_COMPLETED", "s5", "All done"),
    ]
}

/// Returns the task that the server stores after some events, as a snapshot.
fn snapshot(events: &[Value]) -> Value {
    let mut task = Task::default();
    let texts: Vec<String> = events.iter().map(Value::to_string).collect();
    for text in &texts {
        match FrameContent::parse(text, Dialect::V1).unwrap() {
            FrameContent::Item(StreamItem::Status(update)) => {
                task.history.extend(task.status.message.take());
                task.status = update.status;
            }
            FrameContent::Item(StreamItem::Artifact(update)) => {
                let known =
                    task.artifacts.iter_mut().find(|known| known.artifact_id == update.artifact.artifact_id);
                match known {
                    Some(known) if update.append => known.parts.extend(update.artifact.parts),
                    Some(known) => *known = update.artifact,
                    None => task.artifacts.push(update.artifact),
                }
            }
            FrameContent::Item(StreamItem::Task(first)) => task = first,
            other => panic!("{other:?}"),
        }
    }
    StreamItem::Task(task).to_json(Dialect::V1)
}

fn feed(client: &mut TaskClient, event: &Value) {
    client.handle_frame(Frame::data(&rpc(event)));
}

fn drain(client: &mut TaskClient) -> Vec<SourceEvent> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

fn next(client: &mut TaskClient) -> (Purpose, Duration) {
    let planned = client.poll_request().expect("a request");
    assert!(matches!(
        (planned.purpose, &planned.call),
        (Purpose::Send, Call::SendStreamingMessage(_) | Call::SendMessage(_))
            | (Purpose::Subscribe, Call::SubscribeToTask { .. })
            | (Purpose::Get, Call::GetTask { .. })
            | (Purpose::Cancel, Call::CancelTask { .. })
    ));
    (planned.purpose, planned.after)
}

/// Returns the final content: the text of each block by source message, tool calls and results, other content.
fn content(events: Vec<SourceEvent>) -> Vec<String> {
    let events = run_to_end(events);
    InvariantChecker::check_all(&events).unwrap();
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut tail = Vec::new();
    for event in &events {
        match event {
            BlockEvent::BlockDelta { block, delta } if block.kind == SpanKind::Text => {
                let key = format!("{:?} {:?}", block.channel, block.origin.message_id);
                // A replaced text no longer counts.
                match lines.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, text)) if block.replaces.is_some() && !text.ends_with('\u{1}') => {
                        *text = format!("{delta}\u{1}");
                    }
                    Some((_, text)) => {
                        let mark = text.ends_with('\u{1}');
                        *text = format!(
                            "{}{delta}{}",
                            text.trim_end_matches('\u{1}'),
                            if mark { "\u{1}" } else { "" }
                        );
                    }
                    None => lines.push((key, delta.to_string())),
                }
            }
            BlockEvent::BlockStarted(block) if block.kind == SpanKind::ToolUse => {
                tail.push(format!("tool {} {}", block.id, &*block.tool_name));
            }
            BlockEvent::ToolResult(result) => {
                tail.push(format!("result {} {}", result.call_id, result.output.to_text()));
            }
            BlockEvent::Custom(custom) => tail.push(format!("custom {} {}", &*custom.name, custom.value)),
            BlockEvent::RunFinished(_) | BlockEvent::RunFailed(_) => {
                tail.push(aqueduct_core::testing::trace_line(event));
            }
            _ => {}
        }
    }
    let mut all: Vec<String> =
        lines.into_iter().map(|(key, text)| format!("{key} {}", text.trim_end_matches('\u{1}'))).collect();
    all.extend(tail);
    all.sort();
    all
}

fn uncut() -> Vec<String> {
    let mut client = client();
    next(&mut client);
    for event in script() {
        feed(&mut client, &event);
    }
    content(drain(&mut client))
}

#[test]
fn an_uncut_stream_needs_nothing_more() {
    let mut client = client();
    assert_eq!(next(&mut client), (Purpose::Send, Duration::ZERO));
    for event in script() {
        assert_eq!(client.is_settled(), None);
        feed(&mut client, &event);
    }
    assert_eq!(client.is_settled(), Some(Settled::Completed));
    assert_eq!(client.poll_request(), None);
    client.handle_stream_end();
    assert_eq!(client.poll_request(), None);
    let expected = uncut();
    assert!(expected.iter().any(|line| line.ends_with("Hello world.")), "{expected:#?}");
    assert!(expected.iter().any(|line| line.ends_with(" log 3\n")), "{expected:#?}");
}

/// The stream is cut after any event, while the server continues for any number of events: nothing is lost or repeated.
#[test]
fn a_cut_anywhere_loses_and_doubles_nothing() {
    let (script, expected) = (script(), uncut());
    for heard in 1..script.len() {
        for missed in heard..script.len() {
            let mut client = client();
            next(&mut client);
            script[..heard].iter().for_each(|event| feed(&mut client, event));
            client.handle_frame(Frame::data(&"{\"jsonrpc\":\"2.0\",\"resu".into()));
            client.handle_stream_end();
            assert_eq!(next(&mut client), (Purpose::Subscribe, Duration::ZERO));
            feed(&mut client, &snapshot(&script[..missed]));
            script[missed..].iter().for_each(|event| feed(&mut client, event));
            assert_eq!(client.is_settled(), Some(Settled::Completed), "heard {heard}, missed {missed}");
            assert_eq!(content(drain(&mut client)), expected, "heard {heard}, missed {missed}");
        }
    }
}

/// A server that subscribes before it reads sends some events twice: in the snapshot, and after it.
#[test]
fn what_a_stream_repeats_of_its_snapshot_is_shown_once() {
    let (script, expected) = (script(), uncut());
    for heard in 1..script.len() {
        // The last chunk replaces its artifact; the order of several replacements is not modelled here.
        for missed in heard..script.len() - 1 {
            for repeated in 1..=(missed - heard).min(4) {
                let mut client = client();
                next(&mut client);
                script[..heard].iter().for_each(|event| feed(&mut client, event));
                client.handle_stream_end();
                assert_eq!(next(&mut client).0, Purpose::Subscribe);
                feed(&mut client, &snapshot(&script[..missed]));
                script[missed - repeated..].iter().for_each(|event| feed(&mut client, event));
                while client.is_settled().is_none() {
                    assert_eq!(next(&mut client), (Purpose::Get, Duration::ZERO));
                    client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script)["task"]));
                }
                let shown = content(drain(&mut client));
                assert_eq!(shown, expected, "heard {heard}, missed {missed}, repeated {repeated}");
            }
        }
    }
}

fn counting(chunks: &[&str]) -> Vec<Value> {
    let chunk = |(at, text): (usize, &&str)| {
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": at > 0,
            "artifact": {"artifactId": "n", "parts": [{"text": text}]}}})
    };
    chunks.iter().enumerate().map(chunk).collect()
}

/// With equal chunks, only the end shows which of them was repeated; the content is corrected there.
#[test]
fn an_agent_that_says_a_thing_twice_is_believed_in_the_end() {
    let mut script = vec![status("TASK_STATE_WORKING", "", "")];
    script.extend(counting(&["ha ", "ha ", "ha ", "he ", "ha ", "ha "]));
    script.push(status("TASK_STATE_COMPLETED", "", ""));
    for seen in 2..script.len() - 1 {
        let mut client = client();
        next(&mut client);
        script[..seen].iter().for_each(|event| feed(&mut client, event));
        client.handle_stream_end();
        next(&mut client);
        feed(&mut client, &snapshot(&script[..seen]));
        script[seen..].iter().for_each(|event| feed(&mut client, event));
        while client.is_settled().is_none() {
            assert_eq!(next(&mut client).0, Purpose::Get);
            client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script)["task"]));
        }
        let shown = content(drain(&mut client));
        assert!(shown.iter().any(|line| line.ends_with("ha ha ha he ha ha ")), "{seen}: {shown:#?}");
    }
}

/// Another client attaches wherever the first one stopped: it emits the complete turn, each item once.
#[test]
fn a_task_that_another_client_began_is_told_from_its_start() {
    let (script, expected) = (script(), uncut());
    for seen in 1..=script.len() {
        let mut first = client();
        next(&mut first);
        script[..seen].iter().for_each(|event| feed(&mut first, event));
        let at = Attachment::from_value(&first.attachment().unwrap().to_value()).unwrap();
        let mut second = TaskClient::attaching(ClientConfig::default(), message(), at);
        assert_eq!(next(&mut second), (Purpose::Get, Duration::ZERO));
        second.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script[..seen])["task"]));
        if seen < script.len() {
            assert_eq!(next(&mut second), (Purpose::Subscribe, Duration::ZERO));
            feed(&mut second, &snapshot(&script[..seen]));
            script[seen..].iter().for_each(|event| feed(&mut second, event));
        }
        assert_eq!(content(drain(&mut second)), expected, "after {seen}");
    }
}

/// As above, with every recorded stream of a task.
#[test]
fn a_cut_of_a_recorded_stream_loses_and_doubles_nothing() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/a2a");
    let mut streams = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_stream = path.extension().is_some_and(|extension| extension == "sse");
        // Cuts in fifty chunks show no more than cuts in eight.
        if !is_stream || ["bare", "many", "raise"].iter().any(|mode| name.contains(mode)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let script: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|line| match FrameContent::parse(line, Dialect::V1).unwrap() {
                FrameContent::Item(item) => item.to_json(Dialect::V1),
                other => panic!("{other:?}"),
            })
            .collect();
        let run = |heard: usize, missed: usize| {
            let mut client = client();
            next(&mut client);
            script[..heard].iter().for_each(|event| feed(&mut client, event));
            if heard < script.len() {
                client.handle_stream_end();
                assert_eq!(next(&mut client).0, Purpose::Subscribe);
                feed(&mut client, &snapshot(&script[..missed]));
                script[missed..].iter().for_each(|event| feed(&mut client, event));
                // A client that sees its message repeated in a last chunk reads the task.
                while client.is_settled().is_none() {
                    assert_eq!(next(&mut client).0, Purpose::Get);
                    client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script)["task"]));
                }
            }
            content(drain(&mut client))
        };
        let expected = run(script.len(), script.len());
        for heard in 1..script.len() {
            for missed in [heard, heard + 1, usize::midpoint(heard, script.len()), script.len()] {
                assert_eq!(run(heard, missed), expected, "{name}: heard {heard}, missed {missed}");
            }
        }
        streams += 1;
    }
    assert!(streams > 30, "{streams}");
}

#[test]
fn a_task_that_ended_meanwhile_is_looked_up() {
    let (script, expected) = (script(), uncut());
    for heard in 1..script.len() {
        let mut client = client();
        next(&mut client);
        script[..heard].iter().for_each(|event| feed(&mut client, event));
        client.handle_stream_end();
        assert_eq!(next(&mut client).0, Purpose::Subscribe);
        let refused = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "terminal"}});
        client.handle_response(Purpose::Subscribe, 200, &refused.to_string().into());
        assert_eq!(next(&mut client), (Purpose::Get, Duration::ZERO));
        client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script)["task"]));
        assert_eq!(client.is_settled(), Some(Settled::Completed));
        assert_eq!(content(drain(&mut client)), expected, "heard {heard}");
    }
}

#[test]
fn attempts_are_bounded_and_pauses_grow() {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    client.handle_stream_end();
    let mut pauses = Vec::new();
    loop {
        let (purpose, pause) = next(&mut client);
        client.handle_response_error(purpose, WireError::transport("connection refused"));
        pauses.push((purpose, pause.as_millis()));
        if client.is_settled().is_some() {
            break;
        }
        assert!(pauses.len() < 20);
    }
    let expected = [0, 500, 1000, 2000, 4000].map(|pause| (Purpose::Subscribe, pause));
    assert_eq!(pauses[..5], expected);
    assert_eq!(pauses[5..], [(Purpose::Get, 0)]);
    let events = drain(&mut client);
    let Some(SourceEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
    assert_eq!((&*failure.code, &*failure.message), ("upstream_error", "connection refused"));
}

#[test]
fn a_server_that_closes_after_each_snapshot_is_not_asked_for_ever() {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    let mut purposes = Vec::new();
    for _ in 0..2000 {
        client.handle_stream_end();
        let Some(planned) = client.poll_request() else { break };
        purposes.push(planned.purpose);
        match planned.purpose {
            Purpose::Subscribe => feed(&mut client, &task("TASK_STATE_WORKING")),
            _ => client.handle_response(Purpose::Get, 200, &rpc(&task("TASK_STATE_WORKING")["task"])),
        }
    }
    assert_eq!(client.is_settled(), Some(Settled::Failed));
    assert_eq!(purposes.iter().filter(|purpose| **purpose == Purpose::Subscribe).count(), 5);
    let polls = usize::try_from(ClientConfig::default().retry.polls).unwrap();
    assert_eq!(purposes.iter().filter(|purpose| **purpose == Purpose::Get).count(), polls + 1);
}

/// The replacements of such a stream look like new content each time.
#[test]
fn a_server_that_tells_all_anew_and_closes_is_not_asked_for_ever() {
    let mut client = client();
    next(&mut client);
    let told = [task("TASK_STATE_WORKING"), chunk("a", "Hello ", false), chunk("a", "world", true)];
    for event in &told {
        feed(&mut client, event);
    }
    let (mut streams, mut looks) = (0, 0);
    while client.is_settled().is_none() {
        client.handle_stream_end();
        drain(&mut client);
        let Some(planned) = client.poll_request() else { break };
        if planned.purpose == Purpose::Subscribe {
            streams += 1;
            for event in &told {
                feed(&mut client, event);
            }
        } else {
            looks += 1;
            client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&told)["task"]));
        }
        assert!(streams + looks < 10_000);
    }
    assert_eq!(client.is_settled(), Some(Settled::Failed));
    assert_eq!(streams, ClientConfig::default().retry.streams);
}

#[test]
fn an_executor_that_throws_is_told_with_its_words() {
    // The stream ends with an error; the stored task has failed without a reason.
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    let error: ByteString = r#"{"error":{"code":-32603,"message":"boom"},"id":1,"jsonrpc":"2.0"}"#.into();
    client.handle_frame(Frame { event: Some("error"), data: &error });
    client.handle_stream_end();
    assert_eq!(next(&mut client).0, Purpose::Subscribe);
    client
        .handle_response_error(Purpose::Subscribe, WireError { code: Some(-32004), ..WireError::default() });
    assert_eq!(next(&mut client).0, Purpose::Get);
    client.handle_response(Purpose::Get, 200, &rpc(&task("TASK_STATE_FAILED")["task"]));
    let events = drain(&mut client);
    let Some(SourceEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
    assert_eq!((&*failure.code, &*failure.message), ("agent_failed", "boom"));
}

/// Reads a task that never changes until the client gives up. Returns the number of reads, and the failure.
fn looks_until_given_up(client: &mut TaskClient) -> (u32, RunFailure) {
    let mut looks = 0;
    while client.is_settled().is_none() {
        assert_eq!(next(client).0, Purpose::Get);
        looks += 1;
        client.handle_response(Purpose::Get, 200, &rpc(&task("TASK_STATE_WORKING")["task"]));
        assert!(looks < 1000);
    }
    let events = drain(client);
    let Some(SourceEvent::Failed(failure)) = events.into_iter().last() else { panic!("not failed") };
    (looks, failure)
}

#[test]
fn an_error_that_the_task_never_shows_is_told_soon() {
    // The official Rust server: an error on the stream, the task is no longer executed, and it stays `working`.
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    client.handle_frame(Frame::data(
        &r#"{"error":{"code":-32603,"message":"boom"},"id":1,"jsonrpc":"2.0"}"#.into(),
    ));
    client.handle_stream_end();
    assert_eq!(next(&mut client).0, Purpose::Subscribe);
    client
        .handle_response_error(Purpose::Subscribe, WireError { code: Some(-32001), ..WireError::default() });
    let (looks, failure) = looks_until_given_up(&mut client);
    assert_eq!(looks, Retry::default().reported_polls + 1);
    assert_eq!((&*failure.code, &*failure.message), ("upstream_error", "boom"));
}

#[test]
fn a_task_that_nobody_runs_is_given_up_before_one_that_is_only_silent() {
    let lost = |refusal: i64| {
        let mut client = client();
        next(&mut client);
        feed(&mut client, &task("TASK_STATE_WORKING"));
        client.handle_stream_end();
        assert_eq!(next(&mut client).0, Purpose::Subscribe);
        let refused = WireError { code: Some(refusal), ..WireError::default() };
        client.handle_response_error(Purpose::Subscribe, refused);
        looks_until_given_up(&mut client)
    };
    let retry = Retry::default();
    // The task exists, and the agent reports that it cannot be subscribed to.
    let (looks, failure) = lost(-32001);
    assert_eq!((looks, &*failure.code), (retry.unwatchable_polls + 1, "upstream_ended"));
    // The method does not exist, which shows nothing about the task.
    let (looks, failure) = lost(-32601);
    assert_eq!((looks, &*failure.code), (retry.polls + 1, "upstream_ended"));
}

#[test]
fn a_task_that_moves_again_is_not_given_up() {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    client.handle_frame(Frame::data(&r#"{"error":{"code":-32603,"message":"too slow"},"id":1}"#.into()));
    assert_eq!(next(&mut client).0, Purpose::Subscribe);
    client
        .handle_response_error(Purpose::Subscribe, WireError { code: Some(-32001), ..WireError::default() });
    let mut so_far = vec![task("TASK_STATE_WORKING")];
    let patience = Retry::default().reported_polls;
    for number in 0..3 {
        for _ in 0..patience {
            assert_eq!(next(&mut client).0, Purpose::Get);
            client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&so_far)["task"]));
        }
        so_far.push(chunk(&format!("a{number}"), "more", false));
    }
    so_far.push(status("TASK_STATE_COMPLETED", "", ""));
    assert_eq!(next(&mut client).0, Purpose::Get);
    client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&so_far)["task"]));
    assert_eq!(client.is_settled(), Some(Settled::Completed));
}

#[test]
fn a_slow_watcher_that_was_thrown_out_goes_on() {
    // An error frame, while the task still works.
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    feed(&mut client, &chunk("a", "one ", false));
    client.handle_frame(Frame::data(
        &r#"{"error":{"code":-32603,"message":"Internal error"},"id":1,"jsonrpc":"2.0"}"#.into(),
    ));
    assert_eq!(next(&mut client).0, Purpose::Subscribe);
    let whole = [task("TASK_STATE_WORKING"), chunk("a", "one ", false), chunk("a", "two", true)];
    feed(&mut client, &snapshot(&whole));
    feed(&mut client, &status("TASK_STATE_COMPLETED", "", ""));
    let trace = trace(&run_to_end(drain(&mut client)));
    assert!(trace.contains("\"one \"\n") && trace.contains("\"two\"\n"), "{trace}");
    assert!(trace.ends_with("run finished success\n"), "{trace}");
}

#[test]
fn a_message_is_never_sent_twice() {
    // No task is known: whether the message arrived cannot be determined.
    let mut client = client();
    next(&mut client);
    client.handle_stream_end();
    assert_eq!(client.poll_request(), None);
    let events = drain(&mut client);
    assert!(
        matches!(events.last(), Some(SourceEvent::Failed(failure)) if *failure.code == *"upstream_ended")
    );
    // A follow-up names its task, so the task is read.
    let to = TaskRef { task_id: "t".into(), context_id: "c".into() };
    let send = SendMessage::new(follow_up("m-2", &to, vec![Part::text("prod")]));
    let mut client = TaskClient::new(ClientConfig::default(), send);
    next(&mut client);
    client.handle_stream_end();
    assert_eq!(next(&mut client).0, Purpose::Subscribe);
}

#[test]
fn refused_messages_are_told_as_what_they_are() {
    for (status, body, code) in [
        (200, r#"{"error":{"code":-32001,"message":"no task"},"id":1,"jsonrpc":"2.0"}"#, "task_not_found"),
        (
            200,
            r#"{"error":{"code":-32602,"message":"bad"},"id":1,"jsonrpc":"2.0"}"#,
            "upstream_refused_request",
        ),
        (
            200,
            r#"{"error":{"code":-32009,"message":"version"},"id":1,"jsonrpc":"2.0"}"#,
            "version_not_supported",
        ),
        (401, "", "upstream_unauthorized"),
        (503, "<html>busy</html>", "upstream_error"),
        (200, "[]", "upstream_error"),
        (200, r#"{"weather":"fine"}"#, "upstream_error"),
    ] {
        let mut client = client();
        next(&mut client);
        client.handle_response(Purpose::Send, status, &body.into());
        let events = drain(&mut client);
        let Some(SourceEvent::Failed(failure)) = events.last() else { panic!("{body}: {events:?}") };
        assert_eq!(&*failure.code, code, "{body}");
        assert_eq!(client.poll_request(), None);
    }
}

#[test]
fn an_agent_that_cannot_stream_is_asked_without() {
    let mut client = client();
    next(&mut client);
    client.handle_response_error(Purpose::Send, WireError { code: Some(-32004), ..WireError::default() });
    let planned = client.poll_request().unwrap();
    assert!(matches!(planned.call, Call::SendMessage(_)));
    client.handle_response(Purpose::Send, 200, &rpc(&task("TASK_STATE_WORKING")));
    assert_eq!(next(&mut client), (Purpose::Get, Duration::from_secs(2)));
    client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script())["task"]));
    assert_eq!(client.is_settled(), Some(Settled::Completed));
    assert_eq!(content(drain(&mut client)), uncut());
}

#[test]
fn cancel_reaches_the_agent() {
    // A cancel before the message is sent: nothing is sent.
    let mut early = client();
    early.handle_cancel();
    assert_eq!((early.poll_request(), early.is_settled()), (None, Some(Settled::Cancelled)));
    // A cancel before the task is known: sent as soon as it is.
    let mut client = client();
    next(&mut client);
    client.handle_cancel();
    assert_eq!(client.poll_request(), None);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    assert_eq!(next(&mut client).0, Purpose::Cancel);
    // The stream continues meanwhile; it ends with the task.
    feed(&mut client, &status("TASK_STATE_WORKING", "s", "tick"));
    feed(&mut client, &status("TASK_STATE_CANCELED", "e", "Cancelled by client."));
    let canceled = json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELED"}});
    client.handle_response(Purpose::Cancel, 200, &rpc(&canceled));
    let trace = trace(&run_to_end(drain(&mut client)));
    assert!(trace.ends_with("run finished cancelled\n"), "{trace}");
}

#[test]
fn a_cancel_that_comes_too_late_shows_the_end() {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    client.handle_cancel();
    next(&mut client);
    client.handle_response_error(Purpose::Cancel, WireError { code: Some(-32002), ..WireError::default() });
    assert_eq!(next(&mut client).0, Purpose::Get);
    client.handle_response(Purpose::Get, 200, &rpc(&snapshot(&script())["task"]));
    assert_eq!(client.is_settled(), Some(Settled::Completed));
}

#[test]
fn a_cancel_that_nobody_answers_is_repeated_and_then_believed() {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    client.handle_cancel();
    let mut count = 0;
    while let Some(planned) = client.poll_request() {
        assert_eq!(planned.purpose, Purpose::Cancel);
        count += 1;
        client.handle_response_error(Purpose::Cancel, WireError::transport("reset"));
    }
    assert_eq!((count, client.is_settled()), (6, Some(Settled::Cancelled)));
}

#[test]
fn a_question_settles_and_its_answer_resumes_the_task() {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    feed(&mut client, &chunk("a", "Draft. ", false));
    feed(&mut client, &status("TASK_STATE_INPUT_REQUIRED", "q", "Which cluster?"));
    assert_eq!(client.is_settled(), Some(Settled::Interrupted));
    let events = drain(&mut client);
    let interrupt = events.iter().find_map(|event| match event {
        SourceEvent::InterruptRequested { interrupt, .. } => Some(interrupt.clone()),
        _ => None,
    });
    let task_ref = TaskRef::of_interrupt(&interrupt.unwrap()).unwrap();
    assert_eq!((task_ref.task_id.as_str(), task_ref.context_id.as_str()), ("t", "c"));
    let memory = client.into_memory();
    let send = SendMessage::new(follow_up("m-2", &task_ref, vec![Part::text("prod")]));
    let mut client = TaskClient::resuming(ClientConfig::default(), send, memory);
    next(&mut client);
    // A server that follows the specification repeats the task first; the first turn is not shown again.
    let old = [
        task("TASK_STATE_WORKING"),
        chunk("a", "Draft. ", false),
        status("TASK_STATE_INPUT_REQUIRED", "q", "Which cluster?"),
    ];
    let mut first = snapshot(&old);
    let history = json!([first["task"]["status"]["message"], {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "prod"}]}]);
    first["task"]["history"] = history;
    first["task"]["status"] = json!({"state": "TASK_STATE_WORKING"});
    feed(&mut client, &first);
    feed(&mut client, &chunk("z", "You said prod.", false));
    feed(&mut client, &status("TASK_STATE_COMPLETED", "", ""));
    let trace = trace(&run_to_end(drain(&mut client)));
    assert!(!trace.contains("Draft") && !trace.contains("Which"), "{trace}");
    assert!(trace.contains("You said prod."), "{trace}");
}

/// Returns the client that replies to a turn that ended with an interrupt.
fn answering(asked: &Value) -> TaskClient {
    let mut client = client();
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    feed(&mut client, &asked.clone());
    assert_eq!(client.is_settled(), Some(Settled::Interrupted));
    let task_ref = client.task_ref().unwrap();
    let send = SendMessage::new(follow_up("m-2", &task_ref, vec![Part::text("prod")]));
    let mut client = TaskClient::resuming(ClientConfig::default(), send, client.into_memory());
    next(&mut client);
    client
}

fn question(id: &str, at: &str) -> Value {
    let mut asked = status("TASK_STATE_INPUT_REQUIRED", id, "Which cluster?");
    asked["statusUpdate"]["status"]["timestamp"] = at.into();
    if id.is_empty() {
        asked["statusUpdate"]["status"]["message"].as_object_mut().unwrap().remove("messageId");
    }
    asked
}

const NOON: &str = "2026-01-01T12:00:00Z";
const LATER: &str = "2026-01-01T12:00:01Z";

#[test]
fn a_question_that_was_answered_does_not_end_the_turn_again() {
    for id in ["q", ""] {
        let asked = question(id, NOON);
        // A repeated task, as from agents that send what is stored, or a status alone.
        for restated in [snapshot(&[task("TASK_STATE_WORKING"), asked.clone()]), asked.clone()] {
            let mut client = answering(&asked);
            feed(&mut client, &restated);
            assert_eq!(client.is_settled(), None, "{restated}");
            feed(&mut client, &chunk("z", "You said prod.", false));
            feed(&mut client, &status("TASK_STATE_COMPLETED", "", ""));
            assert_eq!(client.is_settled(), Some(Settled::Completed));
            let trace = trace(&run_to_end(drain(&mut client)));
            assert!(trace.contains("You said prod.") && !trace.contains("Which"), "{trace}");
        }
    }
}

#[test]
fn a_question_asked_anew_ends_the_turn() {
    // Another message, or another time, is another interrupt.
    for (first, second) in [("q", "r"), ("q", "q"), ("", "")] {
        let mut client = answering(&question(first, NOON));
        feed(&mut client, &question(second, LATER));
        assert_eq!(client.is_settled(), Some(Settled::Interrupted), "{first} {second}");
        let events = drain(&mut client);
        assert!(events.iter().any(|event| matches!(event, SourceEvent::InterruptRequested { .. })));
    }
}

#[test]
fn a_question_that_is_all_that_comes_is_asked_again() {
    // The agent did not accept the reply: its stream ends where it began.
    let asked = question("q", NOON);
    let mut client = answering(&asked);
    feed(&mut client, &snapshot(&[task("TASK_STATE_WORKING"), asked.clone()]));
    client.handle_stream_end();
    assert_eq!(client.is_settled(), Some(Settled::Interrupted));
    let events = drain(&mut client);
    assert!(events.iter().any(|event| matches!(event, SourceEvent::InterruptRequested { .. })));
    // As above without a stream: the response to a blocking call is the end of the turn.
    let mut client = answering(&asked);
    client.handle_response(
        Purpose::Send,
        200,
        &rpc(&snapshot(&[task("TASK_STATE_WORKING"), asked.clone()])["task"]),
    );
    assert_eq!(client.is_settled(), Some(Settled::Interrupted));
    // Text after the repeated interrupt was the beginning of more: the end of the stream is a cut.
    let mut client = answering(&asked);
    feed(&mut client, &asked);
    feed(&mut client, &chunk("z", "You said", false));
    client.handle_stream_end();
    assert_eq!((client.is_settled(), next(&mut client).0), (None, Purpose::Subscribe));
    // A read that returns the same interrupt waits: the agent may not have continued yet. In the end it is an
    // interrupt.
    client
        .handle_response_error(Purpose::Subscribe, WireError { code: Some(-32001), ..WireError::default() });
    let stored = snapshot(&[task("TASK_STATE_WORKING"), chunk("z", "You said", false), asked]);
    let mut looks = 0;
    while client.is_settled().is_none() {
        assert_eq!(next(&mut client).0, Purpose::Get);
        client.handle_response(Purpose::Get, 200, &rpc(&stored["task"]));
        looks += 1;
    }
    assert_eq!(looks, Retry::default().reported_polls + 1);
    assert_eq!(client.is_settled(), Some(Settled::Interrupted));
}

#[test]
fn auth_may_keep_the_stream() {
    let mut config = ClientConfig::default();
    config.decode.auth_required = crate::config::AuthRequired::KeepsStream;
    let mut client = TaskClient::new(config, message());
    next(&mut client);
    feed(&mut client, &task("TASK_STATE_WORKING"));
    feed(&mut client, &status("TASK_STATE_AUTH_REQUIRED", "q", "Sign in"));
    assert_eq!(client.is_settled(), None);
    feed(&mut client, &status("TASK_STATE_WORKING", "s", "Thanks"));
    feed(&mut client, &chunk("a", "Done.", false));
    feed(&mut client, &status("TASK_STATE_COMPLETED", "", ""));
    assert_eq!(client.is_settled(), Some(Settled::Completed));
    let events = drain(&mut client);
    assert!(events.iter().any(|event| matches!(event, SourceEvent::InterruptRequested { .. })));
}

#[test]
fn a_text_that_may_be_the_answer_is_shown_when_nothing_follows() {
    let mut client = client();
    assert_eq!(client.poll_timeout(), None);
    client.handle_frame(Frame::data(&rpc(&status("TASK_STATE_WORKING", "s", "Looking it up"))));
    assert!(client.poll_event().is_none());
    assert_eq!(client.poll_timeout(), Some(ClientConfig::default().hold));
    client.handle_timeout();
    assert!(client.poll_event().is_some());
    assert_eq!(client.poll_timeout(), None);
}

fn sent(client: &mut TaskClient) -> (bool, Option<Version>) {
    let planned = client.poll_request().expect("a request");
    assert_eq!(planned.purpose, Purpose::Send);
    (matches!(planned.call, Call::SendStreamingMessage(_)), planned.version)
}

fn rpc_error(code: i64, words: &str) -> ByteString {
    json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": words}}).to_string().into()
}

#[test]
fn an_agent_that_knows_no_method_is_asked_once_in_the_other_version() {
    let config = ClientConfig { version: Some(Version::V03), ..ClientConfig::default() };
    let mut client = TaskClient::new(config, message());
    assert_eq!(sent(&mut client), (true, None));
    client.handle_response(Purpose::Send, 200, &rpc_error(-32601, "Method not found"));
    assert_eq!(sent(&mut client), (true, Some(Version::V1)));
    client.handle_frame(Frame::data(&rpc(&status("TASK_STATE_WORKING", "s", "Looking…"))));
    assert!(client.poll_event().is_some());
    client.handle_stream_end();
    assert_eq!(client.poll_request().unwrap().version, Some(Version::V1), "it stays with that version");
    // An agent without the method in either version gets a request without a stream, in the version of its card.
    let config = ClientConfig { version: Some(Version::V1), ..ClientConfig::default() };
    let mut client = TaskClient::new(config, message());
    for expected in [(true, None), (true, Some(Version::V03)), (false, None)] {
        assert_eq!(sent(&mut client), expected);
        client.handle_response(Purpose::Send, 200, &rpc_error(-32601, "Method not found"));
    }
    assert_eq!(client.is_settled(), Some(Settled::Failed));
}

#[test]
fn an_agent_that_cannot_stream_is_asked_without_a_stream() {
    for (code, words) in
        [(-32603, "Streaming is not supported by the agent"), (-32004, "Unsupported"), (-32004, "")]
    {
        for as_event in [false, true] {
            let mut client = client();
            assert_eq!(sent(&mut client), (true, None));
            let error = rpc_error(code, words);
            if as_event {
                client.handle_frame(Frame::data(&error));
            } else {
                client.handle_response(Purpose::Send, 200, &error);
            }
            assert_eq!(sent(&mut client), (false, None), "{code} {words} {as_event}");
        }
    }
    let mut client = client();
    sent(&mut client);
    client.handle_response(Purpose::Send, 200, &rpc_error(-32603, "out of memory"));
    assert_eq!(client.is_settled(), Some(Settled::Failed));
}

#[test]
fn the_first_cause_is_not_hidden_by_what_follows_from_it() {
    let mut client = client();
    sent(&mut client);
    client.handle_frame(Frame::data(&rpc(&task("TASK_STATE_WORKING"))));
    client.handle_frame(Frame::data(&rpc_error(-32603, "quota used up")));
    let mut failure = None;
    for _ in 0..20 {
        let Some(planned) = client.poll_request() else { break };
        let error = match planned.purpose {
            Purpose::Get => {
                WireError { code: Some(-32001), message: "no such task".into(), ..WireError::default() }
            }
            _ => WireError::transport("connection refused"),
        };
        client.handle_response_error(planned.purpose, error);
    }
    while let Some(event) = client.poll_event() {
        if let SourceEvent::Failed(failed) = event {
            failure = Some(failed);
        }
    }
    let failure = failure.expect("it has failed");
    assert_eq!((&*failure.code, &*failure.message), ("upstream_error", "quota used up"));
    assert_eq!(failure.details.unwrap()["afterwards"], "no such task");
}

#[test]
fn failures_of_the_transport_have_its_code() {
    let mut client = client();
    sent(&mut client);
    let error = WireError::transport("no answer for 30s").failing_as(crate::error::TIMEOUT);
    client.handle_response_error(Purpose::Send, error);
    let event = client.poll_event().unwrap();
    assert!(matches!(event, SourceEvent::Failed(failure) if &*failure.code == "upstream_timeout"));
}

#[test]
fn status_texts_are_read_by_templates() {
    let mut client = client();
    client.handle_frame(Frame::data(&rpc(&task("TASK_STATE_WORKING"))));
    for (id, text) in [("m1", "The "), ("m2", "quick "), ("m3", "fox")] {
        client.handle_frame(Frame::data(&rpc(&status("TASK_STATE_WORKING", id, text))));
    }
    assert_eq!(client.decoder.templates(), 1, "the first text is learned, the others are read by it");
}

#[test]
fn a_text_that_a_template_reads_is_progress_of_a_new_stream() {
    let mut client = client();
    client.handle_frame(Frame::data(&rpc(&task("TASK_STATE_WORKING"))));
    client.handle_frame(Frame::data(&rpc(&status("TASK_STATE_WORKING", "m1", "The "))));
    client.planned.clear();
    client.handle_stream_end();
    assert_eq!(client.poll_request().unwrap().purpose, Purpose::Subscribe);
    client.handle_frame(Frame::data(&rpc(&status("TASK_STATE_WORKING", "m2", "quick "))));
    assert_eq!((client.state, client.attempts), (State::Streaming, 0));
}

/// A task with metadata of its own, and without a message in its status.
#[test]
fn a_task_that_does_not_change_is_not_polled_without_end() {
    let mut client = TaskClient::new(ClientConfig { streaming: false, ..ClientConfig::default() }, message());
    next(&mut client);
    for state in ["TASK_STATE_WORKING", "TASK_STATE_PAUSED"] {
        let mut polled = task(state);
        polled["task"]["metadata"] = json!({"tenant": "blue"});
        let mut polls = 0;
        client.handle_response(Purpose::Send, 200, &rpc(&polled));
        assert_eq!(drain(&mut client).len(), 1, "{state}: the metadata are shown once");
        while polls < 3 {
            assert_eq!(next(&mut client).0, Purpose::Get);
            client.handle_response(Purpose::Get, 200, &rpc(&polled["task"]));
            assert_eq!(drain(&mut client).len(), 0, "{state}");
            polls += 1;
            assert_eq!(client.polls, polls + 1, "{state}: nothing new counts as no progress");
        }
        next(&mut client);
    }
}

#[test]
fn a_cut_after_chunks_that_followed_an_authorisation_is_recovered() {
    let mut config = ClientConfig::default();
    config.decode.auth_required = crate::config::AuthRequired::KeepsStream;
    for knows_artifact in [false, true] {
        let mut client = TaskClient::new(config.clone(), message());
        next(&mut client);
        feed(&mut client, &task("TASK_STATE_WORKING"));
        if knows_artifact {
            feed(&mut client, &chunk("a", "Draft. ", false));
        }
        feed(&mut client, &status("TASK_STATE_AUTH_REQUIRED", "q", "Sign in"));
        assert_eq!(client.is_settled(), None);
        feed(&mut client, &chunk("a", "Signed in. ", knows_artifact));
        client.handle_stream_end();
        assert_eq!(
            (client.is_settled(), next(&mut client).0),
            (None, Purpose::Subscribe),
            "{knows_artifact}"
        );
    }
}
