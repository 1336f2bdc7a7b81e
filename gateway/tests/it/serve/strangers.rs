//! The cost of callers without a token and of hostile agents: little memory, and no effect on other callers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aqueduct_core::CancelToken;
use aqueduct_transport_http::{Client, ClientConfig};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use self::h2_peer::{H2Peer, frame, post, streams};
use super::quotas::{closed, upgraded};
use super::support::{Upstream, input, payloads, serve, sse};
use crate::operation::Process;
use crate::program::root;

#[path = "../../../../transport-http/tests/it/h2_peer.rs"]
#[allow(dead_code, reason = "the tests of the transports use more of it")]
mod h2_peer;

/// What strangers may add to the memory of the process.
const GROWTH_KIB: u64 = 8 * 1024;

/// Nothing here takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_mins(2);

const ANN: &str = "ann-token-0123456789";

/// The memory of a process that is in use, in KiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Reads and discards what the server sends, so that the server never waits.
async fn reading(mut socket: tokio::net::tcp::OwnedReadHalf) {
    while socket.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
}

/// Five connections of HTTP/2 with a hundred bodies each that never end, again and again, until the end of the load.
async fn bodies_over_http2(address: SocketAddr, path: &'static str, kind: &'static str, end: CancelToken) {
    let (read, mut write) = H2Peer::connect(address).await.0.into_split();
    let mut reader = JoinSet::new();
    reader.spawn(reading(read));
    let mut ids = streams();
    let flood = async {
        loop {
            for id in ids.by_ref().take(100) {
                let body = frame(h2_peer::DATA, 0, id, &[b' '; 10_000]);
                if write.write_all(&[post(id, path, kind), body].concat()).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! { () = flood => {}, () = end.cancelled() => {} }
    end.cancelled().await;
    drop(write);
}

/// A body over HTTP/1.1 of which a byte comes now and then.
async fn body_over_http1(address: SocketAddr, path: &'static str, end: CancelToken) {
    let socket = TcpStream::connect(address).await.unwrap();
    let (read, mut write) = socket.into_split();
    let mut reader = JoinSet::new();
    reader.spawn(reading(read));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1048576\r\n\r\n"
    );
    write.write_all(head.as_bytes()).await.ok();
    write.write_all(&vec![b' '; 64 * 1024]).await.ok();
    let trickle = async {
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! { () = trickle => {}, () = end.cancelled() => {} }
    end.cancelled().await;
}

/// A socket that brings no token, or one that proves nothing, and as much of a message as it can: how it is closed.
async fn socket(address: SocketAddr, token: Option<&'static str>) -> u16 {
    let mut socket = upgraded(address, token).await;
    // A text of 1,000,000 bytes is announced.
    let head = [&[0x81, 0xff][..], &1_000_000_u64.to_be_bytes(), &[0; 4]].concat();
    socket.write_all(&head).await.ok();
    if token.is_none() {
        socket.write_all(&[b' '; 8 * 1024]).await.ok();
    } else {
        socket.write_all(&vec![b' '; 64 * 1024]).await.ok();
    }
    tokio::time::timeout(PATIENCE, closed(&mut socket)).await.expect("closed after its deadline").0
}

/// Slow bodies over both versions of HTTP and sockets without a token: memory stays, others are served, sockets go away.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn strangers_cost_little_and_nobody_else_anything() {
    let script = "[[step]]\ntext = \"hello\"\n";
    let toml = "inspector.enabled = true\n[principals.ann]\ntoken = \"env:ANN\"\n[agents.a.script]\nfile = \"a.toml\"\n";
    let process =
        Process::serve("strangers", &[("aqueduct.toml", toml), ("a.toml", script)], &[("ANN", ANN)]);
    let address: SocketAddr = process.root().trim_start_matches("http://").parse().unwrap();
    let client = Client::new(ClientConfig::default()).unwrap();
    let served = AtomicBool::new(false);
    let run = async |number: usize| {
        let mut request = process.ask("a", &input(&format!("r{number}"), Some("1.0")));
        request.headers_mut().insert("authorization", format!("Bearer {ANN}").parse().unwrap());
        let answer = tokio::time::timeout(PATIENCE, client.request(request)).await.expect("served").unwrap();
        assert!(String::from_utf8_lossy(answer.body()).contains("RUN_FINISHED"));
        served.store(true, Ordering::Relaxed);
    };
    for number in 0..50 {
        run(number).await;
    }
    let before = resident(process.id());
    served.store(false, Ordering::Relaxed);

    let end = CancelToken::new();
    let mut load = JoinSet::new();
    for (path, kind) in [
        ("/agents/a", "application/json"),
        ("/a2a/a", "application/json"),
        ("/aqueduct.v1.AgentStream/Run", "application/grpc"),
        ("/lf.a2a.v1.A2AService/SendMessage", "application/grpc"),
        ("/inspector/convert", "application/json"),
    ] {
        load.spawn(bodies_over_http2(address, path, kind, end.clone()));
    }
    for number in 0..20 {
        let path = ["/agents/a", "/a2a/a", "/runs/r1/cancel", "/inspector/verify"][number % 4];
        load.spawn(body_over_http1(address, path, end.clone()));
    }
    let mut sockets = JoinSet::new();
    for number in 0..64 {
        sockets.spawn(socket(address, (number % 4 == 0).then_some("made-up-token-0123456789")));
    }
    let (mut peak, mut number, mut codes) = (before, 50, Vec::new());
    // At a pace: the log keeps every run, so thousands of them would be most of what is measured.
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    while !sockets.is_empty() {
        pace.tick().await;
        run(number).await;
        number += 1;
        peak = peak.max(resident(process.id()));
        while let Some(code) = sockets.try_join_next() {
            codes.push(code.unwrap());
        }
    }
    assert_eq!(codes.len(), 64);
    assert!(codes.iter().all(|code| *code == 4401), "each was told that it lacks a token: {codes:?}");
    assert!(served.load(Ordering::Relaxed), "others were served meanwhile");
    let growth = peak.saturating_sub(before);
    assert!(growth <= GROWTH_KIB, "{growth} KiB more than {before} KiB");
    end.cancel();
    while load.join_next().await.is_some() {}
    // The gateway notices the end of a connection after its client does. The test runner ends a test that waits for ever.
    let mut metrics = String::new();
    while !["aqueduct_ws_connections_open 0\n", "aqueduct_bodies_in_flight_bytes 0\n"]
        .iter()
        .all(|line| metrics.contains(line))
    {
        let request = Request::get(format!("{}/metrics", process.root())).body(Bytes::new()).unwrap();
        metrics = String::from_utf8_lossy(client.request(request).await.unwrap().body()).into_owned();
    }
}

/// The events of an agent that answers every run with one patch of its state.
fn bomb(patch: &Value) -> Vec<u8> {
    let events = [
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "s": {}, "t": {} } }),
        json!({ "type": "STATE_DELTA", "delta": patch }),
        json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" }),
    ];
    let lines: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    sse(&lines.concat())
}

