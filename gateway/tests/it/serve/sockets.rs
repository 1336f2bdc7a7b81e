//! WebSocket on the gateway's port, and runs that a framework publishes over it.

use std::fs;

use aqueduct_core::service::PublishRequest;
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig as GrpcConfig};
use aqueduct_transport_ws::client::{Client, ConnectOptions};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Request;
use serde_json::Value;

use super::support::{Served, events, input, payloads, serve};
use crate::program::root;

async fn connect(served: &Served, path: &str, token: Option<&str>) -> Client {
    let mut options = ConnectOptions::new(format!("ws://{}{path}", served.address));
    options.token = token.map(str::to_owned);
    Client::connect(&options).await.unwrap()
}

fn scripted() -> String {
    format!("[agents.a.script]\nfile = \"{}/scripts/demo-thinking.toml\"\n", root().display())
}

#[tokio::test]
async fn a_run_over_a_socket_has_the_events_of_a_run_over_http() {
    let served = serve(&scripted(), &[]).await;
    let client = connect(&served, "/ws", None).await;
    assert_eq!(client.list_agents().await.unwrap()[0].name, "a");
    let mut run = client.start(Some("a"), &input("r", Some("1.0")).to_string()).await.unwrap();
    let mut seen: Vec<Value> = Vec::new();
    while let Some(event) = run.next().await {
        seen.push(serde_json::from_slice(&event.unwrap().data).unwrap());
    }
    let again = served.get("/runs/r/events?protocolVersion=1.0").await;
    assert_eq!(seen, events(&again));
}

/// Each agent is shown with its configured settings, over a socket as over HTTP, started or watched.
#[tokio::test]
async fn settings_of_an_agent_hold_on_a_socket() {
    for (settings, version) in [
        ("", None),
        ("", Some("1.0")),
        ("dialect = \"1.0\"\n", None),
        ("intermediate = \"text\"\n", None),
        ("subagents = \"hidden\"\n", Some("1.0")),
    ] {
        let script = format!("{}/scripts/demo-failure.toml", root().display());
        let toml = format!("[agents.a]\n{settings}script.file = \"{script}\"\n");
        let served = serve(&toml, &[]).await;
        let client = connect(&served, "/ws", None).await;
        let mut seen = Vec::new();
        for watched in [false, true] {
            let mut run = if watched {
                client.watch("r", 0).await.unwrap()
            } else {
                client.start(Some("a"), &input("r", version).to_string()).await.unwrap()
            };
            let mut events: Vec<Value> = Vec::new();
            while let Some(event) = run.next().await {
                events.push(serde_json::from_slice(&event.unwrap().data).unwrap());
            }
            seen.push(events);
        }
        let again = served.get("/runs/r/events").await;
        let told = payloads(&String::from_utf8_lossy(again.body()));
        assert_eq!(seen, [told.clone(), told], "{settings} {version:?}");
    }
}

#[tokio::test]
async fn a_socket_to_a_protected_agent_wants_a_token() {
    let toml = format!("{}[agents.a]\ntokens = [\"env:T\"]\n", scripted());
    let served = serve(&toml, &[("T", "sesame")]).await;
    let stranger = connect(&served, "/ws", None).await;
    assert!(stranger.start(Some("a"), &input("r1", None).to_string()).await.is_err());
    assert!(stranger.list_agents().await.is_err());
    let friend = connect(&served, "/agents/a/ws", Some("sesame")).await;
    assert!(friend.start(Some("a"), &input("r2", None).to_string()).await.is_ok());
}

const WORKFLOW: &str = "[agents.flow.magentic]\ningest = true\n";

fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("tests/fixtures/magentic").join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn publication(run: &str) -> PublishRequest {
    PublishRequest {
        agent: "flow".to_owned(),
        thread_id: Some("t".into()),
        run_id: Some(run.into()),
        format: "magentic".to_owned(),
    }
}

async fn watched(served: &Served, run: &str) -> Vec<Value> {
    events(&served.get(&format!("/runs/{run}/events?protocolVersion=1.0")).await)
}

#[tokio::test]
async fn a_published_workflow_is_watched_like_any_run() {
    let served = serve(WORKFLOW, &[]).await;
    let client = connect(&served, "/ws", None).await;
    let mut publisher = client.publish(&publication("r")).await.unwrap();
    for line in lines("seq_default.events.jsonl") {
        publisher.send(&line).await.unwrap();
    }
    publisher.finish().await.unwrap();
    let seen = watched(&served, "r").await;
    assert_eq!(seen.last().unwrap()["type"], "RUN_FINISHED");
    assert!(seen.iter().any(|event| event["type"] == "TEXT_MESSAGE_CONTENT"));
}

