//! The stream of a run as a plain client of server-sent events puts it together, and what must hold of it.

use std::collections::BTreeMap;
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
    /// As above, while no gateway was killed.
    pub(crate) quiet_pause: Duration,
    pub(crate) connections: usize,
    /// The pause before the first event of each connection but the first.
    pub(crate) gaps: Vec<Duration>,
    pub(crate) first_at: Option<Instant>,
    /// The first event of the second connection.
    pub(crate) moved_at: Option<Instant>,
    pub(crate) last_at: Option<Instant>,
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
        hear: impl FnMut(&Value),
        is_quiet: impl Fn() -> bool,
    ) -> std::io::Result<()> {
        self.read_lines(host, request, since, hear, is_quiet, |_| ())
    }

    fn read_lines(
        &mut self,
        host: &str,
        request: &str,
        since: &mut Instant,
        mut hear: impl FnMut(&Value),
        is_quiet: impl Fn() -> bool,
        answered: impl FnOnce(Option<u16>),
    ) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(host)?;
        socket.set_read_timeout(Some(LEASE + MARGIN * 4))?;
        socket.write_all(request.as_bytes())?;
        let mut response = BufReader::new(socket);
        let (mut line, mut id) = (String::new(), String::new());
        response.read_line(&mut line)?;
        answered(line.split(' ').nth(1).and_then(|status| status.parse().ok()));
        line.clear();
        let mut is_back = self.connections > 0;
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
                let now = Instant::now();
                if std::mem::take(&mut is_back) && self.last_at.is_some() {
                    self.gaps.push(since.elapsed());
                    self.moved_at.get_or_insert(now);
                }
                self.first_at.get_or_insert(now);
                (*since, self.last_at) = (now, Some(now));
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

    /// Starts a run and follows it through everything; `None` if it did not begin.
    ///
    /// # Panics
    ///
    /// Nothing comes for longer than `hangs`.
    pub(crate) fn follow_through(
        run: &str,
        agent: &str,
        alive: &Alive,
        turn: usize,
        hangs: Duration,
    ) -> Option<Self> {
        let mut seen = Self::default();
        let mut since = Instant::now();
        let (host, body) = (alive.any(turn), input(run, "hello"));
        let start = start_request(&host, agent, &body);
        seen.read(&host, &start, &mut since, |_| (), || false).ok();
        while !seen.is_over() {
            let known = seen.events.len();
            seen.connections += 1;
            let host = alive.any(turn + seen.connections);
            let again = resume_request(&host, run, &seen.last_id);
            let status = seen.read_status(&host, &again, &mut since);
            // It never began: a run that a client has seen is there.
            if seen.events.is_empty() && status == Some(404) {
                return None;
            }
            assert!(since.elapsed() < hangs, "{run} hangs: {status:?}, {}", seen.summary());
            if status != Some(200) || seen.events.len() == known {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Some(seen)
    }

    /// How many events of which type, and the last of them.
    pub(crate) fn summary(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in &self.events {
            *counts.entry(event["type"].to_string()).or_default() += 1;
        }
        let last: Vec<String> = self.events.iter().rev().take(3).map(Value::to_string).collect();
        format!("{} connections, after {:?}, {counts:?}, the last {last:?}", self.connections, self.last_id)
    }

    /// The whole run as any gateway tells it afterwards, however often it takes.
    pub(crate) fn whole_through(run: &str, alive: &Alive, turn: usize) -> Vec<Value> {
        for attempt in 0..600 {
            let mut seen = Self::default();
            let host = alive.any(turn + attempt);
            let request = whole_request(&host, run);
            seen.read(&host, &request, &mut Instant::now(), |_| (), || false).ok();
            if seen.is_over() {
                return seen.events;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{run} cannot be read");
    }

    /// Reads one response, and gives its status.
    fn read_status(&mut self, host: &str, request: &str, since: &mut Instant) -> Option<u16> {
        let mut status = None;
        self.read_lines(host, request, since, |_| (), || false, |line| status = line).ok();
        status
    }

    fn ask(run: &str, (agent, words): (&str, &str), alive: &Alive, turn: usize) -> Self {
        let mut seen = Self::default();
        let mut since = Instant::now();
        let (host, body) = (alive.any(turn), input(run, words));
        let start = start_request(&host, agent, &body);
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
            let again = resume_request(&host, run, &seen.last_id);
            if seen.read(&host, &again, &mut since, |_| (), || false).is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        seen
    }
}

/// The texts of all messages.
pub(crate) fn texts(events: &[Value]) -> Vec<String> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT") {
        let text = texts.entry(event["messageId"].as_str().unwrap()).or_default();
        text.push_str(event["delta"].as_str().unwrap());
    }
    texts.into_values().collect()
}

/// Reads the complete run from a gateway afterwards.
pub(crate) fn whole(host: &str, run: &str) -> Vec<Value> {
    let mut seen = Seen::default();
    let request = whole_request(host, run);
    seen.read(host, &request, &mut Instant::now(), |_| (), || false).unwrap();
    seen.events
}

fn start_request(host: &str, agent: &str, body: &str) -> String {
    format!(
        "POST /agents/{agent} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn resume_request(host: &str, run: &str, last_id: &str) -> String {
    let seen = if last_id.is_empty() { String::new() } else { format!("Last-Event-ID: {last_id}\r\n") };
    format!(
        "GET /runs/{run}/events?protocolVersion=1.0 HTTP/1.0\r\nHost: {host}\r\nAccept: text/event-stream\r\n{seen}\r\n"
    )
}

fn whole_request(host: &str, run: &str) -> String {
    format!("GET /runs/{run}/events?after=0&protocolVersion=1.0 HTTP/1.0\r\nHost: {host}\r\n\r\n")
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
    spawn_clients_slowly(runs, agents, alive, prefix, Duration::ZERO)
}

/// The same, one after another with a pause in between.
pub(crate) fn spawn_clients_slowly(
    runs: usize,
    agents: &'static [&'static str],
    alive: &Alive,
    prefix: &str,
    pause: Duration,
) -> Vec<JoinHandle<(String, Seen)>> {
    let spawn = |turn: usize| {
        std::thread::sleep(pause);
        let (alive, run) = (alive.clone(), format!("{prefix}-{turn}"));
        std::thread::spawn(move || {
            let seen = Seen::follow(&run, agents[turn % agents.len()], &alive, turn);
            (run, seen)
        })
    };
    (0..runs).map(spawn).collect()
}
