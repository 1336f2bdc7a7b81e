//! Our own baselines: a proxy that copies bytes, and a minimal bridge for speed alone. The bridge parses frames with borrowed
//! strings and writes one kind of event; it has no model, no log, no limits and no error handling.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::post;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run_proxy(agent: &str) {
    let agent: SocketAddr = agent.parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut agent = TcpStream::connect(agent).await?;
            agent.set_nodelay(true)?;
            client.set_nodelay(true)?;
            tokio::io::copy_bidirectional(&mut client, &mut agent).await
        });
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(agent: &str) {
    let agent: SocketAddr = agent.parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/{mode}", post(carry)).with_state(agent);
    axum::serve(
        axum::serve::ListenerExt::tap_io(listener, |socket| socket.set_nodelay(true).unwrap()),
        routes,
    )
    .await
    .unwrap();
}

async fn carry(
    State(agent): State<SocketAddr>,
    Path(mode): Path<String>,
    _: Bytes,
) -> axum::response::Response {
    let mut agent = TcpStream::connect(agent).await.unwrap();
    agent.set_nodelay(true).unwrap();
    agent.write_all(&crate::relays::a2a_request(&format!("/{mode}"))).await.unwrap();
    let mut read = BytesMut::with_capacity(64 * 1024);
    let head_ends = loop {
        agent.read_buf(&mut read).await.unwrap();
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    read.advance(head_ends);
    let events = stream::unfold((agent, read), |(mut agent, mut read)| async move {
        loop {
            let mut out = Vec::with_capacity(read.len());
            translate(&mut read, &mut out);
            if !out.is_empty() {
                return Some((Ok::<_, std::io::Error>(Bytes::from(out)), (agent, read)));
            }
            read.reserve(64 * 1024);
            if agent.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
        }
    });
    axum::response::Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(events))
        .unwrap()
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    result: Update<'a>,
}

#[derive(Deserialize)]
struct Update<'a> {
    #[serde(borrow)]
    artifact: Option<Content<'a>>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
    /// Of a bare message.
    #[serde(borrow, default)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    message: Option<Content<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    text: &'a str,
}

/// Translates all complete frames of the buffer.
fn translate(read: &mut BytesMut, out: &mut Vec<u8>) {
    let mut done = 0;
    while let Some(length) = read[done..].windows(2).position(|pair| pair == b"\n\n") {
        let frame = std::str::from_utf8(&read[done + "data: ".len()..done + length]).unwrap();
        done += length + 2;
        let frame: Frame<'_> = serde_json::from_str(frame).unwrap();
        let Update { artifact, status, parts } = frame.result;
        let contents = artifact.into_iter().chain(status.and_then(|status| status.message));
        for part in contents.flat_map(|content| content.parts).chain(parts) {
            out.extend_from_slice(
                br#"data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"message-1","delta":"#,
            );
            serde_json::to_writer(&mut *out, part.text).unwrap();
            out.extend_from_slice(b"}\n\n");
        }
    }
    read.advance(done);
}
