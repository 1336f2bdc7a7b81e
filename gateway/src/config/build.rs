//! From settings to a [`Config`]: defaults, and what no key can tell alone (one source per agent, agents that exist,
//! secrets that can be read, tokens where strangers can come in).

mod agent;
mod checks;
mod lookup;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::error::ConfigError;
use super::model::{
    Agent, Config, Inspector, Log, PushAccess, RelateBy, RunLogEngine, Runs, Server, ServerTls, TeeSettings,
};
use super::read::Settings;

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
                memory: self.size("runs.memory"),
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
        let ca = self.file("runs.redis_ca");
        match (engine.as_deref(), folder, redis) {
            (Some("disk"), Some(folder), _) => RunLogEngine::Disk(self.beside(&folder)),
            (Some("redis"), _, Some(url)) => RunLogEngine::Redis { url, prefix, ca },
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
}
