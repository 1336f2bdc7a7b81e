//! Runs that are watched, left, found again, asked side by side.

use std::path::PathBuf;

use aqueduct_gateway::serve::demo_gateway;
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::support::{Served, answer, events, input, payloads, serve, serve_gateway};

fn script(name: &str, text: &str) -> PathBuf {
    let path = crate::scratch::folder().join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

const SPEECH: &str = "description = \"Speaks.\"\n[[step]]\ntext = \"one two three\"\n";

async fn speaker(name: &str) -> Served {
    let file = script(name, SPEECH);
    serve(&format!("[agents.a.script]\nfile = \"{}\"\n", file.display()), &[]).await
}

#[tokio::test]
async fn a_caller_that_wants_a_value_gets_the_ended_run() {
    let served = speaker("value").await;
    let mut request = served.post("/agents/a", &input("r", None));
    request.headers_mut().insert("accept", "application/json".parse().unwrap());
    let response = served.send(request).await;
    let value: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((&value["status"], &value["text"]), (&json!("success"), &json!("one two three")), "{value}");
    assert_eq!(value["run"], "r");
}

#[tokio::test]
async fn every_agent_of_the_demo_is_as_the_verifier_wants_it() {
    let (gateway, _agents) = demo_gateway("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let served = serve_gateway(gateway).await;
    let list: Value = serde_json::from_slice(served.get("/agents").await.body()).unwrap();
    let mut question = Value::Null;
    for agent in list["agents"].as_array().unwrap() {
        let name = agent["name"].as_str().unwrap();
        let end = served.run(name, name).await.pop().unwrap();
        if name == "question" {
            question = end["outcome"]["interrupts"][0]["id"].clone();
        }
        let expected = if name == "failure" { "RUN_ERROR" } else { "RUN_FINISHED" };
        assert_eq!(end["type"], expected, "{name}: {end}");
    }
    let mut answered = input("answered", Some("1.0"));
    answered["resume"] = json!([{ "interruptId": question, "status": "resolved", "payload": "early" }]);
    let told = answer(&events(&served.send(served.post("/agents/question", &answered)).await));
    assert!(told.ends_with("Done: early."), "{told}");
}

#[tokio::test]
async fn a_run_can_be_watched_again_from_anywhere() {
    let served = speaker("watched").await;
    let first = served.send(served.post("/agents/a", &input("r/1", Some("1.0")))).await;
    let whole = String::from_utf8(first.body().to_vec()).unwrap();
    let path = "/runs/r%2F1/events?protocolVersion=1.0";
    let again = served.get(path).await;
    assert_eq!(again.body(), first.body());
    let frames: Vec<&str> = whole.split_inclusive("\n\n").collect();
    for (index, frame) in frames.iter().enumerate() {
        let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        let request = Request::get(served.url(path)).header("last-event-id", id).body(Bytes::new()).unwrap();
        let rest = served.send(request).await;
        let expected: String = frames[index + 1..].concat();
        let got = String::from_utf8(rest.body().to_vec()).unwrap();
        // A watcher that has seen no event receives the start of the stream again.
        assert_eq!(got.strip_prefix(frames[0]).unwrap_or(&got), expected, "after {id}");
    }
    let after = served.get(&format!("{path}&after=2")).await;
    let numbers: Vec<u64> = String::from_utf8_lossy(after.body())
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|id| id.rsplit('.').nth(1).unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers.first(), Some(&3));
    assert_eq!(served.get(&format!("{path}&after=x")).await.status(), 400);
}

#[tokio::test]
async fn a_client_of_the_older_dialect_gets_what_it_reads() {
    let served = speaker("older").await;
    let response = served.send(served.post("/agents/a", &input("r", None))).await;
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    let found = aqueduct_adapter_agui::verify::verify_sse(
        text.as_bytes(),
        aqueduct_adapter_agui::config::Dialect::V0_0_59,
        aqueduct_adapter_agui::verify::Level::Strict,
    );
    assert!(found.is_empty(), "{found:?}");
    assert!(!text.contains("protocolVersion") && !text.contains("outcome"), "{text}");
}

#[tokio::test]
async fn protobuf_is_sent_to_whoever_wants_it() {
    let served = speaker("proto").await;
    let mut request = served.post("/agents/a", &input("r", Some("1.0")));
    let media_type = "application/vnd.ag-ui.event+proto";
    request.headers_mut().insert("accept", media_type.parse().unwrap());
    let response = served.send(request).await;
    assert_eq!(response.headers()["content-type"], media_type);
    let mut frames = 0;
    let mut rest = response.body().clone();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest.split_to(4)[..].try_into().unwrap());
        aqueduct_adapter_agui::proto::decode_event(rest.split_to(usize::try_from(length).unwrap())).unwrap();
        frames += 1;
    }
    assert!(frames >= 5, "{frames}");
}

