//! The stream of a run as a plain client of server-sent events puts it together, and what must hold of it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, verify_sse};
use aqueduct_tests::agui::sse_frames;
use serde_json::{Value, json};

use super::gateways::{Alive, LEASE, MARGIN};

fn input(run: &str, words: &str) -> String {
    let input = json!({
        "threadId": run, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "protocolVersion": "1.0", "messages": [{ "id": "m1", "role": "user", "content": words }],
    });
    input.to_string()
}

/// What a client has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Value>,
    pub(crate) last_id: String,
    pub(crate) longest_pause: Duration,
    /// The same as long as nobody was killed.
    pub(crate) quiet_pause: Duration,
    pub(crate) connections: usize,
}

pub(crate) fn is_terminal(event: &Value) -> bool {
    event["type"] == "RUN_FINISHED" || event["type"] == "RUN_ERROR"
}

impl Seen {
    fn is_over(&self) -> bool {
        self.events.last().is_some_and(is_terminal)
    }

    /// Reads one response as far as it goes. HTTP/1.0 has no chunks: lines are whole.
    fn read(
        &mut self,
        host: &str,
        request: &str,
        since: &mut Instant,
        mut hear: impl FnMut(&Value),
        is_quiet: impl Fn() -> bool,
    ) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(host)?;
        socket.set_read_timeout(Some(LEASE + MARGIN * 4))?;
        socket.write_all(request.as_bytes())?;
        let mut response = BufReader::new(socket);
        let (mut line, mut id) = (String::new(), String::new());
        while response.read_line(&mut line)? > 0 {
            if let Some(found) = line.strip_prefix("id: ") {
                found.trim().clone_into(&mut id);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                if !self.events.is_empty() {
                    self.longest_pause = self.longest_pause.max(since.elapsed());
                    if is_quiet() {
                        self.quiet_pause = self.longest_pause;
                    }
                }
                *since = Instant::now();
                let event = serde_json::from_str(data).unwrap();
                hear(&event);
                self.events.push(event);
                self.last_id.clone_from(&id);
            }
            line.clear();
        }
        Ok(())
    }

    /// Starts a run and follows it to its end, wherever that takes it.
    fn follow(run: &str, agent: &str, alive: &Alive, turn: usize) -> Self {
        Self::ask(run, (agent, "hello"), alive, turn)
    }

    /// The same with other words to begin with.
    pub(crate) fn follow_words(run: &str, alive: &Alive, turn: usize, words: &str) -> Self {
        Self::ask(run, ("slow", words), alive, turn)
    }

    fn ask(run: &str, (agent, words): (&str, &str), alive: &Alive, turn: usize) -> Self {
        let mut seen = Self::default();
        let mut since = Instant::now();
        let (host, body) = (alive.any(turn), input(run, words));
        let start = format!(
            "POST /agents/{agent} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (mut has_begun, mut has_spoken) = (false, false);
        let hear = |event: &Value| {
            let is_first = !std::mem::replace(&mut has_begun, true);
            alive.begun.fetch_add(usize::from(is_first), Ordering::Relaxed);
            if event["type"] == "TEXT_MESSAGE_CONTENT" && !std::mem::replace(&mut has_spoken, true) {
                alive.spoken.fetch_add(1, Ordering::Relaxed);
            }
        };
        seen.read(&host, &start, &mut since, hear, || alive.is_quiet()).ok();
        assert!(!seen.events.is_empty(), "{run} did not start");
        while !seen.is_over() {
            seen.connections += 1;
            let host = alive.any(turn + seen.connections);
            let again = format!(
                "GET /runs/{run}/events?protocolVersion=1.0 HTTP/1.0\r\nHost: {host}\r\nAccept: text/event-stream\r\n\
                 Last-Event-ID: {}\r\n\r\n",
                seen.last_id
            );
            if seen.read(&host, &again, &mut since, |_| (), || false).is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        seen
    }
}

/// The whole run as a gateway tells it afterwards.
pub(crate) fn whole(host: &str, run: &str) -> Vec<Value> {
    let mut seen = Seen::default();
    let request =
        format!("GET /runs/{run}/events?after=0&protocolVersion=1.0 HTTP/1.0\r\nHost: {host}\r\n\r\n");
    seen.read(host, &request, &mut Instant::now(), |_| (), || false).unwrap();
    seen.events
}

/// The events with neighbouring deltas of one message as one: a reader that is slow gets them so.
pub(crate) fn joined(events: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        match (joined.last_mut(), event["delta"].as_str()) {
            (Some(last), Some(delta))
                if last["type"] == event["type"] && last["messageId"] == event["messageId"] =>
            {
                let whole = format!("{}{delta}", last["delta"].as_str().unwrap());
                last["delta"] = whole.into();
            }
            _ => joined.push(event.clone()),
        }
    }
    joined
}

/// What must hold of a stream that a client put together.
pub(crate) fn check(run: &str, seen: &Seen, whole: &[Value]) {
    assert_eq!(joined(&seen.events), joined(whole), "{run}: lost, doubled or out of order");
    assert_eq!(whole.iter().filter(|event| is_terminal(event)).count(), 1, "{run}: one end");
    assert!(whole.last().is_some_and(is_terminal), "{run}: the end is last");
    let found = verify_sse(sse_frames(whole).as_bytes(), Dialect::V1_0, Level::Strict);
    assert!(found.is_empty(), "{run}: {found:#?}");
}

/// Clients with runs of their own; the agents take turns.
pub(crate) fn spawn_clients(
    runs: usize,
    agents: &'static [&'static str],
    alive: &Alive,
    prefix: &str,
) -> Vec<JoinHandle<(String, Seen)>> {
    (0..runs)
        .map(|turn| {
            let (alive, run) = (alive.clone(), format!("{prefix}-{turn}"));
            std::thread::spawn(move || {
                let seen = Seen::follow(&run, agents[turn % agents.len()], &alive, turn);
                (run, seen)
            })
        })
        .collect()
}
