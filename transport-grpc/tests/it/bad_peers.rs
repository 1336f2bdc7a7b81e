//! Peers that do it wrong: each gets a clear answer or a closed connection, and nothing stays behind.

use std::time::Duration;

use aqueduct_transport_grpc::proto::agent_stream_client::AgentStreamClient;
use aqueduct_transport_grpc::{Client, ClientConfig, Error, proto};
use aqueduct_transport_http::{Gauge, ServerConfig, Timeouts, Total};
use bytes::Bytes;
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::h2_peer::PREFACE;
use crate::service::MemoryService;
use crate::support::{Proxy, Running, collect, example, prompt, raw_call, reason, until};

async fn assert_serves(server: &Running) {
    let client = server.client().await;
    assert_eq!(client.list_agents().await.unwrap().len(), 3);
    drop(client);
    server.is_empty().await;
}

/// Sends bytes, and reads until the server closes.
async fn talk(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    // The server may close before all is written.
    drop(socket.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(socket.read_to_end(&mut answer).await);
    answer
}

#[tokio::test]
async fn other_protocols_are_told_so_and_closed() {
    let server = example().await;
    let answer = talk(&server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 505 "), "{answer:?}");
    let answer = talk(&server, b"\x16\x03\x01\x02\x00").await;
    assert!(answer.starts_with(b"HTTP/1.1 505 "), "{answer:?}");
    let answer = talk(&server, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 505 "), "{answer:?}");
    assert_eq!(server.sockets.total(Total::HandshakeFailures), 3);
    assert_serves(&server).await;
}

#[tokio::test]
async fn silence_is_closed_in_time() {
    let timeouts = Timeouts { handshake: Duration::from_millis(50), ..Timeouts::default() };
    let config = ServerConfig { timeouts, ..ServerConfig::http2_only() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    assert_eq!(talk(&server, b"").await, b"");
    assert_eq!(talk(&server, &PREFACE[..23]).await, b"");
    assert_eq!(server.sockets.total(Total::HandshakeFailures), 2);
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_peer_that_stops_answering_pings_is_closed() {
    let timeouts =
        Timeouts { ping: Duration::from_millis(50), pong: Duration::from_millis(50), ..Timeouts::default() };
    let config = ServerConfig { timeouts, ..ServerConfig::http2_only() };
    let server = Running::serve(MemoryService::with_examples(), config).await;
    let settings = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    talk(&server, &settings).await;
    server.is_empty().await;
}

#[tokio::test]
async fn garbage_behind_the_preface_ends_the_connection() {
    let server = example().await;
    for garbage in
        [&b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\0\0\x04\x01\x05\0\0\0\x01\xff\xff\xff\xff"]
    {
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let answer = talk(&server, &[PREFACE, settings, garbage].concat()).await;
        assert!(!answer.is_empty(), "at least the server's settings and a GOAWAY");
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_call_cut_at_every_byte_leaves_nothing_behind() {
    let server = example().await;
    let proxy = Proxy::start(server.address).await;
    let client = Client::connect(&proxy.url(), ClientConfig::default()).await.unwrap();
    collect(client.run("echo", &prompt("run")).await.unwrap()).await;
    drop(client);
    let sent = proxy.sent.lock().unwrap().clone();
    assert!(sent.len() > 200 && sent.starts_with(PREFACE));
    for length in 0..=sent.len() {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(&sent[..length]).await.unwrap();
        if length % 2 == 0 {
            // Every other one leaves half open first.
            socket.shutdown().await.unwrap();
        }
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn methods_and_services_that_are_not_there_are_unimplemented() {
    let server = example().await;
    for path in ["/aqueduct.v1.AgentStream/Nothing", "/aqueduct.v1.Nothing/Run", "/"] {
        let status = raw_call(server.channel().await, path, b"").await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn bad_protobuf_is_malformed() {
    let server = example().await;
    let channel = server.channel().await;
    for method in ["Run", "Watch", "Cancel", "ListAgents", "Publish"] {
        let path: &'static str = Box::leak(format!("/aqueduct.v1.AgentStream/{method}").into_boxed_str());
        let status = raw_call(channel.clone(), path, b"\x0a\xff\xff\xff\xff\x0f").await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_deref()), (Code::InvalidArgument, Some("MALFORMED")));
    }
    drop(channel);
    assert_serves(&server).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn arbitrary_bytes_get_a_status(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
        runtime.block_on(async {
            let server = example().await;
            let answer = raw_call(server.channel().await, "/aqueduct.v1.AgentStream/Watch", bytes).await;
            // Nothing names a run that is there.
            let code = answer.unwrap_err().code();
            assert!(matches!(code, Code::InvalidArgument | Code::NotFound), "{code:?}");
            server.is_empty().await;
        });
    }
}

#[tokio::test]
async fn what_is_no_valid_input_is_refused_by_field() {
    let server = example().await;
    let mut client = AgentStreamClient::new(server.channel().await);
    let request = proto::RunRequest { agent: Bytes::from_static(b"echo"), input: None };
    let status = client.run(request).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "`input` is missing: set it"));
    let deep = Bytes::from("[".repeat(100_000));
    let input = proto::RunInput {
        thread_id: Bytes::from_static(b"t"),
        run_id: Bytes::from_static(b"r"),
        state_json: Some(deep),
        ..Default::default()
    };
    let request = proto::RunRequest { agent: Bytes::from_static(b"echo"), input: Some(input) };
    let status = client.run(request).await.unwrap_err();
    assert_eq!(reason(&status).as_deref(), Some("INVALID"));
    assert_eq!(status.message(), "`input.state_json` is nested deeper than 64 levels: flatten it");
}

#[tokio::test]
async fn messages_that_are_too_large_are_refused_before_they_are_read() {
    let server = example().await;
    let client = server.client().await;
    let mut input = prompt("run");
    input.state = json!("x".repeat(2 * 1024 * 1024));
    let error = client.run("echo", &input).await.unwrap_err();
    assert!(matches!(error, Error::Status { code: Code::OutOfRange, .. }), "{error:?}");
    let small = collect(client.run("echo", &prompt("small")).await.unwrap()).await;
    assert!(!small.is_empty(), "the connection goes on");
    drop(client);
    assert_serves(&server).await;
}

#[tokio::test]
async fn endless_metadata_is_refused() {
    let server = example().await;
    let mut client = AgentStreamClient::new(server.channel().await);
    let mut request = tonic::Request::new(proto::ListAgentsRequest {});
    request.metadata_mut().insert("x-bomb", "x".repeat(64 * 1024).parse().unwrap());
    let status = client.list_agents(request).await.unwrap_err();
    assert_ne!(status.code(), Code::Ok);
    drop(client);
    assert_serves(&server).await;
}

#[tokio::test]
async fn hundreds_of_calls_dropped_at_once_leave_nothing_behind() {
    let server = example().await;
    let client = server.client().await;
    for number in 0..300 {
        let input = prompt(&format!("run-{number}"));
        let mut call = Box::pin(client.run("wait", &input));
        // Some are dropped before they are sent, some before they are answered.
        for _ in 0..number % 7 {
            if futures_util::FutureExt::now_or_never(call.as_mut()).is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    until("all streams are closed", || server.counters.gauge(Gauge::Streams) == 0).await;
    drop(client);
    assert_serves(&server).await;
}
