//! `aqueduct mock`: a scripted agent on a socket, for the development of frontends, clients and tests.
//!
//! The mock is a gateway with one agent, which is also an A2A server at `/`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use crate::cli::MockArgs;
use crate::config::{AgentSource, Config, LogLevel, PushAccess};
use crate::serve::{Listening, stop_on_signal};
use crate::service::Gateway;
use crate::source::script::Script;
use crate::{chat, exit, telemetry};

/// Runs `aqueduct mock`, until a signal.
///
/// Returns `exit::USAGE` if the script is not valid (the message names line and key), and `exit::FAILED` if the
/// address cannot be listened on.
pub fn command(args: &MockArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    let script = match Script::load(&args.script) {
        Ok(script) => script,
        Err(error) => return exit::USAGE.report(notes, "mock", &error),
    };
    let name = args.name.clone().unwrap_or_else(|| agent_name(&args.script));
    exit::finish("mock", chat::block_on(serve(script, &name, args, out)), notes)
}

/// Serves the script and writes its addresses to `out` once the socket listens, so that a test can wait for
/// that line.
async fn serve(script: Script, name: &str, args: &MockArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut config = configuration(Arc::new(script), name, args.listen);
    // Push notifications are part of A2A, so a mock sends them; to loopback only on request, because their
    // addresses come from callers.
    config.server.push = PushAccess::Public;
    if args.allow_loopback_push {
        config.server.push = PushAccess::Any;
    }
    telemetry::start(&config.log);
    // `playing` also serves the agent at `/`, where A2A clients expect a server with one agent.
    let listening = Listening::bind(Gateway::new(config)?).await?.playing(name);
    let address = *listening.addresses()?.first().context("no address")?;
    stop_on_signal(&listening)?;
    greet(address, name, out).ok();
    listening.serve().await;
    Ok(())
}

/// Returns the configuration of a gateway for one script. The demo uses it too, for each of its agents.
pub(crate) fn configuration(script: Arc<Script>, name: &str, listen: SocketAddr) -> Config {
    let description = script.description.clone();
    let mut config = chat::one_agent(name, AgentSource::Embedded { script });
    if let Some(agent) = config.agents.get_mut(name) {
        agent.description = description;
    }
    config.server.listen = vec![listen];
    // A mock that listens beyond loopback must be reachable under any host name.
    config.server.any_host = !listen.ip().is_loopback();
    config.log.level = LogLevel::Warn;
    config
}

/// Writes the address of each protocol, and flushes.
fn greet(address: SocketAddr, name: &str, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "http://{address}/agents/{name}")?;
    writeln!(out, "    AG-UI")?;
    writeln!(out, "http://{address}")?;
    writeln!(
        out,
        "    A2A 1.0 and 0.3 over JSON-RPC, HTTP+JSON and gRPC; the card is at http://{address}/.well-known/agent-card.json"
    )?;
    out.flush()
}

/// Derives the name of the agent from the name of the file, without characters that names of agents must not have.
fn agent_name(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = stem.chars().map(|c| if allowed(c) { c } else { '-' }).take(64).collect();
    if name.is_empty() { "mock".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_called_like_its_script() {
        for (path, name) in [("scripts/tck.toml", "tck"), ("my agent.toml", "my-agent"), ("/", "mock")] {
            assert_eq!(agent_name(Path::new(path)), name);
        }
    }
}
