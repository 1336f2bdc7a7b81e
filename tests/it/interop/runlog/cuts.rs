//! Streams that are cut anywhere and resumed, from a log on Redis: the tests of `resume`, with this engine.

use std::sync::Arc;

use aqueduct_runlog::{LogLimits, RunLog};

use super::server::Server;
use crate::resume;

fn log(server: &Server) -> Arc<dyn RunLog> {
    Arc::new(server.log("cuts", LogLimits::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_sent_events() {
    let server = Server::start();
    println!("server-sent events from Redis: {} cuts", resume::sse::every_trace(log(&server)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websocket() {
    let server = Server::start();
    println!("WebSocket from Redis: {} cuts", resume::websocket::every_trace(log(&server)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc() {
    let server = Server::start();
    println!("gRPC from Redis: {} cuts", resume::grpc::every_trace(log(&server)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2a() {
    let server = Server::start();
    let cuts = resume::a2a::every_trace(log(&server), 2).await;
    println!("A2A from Redis: {cuts} cuts, in three bindings one after the other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live() {
    let server = Server::start();
    let cuts = resume::live::every_scenario(log(&server)).await;
    println!("runs on Redis that go on after the cut: {cuts} cuts on three surfaces");
}
