//! Feeding a run: acknowledgements, the window, replies, cuts.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{PublishRequest, RefusalKind};
use aqueduct_core::{BlockEvent, InterruptReply};
use aqueduct_transport_grpc::proto::agent_stream_client::AgentStreamClient;
use aqueduct_transport_grpc::proto::publish_request::Request;
use aqueduct_transport_grpc::proto::publish_response::Response;
use aqueduct_transport_grpc::{Client, ClientConfig, Config, Error, Limits, Timeouts, proto};
use aqueduct_transport_http::{Gauge, ServerConfig, Total};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::json;
use tokio::sync::Semaphore;
use tonic::Code;

use crate::service::MemoryService;
use crate::support::{Proxy, Running, assert_cut, collect, example, prompt, reason, run_id, until};

fn opening(run: &str) -> PublishRequest {
    PublishRequest {
        agent: "framework".into(),
        thread_id: None,
        run_id: Some(run_id(run)),
        format: "text".into(),
    }
}

async fn said(client: &Client, run: &str) -> String {
    let events = collect(client.watch(&run_id(run), 0).await.unwrap()).await;
    let deltas = events.iter().filter_map(|event| match &event.event {
        BlockEvent::BlockDelta { delta, .. } => Some(delta.to_string()),
        _ => None,
    });
    deltas.collect()
}

#[tokio::test]
async fn payloads_become_a_run_and_are_acknowledged() {
    let server = example().await;
    let client = server.client().await;
    let mut publisher = client.publish(opening("run")).await.unwrap();
    assert_eq!((publisher.run_id(), publisher.acknowledged()), (&run_id("run"), 0));
    for (number, word) in (1..).zip(["a", "b", "c"]) {
        assert_eq!(publisher.send(word).await.unwrap(), number);
    }
    assert_eq!(publisher.flush().await.unwrap(), 3);
    assert_eq!(publisher.send("d").await.unwrap(), 4);
    assert_eq!(publisher.finish().await.unwrap(), 4);
    assert_eq!(said(&client, "run").await, "abcd");
    assert_eq!(server.counters.total(Total::Payloads), 4);
    drop((publisher, client));
    server.is_empty().await;
}

#[tokio::test]
async fn a_run_without_id_gets_one() {
    let server = example().await;
    let client = server.client().await;
    let request = PublishRequest { run_id: None, ..opening("") };
    let publisher = client.publish(request).await.unwrap();
    assert_eq!(publisher.run_id(), &run_id("published-1"));
}

#[tokio::test]
async fn a_full_window_holds_the_publisher_back() {
    let gate = Arc::new(Semaphore::new(0));
    let mut service = MemoryService::with_examples();
    service.gate = Some(Arc::clone(&gate));
    let limits = Limits { window_payloads: 4, ..Limits::default() };
    let server = Running::serve(service, Config { limits, ..Config::default() }).await;
    let mut publisher = server.client().await.publish(opening("run")).await.unwrap();
    assert_eq!(publisher.window(), 4);
    for _ in 0..4 {
        publisher.send("x").await.unwrap();
    }
    until("the service has one in its hands", || server.counters.total(Total::Payloads) == 1).await;
    {
        let mut fifth = Box::pin(publisher.send("y"));
        for _ in 0..100 {
            assert!(fifth.as_mut().now_or_never().is_none(), "the window is full");
            tokio::task::yield_now().await;
        }
        gate.add_permits(1);
        assert_eq!(fifth.await.unwrap(), 5);
    }
    assert!(publisher.acknowledged() >= 1);
    gate.add_permits(100);
    assert_eq!(publisher.finish().await.unwrap(), 5);
}

