//! What humans answer to a published workflow reaches its framework.

use std::path::Path;
use std::sync::Arc;

use aqueduct_core::Timestamp;
use aqueduct_core::service::PublishRequest;
use aqueduct_gateway::config::load;
use aqueduct_gateway::service::Gateway;
use aqueduct_runlog::{MemoryLog, RunLog as _, RunQuery};
use aqueduct_transport_ws::client::{Client, ConnectOptions, Publisher};
use serde_json::{Value, json};

use super::support::{Served, events, input, serve, serve_gateway};
use crate::program::root;

pub(super) const WORKFLOW: &str = "[agents.flow.magentic]\ningest = true\n";

/// The lines of a workflow with two interrupts; each run ends with the line that contains the reply.
pub(super) fn runs() -> Vec<Vec<String>> {
    let path = root().join("tests/fixtures/magentic/seq_request_info.events-run.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut runs = vec![Vec::new()];
    for line in text.lines() {
        if line.contains("\"responses\"") {
            runs.push(Vec::new());
        }
        runs.last_mut().unwrap().push(line.to_owned());
    }
    runs
}

pub(super) async fn connect(served: &Served) -> Client {
    Client::connect(&ConnectOptions::new(format!("ws://{}/ws", served.address))).await.unwrap()
}

pub(super) async fn publish(client: &Client) -> Publisher {
    let request = PublishRequest {
        agent: "flow".to_owned(),
        thread_id: Some("t".into()),
        run_id: Some("r1".into()),
        format: "magentic".to_owned(),
    };
    client.publish(&request).await.unwrap()
}

pub(super) async fn feed(publisher: &mut Publisher, lines: &[String]) {
    for line in lines {
        publisher.send(line).await.unwrap();
    }
    publisher.drain().await.unwrap();
}

/// The ids of what a run that ended asks.
fn asked(events: &[Value]) -> Vec<String> {
    let end = events.last().unwrap();
    assert_eq!(end["outcome"]["type"], "interrupt", "{end}");
    let interrupts = end["outcome"]["interrupts"].as_array().unwrap();
    interrupts.iter().map(|interrupt| interrupt["id"].as_str().unwrap().to_owned()).collect()
}

fn answering(run: &str, id: &str) -> Value {
    let mut body = input(run, Some("1.0"));
    body["resume"] =
        json!([{ "interruptId": id, "status": "resolved", "payload": { "feedback": "Shorter." } }]);
    body
}

#[tokio::test]
async fn an_answer_reaches_the_framework_and_what_follows_is_the_next_run() {
    let served = serve(WORKFLOW, &[]).await;
    let client = connect(&served).await;
    let runs = runs();
    let mut publisher = publish(&client).await;
    feed(&mut publisher, &runs[0]).await;
    let first = events(&served.get("/runs/r1/events?protocolVersion=1.0").await);
    let question = asked(&first).remove(0);

    let answer = served.send(served.post("/agents/flow", &answering("r2", &question)));
    let framework = async {
        let reply = publisher.reply().await.unwrap();
        assert_eq!((reply.id.as_str(), reply.resolved), (question.as_str(), true));
        assert_eq!(reply.payload, Some(json!({ "feedback": "Shorter." })));
        feed(&mut publisher, &runs[1]).await;
    };
    let (response, ()) = tokio::join!(answer, framework);
    let second = events(&response);
    assert_eq!(second[0]["runId"], "r2");
    let question = asked(&second).remove(0);

    // The user answers the only question in plain words.
    let plain = served.send(served.post("/agents/flow", &input("r3", Some("1.0"))));
    let framework = async {
        let reply = publisher.reply().await.unwrap();
        assert_eq!((reply.id.as_str(), reply.payload), (question.as_str(), Some(json!("hello"))));
        feed(&mut publisher, &runs[2]).await;
        publisher.finish().await.unwrap();
    };
    let (response, ()) = tokio::join!(plain, framework);
    let end = events(&response).pop().unwrap();
    assert_eq!((&end["type"], &end["outcome"]["type"]), (&json!("RUN_FINISHED"), &json!("success")), "{end}");
}

#[tokio::test]
async fn an_answer_is_told_again_until_the_workflow_has_it() {
    let served = serve(WORKFLOW, &[]).await;
    let runs = runs();
    let client = connect(&served).await;
    let mut publisher = publish(&client).await;
    feed(&mut publisher, &runs[0]).await;
    let question = asked(&events(&served.get("/runs/r1/events?protocolVersion=1.0").await)).remove(0);
    let answer = served.send(served.post("/agents/flow", &answering("r2", &question)));
    let framework = async {
        assert_eq!(publisher.reply().await.unwrap().id.as_str(), question);
        // Cut before the workflow had it.
        drop(publisher);
        client.close().await;
        let client = connect(&served).await;
        let mut publisher = publish(&client).await;
        assert_eq!(publisher.reply().await.unwrap().id.as_str(), question, "told again");
        feed(&mut publisher, &runs[1]).await;
        drop(publisher);
        client.close().await;
        // The publisher has acknowledged the reply: the next publisher receives none.
        let client = connect(&served).await;
        let mut publisher = publish(&client).await;
        let wait = std::time::Duration::from_millis(100);
        assert!(tokio::time::timeout(wait, publisher.reply()).await.is_err(), "taken");
    };
    let (response, ()) = tokio::join!(answer, framework);
    asked(&events(&response));
}

#[tokio::test]
async fn what_nobody_asked_is_refused() {
    let served = serve(WORKFLOW, &[]).await;
    let client = connect(&served).await;
    let mut publisher = publish(&client).await;
    let refused = async |body: &Value, status: u16| {
        let response = served.send(served.post("/agents/flow", body)).await;
        let text = String::from_utf8_lossy(response.body()).into_owned();
        assert_eq!(response.status(), status, "{text}");
        assert!(text.contains("waits for an answer"), "{text}");
    };
    refused(&input("a", None), 501).await;
    refused(&answering("b", "unknown"), 409).await;
    feed(&mut publisher, &runs()[0]).await;
    events(&served.get("/runs/r1/events?protocolVersion=1.0").await);
    refused(&answering("c", "unknown"), 409).await;
    let mut elsewhere = input("d", None);
    elsewhere["threadId"] = json!("another");
    refused(&elsewhere, 501).await;
}

/// Two gateways on one log. That it is one in memory is nothing that they can tell.
async fn pair() -> (Served, Served, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let gateway = || {
        let toml = format!("[runs]\nlog = \"redis\"\nredis = \"env:R\"\n{WORKFLOW}");
        let environment = [("R".to_owned(), "redis://127.0.0.1:1".to_owned())];
        let mut config = load(Path::new("aqueduct.toml"), &toml, environment).unwrap();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        Gateway::with_log(config, Arc::clone(&log) as _).unwrap()
    };
    (serve_gateway(gateway()).await, serve_gateway(gateway()).await, log)
}

#[tokio::test]
async fn an_answer_at_another_gateway_reaches_the_framework_as_well() {
    let (owner, other, log) = pair().await;
    let runs = runs();
    let client = connect(&owner).await;
    let mut publisher = publish(&client).await;
    feed(&mut publisher, &runs[0]).await;
    let first = events(&other.get("/runs/r1/events?protocolVersion=1.0").await);
    let question = asked(&first).remove(0);
    let wrong = other.send(other.post("/agents/flow", &answering("x", "unknown"))).await;
    assert_eq!(wrong.status(), 409, "{:?}", wrong.body());

    let answer = other.send(other.post("/agents/flow", &answering("r2", &question)));
    let framework = async {
        let reply = publisher.reply().await.unwrap();
        assert_eq!((reply.id.as_str(), reply.resolved), (question.as_str(), true));
        assert_eq!(reply.payload, Some(json!({ "feedback": "Shorter." })));
        feed(&mut publisher, &runs[1]).await;
    };
    let (response, ()) = tokio::join!(answer, framework);
    let second = events(&response);
    assert_eq!(second[0]["runId"], "r2");
    let question = asked(&second).remove(0);
    let twice = other.send(other.post("/agents/flow", &answering("again", &asked(&first)[0]))).await;
    assert_eq!(twice.status(), 409, "an answer is taken once");

    // In plain words, at a gateway that knows of no question itself.
    let plain = other.send(other.post("/agents/flow", &input("r3", Some("1.0"))));
    let framework = async {
        let reply = publisher.reply().await.unwrap();
        assert_eq!((reply.id.as_str(), reply.payload), (question.as_str(), Some(json!("hello"))));
        feed(&mut publisher, &runs[2]).await;
        publisher.finish().await.unwrap();
    };
    let (response, ()) = tokio::join!(plain, framework);
    let end = events(&response).pop().unwrap();
    assert_eq!((&end["type"], &end["outcome"]["type"]), (&json!("RUN_FINISHED"), &json!("success")), "{end}");

    // Nothing is left open, and what gateways tell each other is no run of anybody's thread.
    while !log.lapsed(Timestamp(1 << 52), 9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let listed = RunQuery { thread_id: Some("t".into()), ..RunQuery::default() };
    let listed: Vec<String> =
        log.list(listed, 9).await.unwrap().iter().map(|run| run.meta.run_id.to_string()).collect();
    assert_eq!(listed, ["r1", "r2", "r3"]);
}
