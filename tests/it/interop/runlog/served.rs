//! Tasks that two gateways serve from one log, with the Python SDK as their client: every method at the gateway that did not
//! start the task, in every binding, and a gateway that is killed with -9 in the middle (`tests/interop/runlog/served.py`).

use std::process::{Command, Output};

use super::replicas::{Alive, host};
use super::server::Server;
use super::taken_up::agent;
use crate::interop::variable;

fn tasks_are_served_by_both(binding: &str) {
    let (server, agent) = (Server::start(), agent());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redis-url"), server.url()).unwrap();
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\npush = \"any\"\n[log]\nlevel = \"error\"\n\
         [runs]\nlog = \"redis\"\nredis = \"file:redis-url\"\nlease = \"2s\"\n\
         [agents.modes]\na2a = {{ url = \"{}\", expose = \"serve\" }}\n",
        agent.address
    );
    std::fs::write(folder.path().join("aqueduct.toml"), config).unwrap();
    let alive = Alive::default();
    let (first, second) = (alive.start(folder.path()), alive.start(folder.path()));
    let url = |gateway| format!("http://{}/a2a/modes", host(gateway));
    let script = variable("AQUEDUCT_INTEROP_DIR").join("runlog/served.py");
    let Output { status, stdout, stderr } = Command::new(variable("AQUEDUCT_INTEROP_A2A_PY_1_3"))
        .arg(script)
        .args(["--binding", binding, "--first", &url(&first), "--second", &url(&second)])
        .args(["--victim", &first.id().to_string()])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    println!("{binding}: {stdout}");
    assert!(status.success(), "{binding}: {status}\n{stdout}{stderr}");
}

#[test]
fn over_json_rpc() {
    tasks_are_served_by_both("JSONRPC");
}

#[test]
fn over_http_json() {
    tasks_are_served_by_both("HTTP+JSON");
}

#[test]
fn over_grpc() {
    tasks_are_served_by_both("GRPC");
}
