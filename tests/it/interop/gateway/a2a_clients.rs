//! The Python and npm A2A clients against `/a2a/{name}` of the gateway, whatever is behind it: a script, an AG-UI agent,
//! workflows of the Microsoft Agent Framework.

use std::process::Output;

use aqueduct_tests::process::Program;
use serde_json::{Value, json};

use super::stage::{Peer, base, gateway, script, variable};
use crate::interop::a2a::downstream::is;
use crate::interop::a2a::modes::{expected, script as a2a_script};

/// Every client over every binding.
const CLIENTS: [(Peer, &str); 6] = [
    (Peer::Python1_3, "JSONRPC"),
    (Peer::Python1_3, "HTTP+JSON"),
    (Peer::Python1_3, "GRPC"),
    (Peer::Js1_3, "JSONRPC"),
    (Peer::Js1_3, "HTTP+JSON"),
    (Peer::Js1_3, "GRPC"),
];

/// Modes that are played; `ask` has a second turn.
const MODES: [&str; 8] = ["tools", "interleaved", "fail", "bare", "files", "wait", "slow", "ask"];

/// Lets a client play modes, one after the other; what it saw of each turn.
fn turns(gateway: &Program, agent: &str, peer: Peer, binding: &str, modes: &[&str]) -> Vec<Value> {
    let mut command = peer.client();
    command.arg(format!("{}/a2a/{agent}", base(gateway)));
    let Output { status, stdout, stderr } =
        command.args(["--binding", binding, "--modes", &modes.join(",")]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{agent} {peer:?} {binding}: {status}\n{stdout}{stderr}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn plays_all_modes(gateway: &Program, agent: &str, clients: &[(Peer, &str)]) {
    for &(peer, binding) in clients {
        let mut seen = turns(gateway, agent, peer, binding, &MODES).into_iter();
        for mode in MODES {
            let what = format!("{agent} {peer:?} {binding} {mode}");
            is(&seen.next().unwrap(), &expected(mode, "expect"), &what);
            if mode == "ask" {
                is(&seen.next().unwrap(), &expected(mode, "expect_reply"), &what);
            }
        }
        assert_eq!(seen.next(), None);
    }
}

const QUIET: &str = "log.level = \"error\"\n";

fn scripted(name: &str) -> Program {
    let script = a2a_script("agent.toml");
    gateway(name, &format!("{QUIET}[agents.modes]\nscript.file = \"{script}\"\non_disconnect = \"cancel\"\n"))
}

#[test]
fn clients_read_a_scripted_agent() {
    // The a2a suite has the other bindings.
    let clients = [(Peer::Python1_3, "JSONRPC"), (Peer::Js1_3, "GRPC")];
    plays_all_modes(&scripted("a2a-scripted"), "modes", &clients);
}

#[test]
fn clients_read_an_agui_agent() {
    let upstream = scripted("a2a-agui-upstream");
    let toml = format!("{QUIET}[agents.agui]\nagui.url = \"{}\"\n", upstream.address);
    plays_all_modes(&gateway("a2a-agui", &toml), "agui", &CLIENTS);
}

/// What a client must have of a task, by the script of its workflow.
#[track_caller]
fn has(seen: &Value, state: &str, answers: &[&str]) {
    assert_eq!((&seen["state"], &seen["answers"]), (&json!(state), &json!(answers)), "{seen}");
}

/// Who publishes a workflow begins it; clients watch it by the id of its run, answer what it asks, and cancel it.
#[test]
fn clients_read_workflows() {
    let gateway = gateway("a2a-workflows", &format!("{QUIET}[agents.flow]\nmagentic.ingest = true\n"));
    let mut runs = vec!["magentic:plain".to_owned(), "failing_agent:failing".to_owned()];
    runs.extend(
        (0..CLIENTS.len())
            .flat_map(|n| [format!("handoff_reply:asks-{n}"), format!("handoff_reply:left-{n}")]),
    );
    let url = format!("{}/ws", base(&gateway).replacen("http", "ws", 1));
    let program = script("workflows.py");
    let mut args = vec![program.to_str().unwrap(), &url];
    args.extend(runs.iter().map(String::as_str));
    let _workflows = Program::start(variable("AQUEDUCT_INTEROP_MAGENTIC_PY"), &args);
    for (number, (peer, binding)) in CLIENTS.into_iter().enumerate() {
        let watch = format!("watch:asks-{number}:Order 7.");
        let cancel = format!("cancel:left-{number}");
        let seen = turns(&gateway, "flow", peer, binding, &[&watch, &cancel, "get:plain", "get:failing"]);
        let [watched, answered, cancelled, plain, failing] = seen.as_slice() else { panic!("{seen:?}") };
        let told = ["Let me pass you on. ", "Which order?", "Order 7 is refunded."];
        has(watched, "TASK_STATE_COMPLETED", &told);
        has(answered, "TASK_STATE_COMPLETED", &told);
        // However far it had come.
        assert_eq!(cancelled["state"], "TASK_STATE_CANCELED", "{cancelled}");
        has(plain, "TASK_STATE_COMPLETED", &["Rust is a memory-safe language."]);
        has(failing, "TASK_STATE_FAILED", &["Half a sen"]);
    }
}
