//! The measured servers. Each prints its address and serves until it is killed, on one thread, like node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_benches::pace::now;
use aqueduct_core::service::RunService;
use aqueduct_transport_grpc::Services;
use aqueduct_transport_http::{CancelToken, RunRequest, Server, ServerConfig, StreamOptions, run_endpoint};
use aqueduct_transport_ws::{Config, Endpoint};
use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::service::{BenchService, MESSAGE_BYTES, Prompts, Texts, message, prompt};

/// The interval of a paced source.
const PACE: Duration = Duration::from_millis(20);

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(role: &str, arguments: &[&str]) {
    let upstream = arguments.first().copied();
    match role {
        "http" => http(BenchService::new(upstream)).await,
        "ws" => ws(BenchService::new(upstream)).await,
        "grpc" => grpc(BenchService::new(upstream)).await,
        "raw" => accept(raw).await,
        "source" => accept(source).await,
        "proxy" => {
            let upstream: SocketAddr = upstream.unwrap().parse().unwrap();
            accept(move |socket| proxy(socket, upstream)).await;
        }
        other => panic!("no server {other}"),
    }
}

async fn http(service: Arc<dyn RunService>) {
    let parse = |_: &http::request::Parts, body: &bytes::Bytes| {
        let text = std::str::from_utf8(body).unwrap().trim_matches('"');
        Ok(RunRequest { input: prompt(text), encoder: Box::new(Texts) })
    };
    let routes = Router::new().route("/", run_endpoint(service, "bench", parse, StreamOptions::default()));
    serve(routes, ServerConfig::default()).await;
}

async fn ws(service: Arc<dyn RunService>) {
    serve(Endpoint::new(service, Arc::new(Prompts), Config::default()).router(), ServerConfig::default())
        .await;
}

async fn grpc(service: Arc<dyn RunService>) {
    let services = Services::new(service, aqueduct_transport_grpc::Config::default());
    serve(services.router().unwrap(), ServerConfig::http2_only()).await;
}

async fn serve(routes: Router, config: ServerConfig) {
    let server = Server::bind("127.0.0.1:0", config).await.unwrap();
    println!("{}", server.local_addr().unwrap());
    server.serve(routes, CancelToken::new()).await;
}

async fn accept<F>(serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        tokio::spawn(serve(socket));
    }
}

/// Writes prepared bytes: the cost of the system alone.
async fn raw(mut socket: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 64];
    let length = socket.read(&mut request).await?;
    let text = String::from_utf8_lossy(&request[..length]).into_owned();
    let mut numbers = text.split_whitespace().map(|number| number.parse::<usize>().unwrap());
    let (messages, batch) = (numbers.next().unwrap(), numbers.next().unwrap());
    let bytes = message().repeat(batch);
    for _ in 0..messages / batch {
        socket.write_all(bytes.as_bytes()).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Writes events with their send time, at a steady pace.
async fn source(mut socket: TcpStream) -> std::io::Result<()> {
    read_head(&mut socket).await?;
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    socket.write_all(head).await?;
    let mut ticks = tokio::time::interval(PACE);
    loop {
        ticks.tick().await;
        let event = format!("data: at:{:020}{}\n\n", now(), "p".repeat(MESSAGE_BYTES - 23));
        socket.write_all(event.as_bytes()).await?;
    }
}

async fn read_head(socket: &mut TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await?);
    }
    Ok(())
}

/// Copies bytes in both directions.
async fn proxy(mut socket: TcpStream, upstream: SocketAddr) -> std::io::Result<()> {
    let mut upstream = TcpStream::connect(upstream).await?;
    upstream.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut socket, &mut upstream).await.map(drop)
}
