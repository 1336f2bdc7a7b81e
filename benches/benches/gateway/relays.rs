//! The measured relays, and the requests of their clients.

use std::fmt::Write as _;
use std::path::PathBuf;

use aqueduct_benches::process::{Process, Server};
use serde_json::json;

use crate::shapes::SHAPES;

/// A relay, and the request of its clients.
pub(crate) struct Relay {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    protocol: &'static str,
    prefix: &'static str,
    /// The folder of its configuration, while it runs.
    _folder: Option<tempfile::TempDir>,
}

impl Relay {
    /// Returns all relays of an agent that can be started here, one after another.
    pub(crate) fn all(agent: &Server) -> impl Iterator<Item = Self> {
        let address = agent.address.clone();
        let starts: [fn(&str) -> Option<Self>; 4] =
            [|agent| Some(proxy(agent)), |agent| Some(bridge(agent)), aqueduct, node];
        starts.into_iter().filter_map(move |start| start(&address))
    }

    /// Starts a client of the relay.
    pub(crate) fn client(&self, role: &str, mode: &str, numbers: &[u64]) -> Process {
        let path = format!("{}/{mode}", self.prefix);
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let mut arguments = vec![self.protocol, &path];
        arguments.extend(numbers.iter().map(String::as_str));
        self.server.client(role, &arguments)
    }

    fn of(name: &'static str, server: Server) -> Self {
        Self { name, server, protocol: "agui", prefix: "", _folder: None }
    }
}

fn proxy(agent: &str) -> Relay {
    Relay { protocol: "a2a", ..Relay::of("byte proxy", Server::own("proxy", &[agent])) }
}

fn bridge(agent: &str) -> Relay {
    Relay::of("least bridge", Server::own("bridge", &[agent]))
}

fn aqueduct(agent: &str) -> Option<Relay> {
    aqueduct_with(agent, "")
}

/// Starts the released program with a longer configuration.
pub(crate) fn aqueduct_with(agent: &str, more: &str) -> Option<Relay> {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("aqueduct.toml");
    let mut toml =
        "[server]\nconnections = 30000\n[runs]\nlimit = 30000\n[log]\nlevel = \"warn\"\n".to_owned();
    toml.push_str(more);
    for mode in SHAPES.iter().map(|shape| shape.mode).chain(["paced", "idle"]) {
        let a2a =
            format!("a2a = {{ url = \"http://{agent}/{mode}\", binding = \"jsonrpc\", version = \"0.3\" }}");
        // Clients that have left are gone at once, as for the other relays: a run goes on for a minute by default.
        let more = "timeouts.idle = \"1h\"\non_disconnect = \"cancel\"";
        write!(toml, "[agents.{mode}]\n{a2a}\n{more}\n").unwrap();
    }
    std::fs::write(&config, toml).unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let mut process = Process::start(&program()?, &arguments);
    let line = process.line();
    let address = line.split("//").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let server = Server { process, address };
    Some(Relay { prefix: "/agents", _folder: Some(folder), ..Relay::of("aqueduct", server) })
}

fn node(agent: &str) -> Option<Relay> {
    let script = PathBuf::from(std::env::var_os("AQUEDUCT_INTEROP_DIR")?).join("a2a/relay.mjs");
    let project = std::env::var("AQUEDUCT_BENCH_A2A").ok()?;
    Some(Relay::of("@ag-ui/a2a in node", Server::node(script.to_str()?, &project, &[agent])))
}

/// Returns the path of the released program.
pub(crate) fn program() -> Option<String> {
    std::env::var("AQUEDUCT_BENCH_GATEWAY").ok()
}

/// Returns the request of an A2A client.
pub(crate) fn a2a_request(path: &str) -> Vec<u8> {
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "go"}]});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}});
    request(path, &call.to_string())
}

/// Returns the request of an AG-UI client.
pub(crate) fn agui_request(path: &str, run: &str) -> Vec<u8> {
    let input = json!({
        "threadId": run, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "m", "role": "user", "content": "go"}],
    });
    request(path, &input.to_string())
}

fn request(path: &str, body: &str) -> Vec<u8> {
    let head =
        "Host: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nContent-Type: application/json";
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}
