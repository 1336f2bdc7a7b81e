//! Three gateway processes share a Redis: replicas are killed with -9, or stopped and continued, under plain SSE clients
//! that come back elsewhere.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aqueduct_adapter_agui::config::Dialect;
use aqueduct_adapter_agui::verify::{Level, verify_sse};
use aqueduct_tests::agui::sse_frames;
use aqueduct_tests::process::{Program, payloads, post_whole};
use serde_json::{Value, json};

use super::server::Server;

const LEASE: Duration = Duration::from_secs(3);
/// What is allowed beyond the lease: a look of the sweeper, the taking over, and coming back.
const MARGIN: Duration = Duration::from_secs(3);

/// A folder with a configuration whose agent speaks for `words` words, one every 100 ms.
fn configuration(server: &Server, words: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("redis-url", server.url());
    let words: Vec<String> = (1..=words).map(|word| format!("word{word}")).collect();
    let script = format!(
        "[[step]]\nthinking = \"Hm.\"\n[[step]]\nagent = \"helper\"\ntext = \"I help\"\n\
         [[step]]\npace = \"100ms\"\ntext = \"{}\"\n",
        words.join(" ")
    );
    write("slow.toml", script);
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[log]\nlevel = \"error\"\n\
         [runs]\nlog = \"redis\"\nredis = \"file:redis-url\"\nlease = \"{}ms\"\n\
         [agents.slow]\nscript = {{ file = \"slow.toml\" }}\n",
        LEASE.as_millis()
    );
    write("aqueduct.toml", config);
    folder
}

/// The gateways that are alive, by their addresses.
#[derive(Clone, Default)]
pub(super) struct Alive {
    pub(super) hosts: Arc<Mutex<Vec<String>>>,
    /// Runs of which a client has seen something, and some words.
    begun: Arc<AtomicUsize>,
    spoken: Arc<AtomicUsize>,
}

impl Alive {
    pub(super) fn start(&self, folder: &std::path::Path) -> Program {
        let config = folder.join("aqueduct.toml");
        let program = super::variable("AQUEDUCT_INTEROP_GATEWAY");
        let gateway = Program::start(program, &["serve", "--config", config.to_str().unwrap()]);
        self.hosts.lock().unwrap().push(host(&gateway));
        gateway
    }

