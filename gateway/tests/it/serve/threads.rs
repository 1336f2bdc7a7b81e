//! `GET /threads/{thread}`: what it restates is what the client had, and it goes on with the run that is under way.

use std::path::PathBuf;
use std::slice::from_ref;

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, verify_sse};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use serde_json::{Value, json};

use super::support::{Served, answer, events, input, payloads, serve};

fn script(name: &str, text: &str) -> PathBuf {
    let path = crate::scratch::folder().join(format!("thread-{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

const TALK: &str = "[[step]]\nthinking = \"hm\"\n[[step]]\ntool = \"search\"\narguments = '{\"q\":1}'\nresult = \"three\"\n\
    [[step]]\nagent = \"helper\"\nchannel = \"intermediate\"\ntext = \"I help.\"\n[[step]]\nagent = \"helper\"\nclose = \"success\"\n\
    [[step]]\nstate = { n = 1 }\n[[step]]\ntext = \"You asked: {prompt}\"\n";

/// `talk` emits every kind of content, `ask` ends with an interrupt, `slow` does not end.
async fn agents(settings: &str) -> Served {
    let (talk, ask) =
        (script("talk", TALK), script("ask", "[[step]]\ntext = \"So.\"\n[[step]]\nask = \"When?\"\n"));
    let slow = script("slow", "[[step]]\ntext = \"begun\"\n[[step]]\nwait = \"600s\"\n");
    let agent = |name: &str, file: &PathBuf| {
        format!("[agents.{name}]\n{settings}script.file = \"{}\"\n", file.display())
    };
    let toml = format!("{}{}{}", agent("talk", &talk), agent("ask", &ask), agent("slow", &slow));
    serve(&toml, &[]).await
}

fn asking(run: &str, version: Option<&str>, messages: &Value) -> Value {
    let mut input = input(run, version);
    input["messages"] = messages.clone();
    input
}

fn user(id: &str, words: &str) -> Value {
    json!({ "id": id, "role": "user", "content": words })
}

async fn thread(served: &Served, version: Option<&str>, last: Option<&str>) -> Response<Bytes> {
    let query = version.map_or(String::new(), |version| format!("?protocolVersion={version}"));
    let mut request = Request::get(served.url(&format!("/threads/t{query}")));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    served.send(request.body(Bytes::new()).unwrap()).await
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn roles(snapshot: &Value) -> Vec<&str> {
    let messages = snapshot["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

const RESTATED: [&str; 4] = ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"];

#[tokio::test]
async fn ended_runs_are_restated_as_one() {
    let served = agents("").await;
    let first = json!([user("m1", "one")]);
    served.send(served.post("/agents/talk", &asking("r1", Some("1.0"), &first))).await;
    // A client sends all it has with every run, and it has what was restated.
    let mut second = events(&thread(&served, Some("1.0"), None).await)[1]["messages"].clone();
    second.as_array_mut().unwrap().push(user("m2", "two"));
    served.send(served.post("/agents/talk", &asking("r2", Some("1.0"), &second))).await;
    let told = events(&thread(&served, Some("1.0"), None).await);
    assert_eq!(kinds(&told), RESTATED);
    assert_eq!(told[0]["runId"], "r2");
    let run = ["user", "reasoning", "assistant", "tool", "reasoning", "assistant"];
    assert_eq!(roles(&told[1]), [run, run].concat());
    let texts: Vec<&Value> = told[1]["messages"].as_array().unwrap().iter().map(|m| &m["content"]).collect();
    assert_eq!((texts[0], texts[5]), (&json!("one"), &json!("You asked: one")));
    assert_eq!((texts[6], texts[11]), (&json!("two"), &json!("You asked: two")));
    assert_eq!(told[2]["snapshot"], json!({ "n": 1 }));
}

#[tokio::test]
async fn the_older_dialect_reads_it_too() {
    let served = agents("").await;
    served.run("talk", "r1").await;
    let text = String::from_utf8(thread(&served, None, None).await.body().to_vec()).unwrap();
    let found = verify_sse(text.as_bytes(), Dialect::V0_0_59, Level::Strict);
    assert!(found.is_empty(), "{found:#?}\n{text}");
    assert_eq!(kinds(&payloads(&text)), RESTATED);
}

#[tokio::test]
async fn what_an_agent_hides_is_not_restated() {
    let served = agents("subagents = \"hidden\"\nintermediate = \"hidden\"\n").await;
    served.run("talk", "r1").await;
    let response = thread(&served, Some("1.0"), None).await;
    assert!(!String::from_utf8_lossy(response.body()).contains("I help."));
    assert_eq!(kinds(&events(&response)), RESTATED);
}

#[tokio::test]
async fn a_question_is_asked_again_in_either_form() {
    let served = agents("").await;
    served.run("ask", "r1").await;
    let end = events(&thread(&served, Some("1.0"), None).await).pop().unwrap();
    assert_eq!(end["outcome"]["type"], "interrupt");
    let text = String::from_utf8(thread(&served, None, None).await.body().to_vec()).unwrap();
    assert_eq!(text.matches("When?").count(), 1, "{text}");
    let found = verify_sse(text.as_bytes(), Dialect::V0_0_59, Level::Strict);
    assert!(found.is_empty(), "{found:#?}\n{text}");
}

#[tokio::test]
async fn a_cut_reader_goes_on_behind_its_last_id() {
    let served = agents("").await;
    served.run("talk", "r1").await;
    let whole = String::from_utf8(thread(&served, Some("1.0"), None).await.body().to_vec()).unwrap();
    let frames: Vec<&str> = whole.split_inclusive("\n\n").collect();
    assert_eq!(frames.len(), 5);
    for (index, frame) in frames.iter().enumerate() {
        let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        let rest = thread(&served, Some("1.0"), Some(id)).await;
        let rest = String::from_utf8_lossy(rest.body()).into_owned();
        assert_eq!(rest.strip_prefix(frames[0]).unwrap_or(&rest), frames[index + 1..].concat(), "after {id}");
    }
    assert_eq!(thread(&served, None, Some("other.1.1")).await.status(), 404);
    assert_eq!(thread(&served, None, Some("nonsense")).await.status(), 400);
}

#[tokio::test]
async fn a_run_under_way_is_followed() {
    let served = agents("").await;
    served.run("talk", "r1").await;
    let running = served.post("/agents/slow", &asking("r2", Some("1.0"), &json!([user("m9", "and now?")])));
    let mut owner = served.client.open_stream(running).await.unwrap();
    while !owner.next().await.unwrap().unwrap().data.contains("begun") {}
    let request = Request::get(served.url("/threads/t?protocolVersion=1.0")).body(Bytes::new()).unwrap();
    let mut follower = served.client.open_stream(request).await.unwrap();
    let mut told = Vec::new();
    while told.last().is_none_or(|(_, event): &(String, Value)| answer(from_ref(event)) != "begun") {
        let event = follower.next().await.unwrap().unwrap();
        told.push((event.id.unwrap().to_string(), serde_json::from_str(&event.data).unwrap()));
    }
    let live: Vec<Value> = told.iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(
        kinds(&live)[..4],
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "TEXT_MESSAGE_START"]
    );
    assert_eq!(live[0]["runId"], "r2");
    assert_eq!(live[1]["messages"].as_array().unwrap().last().unwrap()["content"], "and now?");
    assert!(told[2].0.starts_with("r2.1."), "{}", told[2].0);
    served.send(served.post("/runs/r2/cancel", &json!({}))).await;
    let mut rest = Vec::new();
    while let Some(event) = follower.next().await {
        rest.push(serde_json::from_str::<Value>(&event.unwrap().data).unwrap());
    }
    assert_eq!(rest.last().unwrap()["outcome"]["type"], "cancelled");
    // A watcher that was cut in the head or after it receives the rest, although the run has ended by now.
    let all = [live, rest].concat();
    for (index, (id, _)) in told.iter().enumerate() {
        assert_eq!(
            payloads(&String::from_utf8_lossy(thread(&served, Some("1.0"), Some(id)).await.body())),
            all[index + 1..]
        );
    }
}

#[tokio::test]
async fn a_thread_that_is_not_there_is_not_found() {
    let served = agents("").await;
    let response = served.get("/threads/nothing").await;
    assert_eq!(response.status(), 404);
}
