//! The agent: serves A2A 0.3 over JSON-RPC, which every relay supports, and writes prepared frames according to the path.

use std::time::Duration;

use aqueduct_benches::pace::now;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Chunks of an unpaced stream.
pub(crate) const CHUNKS: u64 = 200_000;
/// The text of a chunk. Its mark `~` occurs nowhere else.
const WORDS: &str = "some twenty bytes ok~";
/// The same as a piece of an answer that comes in status texts: a space at its end says that more follows.
const FRAGMENT: &str = "some twenty bytes o~ ";
/// The same as a progress report.
const NOTICE: &str = "Reading twenty bytes~…";
/// The time between two chunks of a paced stream.
const PACE: Duration = Duration::from_millis(20);
/// The size of a write in a burst: about the capacity of a socket.
const BATCH: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        tokio::spawn(async move { serve(socket).await.ok() });
    }
}

async fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let (head, body) = read_request(&mut socket).await?;
    let path = head.split_whitespace().nth(1).unwrap().to_owned();
    let mode = path.split('/').nth(1).unwrap();
    if path.contains("well-known") {
        return answer_card(&mut socket, mode).await;
    }
    let call: Value = serde_json::from_slice(&body)?;
    let stream = Stream { id: call["id"].to_string() };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await?;
    let working =
        json!({"kind": "task", "id": "task-1", "contextId": "context-1", "status": {"state": "working"}});
    socket.write_all(stream.frame(&working.to_string()).as_bytes()).await?;
    match mode {
        "burst" => stream.burst(&mut socket).await?,
        "fragments" => stream.statuses(FRAGMENT, &mut socket).await?,
        "notices" => stream.statuses(NOTICE, &mut socket).await?,
        "paced" => return stream.paced(&mut socket).await,
        _ => return stream.idle(&mut socket).await,
    }
    let done = json!({
        "kind": "status-update", "taskId": "task-1", "contextId": "context-1",
        "status": {"state": "completed"}, "final": true,
    });
    socket.write_all(stream.frame(&done.to_string()).as_bytes()).await?;
    socket.shutdown().await
}

async fn answer_card(socket: &mut TcpStream, mode: &str) -> std::io::Result<()> {
    let url = format!("http://{}/{mode}", socket.local_addr()?);
    let card = json!({
        "name": "agent", "description": "an agent", "url": url, "version": "1", "protocolVersion": "0.3.0",
        "capabilities": {"streaming": true}, "skills": [],
        "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
    })
    .to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
    socket.write_all(format!("{head} {}\r\n\r\n{card}", card.len()).as_bytes()).await?;
    socket.shutdown().await
}

/// The answer to one request.
struct Stream {
    id: String,
}

impl Stream {
    fn frame(&self, result: &str) -> String {
        format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n\n", self.id)
    }

    fn chunk(&self, words: &str, append: bool) -> String {
        self.frame(&format!(
            r#"{{"kind":"artifact-update","taskId":"task-1","contextId":"context-1","artifact":{{"artifactId":"artifact-1","parts":[{{"kind":"text","text":"{words}"}}]}},"append":{append}}}"#
        ))
    }

    async fn burst(&self, socket: &mut TcpStream) -> std::io::Result<()> {
        socket.write_all(self.chunk(WORDS, false).as_bytes()).await?;
        let chunk = self.chunk(WORDS, true);
        let together = u64::try_from(BATCH / chunk.len()).unwrap();
        let batch = chunk.repeat(BATCH / chunk.len());
        let left = CHUNKS - 1;
        for _ in 0..left / together {
            socket.write_all(batch.as_bytes()).await?;
        }
        let rest = usize::try_from(left % together).unwrap();
        socket.write_all(chunk.repeat(rest).as_bytes()).await
    }

    /// A status text, as Strands sends it: with a message id of its own and a time.
    fn status(&self, words: &str, number: u64) -> String {
        self.frame(&format!(
            r#"{{"contextId":"context-1","final":false,"kind":"status-update","status":{{"message":{{"contextId":"context-1","kind":"message","messageId":"38be2194-678a-4ac5-8d9f-{number:012x}","parts":[{{"kind":"text","text":"{words}"}}],"role":"agent","taskId":"task-1"}},"state":"working","timestamp":"2026-11-17T04:08:12.214170+00:00"}},"taskId":"task-1"}}"#
        ))
    }

    async fn statuses(&self, words: &str, socket: &mut TcpStream) -> std::io::Result<()> {
        let mut batch = String::new();
        for number in 0..CHUNKS {
            batch.push_str(&self.status(words, number));
            if batch.len() >= BATCH {
                socket.write_all(batch.as_bytes()).await?;
                batch.clear();
            }
        }
        socket.write_all(batch.as_bytes()).await
    }

    async fn paced(&self, socket: &mut TcpStream) -> std::io::Result<()> {
        let mut ticks = tokio::time::interval(PACE);
        let mut append = false;
        loop {
            ticks.tick().await;
            socket.write_all(self.chunk(&format!("at:{:020} ", now()), append).as_bytes()).await?;
            append = true;
        }
    }

    /// Waits until the relay disconnects.
    async fn idle(&self, socket: &mut TcpStream) -> std::io::Result<()> {
        socket.write_all(self.chunk(WORDS, false).as_bytes()).await?;
        while socket.read(&mut [0; 16]).await? > 0 {}
        Ok(())
    }
}

/// Reads the head and the body of a request.
pub(crate) async fn read_request(socket: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let body = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..body]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < body + length {
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((head, bytes.split_off(body)))
}