    /// Any of them, another one for each turn.
    pub(super) fn any(&self, turn: usize) -> String {
        loop {
            let host = self.hosts.lock().unwrap().iter().cycle().nth(turn).cloned();
            if let Some(host) = host {
                return host;
            }
            // All are dead, and one is about to be started.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn only(gateway: &Program) -> Self {
        let alive = Self::default();
        alive.hosts.lock().unwrap().push(host(gateway));
        alive
    }

    /// Waits until the agents of so many runs have said something.
    pub(super) fn wait_for_words(&self, runs: usize) {
        while self.spoken.load(Ordering::Relaxed) < runs {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until so many runs have begun.
    pub(super) fn wait_for(&self, runs: usize) {
        while self.begun.load(Ordering::Relaxed) < runs {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn kill(&self, gateway: Program) {
        self.hosts.lock().unwrap().retain(|alive| *alive != host(&gateway));
        drop(gateway);
    }
}

pub(super) fn host(gateway: &Program) -> String {
    gateway.address.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
}

fn input(run: &str, words: &str) -> String {
    let input = json!({
        "threadId": run, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "protocolVersion": "1.0", "messages": [{ "id": "m1", "role": "user", "content": words }],
    });
    input.to_string()
}

/// What a client has seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: Vec<Value>,
    last_id: String,
    pub(super) longest_pause: Duration,
    pub(super) connections: usize,
}

fn is_terminal(event: &Value) -> bool {
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
    fn follow(run: &str, alive: &Alive, turn: usize) -> Self {
        Self::follow_words(run, alive, turn, "hello")
    }

    /// The same with other words to begin with.
    pub(super) fn follow_words(run: &str, alive: &Alive, turn: usize, words: &str) -> Self {
        let mut seen = Self::default();
        let mut since = Instant::now();
        let (host, body) = (alive.any(turn), input(run, words));
        let start = format!(
            "POST /agents/slow HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n\
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
        seen.read(&host, &start, &mut since, hear).ok();
        assert!(!seen.events.is_empty(), "{run} did not start");
        while !seen.is_over() {
            seen.connections += 1;
            let host = alive.any(turn + seen.connections);
            let again = format!(
                "GET /runs/{run}/events?protocolVersion=1.0 HTTP/1.0\r\nHost: {host}\r\nAccept: text/event-stream\r\n\
                 Last-Event-ID: {}\r\n\r\n",
                seen.last_id
            );
            if seen.read(&host, &again, &mut since, |_| ()).is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        seen
    }
}

/// The whole run as a gateway tells it afterwards.
pub(super) fn whole(host: &str, run: &str) -> Vec<Value> {
    let mut seen = Seen::default();
    let request =
        format!("GET /runs/{run}/events?after=0&protocolVersion=1.0 HTTP/1.0\r\nHost: {host}\r\n\r\n");
    seen.read(host, &request, &mut Instant::now(), |_| ()).unwrap();
    seen.events
}

/// The events with neighbouring deltas of one message as one: a reader that is slow gets them so.
fn joined(events: &[Value]) -> Vec<Value> {
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
pub(super) fn check(run: &str, seen: &Seen, whole: &[Value]) {
    assert_eq!(joined(&seen.events), joined(whole), "{run}: lost, doubled or out of order");
    assert_eq!(whole.iter().filter(|event| is_terminal(event)).count(), 1, "{run}: one end");
    assert!(whole.last().is_some_and(is_terminal), "{run}: the end is last");
    let found = verify_sse(sse_frames(whole).as_bytes(), Dialect::V1_0, Level::Strict);
    assert!(found.is_empty(), "{run}: {found:#?}");
}

fn signal(gateway: &Program, name: &str) {
    let sent = Command::new("kill").args([name, &gateway.id().to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name}");
}

fn spawn_clients(runs: usize, alive: &Alive, prefix: &str) -> Vec<std::thread::JoinHandle<(String, Seen)>> {
    (0..runs)
        .map(|turn| {
            let (alive, run) = (alive.clone(), format!("{prefix}-{turn}"));
            std::thread::spawn(move || {
                let seen = Seen::follow(&run, &alive, turn);
                (run, seen)
            })
        })
        .collect()
}

/// 200 runs and more on three replicas, which are killed one after another and replaced; then Redis is killed too. Every
/// client ends with the whole stream, and waits no longer than a lease and a bit.
#[test]
fn clients_survive_the_death_of_every_replica_and_of_redis() {
    let runs: usize = std::env::var("AQUEDUCT_RUNS").map_or(200, |runs| runs.parse().unwrap());
    let mut server = Server::start();
    let folder = configuration(&server, 150);
    let alive = Alive::default();
    let mut gateways: Vec<Program> = (0..3).map(|_| alive.start(folder.path())).collect();
    let mut replace = || {
        std::thread::sleep(Duration::from_secs(1));
        alive.kill(gateways.remove(0));
        gateways.push(alive.start(folder.path()));
    };
    let mut clients = spawn_clients(runs, &alive, "first");
    alive.wait_for(runs);
    replace();
    replace();
    // Some of these live on replicas that are not killed any more.
    let more = runs / 4;
    clients.extend(spawn_clients(more, &alive, "second"));
    alive.wait_for(runs + more);
    replace();
    server.crash();
    let (mut longest, mut lost, mut finished, mut came_back) = (Duration::ZERO, 0, 0, 0);
    for client in clients {
        let (run, seen) = client.join().unwrap();
        check(&run, &seen, &whole(&alive.any(0), &run));
        longest = longest.max(seen.longest_pause);
        came_back += usize::from(seen.connections > 0);
        let end = seen.events.last().unwrap();
        lost += usize::from(end["code"] == "gateway_lost");
        finished += usize::from(end["type"] == "RUN_FINISHED");
    }
    println!(
        "{} runs, 3 replicas and Redis killed: {came_back} clients came back elsewhere, {lost} runs were ended by a \
         survivor, {finished} finished, the longest pause was {longest:?}",
        runs + more
    );
    assert_eq!(lost + finished, runs + more, "no run ended otherwise");
    assert!(came_back > 0 && lost > 0 && finished > 0, "the kills hit nobody, or everybody");
    assert!(longest < LEASE + MARGIN, "the longest pause was {longest:?}");
}

/// A replica that was stopped long enough to be taken for dead wakes up, and adds nothing to the runs it drove.
#[test]
fn a_replica_that_was_stopped_is_fenced_when_it_goes_on() {
    let server = Server::start();
    let folder = configuration(&server, 150);
    let alive = Alive::default();
    let (owner, other) = (alive.start(folder.path()), alive.start(folder.path()));
    let on_owner = Alive::only(&owner);
    let clients = spawn_clients(10, &on_owner, "stopped");
    on_owner.wait_for(10);
    signal(&owner, "-STOP");
    let ended: Vec<(String, Vec<Value>)> = (0..10)
        .map(|turn| {
            let run = format!("stopped-{turn}");
            // Waits until the other gateway has ended it.
            let events = whole(&host(&other), &run);
            assert_eq!(events.last().unwrap()["code"], "gateway_lost");
            (run, events)
        })
        .collect();
    signal(&owner, "-CONT");
    for client in clients {
        // They watched at the owner all the time, and see the end that the other gateway made.
        let (run, seen) = client.join().unwrap();
        let known = &ended.iter().find(|(known, _)| *known == run).unwrap().1;
        check(&run, &seen, known);
    }
    std::thread::sleep(Duration::from_secs(1));
    for (run, events) in &ended {
        let now = joined(&whole(&host(&other), run));
        assert_eq!(now, joined(events), "{run}: the old owner wrote after the end");
    }
}

/// Any replica stops a run, whichever drives it.
#[test]
fn a_run_is_cancelled_from_any_replica() {
    let server = Server::start();
    let folder = configuration(&server, 600);
    let alive = Alive::default();
    let (owner, other) = (alive.start(folder.path()), alive.start(folder.path()));
    let on_owner = Alive::only(&owner);
    let clients = spawn_clients(3, &on_owner, "cancelled");
    on_owner.wait_for(3);
    for turn in 0..3 {
        let begun = Instant::now();
        let answer = post_whole(&format!("http://{}/runs/cancelled-{turn}/cancel", host(&other)), "{}");
        assert!(answer.contains(r#"{"cancelled":true}"#), "{answer}");
        let end = whole(&host(&other), &format!("cancelled-{turn}"));
        println!("cancelled from another replica in {:?}", begun.elapsed());
        assert_eq!(end.last().unwrap()["type"], "RUN_FINISHED", "{:?}", end.last());
        assert_eq!(end.last().unwrap()["outcome"]["type"], "cancelled", "{:?}", end.last());
        let again = post_whole(&format!("http://{}/runs/cancelled-{turn}/cancel", host(&other)), "{}");
        assert!(again.contains(r#"{"cancelled":false}"#), "{again}");
    }
    for client in clients {
        let (run, seen) = client.join().unwrap();
        check(&run, &seen, &whole(&host(&owner), &run));
    }
    let missing = post_whole(&format!("http://{}/runs/nobodys/cancel", host(&other)), "{}");
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    assert!(payloads(&missing).is_empty());
}
