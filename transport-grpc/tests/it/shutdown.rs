//! Stopping: what runs may end, what does not end is told where to continue, and nothing is left.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_transport_grpc::{Client, ClientConfig, Config, Error};
use aqueduct_transport_http::{Drained, Gauge, ServerConfig, Timeouts};
use futures_util::StreamExt as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::service::MemoryService;
use crate::support::{Running, assert_cut, collect, prompt, run_id, until};

fn hasty() -> ServerConfig {
    let drain = Duration::from_millis(100);
    let timeouts = Timeouts { drain, close: drain, ..Timeouts::default() };
    ServerConfig { timeouts, ..ServerConfig::http2_only() }
}

#[tokio::test]
async fn an_idle_server_stops_at_once() {
    let server = Running::serve(MemoryService::with_examples(), Config::default()).await;
    let client = server.client().await;
    assert_eq!(client.list_agents().await.unwrap().len(), 3);
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap(), Drained { cut: 0 });
    let refused = Client::connect(&format!("http://{}", server.address), ClientConfig::default()).await;
    assert!(matches!(refused, Err(Error::Connect { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_run_that_ends_in_time_is_not_disturbed() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, Config::default()).await;
    let stream = server.client().await.run("wait", &prompt("run")).await.unwrap();
    let mut health = HealthClient::new(server.channel().await);
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1, "SERVING");
    server.stop.cancel();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 2, "NOT_SERVING");
    drop((watch, health));
    let run = service.run(&run_id("run")).unwrap();
    run.succeed();
    assert_eq!(collect(stream).await, run.events());
    assert_eq!(server.task.await.unwrap(), Drained { cut: 0 });
}

#[tokio::test]
async fn a_run_that_does_not_end_is_told_where_to_continue() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, hasty()).await;
    let mut stream = server.client().await.run("wait", &prompt("run")).await.unwrap();
    server.stop.cancel();
    for number in 1..=3 {
        assert_eq!(stream.next().await.unwrap().unwrap().number, number);
    }
    assert_cut(&stream.next().await.unwrap().unwrap_err(), tonic::Code::Unavailable);
    assert_eq!(server.task.await.unwrap(), Drained { cut: 0 });
    assert_eq!(service.run(&run_id("run")).unwrap().watchers(), 0);
    // Another server, the same runs.
    let next = Running::share(&service, Config::default()).await;
    let rest = next.client().await.watch(&run_id("run"), stream.last()).await.unwrap();
    service.run(&run_id("run")).unwrap().succeed();
    assert_eq!(collect(rest).await, service.run(&run_id("run")).unwrap().events()[3..]);
}

#[tokio::test]
async fn a_peer_that_does_not_leave_is_cut() {
    let server = Running::serve(MemoryService::with_examples(), hasty()).await;
    // A health watch has no end of its own.
    let mut health = HealthClient::new(server.channel().await);
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    watch.message().await.unwrap();
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap(), Drained { cut: 1 });
    assert_eq!(server.sockets.gauge(Gauge::Connections), 0);
}

#[tokio::test]
async fn a_server_that_is_dropped_takes_its_connections_along() {
    let service = Arc::new(MemoryService::with_examples());
    let server = Running::share(&service, Config::default()).await;
    let mut stream = server.client().await.run("wait", &prompt("run")).await.unwrap();
    server.task.abort();
    while let Some(event) = stream.next().await {
        if let Err(error) = event {
            assert!(error.can_continue(), "{error:?}");
        }
    }
    let run = service.run(&run_id("run")).unwrap();
    until("the service knows", || run.watchers() == 0).await;
    until("no connection is left", || server.sockets.gauge(Gauge::Connections) == 0).await;
}
