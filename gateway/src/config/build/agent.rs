//! One agent: its settings, and the one source that it has.

use super::super::keys::SOURCES;
use super::super::model::{
    A2aAddress, A2aBinding, A2aExposure, A2aVersion, Agent, AgentSource, CardAccess, ClientTls,
    DialectChoice, Limits, OnDisconnect, Timeouts,
};
use super::Builder;
use crate::recording::Recording;
use crate::source::replay::Speed;
use crate::source::script::Script;

impl Builder<'_> {
    pub(super) fn agent(&mut self, name: &str) -> Agent {
        let at = |key: &str| format!("agents.{name}.{key}");
        Agent {
            description: self.word(&at("description")).unwrap_or_default(),
            source: self.source(name),
            dialect: match self.word(&at("dialect")).as_deref() {
                Some("1.0") => DialectChoice::V1_0,
                Some("0.0.59") => DialectChoice::V0_0_59,
                _ => DialectChoice::Auto,
            },
            subagents: self.word(&at("subagents")),
            intermediate: self.word(&at("intermediate")).unwrap_or_default(),
            interrupts: self.word(&at("interrupts")),
            card: match self.word(&at("card")).as_deref() {
                Some("public") => CardAccess::Public,
                _ => CardAccess::Agent,
            },
            timeouts: Timeouts {
                connect: self.duration(&at("timeouts.connect")),
                response: self.duration(&at("timeouts.response")),
                idle: self.duration(&at("timeouts.idle")),
                run: self.duration(&at("timeouts.run")),
            },
            limits: Limits {
                frame: self.size(&at("limits.frame")),
                lanes: self.size(&at("limits.lanes")),
                blocks: self.size(&at("limits.blocks")),
            },
            forward_headers: self.header_names(&at("forward_headers")),
            credentials: self.secret(&at("credentials")),
            tokens: self.secrets(&at("tokens")),
            on_disconnect: match self.word(&at("on_disconnect")).as_deref() {
                Some("cancel") => OnDisconnect::Cancel,
                _ => OnDisconnect::Continue,
            },
            grace: self.duration(&at("grace")),
            tls: self.client_tls(name),
        }
    }

    fn client_tls(&mut self, name: &str) -> Option<ClientTls> {
        let at = |key: &str| format!("agents.{name}.tls.{key}");
        let ca = self.file(&at("ca"));
        let identity = self.identity(&at("certificate"), &at("key"));
        (ca.is_some() || identity.is_some()).then_some(ClientTls { ca, identity })
    }

    fn source(&mut self, name: &str) -> AgentSource {
        let mut sources: Vec<AgentSource> = [
            self.a2a(name),
            self.agui(name),
            self.magentic(name),
            self.script(name),
            self.replay(name),
            self.fan_out(name),
        ]
        .into_iter()
        .flatten()
        .collect();
        if sources.len() != 1 {
            let found = if sources.is_empty() { "none".to_owned() } else { sources.len().to_string() };
            let what = format!("expected exactly one source of {}, found {found}", SOURCES.join(", "));
            self.fail_agent(name, what);
        }
        // With an error noted, the configuration is refused; the value only fills the place.
        sources.pop().unwrap_or(AgentSource::Magentic)
    }

    fn a2a(&mut self, name: &str) -> Option<AgentSource> {
        let at = |key: &str| format!("agents.{name}.a2a.{key}");
        let (url, card) = (self.word(&at("url")), self.word(&at("card")));
        let binding = self.word(&at("binding")).map(|word| match word.as_str() {
            "rest" => A2aBinding::Rest,
            "grpc" => A2aBinding::Grpc,
            _ => A2aBinding::JsonRpc,
        });
        let version = match self.word(&at("version")).as_deref() {
            Some("0.3") => A2aVersion::V0_3,
            _ => A2aVersion::V1_0,
        };
        let expose = match self.word(&at("expose")).as_deref() {
            Some("serve") => A2aExposure::Serve,
            _ => A2aExposure::Proxy,
        };
        let address = match (url, card) {
            (Some(url), Some(_)) => {
                self.fail(&at("card"), "expected `url` or `card`, found both");
                A2aAddress::Url(url)
            }
            (Some(url), None) => A2aAddress::Url(url),
            (None, Some(card)) => A2aAddress::Card(card),
            (None, None) => return None,
        };
        Some(AgentSource::A2a { address, binding, version, expose })
    }

    fn agui(&mut self, name: &str) -> Option<AgentSource> {
        self.word(&format!("agents.{name}.agui.url")).map(|url| AgentSource::Agui { url })
    }

    fn magentic(&mut self, name: &str) -> Option<AgentSource> {
        let path = format!("agents.{name}.magentic.ingest");
        let is_on = self.flag(&path);
        (is_on && self.settings.values.contains_key(&path)).then_some(AgentSource::Magentic)
    }

    fn script(&mut self, name: &str) -> Option<AgentSource> {
        let file = self.file(&format!("agents.{name}.script.file"))?;
        // A file that is not there was told already.
        if let Ok(text) = std::fs::read_to_string(&file)
            && let Err(mut errors) = Script::read(&file, &text)
        {
            self.errors.append(&mut errors);
        }
        Some(AgentSource::Script { file })
    }

    fn replay(&mut self, name: &str) -> Option<AgentSource> {
        let path = format!("agents.{name}.replay.file");
        let speed = self.word(&format!("agents.{name}.replay.speed"));
        let speed = speed.as_deref().and_then(Speed::parse).unwrap_or(Speed::RECORDED);
        let file = self.file(&path)?;
        if file.is_file()
            && let Err(error) = Recording::load(&file)
        {
            self.fail(&path, &format!("{error:#}"));
        }
        Some(AgentSource::Replay { file, speed })
    }

    fn fan_out(&mut self, name: &str) -> Option<AgentSource> {
        let path = format!("agents.{name}.fan_out.agents");
        let agents = self.texts(&path);
        let is_set = self.settings.values.contains_key(&path);
        if agents.is_empty() && is_set {
            self.fail(&path, "expected at least one agent");
        }
        is_set.then_some(AgentSource::FanOut { agents })
    }
}
