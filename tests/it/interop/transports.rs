//! Real peers talk to the running examples: npm AG-UI clients over HTTP, Python and a browser over WebSocket, grpcio; and
//! all of them, with the Python A2A SDK, to `own-agent`, which has every surface on one port.
//!
//! Each script checks what it sees; here it is run, and run again with an expectation that it must not accept.

use std::path::PathBuf;
use std::process::{Command, Output};

use aqueduct_tests::process::Program;

use crate::interop::variable;

const WORDS: &str = "one two — three ✅";

fn example(name: &str) -> Program {
    let program = variable("AQUEDUCT_INTEROP_EXAMPLES").join(format!("aqueduct-examples-{name}"));
    Program::start(program, &["0"])
}

fn script(program: &str, name: &str) -> Command {
    let program = if program == "node" { PathBuf::from(program) } else { variable(program) };
    let mut command = Command::new(program);
    command.arg(variable("AQUEDUCT_INTEROP_DIR").join("transports").join(name));
    command
}

#[track_caller]
fn accepts(mut command: Command) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}\n{stdout}{stderr}");
}

/// The script fails, and reports what it received instead.
#[track_caller]
fn refuses(mut command: Command, seen: &str) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!status.success(), "{command:?} accepted what is wrong\n{stdout}");
    assert!(stderr.contains(seen), "{command:?} failed for another reason\n{stderr}");
}

fn http_client_reads_the_endpoint(project: &str) {
    // One each: the engine refuses a run id that it has.
    let (first, second) = (example("agui-endpoint"), example("agui-endpoint"));
    let client = |endpoint: &Program, expected: &str| {
        let url = format!("{}/agents/oracle", endpoint.address);
        let mut command = script("node", "http_agent.mjs");
        command.arg("--project").arg(variable(project)).args(["--url", &url]);
        command.args(["--ask", WORDS, "--expect", expected]);
        command
    };
    let answer = format!("You asked: {WORDS} The answer is 42.");
    let (right, wrong) = (client(&first, &answer), client(&second, "something else"));
    accepts(right);
    refuses(wrong, &answer);
}

#[test]
fn agui_client_1_0_reads_the_http_example() {
    http_client_reads_the_endpoint("AQUEDUCT_INTEROP_AGUI_1_0");
}

#[test]
fn agui_client_0_0_59_reads_the_http_example() {
    http_client_reads_the_endpoint("AQUEDUCT_INTEROP_AGUI_0_0_59");
}

fn socket_url(endpoint: &Program) -> String {
    format!("{}/ws", endpoint.address.replace("http://", "ws://"))
}

#[test]
fn python_websockets_uses_the_websocket_example() {
    let python = |endpoint: &Program, expected: &str| {
        let mut command = script("AQUEDUCT_INTEROP_TRANSPORTS_PY", "websocket.py");
        command.args([&socket_url(endpoint), "--say", WORDS, "--expect", expected]);
        command
    };
    accepts(python(&example("ws-endpoint"), WORDS));
    refuses(python(&example("ws-endpoint"), "something else"), "not 'something else'");
}

fn browser(endpoint: &Program, agent: &str, expected: &str) -> Command {
    let mut command = script("node", "browser.mjs");
    command.arg("--project").arg(variable("AQUEDUCT_INTEROP_BROWSER"));
    command.arg("--chromium").arg(variable("AQUEDUCT_INTEROP_CHROMIUM"));
    command.args(["--url", &socket_url(endpoint), "--agent", agent, "--say", WORDS, "--expect", expected]);
    command
}

#[test]
fn a_browser_uses_the_websocket_example() {
    accepts(browser(&example("ws-endpoint"), "echo", WORDS));
    refuses(browser(&example("ws-endpoint"), "echo", "something else"), "something else");
}

fn grpc(service: &Program, types: &str, expected: &str) -> Command {
    let mut command = script("AQUEDUCT_INTEROP_TRANSPORTS_PY", "grpc_peer.py");
    command.args([
        service.address.trim_start_matches("http://"),
        "--types",
        types,
        "--say",
        WORDS,
        "--expect",
        expected,
    ]);
    command
}

#[test]
fn grpcio_with_stubs_from_the_proto_uses_the_grpc_example() {
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/../transport-grpc/proto");
    accepts(grpc(&example("grpc-service"), protos, WORDS));
    refuses(grpc(&example("grpc-service"), protos, "something else"), "not 'something else'");
}

#[test]
fn grpcio_with_types_from_reflection_uses_the_grpc_example() {
    accepts(grpc(&example("grpc-service"), "reflection", WORDS));
    refuses(grpc(&example("grpc-service"), "reflection", "something else"), "not 'something else'");
}

/// What `own-agent` answers.
const ORACLE: &str = "The answer is 42.";

#[test]
fn agui_clients_read_the_example_with_every_surface() {
    let endpoint = example("own-agent");
    let client = |endpoint: &Program, project: &str, expected: &str| {
        let mut command = script("node", "http_agent.mjs");
        command.arg("--project").arg(variable(project)).arg("--whole");
        command.args(["--url", &format!("{}/agents/oracle", endpoint.address), "--query", WORDS]);
        command.args(["--ask", WORDS, "--expect", expected]);
        command
    };
    accepts(client(&endpoint, "AQUEDUCT_INTEROP_AGUI_1_0", ORACLE));
    accepts(client(&endpoint, "AQUEDUCT_INTEROP_AGUI_0_0_59", ORACLE));
    refuses(client(&example("own-agent"), "AQUEDUCT_INTEROP_AGUI_1_0", "something else"), ORACLE);
}

#[test]
fn the_python_a2a_sdk_uses_the_example_with_every_surface_over_three_bindings() {
    let endpoint = example("own-agent");
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        let mut command = Command::new(variable("AQUEDUCT_INTEROP_A2A_PY_1_3"));
        command.arg(variable("AQUEDUCT_INTEROP_DIR").join("a2a/client_1_3.py"));
        command.arg(format!("{}/a2a/oracle", endpoint.address)).args([
            "--binding",
            binding,
            "--modes",
            WORDS,
        ]);
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success(), "{binding}: {}", String::from_utf8_lossy(&stderr));
        let seen: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(seen["first"], "task", "{binding}: {seen}");
        assert_eq!(seen["state"], "TASK_STATE_COMPLETED", "{binding}: {seen}");
        let answers: Vec<String> = serde_json::from_value(seen["answers"].clone()).unwrap();
        assert_eq!(answers.last().map(String::as_str), Some(ORACLE), "{binding}: {seen}");
    }
}

#[test]
fn grpcio_by_reflection_uses_the_example_with_every_surface() {
    let peer = |endpoint: &Program, expected: &str| {
        let mut command = grpc(endpoint, "reflection", expected);
        command.args(["--agent", "oracle"]);
        command
    };
    accepts(peer(&example("own-agent"), ORACLE));
    refuses(peer(&example("own-agent"), "something else"), "not 'something else'");
}

#[test]
fn a_browser_uses_the_example_with_every_surface() {
    let endpoint = example("own-agent");
    accepts(browser(&endpoint, "oracle", ORACLE));
}
