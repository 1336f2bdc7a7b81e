//! The agent: serves A2A 0.3 over JSON-RPC, which every relay supports, and writes prepared frames according to the path.

use std::time::Duration;

use aqueduct_benches::pace::now;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::shapes::{Shape, chunk_of, shape};

/// The text of an idle stream. Its mark `~` occurs nowhere else.
const WORDS: &str = "some twenty bytes ok~";
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
    if call["method"] == "tasks/cancel" {
        return answer_cancel(&mut socket, &call["id"]).await;
    }
    let stream = Stream { id: call["id"].to_string() };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await?;
    let working =
        json!({"kind": "task", "id": "task-1", "contextId": "context-1", "status": {"state": "working"}});
    socket.write_all(stream.frame(&working.to_string()).as_bytes()).await?;
    match mode {
        "paced" => return stream.paced(&mut socket).await,
        "idle" => return stream.idle(&mut socket).await,
        mode => stream.burst(shape(mode).unwrap(), &mut socket).await?,
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
    answer(socket, &card).await
}

/// Answers that the task is cancelled: a relay cancels it when its client has left.
async fn answer_cancel(socket: &mut TcpStream, id: &Value) -> std::io::Result<()> {
    let task =
        json!({"kind": "task", "id": "task-1", "contextId": "context-1", "status": {"state": "canceled"}});
    answer(socket, &json!({"jsonrpc": "2.0", "id": id, "result": task}).to_string()).await
}

async fn answer(socket: &mut TcpStream, json: &str) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
    socket.write_all(format!("{head} {}\r\n\r\n{json}", json.len()).as_bytes()).await?;
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
        self.frame(&chunk_of(words, append))
    }

    /// Writes all items of a shape, as fast as the relay reads them.
    async fn burst(&self, shape: &Shape, socket: &mut TcpStream) -> std::io::Result<()> {
        let mut batch = String::new();
        for number in 0..shape.chunks {
            batch.push_str(&self.frame(&(shape.item)(number)));
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
