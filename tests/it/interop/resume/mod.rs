//! `sdk/typescript`, in the real AG-UI clients, loses nothing and shows nothing twice when connections to the gateway are
//! cut.
//!
//! The scripts check what they see; here they are run, and run again as they must not pass.

use std::path::PathBuf;
use std::process::{Command, Output};

use aqueduct_tests::process::Program;

fn variable(name: &str) -> PathBuf {
    let value = std::env::var_os(name);
    value.unwrap_or_else(|| panic!("{name} is not set: run `cargo xtask interop resume`")).into()
}

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
