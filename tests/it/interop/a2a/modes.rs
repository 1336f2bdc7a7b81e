//! The modes, what is expected of them, and the programs that play them.

use std::process::Command;

use aqueduct_tests::process::Program;
use serde_json::Value;

use crate::interop::variable;

/// Where the peers are.
pub(in crate::interop) fn script(name: &str) -> String {
    variable("AQUEDUCT_INTEROP_DIR").join("a2a").join(name).to_string_lossy().into_owned()
}

/// What a mode must come to: the member of that name in `modes.json`.
pub(in crate::interop) fn expected(mode: &str, member: &str) -> Value {
    let text = std::fs::read_to_string(script("modes.json")).unwrap();
    let modes: Value = serde_json::from_str(&text).unwrap();
    let expected = modes[mode][member].clone();
    assert!(expected.is_object(), "{mode} has no {member}");
    expected
}

/// A scripted agent on a real SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::interop) enum Peer {
    Python1_3,
    Python0_3,
    Js1_3,
    /// The official crates: a2a-server-lf 0.5.3, a2a-client-lf 0.2.9, a2a-grpc 0.3.11.
    Rust,
}

impl Peer {
    /// Starts its server; its address is that of its card.
    pub(in crate::interop) fn serve(self) -> Program {
        match self {
            Self::Python1_3 => {
                Program::start(variable("AQUEDUCT_INTEROP_A2A_PY_1_3"), &[&script("server_1_3.py")])
            }
            Self::Python0_3 => {
                Program::start(variable("AQUEDUCT_INTEROP_A2A_PY_0_3"), &[&script("server_0_3.py")])
            }
            Self::Js1_3 => {
                let project = variable("AQUEDUCT_INTEROP_A2A_JS").to_string_lossy().into_owned();
                Program::start("node", &[&script("server.mjs"), "--project", &project])
            }
            Self::Rust => Program::start(variable("AQUEDUCT_INTEROP_A2A_RUST"), &["serve"]),
        }
    }

    /// Its client.
    pub(in crate::interop) fn client(self) -> Command {
        let mut command;
        match self {
            Self::Python1_3 => {
                command = Command::new(variable("AQUEDUCT_INTEROP_A2A_PY_1_3"));
                command.arg(script("client_1_3.py"));
            }
            Self::Python0_3 => {
                command = Command::new(variable("AQUEDUCT_INTEROP_A2A_PY_0_3"));
                command.arg(script("client_0_3.py"));
            }
            Self::Js1_3 => {
                command = Command::new("node");
                command.arg(script("client.mjs")).arg("--project").arg(variable("AQUEDUCT_INTEROP_A2A_JS"));
            }
            Self::Rust => command = Command::new(variable("AQUEDUCT_INTEROP_A2A_RUST")),
        }
        command
    }
}
