//! Gateways that receive SIGTERM: runs of A2A agents continue at another replica, or in the next process on the same
//! disk. Nothing is lost, repeated or cancelled, on any surface.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use aqueduct_core::RunId;
use aqueduct_tests::process::Program;
use aqueduct_transport_grpc::{Client as GrpcClient, ClientConfig};
use aqueduct_transport_ws::client::{Client as WsClient, ConnectOptions, Position};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::replicas::{
    Alive, Seen, Speech, check, host, on_disk, signal, spawn_clients, texts, upstream, whole,
    with_upstream_by_default,
};
use super::server::Server;

const SPEECH: Speech = Speech { words: 120, pace: Duration::from_millis(150) };
const AGENTS: &[&str] = &["task"];

/// How long a gateway may take to leave: the limit of Kubernetes is 30 s.
const LEAVES_WITHIN: Duration = Duration::from_secs(25);

fn get(host: &str, path: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(host)?;
    write!(socket, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut response = String::new();
    socket.read_to_string(&mut response)?;
    Ok(response)
}

fn start(host: &str, run: &str) -> std::io::Result<String> {
    let body = format!(
        "{{\"threadId\":\"{run}\",\"runId\":\"{run}\",\"state\":{{}},\"tools\":[],\"context\":[],\"messages\":[]}}"
    );
    let mut socket = TcpStream::connect(host)?;
    let length = body.len();
    write!(
        socket,
        "POST /agents/task HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    socket.read_to_string(&mut response)?;
    Ok(response)
}

/// Sends SIGTERM to a gateway, and waits for its end. Meanwhile the readiness probe must fail.
fn leave(gateway: &mut Program) -> Duration {
    let (begun, at) = (Instant::now(), host(gateway));
    signal(gateway, "-TERM");
    let mut unready = get(&at, "/readyz").unwrap();
    while !unready.starts_with("HTTP/1.0 503") && begun.elapsed() < Duration::from_secs(1) {
        unready = get(&at, "/readyz").unwrap();
    }
    assert!(unready.starts_with("HTTP/1.0 503"), "not ready at once: {unready}");
    assert!(get(&at, "/healthz").unwrap().starts_with("HTTP/1.0 200"), "still there");
    let refused = start(&at, &format!("refused-{}", gateway.id())).unwrap();
    assert!(
        refused.starts_with("HTTP/1.0 503") && refused.to_lowercase().contains("retry-after"),
        "{refused}"
    );
    assert!(gateway.ends_within(LEAVES_WITHIN), "it does not end");
    begun.elapsed()
}

fn finished(run: &str, seen: &Seen) {
    let end = seen.events.last().unwrap();
    assert_eq!(end["type"], "RUN_FINISHED", "{run}: {end}");
    assert!(texts(&seen.events).contains(&SPEECH.text()), "{run}: {:?}", texts(&seen.events));
}

/// On disk the next process takes the runs up where the last one left them. Replicas on Redis: `interop::scale`.
#[test]
fn the_next_process_on_the_same_disk_goes_on() {
    let (agent, _kept) = upstream(SPEECH);
    let folder = on_disk(SPEECH, &agent);
    let alive = Alive::default();
    let mut first = alive.start(folder.path());
    let clients = spawn_clients(10, AGENTS, &alive, "kept");
    alive.wait_for_words(10);
    alive.forget(&first);
    leave(&mut first);
    let _second = alive.start(folder.path());
    for client in clients {
        let (run, seen) = client.join().unwrap();
        finished(&run, &seen);
        check(&run, &seen, &whole(&alive.any(0), &run));
        assert!(seen.connections > 0, "{run} did not notice");
    }
}

fn socket(gateway: &Program) -> ConnectOptions {
    ConnectOptions::new(format!("ws://{}/ws", host(gateway)))
}

async fn grpc(gateway: &Program) -> GrpcClient {
    GrpcClient::connect(&format!("http://{}", host(gateway)), ClientConfig::default()).await.unwrap()
}

/// Watchers by WebSocket and gRPC get an end that they can resume after, and find the rest at another replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_on_every_surface_move() {
    let server = Server::start();
    let (agent, _kept) = upstream(SPEECH);
    let folder = with_upstream_by_default(&server, SPEECH, &agent);
    let alive = Alive::default();
    let (mut old, new) = (alive.start(folder.path()), alive.start(folder.path()));
    alive.forget(&new);
    let mut client = spawn_clients(1, AGENTS, &alive, "moved");
    alive.wait_for_words(1);
    alive.add(&new);
    let run = RunId::from("moved-0");
    let (by_socket, by_grpc) = (WsClient::connect(&socket(&old)).await.unwrap(), grpc(&old).await);
    let mut socket_events = by_socket.watch(run.as_str(), Position::default().resume_after()).await.unwrap();
    let mut grpc_events = by_grpc.watch(&run, 0).await.unwrap();
    alive.forget(&old);
    let leaving = tokio::task::spawn_blocking(move || leave(&mut old));
    let (mut position, mut seen) = (Position::default(), Vec::new());
    let lost = loop {
        match socket_events.next().await.expect("an end without a reason") {
            Ok(event) => seen.extend(position.advance(&event).then_some(event)),
            Err(error) => break error,
        }
    };
    assert!(lost.can_retry(), "{lost}");
    let mut numbers = Vec::new();
    let cut = loop {
        match grpc_events.next().await.expect("an end without a reason") {
            Ok(event) => numbers.push(event.number),
            Err(error) => break error,
        }
    };
    assert!(cut.can_continue(), "{cut}");
    let by_socket = WsClient::connect(&socket(&new)).await.unwrap();
    let mut socket_events = by_socket.watch(run.as_str(), position.resume_after()).await.unwrap();
    while let Some(event) = socket_events.next().await {
        let event = event.unwrap();
        seen.extend(position.advance(&event).then_some(event));
    }
    let mut grpc_events = grpc(&new).await.watch(&run, *numbers.last().unwrap()).await.unwrap();
    while let Some(event) = grpc_events.next().await {
        numbers.push(event.unwrap().number);
    }
    let (run, sse) = client.remove(0).join().unwrap();
    finished(&run, &sse);
    let events: Vec<Value> = seen.iter().map(|event| serde_json::from_slice(&event.data).unwrap()).collect();
    assert!(texts(&events).contains(&SPEECH.text()), "WebSocket: {:?}", texts(&events));
    assert!(numbers.is_sorted() && numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    leaving.await.unwrap();
}

/// A log on disk that is full: watchers are sent away with a reason, and all goes on when there is room again.
#[test]
fn a_full_disk_is_told_and_survived() {
    let (agent, _kept) = upstream(SPEECH);
    let folder = on_disk(SPEECH, &agent);
    let alive = Alive::default();
    let gateway = alive.start_with_limits(folder.path());
    let clients = spawn_clients(5, AGENTS, &alive, "full");
    alive.wait_for_words(5);
    let limit = |size: &str| limit_files(&gateway, size);
    limit("0");
    let begun = Instant::now();
    let mut ready = String::from("HTTP/1.0 200");
    while ready.starts_with("HTTP/1.0 200") && begun.elapsed() < Duration::from_secs(5) {
        ready = get(&host(&gateway), "/readyz").unwrap();
    }
    assert!(ready.starts_with("HTTP/1.0 503") && ready.contains("the disk"), "{ready}");
    while !get(&host(&gateway), "/runs/full-0/events").unwrap().starts_with("HTTP/1.0 503") {
        assert!(begun.elapsed() < Duration::from_secs(15), "watchers are not told");
    }
    limit("unlimited");
    for client in clients {
        let (run, seen) = client.join().unwrap();
        finished(&run, &seen);
        check(&run, &seen, &whole(&alive.any(0), &run));
        assert!(seen.connections > 0, "{run} was not told");
    }
    assert!(get(&host(&gateway), "/readyz").unwrap().starts_with("HTTP/1.0 200"));
}

fn limit_files(gateway: &Program, size: &str) {
    let (id, limit) = (gateway.id().to_string(), format!("--fsize={size}:"));
    assert!(std::process::Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap().success());
}

/// Keys that vanish: every watcher gets an end within seconds, at whichever replica.
#[test]
fn a_log_that_was_flushed_ends_every_stream() {
    let server = Server::start();
    let (agent, _kept) = upstream(SPEECH);
    let folder = with_upstream_by_default(&server, SPEECH, &agent);
    let alive = Alive::default();
    let _gateways: Vec<Program> = (0..2).map(|_| alive.start(folder.path())).collect();
    let clients = spawn_clients(6, AGENTS, &alive, "flushed");
    alive.wait_for_words(6);
    let elsewhere = alive.any(1);
    let watcher = std::thread::spawn(move || get(&elsewhere, "/runs/flushed-0/events?protocolVersion=1.0"));
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    server.flush();
    for client in clients {
        let (run, seen) = client.join().unwrap();
        let end = seen.events.last().unwrap();
        assert_eq!(
            (end["type"].as_str(), end["code"].as_str()),
            (Some("RUN_ERROR"), Some("log_lost")),
            "{run}"
        );
    }
    assert!(watcher.join().unwrap().unwrap().contains("log_lost"));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let begun = spawn_clients(1, AGENTS, &alive, "after").remove(0).join().unwrap();
    finished("after", &begun.1);
}