/// An agent's JSON Patch that doubles or nests its state without end fails its run by name; the thread can be read again,
/// and other runs notice nothing.
#[tokio::test]
async fn a_patch_that_passes_a_limit_ends_one_run() {
    let doubling: Vec<Value> =
        (0..40).map(|n| json!({ "op": "copy", "from": "", "path": format!("/{n}") })).collect();
    assert!(json!(doubling).to_string().len() < 2_000, "a small patch");
    let deeper = [
        json!({ "op": "move", "from": "/s", "path": "/t/s" }),
        json!({ "op": "move", "from": "/t", "path": "/s" }),
        json!({ "op": "add", "path": "/t", "value": {} }),
    ];
    let deep: Vec<Value> = std::iter::repeat_n(deeper, 1_000).flatten().collect();
    for (patch, limit) in [(doubling, "`nodes`"), (deep, "`depth`")] {
        let said = Arc::new(bomb(&json!(patch)));
        let upstream = Upstream::saying((*said).clone()).await;
        let toml = format!(
            "[agents.bad]\nagui.url = \"{}\"\n[agents.good]\nscript.file = \"{}/scripts/demo-thinking.toml\"\n",
            upstream.url,
            root().display()
        );
        let served = serve(&toml, &[]).await;
        let answer = served.send(served.post("/agents/bad", &input("r", Some("1.0")))).await;
        let events = payloads(&String::from_utf8_lossy(answer.body()));
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("state_limit")), "{last}");
        assert!(last["message"].as_str().unwrap().contains(limit), "{last}");
        assert!(!events.iter().any(|event| event["type"] == "STATE_DELTA"), "no watcher sees the patch");
        let thread = served.get("/threads/t").await;
        assert_eq!(thread.status(), 200, "{}", String::from_utf8_lossy(thread.body()));
        served.run("good", "other").await;
    }
}
