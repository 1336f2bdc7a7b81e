//! From settings to a [`Config`]: defaults, and what no key can tell alone (one source per agent, agents that exist,
//! secrets that can be read, tokens where strangers can come in).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ConfigError, Place};
use super::keys::{self, SOURCES};
use super::model::{
    A2aAddress, A2aBinding, A2aExposure, A2aVersion, Agent, AgentSource, CardAccess, ClientTls, Config,
    DialectChoice, Inspector, Limits, Log, OnDisconnect, PushAccess, RelateBy, RunLogEngine, Runs, Secret,
    Server, ServerTls, TeeSettings, Timeouts,
};
use super::read::Settings;
use super::value::{self, Value, Written};
use crate::recording::Recording;
use crate::source::replay::Speed;
use crate::source::script::Script;

/// Builds a configuration from settings. All that is wrong is told, not only the first.
pub(super) struct Builder<'s> {
    settings: &'s Settings,
    file: &'s Path,
    environment: &'s BTreeMap<String, String>,
    errors: Vec<ConfigError>,
    read: BTreeSet<&'static str>,
}

impl<'s> Builder<'s> {
    pub(super) fn new(
        settings: &'s Settings,
        file: &'s Path,
        environment: &'s BTreeMap<String, String>,
    ) -> Self {
        Self { settings, file, environment, errors: Vec::new(), read: BTreeSet::new() }
    }

    /// The configuration, what is wrong with it, and the keys that were looked at.
    pub(super) fn build(mut self) -> (Config, Vec<ConfigError>, BTreeSet<&'static str>) {
        let config = Config {
            server: self.server(),
            log: Log {
                level: self.word("log.level").unwrap_or_default(),
                json: self.word("log.format").as_deref() == Some("json"),
            },
            runs: Runs {
                limit: self.size("runs.limit"),
                log: self.run_log(),
                lease: self.duration("runs.lease"),
                keep: self.duration("runs.keep"),
                events: self.number("runs.events"),
                bytes: self.size("runs.bytes"),
            },
            tee: self.tee(),
            inspector: Inspector {
                enabled: self.flag("inspector.enabled"),
                trace: self.size("inspector.trace"),
            },
            agents: self.settings.agents.keys().map(|name| (name.clone(), self.agent(name))).collect(),
        };
        self.check_fan_outs(&config);
        self.check_exposure(&config);
        (config, self.errors, self.read)
    }

    /// An agent of which nothing is set.
    pub(super) fn plain_agent(mut self) -> Agent {
        self.agent("none")
    }

    fn tee(&mut self) -> TeeSettings {
        let way = |word: &String| match word.as_str() {
            "trace" => RelateBy::Trace,
            "context" => RelateBy::Context,
            _ => RelateBy::Token,
        };
        TeeSettings { relate_by: self.texts("tee.relate_by").iter().map(way).collect() }
    }

    fn server(&mut self) -> Server {
        Server {
            listen: self.addresses("server.listen"),
            public_url: self.word("server.public_url").map(|url| url.trim_end_matches('/').to_owned()),
            push: match self.word("server.push").as_deref() {
                Some("off") => PushAccess::Off,
                Some("any") => PushAccess::Any,
                _ => PushAccess::Public,
            },
            grpc: self.addresses("server.grpc"),
            allow_unauthenticated: self.flag("server.allow_unauthenticated"),
            hosts: self.texts("server.hosts"),
            any_host: self.flag("server.any_host"),
            origins: self.texts("server.origins"),
            cors: self.flag("server.cors"),
            tokens: self.secrets("server.tokens"),
            drain: self.duration("server.drain"),
            connections: self.size("server.connections"),
            body: self.size("server.body"),
            merge: self.size("server.merge"),
            tls: self.server_tls(),
        }
    }

    fn run_log(&mut self) -> RunLogEngine {
        let (engine, folder) = (self.word("runs.log"), self.word("runs.folder"));
        let (redis, prefix) = (self.secret("runs.redis"), self.word("runs.prefix").unwrap_or_default());
        match (engine.as_deref(), folder, redis) {
            (Some("disk"), Some(folder), _) => RunLogEngine::Disk(self.beside(&folder)),
            (Some("redis"), _, Some(url)) => RunLogEngine::Redis { url, prefix },
            (Some("disk"), None, _) => {
                self.fail("runs.log", "a log on disk needs `runs.folder`");
                RunLogEngine::Memory
            }
            (Some("redis"), _, None) => {
                self.fail(
                    "runs.log",
                    "a log on Redis needs `runs.redis`, a secret: `env:NAME` or `file:PATH`",
                );
                RunLogEngine::Memory
            }
            _ => RunLogEngine::Memory,
        }
    }

    fn server_tls(&mut self) -> Option<ServerTls> {
        let identity = self.identity("server.tls.certificate", "server.tls.key");
        let client_ca = self.file("server.tls.client_ca");
        if identity.is_none() && client_ca.is_some() {
            self.fail("server.tls.client_ca", "needs `server.tls.certificate` and `server.tls.key`");
        }
        identity.map(|(certificate, key)| ServerTls { certificate, key, client_ca })
    }

