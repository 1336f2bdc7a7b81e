//! A2A agents behind the gateway: content, cards, cuts, cancel, questions.

use std::fs;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::support::{Asked, Say, Served, Upstream, answer, events, http, input, serve, sse};
use crate::program::root;

fn status(state: &str, text: &str) -> String {
    let message =
        json!({ "messageId": format!("s-{text}"), "role": "ROLE_AGENT", "parts": [{ "text": text }] });
    let status = json!({ "state": format!("TASK_STATE_{state}"), "message": message });
    frame(&json!({ "statusUpdate": { "taskId": "T", "contextId": "C", "status": status } }))
}

fn task(state: &str) -> String {
    let status = json!({ "state": format!("TASK_STATE_{state}") });
    frame(&json!({ "task": { "id": "T", "contextId": "C", "status": status } }))
}

fn chunk(text: &str, append: bool) -> String {
    let artifact = json!({ "artifactId": "A", "parts": [{ "text": text }] });
    frame(
        &json!({ "artifactUpdate": { "taskId": "T", "contextId": "C", "artifact": artifact, "append": append } }),
    )
}

fn frame(result: &Value) -> String {
    format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

fn whole(result: &Value) -> Vec<u8> {
    http("200 OK", "application/json", &json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string())
}

fn method(asked: &Asked) -> &str {
    asked.body["method"].as_str().unwrap_or_default()
}

async fn fixed(url: &str, more: &str) -> Served {
    serve(&format!("[agents.a]\na2a = {{ url = \"{url}\", binding = \"jsonrpc\" }}\n{more}"), &[]).await
}

#[tokio::test]
async fn the_frontend_ends_with_what_the_agent_said() {
    let recorded = fs::read_to_string(root().join("tests/fixtures/a2a/v1-jsonrpc-default.sse")).unwrap();
    let mut upstream = Upstream::saying(sse(&recorded)).await;
    let served = fixed(&upstream.url, "").await;
    let events = served.run("a", "r").await;
    assert_eq!(answer(&events), "The version is **1.4.2** — tout va bien ✅.\n");
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    let asked = upstream.asked.recv().await.unwrap();
    assert_eq!(method(&asked), "SendStreamingMessage");
    assert_eq!(asked.body["params"]["message"]["parts"][0]["text"], "hello");
    assert!(asked.head.contains("a2a-version: 1.0"), "{}", asked.head);
}

#[tokio::test]
async fn the_card_says_where_and_how() {
    let recorded = fs::read_to_string(root().join("tests/fixtures/a2a/v1-rest-default.sse")).unwrap();
    let mut upstream = Upstream::start(move |asked| {
        if asked.head.starts_with("get /.well-known/agent-card.json") {
            let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let card = json!({
                "name": "x", "capabilities": { "streaming": true },
                "supportedInterfaces": [{ "url": format!("http://{host}/rest"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" }],
            });
            return Say::Close(http("200 OK", "application/json", &card.to_string()));
        }
        Say::Close(sse(&recorded))
    })
    .await;
    let toml = format!("[agents.a]\na2a.url = \"{}\"\ncredentials = \"env:K\"\n", upstream.url);
    let served = serve(&toml, &[("K", "sesame")]).await;
    assert_eq!(answer(&served.run("a", "r1").await), "The version is **1.4.2** — tout va bien ✅.\n");
    assert_eq!(served.run("a", "r2").await.last().unwrap()["type"], "RUN_FINISHED");
    let heads: Vec<String> =
        [upstream.asked.recv().await, upstream.asked.recv().await, upstream.asked.recv().await]
            .map(|asked| asked.unwrap().head)
            .into();
    assert!(heads[0].starts_with("get /.well-known"), "the card is asked for once: {heads:?}");
    assert!(
        heads[1].starts_with("post /rest/message:stream") && heads[2].starts_with("post /rest"),
        "{heads:?}"
    );
    assert!(heads.iter().all(|head| head.contains("authorization: bearer sesame")), "{heads:?}");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_taken_up_again_without_loss_or_repetition() {
    let mut upstream = Upstream::start(|asked| {
        if method(asked) == "SendStreamingMessage" {
            return Say::Close(sse(&[task("WORKING"), chunk("one ", false), chunk("two ", true)].concat()));
        }
        let artifact = json!({ "artifactId": "A", "parts": [{ "text": "one " }, { "text": "two " }] });
        let status = json!({ "state": "TASK_STATE_WORKING" });
        let snapshot =
            json!({ "task": { "id": "T", "contextId": "C", "status": status, "artifacts": [artifact] } });
        let done = json!({ "state": "TASK_STATE_COMPLETED" });
        let end = frame(&json!({ "statusUpdate": { "taskId": "T", "contextId": "C", "status": done } }));
        Say::Close(sse(&[frame(&snapshot), chunk("three", true), end].concat()))
    })
    .await;
    let served = fixed(&upstream.url, "").await;
    let events = served.run("a", "r").await;
    assert_eq!(answer(&events), "one two three");
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    upstream.asked.recv().await.unwrap();
    assert_eq!(method(&upstream.asked.recv().await.unwrap()), "SubscribeToTask");
}

/// An error ends the stream; the end of the connection after it is not a second failure. (A second subscription would
/// return less than the first, and the answer would be shown again.)
#[tokio::test]
async fn a_stream_that_ends_with_an_error_is_taken_up_once() {
    let mut upstream = Upstream::start(|asked| match method(asked) {
        "SendStreamingMessage" => {
            let error =
                json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32603, "message": "too slow" } });
            let error = format!("data: {error}\n\n");
            Say::Close(sse(&[task("WORKING"), chunk("one ", false), error].concat()))
        }
        "SubscribeToTask" => Say::Hang(sse(&[task("WORKING"), chunk("two", true)].concat())),
        _ => working(asked),
    })
    .await;
    let served = fixed(&upstream.url, "").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/a", &input("r", Some("1.0")))).await.unwrap();
    while !stream.next().await.unwrap().unwrap().data.contains("two") {}
    upstream.asked.recv().await.unwrap();
    assert_eq!(method(&upstream.asked.recv().await.unwrap()), "SubscribeToTask");
    // A second one would come after half a second.
    let more = tokio::time::timeout(Duration::from_secs(1), upstream.asked.recv()).await;
    assert!(more.is_err(), "{:?}", more.unwrap().map(|asked| asked.body));
}

fn working(asked: &Asked) -> Say {
    match method(asked) {
        "CancelTask" => {
            let status = json!({ "state": "TASK_STATE_CANCELED" });
            Say::Close(whole(&json!({ "id": "T", "contextId": "C", "status": status })))
        }
        _ => Say::Hang(sse(&[task("WORKING"), chunk("so far", false)].concat())),
    }
}

#[tokio::test]
async fn cancelling_reaches_the_agent_and_the_stream_says_so() {
    let mut upstream = Upstream::start(working).await;
    let served = fixed(&upstream.url, "").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/a", &input("r", Some("1.0")))).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.unwrap().data;
        if event.contains("so far") {
            let response = served.send(served.post("/runs/r/cancel", &json!({}))).await;
            assert_eq!(response.body(), &r#"{"cancelled":true}"#);
        }
        seen.push(event);
    }
    let last: Value = serde_json::from_str(seen.last().unwrap()).unwrap();
    assert_eq!(last["outcome"]["type"], "cancelled", "{last}");
    upstream.asked.recv().await.unwrap();
    let asked = upstream.asked.recv().await.unwrap();
    assert_eq!((method(&asked), &asked.body["params"]["id"]), ("CancelTask", &json!("T")));
    let again = served.send(served.post("/runs/r/cancel", &json!({}))).await;
    assert_eq!(again.body(), &r#"{"cancelled":false}"#, "stopping what has ended is no error");
}

#[tokio::test]
async fn an_agent_that_ignores_the_cancel_does_not_hold_the_frontend() {
    let upstream = Upstream::start(|asked| match method(asked) {
        "CancelTask" => Say::Hang(Vec::new()),
        _ => Say::Hang(sse(&task("WORKING"))),
    })
    .await;
    let served = fixed(&upstream.url, "").await;
    let run = served.post("/agents/a", &input("r", None));
    let cancel =
        async { while served.send(served.post("/runs/r/cancel", &json!({}))).await.status() != 200 {} };
    let (response, ()) = tokio::join!(served.send(run), cancel);
    let text = String::from_utf8_lossy(response.body()).into_owned();
    assert!(text.contains("RUN_ERROR") && text.contains("cancelled"), "0.0.59 has no such outcome: {text}");
}

#[tokio::test]
async fn a_frontend_that_goes_away_stops_the_agent_if_it_is_configured_so() {
    let mut upstream = Upstream::start(working).await;
    let served = fixed(&upstream.url, "on_disconnect = \"cancel\"\n").await;
    let mut stream =
        served.client.open_stream(served.post("/agents/a", &input("r", Some("1.0")))).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert_ne!(method(&upstream.asked.recv().await.unwrap()), "CancelTask");
    // The agent must have named its task before the task can be cancelled.
    while !stream.next().await.unwrap().unwrap().data.contains("so far") {}
    drop(stream);
    assert_eq!(method(&upstream.asked.recv().await.unwrap()), "CancelTask");
    served.idle().await;
}

#[tokio::test]
async fn a_question_is_answered_in_the_same_task() {
    let mut upstream = Upstream::start(|asked| {
        let answered = asked.body["params"]["message"]["taskId"] == "T";
        Say::Close(sse(&if answered {
            [status("WORKING", "ah"), chunk("booked", false), status("COMPLETED", "ok")].concat()
        } else {
            [task("WORKING"), status("INPUT_REQUIRED", "which?")].concat()
        }))
    })
    .await;
    let served = fixed(&upstream.url, "").await;
    let first = served.run("a", "r1").await;
    let outcome = &first.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{outcome}");
    let id = outcome["interrupts"][0]["id"].clone();
    let mut next = input("r2", Some("1.0"));
    next["resume"] = json!([{ "interruptId": id, "status": "resolved", "payload": "the early one" }]);
    let second = events(&served.send(served.post("/agents/a", &next)).await);
    assert_eq!(answer(&second), "booked");
    assert_eq!(second.last().unwrap()["outcome"]["type"], "success");
    upstream.asked.recv().await.unwrap();
    let message = upstream.asked.recv().await.unwrap().body["params"]["message"].clone();
    assert_eq!((&message["taskId"], &message["contextId"]), (&json!("T"), &json!("C")));
    assert_eq!(message["parts"][0]["text"], "the early one");
}

#[tokio::test]
async fn headers_of_the_caller_are_passed_on_only_if_named() {
    let mut upstream = Upstream::saying(sse(&[task("WORKING"), status("COMPLETED", "hi")].concat())).await;
    let served = fixed(&upstream.url, "forward_headers = [\"X-Tenant\"]\n").await;
    let mut request = served.post("/agents/a", &input("r", Some("1.0")));
    for (name, value) in [
        ("x-tenant", "blue"),
        ("x-other", "secret"),
        ("cookie", "secret"),
        ("authorization", "Bearer secret"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    served.send(request).await;
    let head = upstream.asked.recv().await.unwrap().head;
    assert!(head.contains("x-tenant: blue") && head.contains("traceparent: 00-0af"), "{head}");
    assert!(!head.contains("secret"), "{head}");
}
