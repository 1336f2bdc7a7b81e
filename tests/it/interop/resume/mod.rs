//! `sdk/typescript`, in the real AG-UI clients, loses nothing and shows nothing twice when connections to the gateway are
//! cut.
//!
//! The scripts check what they see; here they are run, and run again as they must not pass.

use std::path::PathBuf;
use std::process::{Command, Output};

use aqueduct_tests::process::Program;

use crate::interop::variable;

fn folder() -> PathBuf {
    variable("AQUEDUCT_INTEROP_DIR").join("resume")
}

/// A gateway with the agents of `gateway.toml`; its first line names the first of them.
fn gateway() -> Program {
    let config = folder().join("gateway.toml");
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    Program::start(variable("AQUEDUCT_INTEROP_GATEWAY"), &args)
}

fn script(name: &str, gateway: &Program, project: &str) -> Command {
    let (base, _) = gateway.address.rsplit_once('/').unwrap();
    let mut command = Command::new("node");
    command.arg(folder().join(name)).arg("--project").arg(variable(project));
    command.args(["--url", &format!("{base}/story")]);
    command
}

#[track_caller]
fn accepts(mut command: Command) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}\n{stdout}{stderr}");
}

const CLIENTS: [&str; 2] = ["AQUEDUCT_INTEROP_AGUI_1_0", "AQUEDUCT_INTEROP_AGUI_0_0_59"];

#[test]
fn client_1_0_survives_every_cut() {
    accepts(script("resume.mjs", &gateway(), CLIENTS[0]));
}

#[test]
fn client_0_0_59_survives_every_cut() {
    accepts(script("resume.mjs", &gateway(), CLIENTS[1]));
}

/// Node.js 20 has its WebSocket behind a flag.
fn websocket(gateway: &Program, project: &str) -> Command {
    let mut command = script("websocket.mjs", gateway, project);
    command.env("NODE_OPTIONS", "--experimental-websocket");
    command
}

#[test]
fn client_1_0_survives_cut_sockets() {
    accepts(websocket(&gateway(), CLIENTS[0]));
}

#[test]
fn client_0_0_59_survives_cut_sockets() {
    accepts(websocket(&gateway(), CLIENTS[1]));
}

#[test]
fn a_socket_that_ends_otherwise_is_noticed() {
    let mut other = websocket(&gateway(), CLIENTS[0]);
    let Output { status, stdout, .. } = other.args(["--expect", "Another end."]).output().unwrap();
    assert!(!status.success(), "{}", String::from_utf8_lossy(&stdout));
}

#[test]
fn client_1_0_finds_a_thread_again() {
    accepts(script("thread.mjs", &gateway(), CLIENTS[0]));
}

#[test]
fn client_0_0_59_finds_a_thread_again() {
    accepts(script("thread.mjs", &gateway(), CLIENTS[1]));
}

#[test]
fn a_thread_that_is_not_restated_is_noticed() {
    let mut empty = script("thread.mjs", &gateway(), CLIENTS[0]);
    let Output { status, stdout, .. } = empty.args(["--expect", "nothing"]).output().unwrap();
    assert!(!status.success(), "{}", String::from_utf8_lossy(&stdout));
}

/// The program of `docs/resume.md` runs as it stands there, but for the address.
#[test]
fn the_documented_program_works() {
    let gateway = gateway();
    let (base, _) = gateway.address.rsplit_once("/agents/").unwrap();
    let text = std::fs::read_to_string(folder().join("../../../docs/resume.md")).unwrap();
    let program = text.split("```ts\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(program.contains("http://127.0.0.1:8080/agents/story"));
    let program = program.replace("http://127.0.0.1:8080", base)
        + "if (!agent.messages.at(-1).content.endsWith(\"The end.\")) throw new Error(JSON.stringify(agent.messages));\n";
    for client in CLIENTS {
        let file = variable(client).join("documented.mjs");
        std::fs::write(&file, &program).unwrap();
        let mut command = Command::new("node");
        command.arg(file);
        accepts(command);
    }
}

/// Or the proxy cuts nothing, and the other tests prove nothing.
#[test]
fn the_clients_alone_do_not() {
    let gateway = gateway();
    for client in CLIENTS {
        let mut plain = script("resume.mjs", &gateway, client);
        let Output { status, stdout, .. } = plain.args(["--agent", "plain"]).output().unwrap();
        assert!(!status.success(), "{client}: {}", String::from_utf8_lossy(&stdout));
    }
}
