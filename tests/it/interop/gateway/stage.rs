//! The programs of a test: agents on a real SDK, and a gateway before them.

use std::fmt::Write as _;
use std::path::PathBuf;

use aqueduct_tests::process::Program;

pub(super) use crate::interop::a2a::modes::Peer;
pub(super) use crate::interop::variable;

/// How the gateway talks to its agents; the agents of a stage go by these names.
pub(super) const BINDINGS: [&str; 3] = ["jsonrpc", "rest", "grpc"];

/// A file of the suite.
pub(super) fn script(name: &str) -> PathBuf {
    variable("AQUEDUCT_INTEROP_DIR").join("gateway").join(name)
}

/// The agents of one peer, and a gateway that has them once per binding.
pub(super) struct Stage {
    pub(super) agents: Program,
    pub(super) gateway: Program,
}

impl Stage {
    /// A gateway whose agents have these settings; `head` comes before them.
    pub(super) fn new(name: &str, peer: Peer, head: &str, settings: &str) -> Self {
        let agents = peer.serve();
        let mut toml = format!("{head}\n");
        for binding in BINDINGS {
            let card = format!("{}/.well-known/agent-card.json", agents.address);
            // gRPC has a port of its own.
            let source =
                format!("a2a = {{ card = \"{card}\", binding = \"{binding}\", hosts = [\"127.0.0.1\"] }}");
            writeln!(toml, "[agents.{binding}]\n{source}\n{settings}").unwrap();
            writeln!(toml, "[agents.hurried-{binding}]\n{source}\ntimeouts.run = \"5s\"").unwrap();
        }
        Self { agents, gateway: gateway(name, &toml) }
    }

    /// The address of an agent at the gateway.
    pub(super) fn url(&self, agent: &str) -> String {
        format!("{}/agents/{agent}", base(&self.gateway))
    }
}

/// A gateway with that configuration, which stays for a look at it.
pub(in crate::interop) fn gateway(name: &str, toml: &str) -> Program {
    let file = variable("AQUEDUCT_INTEROP_CASES").join(format!("{name}.toml"));
    std::fs::write(&file, toml).unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()];
    Program::start(variable("AQUEDUCT_INTEROP_GATEWAY"), &args)
}

/// Where a gateway listens; its first line names its first agent.
pub(in crate::interop) fn base(gateway: &Program) -> &str {
    gateway.address.split_once("/agents/").unwrap().0
}
