//! The client against servers that answer with everything but what was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aqueduct_transport_http::sse::{DecodeError, DecodeLimits, Event};
use aqueduct_transport_http::{
    Client, ClientConfig, ClientLimits, ClientTimeouts, Error, Fault, ServerConfig, Total,
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Running, ScriptedService, eventually, post, ready, routes, script, soon};

/// A server that reads a request and writes `pieces`, one by one; then it closes, or keeps quiet.
async fn scripted(pieces: Vec<Vec<u8>>, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, pieces.clone(), closes));
        }
    });
    uri
}

async fn answer(mut socket: TcpStream, pieces: Vec<Vec<u8>>, closes: bool) {
    socket.set_nodelay(true).unwrap();
    let mut request = [0; 4096];
    let _ = socket.read(&mut request).await.unwrap();
    for piece in pieces {
        if socket.write_all(&piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    if !closes {
        std::future::pending::<()>().await;
    }
}

async fn one(text: impl AsRef<[u8]>) -> String {
    scripted(vec![text.as_ref().to_vec()], true).await
}

fn client() -> Client {
    Client::new(ClientConfig::default()).unwrap()
}

fn with_timeouts(timeouts: ClientTimeouts) -> Client {
    client().with_timeouts(timeouts)
}

async fn events(uri: &str) -> Result<Vec<Event>, Error> {
    client().open_stream(post(uri, "x")).await?.try_collect().await
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";

#[track_caller]
fn not_a_stream(result: Result<Vec<Event>, Error>) -> http::Response<bytes::Bytes> {
    match result {
        Err(Error::NotAStream(response)) => *response,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn answers_that_are_no_streams_come_back_whole() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", 200, "<html>"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"),
        ("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, ""),
        ("HTTP/1.1 500 Oops\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n", 500, "data: x\n\n"),
        ("HTTP/1.1 204 No Content\r\nContent-Type: text/event-stream\r\n\r\n", 204, ""),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"error\":{}}",
            200,
            "{\"error\":{}}",
        ),
    ];
    for (text, status, body) in cases {
        let response = not_a_stream(events(&one(text).await).await);
        assert_eq!((response.status().as_u16(), &response.body()[..]), (status, body.as_bytes()), "{text}");
    }
}

#[tokio::test]
async fn whose_fault_a_refusal_is() {
    for (status, fault) in [("400 Bad", Fault::Caller), ("500 Oops", Fault::Peer), ("302 Found", Fault::Peer)]
    {
        let uri = one(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).await;
        let error = events(&uri).await.unwrap_err();
        assert_eq!((error.fault(), error.can_continue()), (fault, false), "{error}");
    }
}

#[tokio::test]
async fn garbage_is_an_error() {
    for garbage in [
        "",
        "nonsense\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let error = events(&one(garbage).await).await.unwrap_err();
        assert!(matches!(error, Error::Request { .. } | Error::Cut { .. }), "{garbage:?}: {error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = events(&format!("http://user:secret@{closed}/path?token=secret")).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn a_stream_in_chunks_of_one_byte_is_read() {
    let text = ": ping\r\n\r\nid: 1\r\nevent: error\r\ndata: {\r\ndata: \u{1F980}}\r\n\r\ndata: last";
    let mut pieces = vec![format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n").into_bytes()];
    pieces.extend(text.bytes().map(|byte| [b"1\r\n", &[byte][..], b"\r\n"].concat()));
    pieces.push(b"0\r\n\r\n".to_vec());
    let events = events(&scripted(pieces, false).await).await.unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!((&*events[0].data, events[0].event.as_deref()), ("{\n\u{1F980}}", Some("error")));
    assert_eq!((&*events[1].data, events[1].terminated), ("last", false));
}

#[tokio::test]
async fn the_whole_response_byte_by_byte_is_read() {
    let text = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nb\r\ndata: abc\n\n\r\n0\r\n\r\n");
    let pieces = text.bytes().map(|byte| vec![byte]).collect();
    let events = events(&scripted(pieces, false).await).await.unwrap();
    assert_eq!(&*events[0].data, "abc");
}

#[tokio::test]
async fn a_cut_is_told_apart_from_an_end() {
    let whole = one(format!("{HEAD}\r\ndata: a\n\n")).await;
    assert_eq!(events(&whole).await.unwrap().len(), 1, "ended by closing, as HTTP/1.0 does");
    for framing in
        ["Transfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n", "Content-Length: 100\r\n\r\ndata: a\n\n"]
    {
        let uri = one(format!("{HEAD}{framing}")).await;
        let mut stream = client().open_stream(post(&uri, "x")).await.unwrap();
        assert_eq!(&*stream.next().await.unwrap().unwrap().data, "a");
        assert!(matches!(stream.next().await, Some(Err(Error::Cut { .. }))), "{framing}");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let short = Duration::from_millis(150);
    let never = scripted(vec![], false).await;
    let client = with_timeouts(ClientTimeouts { response: short, ..ClientTimeouts::default() });
    let error = client.open_stream(post(&never, "x")).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { timeout: "response", .. }), "{error}");

    let quiet = scripted(vec![format!("{HEAD}\r\ndata: a\n\nda").into_bytes()], false).await;
    let client = with_timeouts(ClientTimeouts { idle: short, ..ClientTimeouts::default() });
    let mut stream = client.open_stream(post(&quiet, "x")).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Timeout { timeout: "idle", .. }), "{error}");
    assert!(stream.next().await.is_none());

    let half = scripted(vec![b"HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\nabc".to_vec()], false).await;
    let client = with_timeouts(ClientTimeouts { body: short, ..ClientTimeouts::default() });
    let error = client.open_stream(post(&half, "x")).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { timeout: "body", .. }), "{error}");
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    let limits = ClientLimits {
        body_bytes: 1000,
        events: DecodeLimits { line: 1000, event: 1000 },
        ..ClientLimits::default()
    };
    let client = Client::new(ClientConfig { limits, ..ClientConfig::default() }).unwrap();
    let page = one(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{}", "x".repeat(5000))).await;
    let error = client.open_stream(post(&page, "x")).await.unwrap_err();
    assert!(matches!(error, Error::BodyTooLong { limit: 1000, .. }), "{error}");

    let pieces = std::iter::once(format!("{HEAD}\r\n").into_bytes()).chain((0..100).map(|_| vec![b'x'; 100]));
    let line = scripted(pieces.collect(), false).await;
    let mut stream = client.open_stream(post(&line, "x")).await.unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    let expected = DecodeError::LineTooLong { position: 0, limit: 1000 };
    assert!(matches!(error, Error::Events { source, .. } if source == expected));
    assert!(stream.next().await.is_none());

    let head = one(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1024 * 1024))).await;
    assert!(matches!(client.open_stream(post(&head, "x")).await, Err(Error::Request { .. })));
}

