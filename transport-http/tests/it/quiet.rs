//! Streams that go quiet are taken from the HTTP library and written without it. Nobody may notice: not the reader of
//! the stream, not the next request of the connection. These tests also watch over what that assumes of the library.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_core::service::{Caller, NumberedEvent, RunService};
use aqueduct_transport_http::{
    Client, ClientConfig, Gauge, ServerConfig, StreamOptions, Timeouts, Total, stream_response,
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::support::{
    Feed, Running, ScriptedService, TextEncoder, delta, eventually, fed_service, finished, post, raw_post,
    read_to_close, read_until, ready, routes, script, soon,
};

async fn start(timeouts: Timeouts) -> (Running, tokio::sync::mpsc::Receiver<Feed>) {
    let (service, runs) = fed_service();
    (Running::start(routes(&service), ServerConfig { timeouts, ..ServerConfig::default() }).await, runs)
}

fn client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

async fn taken(server: &Running, times: u64) {
    eventually("the stream is taken", || server.counters.total(Total::Handoffs) == times).await;
}

#[tokio::test]
async fn a_stream_goes_on_after_it_was_quiet_and_so_does_the_connection() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let client = client();
    for round in 1..=3 {
        let mut stream = client.open_stream(post(&server.uri("/"), "x")).await.unwrap();
        let run = runs.recv().await.unwrap();
        run.say("first");
        assert_eq!(&*stream.next().await.unwrap().unwrap().data, "first");
        taken(&server, round).await;
        for text in ["second", "third\nwith lines", &"long ".repeat(10_000)] {
            run.say(text);
            assert_eq!(&*stream.next().await.unwrap().unwrap().data, text);
        }
        run.end();
        assert_eq!(&*stream.next().await.unwrap().unwrap().data, "end");
        assert!(stream.next().await.is_none(), "a proper end");
    }
    assert_eq!(server.counters.total(Total::Connections), 1);
    assert_eq!(server.counters.gauge(Gauge::Requests), 0);
}

#[tokio::test]
async fn a_stream_that_never_said_anything_is_taken_too() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let stream = client().open_stream(post(&server.uri("/"), "x")).await.unwrap();
    let run = runs.recv().await.unwrap();
    taken(&server, 1).await;
    run.say("late");
    run.end();
    let events: Vec<_> = stream.map_ok(|event| event.data).try_collect().await.unwrap();
    assert_eq!(events, ["late", "end"]);
}

#[tokio::test]
async fn a_peer_that_leaves_a_quiet_stream_is_noticed_at_once() {
    let (server, mut runs) = start(Timeouts::default()).await;
    for (times, how) in (1..).zip(["close", "half-close", "reset"]) {
        let mut socket = server.connect().await;
        socket.write_all(raw_post("x").as_bytes()).await.unwrap();
        let run = runs.recv().await.unwrap();
        taken(&server, times).await;
        match how {
            "half-close" => {
                socket.shutdown().await.unwrap();
                read_to_close(&mut socket).await;
            }
            "reset" => socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap(),
            _ => {}
        }
        drop(socket);
        eventually(how, || run.is_closed()).await;
        server.is_empty().await;
    }
}

#[tokio::test]
async fn a_request_sent_during_a_quiet_stream_is_answered_after_it() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let mut socket = server.connect().await;
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    let first = runs.recv().await.unwrap();
    first.say("one");
    read_until(&mut socket, "data: one\n\n").await;
    taken(&server, 1).await;
    let next = raw_post(&"y".repeat(500));
    let (head, tail) = next.split_at(20);
    socket.write_all(head.as_bytes()).await.unwrap();
    first.say("two");
    read_until(&mut socket, "data: two\n\n").await;
    socket.write_all(tail.as_bytes()).await.unwrap();
    first.end();
    let second = soon("the second run", runs.recv()).await.unwrap();
    second.say("three");
    let answer = read_until(&mut socket, "data: three\n\n").await;
    assert!(answer.contains("data: end\n\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"), "{answer}");
    second.end();
    read_until(&mut socket, "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_request_sent_together_with_the_first_is_not_lost() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let mut socket = server.connect().await;
    let both = [raw_post("x"), raw_post("y")].concat();
    socket.write_all(both.as_bytes()).await.unwrap();
    let first = runs.recv().await.unwrap();
    first.say("one");
    read_until(&mut socket, "data: one\n\n").await;
    assert_eq!(server.counters.total(Total::Handoffs), 0, "the library holds the second request");
    first.end();
    let second = soon("the second run", runs.recv()).await.unwrap();
    second.say("two");
    read_until(&mut socket, "data: two\n\n").await;
    taken(&server, 1).await;
}

