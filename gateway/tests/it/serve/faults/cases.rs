//! The ways to fail, each behind a path of one upstream, and a configuration with an agent for each way and protocol.

use std::fmt::Write as _;

use serde_json::json;
use tokio::net::TcpListener;

use super::super::support::{Asked, Say, Upstream, http, read_request, sse};

/// The events of an AG-UI agent before it fails.
pub(super) const AGUI_BEGUN: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
    data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n\
    data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"half an\"}\n\n";

/// An A2A task without content.
pub(super) const A2A_TASK: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"task\":{\"id\":\"T\",\"contextId\":\"C\",\
    \"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n";

/// A first piece of its answer.
pub(super) const A2A_CHUNK: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"artifactUpdate\":{\"taskId\":\"T\",\"contextId\":\"C\",\
    \"artifact\":{\"artifactId\":\"A\",\"parts\":[{\"text\":\"half an\"}]}}}}\n\n";

/// One way to fail.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) agent: String,
    say: Say,
    /// Settings of the agent that bring the failure about soon.
    settings: &'static str,
    /// What the error must say.
    pub(super) words: &'static str,
}

/// Every way, for both protocols.
pub(super) fn all() -> Vec<Fault> {
    let begun_a2a = [A2A_TASK, A2A_CHUNK].concat();
    let mut faults = of("agui", AGUI_BEGUN, ["ended without saying", "JSON", "ended without saying", "idle"]);
    faults.extend(of("a2a", &begun_a2a, ["was cut", "was cut", "not found", "not found"]));
    faults.push(fault("a2a", "dies-after-task", Say::Close(sse(A2A_TASK)), "", "not found"));
    faults
}

fn fault(protocol: &str, name: &str, say: Say, settings: &'static str, words: &'static str) -> Fault {
    Fault { agent: format!("{protocol}-{name}"), say, settings, words }
}

/// The ways of one protocol. The words that differ: for a stream without events, for one without JSON, for one that
/// ends in the middle, for one that stops in the middle.
fn of(protocol: &str, begun: &str, [empty, no_json, ended, stopped]: [&'static str; 4]) -> Vec<Fault> {
    let soon_idle = "timeouts.idle = \"100ms\"\n";
    let soon_late = "timeouts.response = \"100ms\"\n";
    let short = "limits.frame = \"64KiB\"\n";
    let kaput = "{\"error\":{\"message\":\"kaput\"}}";
    let close = |bytes: Vec<u8>| Say::Close(bytes);
    [
        ("closes", close(Vec::new()), "", "failed"),
        ("garbage", close(b"\x00\xff\x13garbage\r\n\r\n".to_vec()), "", "failed"),
        ("page", close(http("200 OK", "text/html", "<html>hi</html>")), "", "text/html"),
        ("500", close(http("500 Internal Server Error", "application/json", kaput)), "", "kaput"),
        ("500-page", close(http("500 Internal Server Error", "text/html", "<h1>no</h1>")), "", "500"),
        ("401", close(http("401 Unauthorized", "text/plain", "who are you")), "", "who are you"),
        ("302", close(http("302 Found", "text/html", "")), "", "redirects are not followed"),
        ("204", close(http("204 No Content", "text/plain", "")), "", "204"),
        ("cut-head", close(b"HTTP/1.1 200 OK\r\ncontent-ty".to_vec()), "", "failed"),
        ("no-event", close(sse("")), "", empty),
        ("no-json", close(sse("data: hello\n\ndata: there\n\n")), "", no_json),
        ("no-utf8", close([sse("data: "), b"\xff\xfe\n\n".to_vec()].concat()), "", "UTF-8"),
        ("endless-head", Say::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec()), "", "failed"),
        ("endless-line", Say::Endless(sse("data: ")), short, "longer than 65536 bytes"),
        ("hangs", Say::Hang(Vec::new()), soon_late, "response"),
        ("hangs-silent", Say::Hang(sse("")), soon_idle, "idle"),
        ("hangs-midway", Say::Hang(sse(begun)), soon_idle, stopped),
        ("dies-midway", close(sse(begun)), "", ended),
    ]
    .into_iter()
    .map(|(name, say, settings, words)| fault(protocol, name, say, settings, words))
    .collect()
}

/// Starts the upstream of all faults; gives the configuration of their agents, and of two whose port is closed.
pub(super) async fn start(faults: &[Fault]) -> (Upstream, String) {
    let known = faults.to_vec();
    let upstream = Upstream::start(move |asked| answer(&known, asked)).await;
    let mut toml = String::new();
    for fault in faults {
        let url = format!("{}/{}", upstream.url, fault.agent);
        write!(toml, "{}{}", agent(&fault.agent, &url), fault.settings).unwrap();
    }
    let closed = closed_port().await;
    for name in REFUSING {
        toml.push_str(&agent(name, &closed));
    }
    (upstream, toml)
}

/// The agents whose port is closed.
pub(super) const REFUSING: [&str; 2] = ["agui-refuses", "a2a-refuses"];

/// The table of an agent, to which settings can be added. Its protocol is what its name begins with.
pub(super) fn agent(name: &str, url: &str) -> String {
    match name.strip_prefix("agui") {
        Some(_) => format!("[agents.{name}]\nagui.url = \"{url}\"\n"),
        None => format!("[agents.{name}]\na2a = {{ url = \"{url}\", binding = \"jsonrpc\" }}\n"),
    }
}

pub(super) async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A gateway that returns to the task of an agent that failed gets `Task not found`.
fn answer(faults: &[Fault], asked: &Asked) -> Say {
    if asked.body["method"].as_str().is_some_and(|method| method != "SendStreamingMessage") {
        let error = json!({ "code": -32001, "message": "Task not found" });
        let body = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error });
        return Say::Close(http("200 OK", "application/json", &body.to_string()));
    }
    let path = asked.head.split_whitespace().nth(1).unwrap();
    let found = faults.iter().find(|fault| fault.agent == path[1..]);
    found.unwrap_or_else(|| panic!("{path} is no fault")).say.clone()
}

/// An agent that answers one request and is gone: its port is closed before it speaks.
pub(super) async fn mortal(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        drop(listener);
        Say::Close(bytes).to(stream).await;
    });
    url
}
