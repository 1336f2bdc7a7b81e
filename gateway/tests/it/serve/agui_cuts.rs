//! An AG-UI agent that another gateway serves: its stream is cut at any byte, and goes on where it was.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::support::{Served, serve};

pub(super) const SCRIPT: &str = "[[step]]\ntext = \"Let me look that up, word by word.\"\n\
    [[step]]\ntool = \"search\"\narguments = '{\"query\":\"{prompt}\"}'\nresult = \"three places\"\n\
    [[step]]\nthinking = \"So they are three.\"\n\
    [[step]]\ntext = \"The book, the reference and the forge.\"\n";

/// A proxy that cuts the first connections after so many bytes of the answer.
#[derive(Clone)]
struct Cutter {
    address: String,
    cut_after: Arc<AtomicUsize>,
    cuts_left: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    /// The answer of the first connection.
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Cutter {
    async fn to(target: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cutter = Self {
            address: listener.local_addr().unwrap().to_string(),
            cut_after: Arc::default(),
            cuts_left: Arc::default(),
            connections: Arc::default(),
            answer: Arc::default(),
        };
        let own = cutter.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(target).await.unwrap();
                tokio::spawn(own.clone().carry(client, server));
            }
        });
        cutter
    }

    async fn carry(self, client: TcpStream, server: TcpStream) {
        let is_first = self.connections.fetch_add(1, Ordering::SeqCst) == 0;
        let take = |left: usize| left.checked_sub(1);
        let is_cut = self.cuts_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        let mut room = if is_cut { self.cut_after.load(Ordering::SeqCst) } else { usize::MAX };
        let ((mut asking, mut answered), (mut answering, mut asked)) =
            (client.into_split(), server.into_split());
        let up = tokio::spawn(async move {
            let mut head = vec![0; 16];
            asking.read_exact(&mut head).await.ok();
            while !head.ends_with(b"\r\n") {
                head.push(asking.read_u8().await.unwrap_or(b'\n'));
            }
            // Each request has a connection of its own.
            head.extend_from_slice(b"connection: close\r\n");
            asked.write_all(&head).await.ok();
            tokio::io::copy(&mut asking, &mut asked).await.ok();
        });
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = answering.read(&mut buffer).await {
            let part = &buffer[..count.min(room)];
            if is_first {
                self.answer.lock().unwrap().extend_from_slice(part);
            }
            if answered.write_all(part).await.is_err() || count >= room {
                break;
            }
            room -= count;
        }
        up.abort();
    }
}

/// What of an event does not tell of the run that it belongs to.
fn content(events: &[Value]) -> Vec<String> {
    let mut deltas: Vec<(String, String)> = Vec::new();
    for event in events {
        let kind = event["type"].as_str().unwrap().to_owned();
        let text = ["delta", "content", "toolCallName", "outcome"].map(|key| event[key].to_string()).concat();
        match deltas.last_mut() {
            Some((last, joined)) if *last == kind && event["delta"].is_string() => {
                joined.push_str(event["delta"].as_str().unwrap());
            }
            _ if event["delta"].is_string() => {
                deltas.push((kind, event["delta"].as_str().unwrap().to_owned()));
            }
            _ => deltas.push((kind, text)),
        }
    }
    deltas.into_iter().map(|(kind, text)| format!("{kind} {text}")).collect()
}

async fn gateways() -> (Served, Cutter, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    std::fs::write(&file, SCRIPT).unwrap();
    let upstream = serve(&format!("[agents.a.script]\nfile = \"{}\"\n", file.display()), &[]).await;
    let cutter = Cutter::to(upstream.address).await;
    // It serves as long as the test lasts.
    std::mem::forget(upstream);
    (serve(&settings(&cutter, ""), &[]).await, cutter, folder)
}

fn settings(cutter: &Cutter, more: &str) -> String {
    format!("[agents.a.agui]\nurl = \"http://{}/agents/a\"\n{more}", cutter.address)
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_goes_on_without_loss_or_repetition() {
    let (served, cutter, _folder) = gateways().await;
    let whole = content(&served.run("a", "c0000").await);
    assert!(whole.iter().any(|event| event.contains("The book, the reference and the forge.")), "{whole:?}");
    let answer = cutter.answer.lock().unwrap().clone();
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    // Behind the frame that has an id and no data; ids of runs have one length, so offsets are the same for all.
    let first = head + answer[head..].windows(2).position(|bytes| bytes == b"\n\n").unwrap() + 2;
    let mut resumed = 0;
    for at in (first..answer.len()).step_by(29) {
        cutter.cut_after.store(at, Ordering::SeqCst);
        cutter.cuts_left.store(2, Ordering::SeqCst);
        let before = cutter.connections.load(Ordering::SeqCst);
        let seen = served.run("a", &format!("c{at:04}")).await;
        assert_eq!(content(&seen), whole, "cut after byte {at}: {:?}", seen.last());
        cutter.cuts_left.store(0, Ordering::SeqCst);
        resumed += cutter.connections.load(Ordering::SeqCst) - before - 1;
    }
    assert!(resumed > 10, "{resumed} streams were resumed");
}

#[tokio::test]
async fn a_stream_is_not_resumed_if_the_settings_forbid_it() {
    let (_, cutter, _folder) = gateways().await;
    let served = serve(&settings(&cutter, "resume = false\n"), &[]).await;
    served.run("a", "whole").await;
    let length = cutter.answer.lock().unwrap().len();
    cutter.cut_after.store(length / 2, Ordering::SeqCst);
    cutter.cuts_left.store(1, Ordering::SeqCst);
    let seen = served.run("a", "cut").await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["code"]), (&"RUN_ERROR".into(), &"upstream_ended".into()), "{end}");
}