#[tokio::test]
async fn a_publisher_that_comes_back_goes_on_where_it_was() {
    let served = serve(WORKFLOW, &[]).await;
    let lines = lines("seq_default.events.jsonl");
    let (first, second) = lines.split_at(lines.len() / 2);
    let client = connect(&served, "/ws", None).await;
    let mut publisher = client.publish(&publication("cut")).await.unwrap();
    for line in first {
        publisher.send(line).await.unwrap();
    }
    publisher.drain().await.unwrap();
    drop(publisher);
    client.close().await;
    let client = connect(&served, "/ws", None).await;
    let mut publisher = client.publish(&publication("cut")).await.unwrap();
    assert_eq!(publisher.acknowledged(), u64::try_from(first.len()).unwrap());
    for line in second {
        publisher.send(line).await.unwrap();
    }
    publisher.finish().await.unwrap();
    let cut = watched(&served, "cut").await;

    let mut publisher = client.publish(&publication("whole")).await.unwrap();
    for line in &lines {
        publisher.send(line).await.unwrap();
    }
    publisher.finish().await.unwrap();
    let whole = watched(&served, "whole").await;
    let shape = |events: &[Value]| -> Vec<(Value, Value)> {
        events.iter().map(|event| (event["type"].clone(), event["delta"].clone())).collect()
    };
    assert_eq!(shape(&cut), shape(&whole));
}

#[tokio::test]
async fn a_publisher_that_never_comes_back_leaves_a_run_that_was_cut() {
    let served = serve("[agents.flow]\nmagentic.ingest = true\ngrace = \"50ms\"\n", &[]).await;
    let client = connect(&served, "/ws", None).await;
    let mut publisher = client.publish(&publication("left")).await.unwrap();
    publisher.send(&lines("seq_default.events.jsonl")[0]).await.unwrap();
    publisher.drain().await.unwrap();
    drop(publisher);
    client.close().await;
    let end = watched(&served, "left").await.pop().unwrap();
    assert_eq!((&end["type"], &end["code"]), (&"RUN_ERROR".into(), &"upstream_ended".into()), "{end}");
}

#[tokio::test]
async fn what_cannot_be_published_is_refused() {
    let served = serve(&format!("{WORKFLOW}{}", scripted()), &[]).await;
    let client = connect(&served, "/ws", None).await;
    let other = |agent: &str, format: &str| PublishRequest {
        agent: agent.to_owned(),
        format: format.to_owned(),
        ..publication("r")
    };
    for request in [other("a", "magentic"), other("flow", "xml"), other("nobody", "magentic")] {
        assert!(client.publish(&request).await.is_err(), "{request:?}");
    }
    let request = served.post("/agents/flow", &input("r", None));
    assert_eq!(served.send(request).await.status(), 501);
    let plain = Request::get(served.url("/ws")).body(Bytes::new()).unwrap();
    assert_eq!(served.send(plain).await.status(), 426, "a request that is no upgrade");
}

/// SSE, WebSocket and gRPC on one port, each counted under its name.
#[tokio::test]
async fn metrics_show_the_counts_of_every_transport() {
    let served = serve(&scripted(), &[]).await;
    served.run("a", "over-http").await;
    let client = connect(&served, "/agents/a/ws", None).await;
    let mut run = client.start(None, &input("over-ws", None).to_string()).await.unwrap();
    while run.next().await.is_some() {}
    let grpc = GrpcClient::connect(&served.url(""), GrpcConfig::default()).await.unwrap();
    let mut watched = grpc.watch(&"over-ws".into(), 0).await.unwrap();
    while watched.next().await.is_some() {}
    let response = served.get("/metrics").await;
    let text = String::from_utf8_lossy(response.body()).into_owned();
    let count = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("aqueduct_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    assert!(count("http_connections_open") >= 2, "{text}");
    assert!(count("http_requests_total") >= 4, "{text}");
    assert_eq!((count("ws_connections_open"), count("ws_connections_total")), (1, 1));
    assert!(count("ws_messages_out_total") > 2, "{text}");
    assert_eq!(count("grpc_streams_open"), 0);
    assert!(count("grpc_events_out_total") > 2, "{text}");
}