#[tokio::test]
async fn a_request_cut_anywhere_does_not_confuse_what_follows() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let both = [raw_post("x"), raw_post("y")].concat();
    for at in 1..both.len() {
        let mut socket = server.connect().await;
        socket.set_nodelay(true).unwrap();
        socket.write_all(&both.as_bytes()[..at]).await.unwrap();
        tokio::task::yield_now().await;
        socket.write_all(&both.as_bytes()[at..]).await.unwrap();
        for text in ["one", "two"] {
            let run = soon("a run", runs.recv()).await.unwrap();
            run.say(text);
            read_until(&mut socket, &format!("data: {text}\n\n")).await;
            run.end();
            read_until(&mut socket, "0\r\n\r\n").await;
        }
    }
}

#[tokio::test]
async fn who_asked_to_close_is_closed() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let mut socket = server.connect().await;
    let request = raw_post("x").replace("Host: localhost\r\n", "Host: localhost\r\nConnection: x, Close\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let run = runs.recv().await.unwrap();
    taken(&server, 1).await;
    run.end();
    assert!(read_to_close(&mut socket).await.ends_with("data: end\n\n\r\n0\r\n\r\n"));
    server.is_empty().await;
}

#[tokio::test]
async fn http_1_0_has_no_chunks_and_stays_with_the_library() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let mut socket = server.connect().await;
    socket.write_all(raw_post("x").replace("HTTP/1.1", "HTTP/1.0").as_bytes()).await.unwrap();
    let run = runs.recv().await.unwrap();
    run.say("one");
    read_until(&mut socket, "data: one\n\n").await;
    run.end();
    assert_eq!(read_to_close(&mut socket).await, "data: end\n\n");
    assert_eq!(server.counters.total(Total::Handoffs), 0);
}

#[tokio::test]
async fn a_request_whose_body_nobody_read_stays_with_the_library() {
    let (service, mut runs) = fed_service();
    let events = service.clone();
    let careless = axum::routing::post(async move |_: axum::extract::Request| {
        let run = RunService::watch(&*events, &Caller::default(), &"run".into(), 0).await;
        let position = aqueduct_transport_http::EventPosition::start("run".into());
        stream_response(&position, run.unwrap(), Box::new(TextEncoder), &StreamOptions::default())
    });
    let server = Running::start(axum::Router::new().route("/", careless), ServerConfig::default()).await;
    let mut socket = server.connect().await;
    let request = raw_post(&"GET / HTTP/1.1 ".repeat(10));
    socket.write_all(&request.as_bytes()[..request.len() - 20]).await.unwrap();
    let run = runs.recv().await.unwrap();
    run.say("one");
    read_until(&mut socket, "data: one\n\n").await;
    assert_eq!(server.counters.total(Total::Handoffs), 0);
    run.end();
    read_to_close(&mut socket).await;
}

#[tokio::test]
async fn a_failure_of_a_quiet_stream_is_seen_as_a_cut() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let mut stream = client().open_stream(post(&server.uri("/"), "x")).await.unwrap();
    let run = runs.recv().await.unwrap();
    taken(&server, 1).await;
    run.say("one");
    drop(run);
    assert_eq!(&*stream.next().await.unwrap().unwrap().data, "one");
    assert!(stream.next().await.unwrap().is_err());
    server.is_empty().await;
}