    fn agent(&mut self, name: &str) -> Agent {
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

    /// Agents that are fanned out to exist and fan out to nobody themselves: a loop of agents would never end.
    fn check_fan_outs(&mut self, config: &Config) {
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

    fn check_exposure(&mut self, config: &Config) {
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

    fn setting(&mut self, path: &str) -> Option<Value> {
        let key = keys::find(path)?;
        self.read.insert(key.path);
        if let Some(setting) = self.settings.values.get(path) {
            return Some(setting.value.clone());
        }
        if key.default.is_empty() {
            return None;
        }
        let plain = key.default.trim_start_matches('[').trim_end_matches(']').replace('"', "");
        let written = value::from_environment(key.kind, &plain);
        let written = match (&written, key.kind) {
            (Written::List(_) | Written::Flag(_) | Written::Number(_), _) => written,
            _ => Written::Text(plain),
        };
        value::read(key.kind, &written).ok()
    }

    fn word(&mut self, path: &str) -> Option<String> {
        match self.setting(path)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn flag(&mut self, path: &str) -> bool {
        matches!(self.setting(path), Some(Value::Flag(true)))
    }

    fn number(&mut self, path: &str) -> u64 {
        match self.setting(path) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    fn size(&mut self, path: &str) -> usize {
        usize::try_from(self.number(path)).unwrap_or(usize::MAX)
    }

    fn duration(&mut self, path: &str) -> Duration {
        match self.setting(path) {
            Some(Value::Duration(duration)) => duration,
            _ => Duration::ZERO,
        }
    }

    fn texts(&mut self, path: &str) -> Vec<String> {
        match self.setting(path) {
            Some(Value::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    fn addresses(&mut self, path: &str) -> Vec<SocketAddr> {
        match self.setting(path) {
            Some(Value::Addresses(addresses)) => addresses,
            _ => Vec::new(),
        }
    }

    fn header_names(&mut self, path: &str) -> Vec<String> {
        let names = self.texts(path);
        let is_name = |name: &String| {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !name.is_empty() && name.bytes().all(token)
        };
        if let Some(bad) = names.iter().find(|name| !is_name(name)) {
            self.fail(path, &format!("`{bad}` is no name of a header"));
        }
        names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
    }

    /// A file that is there, found from the folder of the configuration.
    fn file(&mut self, path: &str) -> Option<PathBuf> {
        let name = self.word(path)?;
        let file = self.beside(&name);
        if !file.is_file() {
            self.fail(path, &format!("expected the path of a file, and there is none at {}", file.display()));
        }
        Some(file)
    }

    fn beside(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    /// A certificate and its key: both or none.
    fn identity(&mut self, certificate: &str, key: &str) -> Option<(PathBuf, PathBuf)> {
        match (self.file(certificate), self.file(key)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => {
                self.fail(certificate, &format!("needs `{key}` beside it"));
                None
            }
            (None, Some(_)) => {
                self.fail(key, &format!("needs `{certificate}` beside it"));
                None
            }
        }
    }

    fn secret(&mut self, path: &str) -> Option<Secret> {
        let name = self.word(path)?;
        self.resolve(path, &name)
    }

    fn secrets(&mut self, path: &str) -> Vec<Secret> {
        self.texts(path).iter().filter_map(|name| self.resolve(path, name)).collect()
    }

    fn resolve(&mut self, path: &str, name: &str) -> Option<Secret> {
        let found = if let Some(variable) = name.strip_prefix("env:") {
            self.environment
                .get(variable)
                .cloned()
                .ok_or_else(|| format!("the environment has no {variable}"))
        } else {
            let file = self.beside(name.strip_prefix("file:").unwrap_or(name));
            std::fs::read_to_string(&file)
                .map_err(|error| format!("{} cannot be read: {error}", file.display()))
        };
        match found.map(|secret| secret.trim().to_owned()) {
            Ok(secret) if secret.is_empty() => {
                self.fail(path, &format!("the secret `{name}` is empty"));
                None
            }
            Ok(secret) => Some(Secret::new(secret)),
            Err(what) => {
                self.fail(path, &what);
                None
            }
        }
    }

    fn fail(&mut self, path: &str, what: &str) {
        let place = self.settings.values.get(path).map_or_else(|| self.start(), |s| s.place.clone());
        self.errors.push(ConfigError { place, key: path.to_owned(), what: what.to_owned() });
    }

    fn fail_agent(&mut self, name: &str, what: String) {
        let place = self.settings.agents.get(name).cloned().unwrap_or_else(|| self.start());
        self.errors.push(ConfigError { place, key: format!("agents.{name}"), what });
    }

    fn start(&self) -> Place {
        Place::File { path: self.file.to_owned(), line: 1, column: 1 }
    }
}