#[tokio::test]
async fn connections_are_reused() {
    let service = ScriptedService::new(|text| ready(script(&[text])));
    let server = Running::start(routes(&service), ServerConfig::default()).await;
    let client = client();
    for _ in 0..5 {
        let events: Vec<_> =
            client.open_stream(post(&server.uri("/"), "x")).await.unwrap().try_collect().await.unwrap();
        assert_eq!(events.len(), 2);
        let whole = client.request(post(&server.uri("/"), "y")).await.unwrap();
        assert_eq!((whole.status(), &whole.body()[..]), (StatusCode::OK, &b"data: y\n\ndata: end\n\n"[..]));
    }
    assert_eq!(server.counters.total(Total::Connections), 1);
}

#[tokio::test]
async fn dropping_a_request_or_a_stream_ends_it() {
    let closed = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let seen = Arc::clone(&closed);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let count = socket.read(&mut buffer).await.unwrap();
                if String::from_utf8_lossy(&buffer[..count]).contains("stream") {
                    socket.write_all(format!("{HEAD}\r\ndata: a\n\n").as_bytes()).await.unwrap();
                }
                while socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
                seen.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    let client = client();
    let waiting = client.open_stream(post(&uri, "never"));
    assert!(tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err());
    eventually("the request is gone", || closed.load(Ordering::SeqCst) == 1).await;

    let mut stream = soon("the stream", client.open_stream(post(&uri, "stream"))).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    eventually("the stream is gone", || closed.load(Ordering::SeqCst) == 2).await;
}

#[tokio::test]
async fn invalid_text_is_an_error_with_its_place() {
    let uri = one([format!("{HEAD}\r\ndata: a\n\ndata: ").as_bytes(), b"\xff\n\n"].concat()).await;
    let mut stream = client().open_stream(post(&uri, "x")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Events { source: DecodeError::InvalidUtf8 { position: 15 }, .. }),
        "{error}"
    );
}

/// For callers who have looked at an address: the name leads nowhere else.
#[tokio::test]
async fn a_pinned_client_connects_to_its_address_whatever_the_name_says() {
    let uri = one("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
    let named = uri.replace("127.0.0.1", "nowhere.invalid");
    assert!(client().request(post(&named, "x")).await.is_err(), "there is no such name");
    let pinned = ClientConfig { pinned: Some("127.0.0.1".parse().unwrap()), ..ClientConfig::default() };
    let answer = Client::new(pinned).unwrap().request(post(&named, "x")).await.unwrap();
    assert_eq!(answer.body().as_ref(), b"hi");
}
