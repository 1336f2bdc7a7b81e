//! What no key can tell alone: agents that exist, and tokens where strangers can come in.

use std::net::SocketAddr;

use super::super::model::{AgentSource, Config};
use super::Builder;

impl Builder<'_> {
    /// Agents that are fanned out to exist and fan out to nobody themselves: a loop of agents would never end.
    pub(super) fn check_fan_outs(&mut self, config: &Config) {
        for (name, agent) in &config.agents {
            let AgentSource::FanOut { agents } = &agent.source else { continue };
            let path = format!("agents.{name}.fan_out.agents");
            for other in agents {
                match config.agents.get(other).map(|agent| &agent.source) {
                    None => self.fail(&path, &format!("there is no agent `{other}`")),
                    Some(AgentSource::FanOut { .. }) => {
                        self.fail(&path, &format!("`{other}` fans out itself; name its agents here"));
                    }
                    Some(_) => {}
                }
            }
        }
    }

    pub(super) fn check_exposure(&mut self, config: &Config) {
        let server = &config.server;
        let reaches_out =
            |addresses: &[SocketAddr]| addresses.iter().any(|address| !address.ip().is_loopback());
        let exposed =
            [("server.listen", reaches_out(&server.listen)), ("server.grpc", reaches_out(&server.grpc))];
        let open = config.agents.iter().find(|(_, agent)| agent.tokens.is_empty());
        if let Some((name, _)) = open
            && let Some((key, _)) = exposed.into_iter().find(|(_, exposed)| *exposed)
            && server.tokens.is_empty()
            && !server.allow_unauthenticated
        {
            let what = format!(
                "listens beyond loopback, and agent `{name}` asks for no token: set `server.tokens` or its `tokens`, \
                 or `server.allow_unauthenticated = true` if strangers are kept out otherwise"
            );
            self.fail(key, &what);
        }
    }
}