#[tokio::test]
async fn a_quiet_stream_whose_reader_stalls_is_closed() {
    let (server, mut runs) =
        start(Timeouts { write_stall: Duration::from_millis(200), ..Timeouts::default() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut socket = socket.connect(server.addr).await.unwrap();
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    let run = runs.recv().await.unwrap();
    taken(&server, 1).await;
    for _ in 0..500 {
        run.say("x".repeat(1000));
    }
    eventually("the run is dropped", || run.is_closed()).await;
    assert_eq!(server.counters.total(Total::WriteStalls), 1);
    server.is_empty().await;
}

#[tokio::test]
async fn bursts_between_quiet_times_lose_nothing_for_a_slow_reader() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut socket = socket.connect(server.addr).await.unwrap();
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    let run = runs.recv().await.unwrap();
    let reader = tokio::spawn(async move {
        let mut answer = Vec::new();
        let mut buffer = [0; 1000];
        while !answer.ends_with(b"\r\n0\r\n\r\n") {
            tokio::task::yield_now().await;
            let count = socket.read(&mut buffer).await.unwrap();
            assert!(count > 0);
            answer.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(answer).unwrap()
    });
    for burst in 0..8 {
        for number in 0..100 {
            run.say(format!("{:01$}", burst * 100 + number, 1000));
        }
        tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await.ok();
    }
    run.end();
    let answer = soon("the reader", reader).await.unwrap();
    let numbers = answer.lines().filter_map(|line| line.strip_prefix("data: ")?.parse::<u64>().ok());
    assert!(numbers.eq(0..800));
}

/// A run says as much as the kernel and the library can hold between them, more or less, and then goes quiet before its
/// reader has read a byte: what the library still holds must not be left behind.
#[tokio::test]
async fn a_stream_is_not_taken_while_the_library_holds_bytes_of_it() {
    let go = tokio::sync::watch::Sender::new(false);
    let waiting = go.subscribe();
    let service = ScriptedService::new(move |text| {
        let mut go = waiting.clone();
        let count: u64 = text.parse().unwrap();
        let first = (1..=count).map(|number| event(number, delta(format!("{number:01000}"))));
        let last = futures_util::stream::once(async move {
            go.wait_for(|go| *go).await.unwrap();
            event(count + 1, finished())
        });
        Box::pin(futures_util::stream::iter(first).chain(last))
    });
    let server = Running::start(routes(&service), ServerConfig::default()).await;
    let mut sockets = Vec::new();
    for count in (20..200).step_by(4) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut socket = socket.connect(server.addr).await.unwrap();
        socket.write_all(raw_post(&count.to_string()).as_bytes()).await.unwrap();
        sockets.push((count, socket));
    }
    eventually("all runs", || service.open.load(Ordering::SeqCst) == sockets.len() as u64).await;
    let few = server.counters.total(Total::Handoffs);
    assert!(few < sockets.len() as u64, "some cannot be written yet");
    go.send_replace(true);
    for (count, mut socket) in sockets {
        let answer = read_until(&mut socket, "data: end\n\n").await;
        let numbers = answer.lines().filter_map(|line| line.strip_prefix("data: ")?.parse::<u64>().ok());
        assert!(numbers.eq(1..=count), "{count}");
    }
}

fn event(number: u64, event: aqueduct_core::BlockEvent) -> NumberedEvent {
    NumberedEvent { number, event }
}

#[tokio::test]
async fn a_shutdown_waits_for_a_quiet_stream_and_closes_after_it() {
    let (server, mut runs) = start(Timeouts::default()).await;
    let mut socket = server.connect().await;
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    let run = runs.recv().await.unwrap();
    taken(&server, 1).await;
    server.shutdown.cancel();
    run.say("one");
    read_until(&mut socket, "data: one\n\n").await;
    run.end();
    assert!(read_to_close(&mut socket).await.ends_with("0\r\n\r\n"));
    assert_eq!(soon("the end", server.ended).await.unwrap().cut, 0);
}

#[tokio::test]
async fn a_connection_is_closed_when_idle_after_a_quiet_stream() {
    let (server, mut runs) =
        start(Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() }).await;
    let mut socket = server.connect().await;
    socket.write_all(raw_post("x").as_bytes()).await.unwrap();
    let run = runs.recv().await.unwrap();
    taken(&server, 1).await;
    run.end();
    assert!(read_to_close(&mut socket).await.ends_with("0\r\n\r\n"));
    assert_eq!(server.counters.total(Total::IdleTimeouts), 1);
}

#[tokio::test]
async fn a_stream_that_is_never_quiet_is_never_taken() {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    let server = Running::start(routes(&service), ServerConfig::default()).await;
    let events: Vec<_> =
        client().open_stream(post(&server.uri("/"), "x")).await.unwrap().try_collect().await.unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(server.counters.total(Total::Handoffs), 0);
    assert_eq!(service.open.load(Ordering::SeqCst), 0);
}