#[tokio::test]
async fn acknowledgements_of_payloads_that_came_together_come_together() {
    let server = example().await;
    let mut requests = vec![open_request("run")];
    requests.extend((1..=50).map(|number| payload(number, "x")));
    requests.push(proto::PublishRequest { request: Some(Request::Finish(proto::PublishFinish {})) });
    let mut client = AgentStreamClient::new(server.channel().await);
    let mut answers = client.publish(stream::iter(requests)).await.unwrap().into_inner();
    let mut acknowledged = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        match answer.response.unwrap() {
            Response::Opened(opened) => assert_eq!(opened.acknowledged, 0),
            Response::Acknowledged(safe) => acknowledged.push(safe.number),
            Response::Finished(finished) => assert_eq!(finished.acknowledged, 50),
            Response::Reply(reply) => panic!("{reply:?}"),
        }
    }
    assert!(acknowledged.is_sorted() && acknowledged.len() < 50, "{acknowledged:?}");
}

#[tokio::test]
async fn after_a_cut_nothing_is_lost_and_nothing_comes_twice() {
    let gate = Arc::new(Semaphore::new(0));
    let mut service = MemoryService::with_examples();
    service.gate = Some(Arc::clone(&gate));
    let server = Running::serve(service, Config::default()).await;
    let proxy = Proxy::start(server.address).await;
    let shaky = Client::connect(&proxy.url(), ClientConfig::default()).await.unwrap();
    let mut first = shaky.publish(opening("run")).await.unwrap();
    for number in 1..=9 {
        first.send(number.to_string()).await.unwrap();
    }
    gate.add_permits(3);
    until("the fourth is in the service's hands", || server.counters.total(Total::Payloads) == 4).await;
    proxy.cut();
    until("the service sees the cut", || server.counters.gauge(Gauge::Publishers) == 0).await;
    assert_cut(&first.flush().await.unwrap_err(), Code::Unknown);
    gate.add_permits(100);
    let client = server.client().await;
    let mut second = client.publish(opening("run")).await.unwrap();
    assert_eq!(second.acknowledged(), 3);
    second.resume(first).await.unwrap();
    assert_eq!(second.send("10").await.unwrap(), 10);
    assert_eq!(second.finish().await.unwrap(), 10);
    assert_eq!(said(&client, "run").await, "12345678910");
}

#[tokio::test]
async fn replies_of_humans_reach_the_publisher() {
    let server = example().await;
    let client = server.client().await;
    let mut publisher = client.publish(opening("run")).await.unwrap();
    publisher.send("ask:q1").await.unwrap();
    publisher.flush().await.unwrap();
    let mut input = prompt("other");
    let reply = InterruptReply { id: "q1".into(), resolved: true, payload: Some(json!({"name": "Ada"})) };
    input.resume.push(reply.clone());
    drop(client.run("echo", &input).await.unwrap());
    assert_eq!(publisher.reply().await.unwrap(), reply);
    publisher.send("thanks").await.unwrap();
    assert_eq!(publisher.finish().await.unwrap(), 2);
}

#[tokio::test]
async fn refusals_reach_the_publisher() {
    let server = example().await;
    let request = PublishRequest { format: "unheard".into(), ..opening("run") };
    let error = server.client().await.publish(request).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused(refusal) if refusal.kind == RefusalKind::Unsupported),
        "{error:?}"
    );
    let status = publish_raw(&server, vec![open_request("run"), payload(2, "x")]).await;
    assert_eq!((status.code(), reason(&status).as_deref()), (Code::FailedPrecondition, Some("CONFLICT")));
    server.is_empty().await;
}

