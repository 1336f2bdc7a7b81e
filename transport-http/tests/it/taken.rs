//! Streams of the client that take their socket from the HTTP library once they are quiet: nothing is lost, doubled or held
//! by that, and the connection carries the next request.

use std::time::Duration;

use aqueduct_transport_http::{Client, ClientConfig, Error, SseStream};
use futures_util::{StreamExt as _, poll};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{post, soon};

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

/// A server that the test plays itself.
struct Played {
    listener: TcpListener,
    uri: String,
    client: Client,
}

impl Played {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        Self { listener, uri, client: Client::new(ClientConfig::default()).unwrap() }
    }

    /// A stream with its server's end, over a connection that is new or given.
    async fn open(&self, on: Option<TcpStream>, head: &str) -> (SseStream, TcpStream) {
        let serve = async {
            let mut socket = match on {
                Some(socket) => socket,
                None => self.listener.accept().await.unwrap().0,
            };
            socket.set_nodelay(true).unwrap();
            let mut request = vec![0; 4096];
            assert!(socket.read(&mut request).await.unwrap() > 0, "no request came");
            socket.write_all(head.as_bytes()).await.unwrap();
            socket
        };
        let both = Box::pin(async { tokio::join!(self.client.open_stream(post(&self.uri, "x")), serve) });
        let (stream, socket) = soon("a stream", both).await;
        (stream.unwrap(), socket)
    }
}

async fn text(stream: &mut SseStream) -> String {
    soon("an event", stream.next()).await.unwrap().unwrap().data.to_string()
}

fn has_socket(stream: &SseStream) -> bool {
    format!("{stream:?}").contains("Own(")
}

/// Waits until a stream that is quiet has its socket.
async fn is_taken(stream: &mut SseStream) {
    let quiet = async {
        while !has_socket(stream) {
            assert!(poll!(stream.next()).is_pending(), "nothing was said");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("the socket", quiet).await;
}

#[tokio::test]
async fn a_quiet_stream_takes_its_socket_and_misses_nothing() {
    for (first, rest) in [
        // Cut in the middle of a chunk, of a size, and of the end.
        (
            format!("{CHUNKED}12\r\ndata: a\n\nda"),
            ["ta: b\n", "\n\r\n", "9;x\r\ndata: c\n\n\r\n0\r\n", "\r\n"],
        ),
        (
            format!("{CHUNKED}9\r\ndata: a\n\n\r"),
            ["\n9", "\r\ndata: b\n\n\r\n", "9\r\ndata: c\n\n\r\n", "0\r\n\r\n"],
        ),
        (
            format!("HTTP/1.1 103 Early Hints\r\n\r\n{CHUNKED}9\r\ndata: a\n\n"),
            ["\r\n12", "\r\ndata: b\n\ndata", ": c\n\n\r\n", "0\r\n\r\n"],
        ),
        (format!("{UNTIL_CLOSE}data: a\n\nda"), ["ta: b", "\n\n", "data: c\n", "\n"]),
    ] {
        let played = Played::start().await;
        let (mut stream, mut socket) = played.open(None, &first).await;
        assert_eq!(text(&mut stream).await, "a");
        is_taken(&mut stream).await;
        for piece in rest {
            socket.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(socket);
        assert_eq!([text(&mut stream).await, text(&mut stream).await], ["b", "c"], "{first}");
        assert!(soon("the end", stream.next()).await.is_none(), "{first}");
    }
}

#[tokio::test]
async fn its_connection_carries_the_next_request() {
    let played = Played::start().await;
    let mut on = None;
    for round in 0..3 {
        let (mut stream, mut socket) = played.open(on, &format!("{CHUNKED}9\r\ndata: a\n\n\r\n")).await;
        assert_eq!(text(&mut stream).await, "a");
        is_taken(&mut stream).await;
        socket.write_all(b"0\r\n\r\n").await.unwrap();
        assert!(soon("the end", stream.next()).await.is_none(), "{round}");
        on = Some(socket);
    }
    // Closed while it waits, which the runtime sees when it next has nothing to do: another one is made.
    drop(on);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (mut stream, _socket) = played.open(None, &format!("{CHUNKED}9\r\ndata: b\n\n\r\n")).await;
    assert_eq!(text(&mut stream).await, "b");
}

#[tokio::test]
async fn a_connection_that_is_to_close_or_said_more_carries_nothing_else() {
    let played = Played::start().await;
    let closes = CHUNKED.replace("Transfer", "Connection: close\r\nTransfer");
    for (head, end) in [(closes.as_str(), "0\r\n\r\n"), (CHUNKED, "0\r\n\r\nHTTP/1.1 200 OK\r\n")] {
        let (mut stream, mut socket) = played.open(None, &format!("{head}9\r\ndata: a\n\n\r\n")).await;
        assert_eq!(text(&mut stream).await, "a");
        is_taken(&mut stream).await;
        socket.write_all(end.as_bytes()).await.unwrap();
        assert!(soon("the end", stream.next()).await.is_none());
        assert_eq!(soon("the close", socket.read(&mut [0; 8])).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn a_cut_after_that_is_told() {
    let played = Played::start().await;
    for rest in ["", "9\r\ndata", "9\r\ndata: b\n\n\r\n", "nonsense"] {
        let (mut stream, mut socket) = played.open(None, &format!("{CHUNKED}9\r\ndata: a\n\n\r\n")).await;
        assert_eq!(text(&mut stream).await, "a");
        is_taken(&mut stream).await;
        socket.write_all(rest.as_bytes()).await.unwrap();
        drop(socket);
        let mut last = soon("an end", stream.next()).await.unwrap();
        if last.is_ok() {
            last = soon("an end", stream.next()).await.unwrap();
        }
        assert!(matches!(last, Err(Error::Cut { .. })), "{rest:?}: {last:?}");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn dropping_it_closes_the_connection() {
    let played = Played::start().await;
    let (mut stream, mut socket) = played.open(None, &format!("{CHUNKED}9\r\ndata: a\n\n\r\n")).await;
    assert_eq!(text(&mut stream).await, "a");
    is_taken(&mut stream).await;
    drop(stream);
    assert_eq!(soon("the close", socket.read(&mut [0; 8])).await.unwrap_or(0), 0);
}