#[tokio::test]
async fn several_agents_answer_side_by_side_each_in_its_lane() {
    let speaks = script("fan-speaks", SPEECH);
    let fails = script("fan-fails", "[[step]]\ntext = \"half\"\n[[step]]\nfail = \"no luck\"\n");
    let toml = format!(
        "[agents.good.script]\nfile = \"{}\"\n[agents.bad.script]\nfile = \"{}\"\n\
         [agents.all.fan_out]\nagents = [\"good\", \"bad\"]\n[agents.none.fan_out]\nagents = [\"bad\"]\n",
        speaks.display(),
        fails.display()
    );
    let served = serve(&toml, &[]).await;
    let events = served.run("all", "r").await;
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("SUBAGENT_STARTED"), count("SUBAGENT_FINISHED"), count("SUBAGENT_ERROR")), (2, 1, 1));
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    let end = served.run("none", "r2").await.pop().unwrap();
    assert_eq!((&end["type"], &end["message"]), (&json!("RUN_ERROR"), &json!("no luck")));
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused_before_any_event() {
    let served = speaker("refused").await;
    let mut empty = input("r", None);
    empty["runId"] = json!("");
    for (path, body, status) in [
        ("/agents/a", json!({}), 400),
        ("/agents/a", json!([1]), 400),
        ("/agents/a", empty, 400),
        ("/agents/nobody", input("r", None), 404),
        ("/nowhere", json!({}), 404),
    ] {
        let response = served.send(served.post(path, &body)).await;
        assert_eq!(response.status(), status, "{path} {body}");
        let error: Value = serde_json::from_slice(response.body()).unwrap();
        assert!(error["error"]["message"].is_string(), "{error}");
    }
    let mut request = served.post("/agents/a", &input("r", None));
    request.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(served.send(request).await.status(), 415, "a web page can send plain text without asking");
    served.run("a", "taken").await;
    assert_eq!(served.send(served.post("/agents/a", &input("taken", None))).await.status(), 409);
}

#[tokio::test]
async fn a_gateway_that_drains_is_not_ready_and_takes_no_runs() {
    let served = speaker("drains").await;
    assert_eq!(served.get("/readyz").await.status(), 200);
    served.gateway.runs().drain();
    assert_eq!(served.get("/readyz").await.status(), 503);
    assert_eq!(served.get("/healthz").await.status(), 200);
    assert_eq!(served.send(served.post("/agents/a", &input("r", None))).await.status(), 503);
}

#[tokio::test]
async fn a_run_longer_than_it_may_be_ends_as_failed() {
    let file = script("long", &format!("[[step]]\ntext = \"{}\"\n", "word ".repeat(200)));
    let toml = format!("[runs]\nevents = 50\n[agents.a.script]\nfile = \"{}\"\n", file.display());
    let end = serve(&toml, &[]).await.run("a", "r").await.pop().unwrap();
    assert_eq!(end["code"], "limit_exceeded", "{end}");
}

#[tokio::test]
async fn as_many_runs_as_there_may_be() {
    let file = script("slow", "[[step]]\nwait = \"60s\"\n");
    let toml = format!("[runs]\nlimit = 1\n[agents.a.script]\nfile = \"{}\"\n", file.display());
    let served = serve(&toml, &[]).await;
    let stream = served.client.open_stream(served.post("/agents/a", &input("r1", None))).await.unwrap();
    assert_eq!(served.send(served.post("/agents/a", &input("r2", None))).await.status(), 429);
    served.send(served.post("/runs/r1/cancel", &json!({}))).await;
    drop(stream);
    served.idle().await;
    assert_eq!(payloads("").len(), 0);
    assert_eq!(served.send(served.post("/runs/r1/cancel", &json!({}))).await.status(), 200);
}