#[tokio::test]
async fn requests_out_of_place_are_refused() {
    let server = example().await;
    let nothing = proto::PublishRequest { request: None };
    let table = [
        (vec![], Code::InvalidArgument, "MALFORMED"),
        (vec![payload(1, "x")], Code::InvalidArgument, "MALFORMED"),
        (vec![nothing.clone()], Code::InvalidArgument, "MALFORMED"),
        (vec![open_request("a"), open_request("b")], Code::InvalidArgument, "MALFORMED"),
        (vec![open_request("c"), nothing], Code::InvalidArgument, "MALFORMED"),
        (vec![open_request("d"), payload(1, "x"), open_request("d")], Code::InvalidArgument, "MALFORMED"),
        (vec![open_request("e")], Code::Aborted, "CUT"),
        (vec![open_request("f"), payload(1, "x")], Code::Aborted, "CUT"),
    ];
    for (requests, code, word) in table {
        let status = publish_raw(&server, requests.clone()).await;
        assert_eq!((status.code(), reason(&status).as_deref()), (code, Some(word)), "{requests:?}");
    }
    server.is_empty().await;
}

#[tokio::test]
async fn a_deadline_ends_a_publisher_whose_payload_is_not_accepted() {
    let mut service = MemoryService::with_examples();
    service.gate = Some(Arc::new(Semaphore::new(0)));
    let server = Running::serve(service, Config::default()).await;
    let mut client = AgentStreamClient::new(server.channel().await);
    let requests = stream::iter([open_request("run"), payload(1, "x")]).chain(stream::pending());
    let mut request = tonic::Request::new(requests);
    request.set_timeout(Duration::from_millis(100));
    let mut answers = client.publish(request).await.unwrap().into_inner();
    assert!(matches!(answers.message().await.unwrap().unwrap().response, Some(Response::Opened(_))));
    let status = answers.message().await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_deref()), (Code::DeadlineExceeded, Some("DEADLINE")));
    until("the publisher is gone", || server.counters.gauge(Gauge::Publishers) == 0).await;
}

#[tokio::test]
async fn a_publisher_that_rests_gets_signs_of_life() {
    let timeouts = Timeouts { heartbeat: Some(Duration::from_millis(20)), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    let mut client = AgentStreamClient::new(server.channel().await);
    let requests = stream::iter([open_request("run"), payload(1, "x")]).chain(stream::pending());
    let mut answers = client.publish(requests).await.unwrap().into_inner();
    answers.message().await.unwrap();
    for _ in 0..3 {
        let answer = answers.message().await.unwrap().unwrap().response.unwrap();
        assert_eq!(answer, Response::Acknowledged(proto::PublishAcknowledged { number: 1 }));
    }
}

#[tokio::test]
async fn a_stopping_server_tells_its_publishers() {
    let drain = Duration::from_millis(50);
    let mut config = ServerConfig::http2_only();
    config.timeouts.drain = drain;
    let server = Running::serve(MemoryService::with_examples(), config).await;
    let mut publisher = server.client().await.publish(opening("run")).await.unwrap();
    publisher.send("x").await.unwrap();
    publisher.flush().await.unwrap();
    server.stop.cancel();
    assert_cut(&publisher.reply().await.unwrap_err(), Code::Unavailable);
    drop(publisher);
    assert_eq!(server.task.await.unwrap().cut, 0);
}

fn open_request(run: &'static str) -> proto::PublishRequest {
    let open = proto::PublishOpen {
        agent: Bytes::from_static(b"framework"),
        run_id: Some(Bytes::from_static(run.as_bytes())),
        format: Bytes::from_static(b"text"),
        thread_id: None,
    };
    proto::PublishRequest { request: Some(Request::Open(open)) }
}

fn payload(number: u64, data: &'static str) -> proto::PublishRequest {
    let payload = proto::PublishPayload { number, data: Bytes::from_static(data.as_bytes()) };
    proto::PublishRequest { request: Some(Request::Payload(payload)) }
}

/// The status that requests end in.
async fn publish_raw(server: &Running, requests: Vec<proto::PublishRequest>) -> tonic::Status {
    let mut client = AgentStreamClient::new(server.channel().await);
    match client.publish(stream::iter(requests)).await {
        Err(status) => status,
        Ok(answers) => {
            let mut answers = answers.into_inner();
            loop {
                match answers.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it ended well"),
                    Err(status) => break status,
                }
            }
        }
    }
}
