//! Time: deadlines of callers, heartbeats, requests that never come.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::Update;
use aqueduct_transport_grpc::proto::agent_stream_client::AgentStreamClient;
use aqueduct_transport_grpc::proto::{StreamMessage, WatchRequest};
use aqueduct_transport_grpc::raw::BytesCodec;
use aqueduct_transport_grpc::{Config, Timeouts};
use bytes::Bytes;
use tonic::{Code, Request};

use crate::service::MemoryService;
use crate::support::{Running, example, prompt, reason, run_id, until};

fn watch_within(limit: Duration) -> Request<WatchRequest> {
    let mut request = Request::new(WatchRequest { run_id: Bytes::from_static(b"run"), after: 0 });
    request.set_timeout(limit);
    request
}

#[tokio::test]
async fn a_silent_stream_ends_at_the_callers_deadline() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, Config::default()).await;
    let stream = server.client().await.run("wait", &prompt("run")).await.unwrap();
    drop(stream);
    let run = service.run(&run_id("run")).unwrap();
    until("nobody watches", || run.watchers() == 0).await;
    let mut client = AgentStreamClient::new(server.channel().await);
    let mut messages = client.watch(watch_within(Duration::from_millis(100))).await.unwrap().into_inner();
    assert_eq!(messages.message().await.unwrap().unwrap().events.len(), 3);
    let status = messages.message().await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_deref()), (Code::DeadlineExceeded, Some("DEADLINE")));
    until("the service knows", || run.watchers() == 0).await;
}

#[tokio::test]
async fn a_stream_that_is_never_silent_ends_there_too() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, Config::default()).await;
    drop(server.client().await.run("wait", &prompt("run")).await.unwrap());
    let run = service.run(&run_id("run")).unwrap();
    let talker = Arc::clone(&run);
    let talking = tokio::spawn(async move {
        loop {
            talker.say(Update::text("x"));
            tokio::task::yield_now().await;
        }
    });
    let mut client = AgentStreamClient::new(server.channel().await);
    let mut messages = client.watch(watch_within(Duration::from_millis(100))).await.unwrap().into_inner();
    let status = loop {
        match messages.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    talking.abort();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_silent_stream_shows_signs_of_life() {
    let timeouts = Timeouts { heartbeat: Some(Duration::from_millis(20)), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    drop(server.client().await.run("wait", &prompt("run")).await.unwrap());
    let mut client = AgentStreamClient::new(server.channel().await);
    let request = WatchRequest { run_id: Bytes::from_static(b"run"), after: 3 };
    let mut messages = client.watch(request).await.unwrap().into_inner();
    let first = messages.message().await.unwrap().unwrap();
    assert_eq!(first, StreamMessage { run_id: Some(Bytes::from_static(b"run")), ..Default::default() });
    for _ in 0..3 {
        assert_eq!(messages.message().await.unwrap().unwrap(), StreamMessage::default());
    }
}

#[tokio::test]
async fn a_request_that_does_not_come_is_given_up() {
    let timeouts = Timeouts { request: Duration::from_millis(50), ..Timeouts::default() };
    let config = Config { timeouts, ..Config::default() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    for path in ["/aqueduct.v1.AgentStream/Run", "/aqueduct.v1.AgentStream/Publish"] {
        let mut client = tonic::client::Grpc::new(server.channel().await);
        client.ready().await.unwrap();
        let silence = Request::new(futures_util::stream::pending());
        let call = client.client_streaming(silence, path.parse().unwrap(), BytesCodec);
        let status = call.await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path}: {status:?}");
    }
    server.is_empty().await;
}

#[tokio::test]
async fn a_deadline_far_away_changes_nothing() {
    let server = example().await;
    drop(server.client().await.run("echo", &prompt("run")).await.unwrap());
    let mut client = AgentStreamClient::new(server.channel().await);
    let request = watch_within(Duration::from_secs(99_999_999));
    let mut messages = client.watch(request).await.unwrap().into_inner();
    while let Some(message) = messages.message().await.unwrap() {
        assert!(!message.events.is_empty());
    }
}
