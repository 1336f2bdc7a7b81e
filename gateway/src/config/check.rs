//! What no key can say alone: agents that exist, and tokens where strangers can come in.

use std::net::SocketAddr;

use super::document::At;
use super::model::{AgentSource, Config};

/// Checks a configuration as a whole.
pub(super) fn check(config: &Config, at: &At<'_>) {
    check_fan_outs(config, at);
    check_exposure(config, at);
}

/// Agents that are fanned out to exist and do not fan out themselves: a loop of agents would never end.
fn check_fan_outs(config: &Config, at: &At<'_>) {
    for (name, agent) in &config.agents {
        let AgentSource::FanOut { agents } = &agent.source else { continue };
        let key = format!("agents.{name}.fan_out.agents");
        for other in agents {
            match config.agents.get(other).map(|agent| &agent.source) {
                None => at.fail(&key, format!("there is no agent `{other}`")),
                Some(AgentSource::FanOut { .. }) => {
                    at.fail(&key, format!("`{other}` fans out itself; name its agents here"));
                }
                Some(_) => {}
            }
        }
    }
}

/// Listening beyond loopback requires a token for every agent, or a word that strangers are kept out otherwise.
fn check_exposure(config: &Config, at: &At<'_>) {
    let server = &config.server;
    let reaches_out = |addresses: &[SocketAddr]| addresses.iter().any(|address| !address.ip().is_loopback());
    let exposed =
        [("server.listen", reaches_out(&server.listen)), ("server.grpc", reaches_out(&server.grpc))];
    let is_open = |name: &str| !at.has_failed(&format!("agents.{name}.tokens"));
    let open = config.agents.iter().find(|(name, agent)| agent.tokens.is_empty() && is_open(name));
    if let Some((name, _)) = open
        && let Some((key, _)) = exposed.into_iter().find(|(_, exposed)| *exposed)
        && server.tokens.is_empty()
        && !server.allow_unauthenticated
        && !at.has_failed("server.tokens")
    {
        let what = format!(
            "listens beyond loopback, and agent `{name}` asks for no token: set `server.tokens` or its `tokens`, \
             or `server.allow_unauthenticated = true` if strangers are kept out otherwise"
        );
        at.fail(key, what);
    }
}
