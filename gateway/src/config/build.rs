//! Builds values of the model from several keys: the engine of the run log, a certificate with its private key, the source of
//! an agent. `kind` validates single values before this module; `check` validates the whole configuration after it.
//!
//! If keys contradict each other, an error is recorded at one of them, and the value is missing. The doc comments of keys are
//! their descriptions in `docs/configuration.md`.

use std::path::PathBuf;
use std::time::Duration;

use aqueduct_adapter_a2a::config::StreamShape;

use super::document::At;
use super::keys::{Build, keys};
use super::kind::{Delay, Factor, File, Flag, Folder, Host, SecretName, Text, Url, Word, choices};
use super::model::{
    A2aAddress, A2aBinding, A2aExposure, A2aVersion, AgentSource, ClientTls, RunLogEngine, Secret, ServerTls,
};
use super::shape::{List, Maybe, Needed, Section};
use crate::recording::Recording;
use crate::source::replay::Speed;
use crate::source::script::Script;

keys! {
    /// The keys of `[runs]` that select the engine of the run log.
    pub(super) struct RunLogKeys -> RunLogEngine {
        /// The engine of the run log: in this process, in `folder`, or on the server `redis`, which several replicas share.
        log: Engine as Word<Engine> = "memory",
        /// The folder of the log on disk, relative to the configuration. Only one gateway may use it.
        folder: Option<PathBuf> as Maybe<Folder>,
        /// The address of the Redis server: `redis://[user:password@]host[:port][/database]`, with TLS `rediss://…`. Redis 6.2 or later, or Valkey. For a cluster any node, or several separated by commas.
        redis: Option<Secret> as Maybe<SecretName>,
        /// The name of the service that Redis Sentinel watches: `redis` then names the sentinels, with commas between them, and the user, password and
        /// database of the servers.
        redis_sentinel: Option<String> as Maybe<Text>,
        /// Authorities (PEM) to trust instead of the public ones, for `rediss://`.
        redis_ca: Option<PathBuf> as Maybe<File>,
        /// Certificate chain (PEM) to present to the Redis server, for `rediss://`.
        redis_certificate: Option<PathBuf> as Maybe<File>,
        /// Its private key (PEM).
        redis_key: Option<PathBuf> as Maybe<File>,
        /// How long keys on the Redis server live that no gateway renews. Keys of open runs are renewed, keys of ended runs are removed after `runs.keep`:
        /// this limit removes the keys of gateways that never started again.
        redis_expiry: Duration as Delay = "720h",
        /// The prefix of all keys on the Redis server.
        prefix: String as Text = "aqueduct",
    }

    /// `[server.tls]`.
    pub(super) struct ServerTlsKeys -> ServerTls {
        /// Certificate chain (PEM). With it and `key`, the gateway uses TLS.
        certificate: Option<PathBuf> as Maybe<File>,
        /// Private key (PEM).
        key: Option<PathBuf> as Maybe<File>,
        /// Authorities (PEM) whose client certificates are required; without it, no client certificate is.
        client_ca: Option<PathBuf> as Maybe<File>,
    }

    /// `[agents.NAME.tls]`.
    pub(super) struct ClientTlsKeys -> ClientTls {
        /// Authorities (PEM) to trust instead of the public ones.
        ca: Option<PathBuf> as Maybe<File>,
        /// Certificate chain (PEM) to present to the agent.
        certificate: Option<PathBuf> as Maybe<File>,
        /// Its private key (PEM).
        key: Option<PathBuf> as Maybe<File>,
    }

    /// The keys of `[agents.NAME]` that select its source. Exactly one must be present.
    pub(super) struct SourceKeys -> AgentSource {
        /// An A2A agent.
        a2a: Option<A2aKeys> as Maybe<Section<A2aKeys>>,
        /// An AG-UI agent.
        agui: Option<AguiKeys> as Maybe<Section<AguiKeys>>,
        /// An agent that publishes its runs.
        magentic: Option<MagenticKeys> as Maybe<Section<MagenticKeys>>,
        /// A scripted agent.
        script: Option<ScriptKeys> as Maybe<Section<ScriptKeys>>,
        /// A recorded stream.
        replay: Option<ReplayKeys> as Maybe<Section<ReplayKeys>>,
        /// Several agents at once.
        fan_out: Option<FanOutKeys> as Maybe<Section<FanOutKeys>>,
    }

    /// `[agents.NAME.a2a]`.
    pub(super) struct A2aKeys {
        /// The address of an A2A agent. Its card is read there, unless `binding` is set.
        url: Option<String> as Maybe<Url>,
        /// The address of an A2A agent's card, instead of `url`.
        card: Option<String> as Maybe<Url>,
        /// The binding of `url` without a card; with a card, the preferred binding.
        binding: Option<A2aBinding> as Maybe<Word<A2aBinding>>,
        /// The protocol version without a card.
        version: A2aVersion as Word<A2aVersion> = "1.0",
        /// What `/a2a/NAME` does: `proxy` forwards calls to the agent, `serve` answers them with runs of the gateway.
        expose: A2aExposure as Word<A2aExposure> = "proxy",
        /// How the agent's status texts and messages stream: `auto` detects it from the marks of its framework, else from the texts.
        stream: StreamShape as Word<StreamShape> = "auto",
        /// Hosts beside that of `url` or `card` that the card may name for its interfaces: `example.org`, for all ports, or
        /// `example.org:8443`. They get no `credentials` and no `forward_headers`, and none is called by `http` where the agent is
        /// configured by `https`.
        hosts: Vec<String> as List<Host> = "[]",
    }

    /// `[agents.NAME.agui]`.
    pub(super) struct AguiKeys {
        /// The address of an AG-UI agent.
        url: String as Needed<Url>,
        /// Resumes streams that were cut, if the agent supports it: one behind another Aqueduct gateway.
        resume: bool as Flag = "true",
    }

    /// `[agents.NAME.magentic]`.
    pub(super) struct MagenticKeys {
        /// An agent whose runs a framework publishes, as lines of workflow events.
        ingest: bool as Flag = "true",
    }

    /// `[agents.NAME.script]`.
    pub(super) struct ScriptKeys {
        /// The script of the agent.
        file: PathBuf as Needed<File>,
    }

    /// `[agents.NAME.replay]`.
    pub(super) struct ReplayKeys {
        /// The file of a recorded stream, which `aqueduct record` wrote.
        file: PathBuf as Needed<File>,
        /// The speed of the replay, as a factor of the recorded speed.
        speed: Speed as Factor = "1",
    }

    /// `[agents.NAME.fan_out]`.
    pub(super) struct FanOutKeys {
        /// Agents that are all run at once, each in a lane of its own.
        agents: Vec<String> as Needed<List<Text, 1>>,
    }
}

choices! {
    /// `runs.log`.
    pub(super) enum Engine {
        #[default]
        Memory = "memory",
        Disk = "disk",
        Redis = "redis",
    }
}

/// The keys of `[runs]` that have an effect only with `log = "redis"`.
const REDIS_KEYS: &[&str] =
    &["redis", "redis_sentinel", "redis_ca", "redis_certificate", "redis_key", "redis_expiry", "prefix"];

impl Build for RunLogKeys {
    type Output = RunLogEngine;

    /// Returns the selected engine. Records an error for each key of another engine, which would have no effect, and for a missing
    /// address of the engine.
    fn build(self, at: &At<'_>) -> Option<RunLogEngine> {
        let unused = match self.log {
            Engine::Memory => &["folder"],
            Engine::Disk => REDIS_KEYS,
            Engine::Redis => &["folder"][..],
        };
        let unused = unused.iter().chain(if matches!(self.log, Engine::Memory) { REDIS_KEYS } else { &[] });
        for name in unused.filter(|name| at.has(name) && !at.has_failed("log")) {
            at.fail(
                name,
                format!("has no effect with this `{}`: change that, or remove this", at.path("log")),
            );
        }
        let engine = match self.log {
            Engine::Memory => Some(RunLogEngine::Memory),
            Engine::Disk => self.folder.map(RunLogEngine::Disk),
            Engine::Redis => {
                let names = ("redis_certificate", "redis_key");
                let identity = identity(at, names, self.redis_certificate, self.redis_key);
                let (prefix, ca, expiry) = (self.prefix, self.redis_ca, self.redis_expiry);
                let sentinel = self.redis_sentinel;
                self.redis.map(|url| RunLogEngine::Redis { url, sentinel, prefix, ca, identity, expiry })
            }
        };
        match (self.log, &engine) {
            (Engine::Disk, None) => needs(at, "log", "folder", "the path of a folder"),
            (Engine::Redis, None) => needs(at, "log", "redis", "a secret, `env:NAME` or `file:PATH`"),
            _ => {}
        }
        engine
    }
}

/// Records an error at `name` if the key `other`, which it requires, is absent.
fn needs(at: &At<'_>, name: &str, other: &str, expected: &str) {
    if at.member(other).is_none() {
        at.fail(name, format!("needs `{}` beside it: {expected}", at.path(other)));
    }
}

/// The names of the keys for a certificate and its private key in `[server.tls]` and `[agents.NAME.tls]`.
const CERTIFICATE: (&str, &str) = ("certificate", "key");

/// Returns a certificate and its private key. Records an error if only one of the two is set.
fn identity(
    at: &At<'_>,
    names: (&str, &str),
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Option<(PathBuf, PathBuf)> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => {
            needs(at, names.0, names.1, "its private key (PEM)");
            None
        }
        (None, Some(_)) => {
            needs(at, names.1, names.0, "its certificate chain (PEM)");
            None
        }
        (None, None) => None,
    }
}

impl Build for ServerTlsKeys {
    type Output = ServerTls;

    /// Returns `None` without a certificate: the gateway then serves plain HTTP. `client_ca` alone is an error, because
    /// client certificates need TLS.
    fn build(self, at: &At<'_>) -> Option<ServerTls> {
        let identity = identity(at, CERTIFICATE, self.certificate, self.key);
        if identity.is_none() && self.client_ca.is_some() && at.member("key").is_none() {
            needs(
                at,
                "client_ca",
                "certificate",
                "the gateway's own certificate chain (PEM), with its `key`",
            );
        }
        identity.map(|(certificate, key)| ServerTls { certificate, key, client_ca: self.client_ca })
    }
}

impl Build for ClientTlsKeys {
    type Output = ClientTls;

    /// Returns `None` if nothing is set: the public authorities are trusted, and no certificate is presented.
    fn build(self, at: &At<'_>) -> Option<ClientTls> {
        let identity = identity(at, CERTIFICATE, self.certificate, self.key);
        (self.ca.is_some() || identity.is_some()).then_some(ClientTls { ca: self.ca, identity })
    }
}

impl Build for SourceKeys {
    type Output = AgentSource;

    /// Returns the source. Records an error unless exactly one is configured; `magentic.ingest = false` counts as none.
    fn build(self, at: &At<'_>) -> Option<AgentSource> {
        let sources = [
            self.a2a.and_then(|keys| keys.source(at)),
            self.agui.map(|keys| AgentSource::Agui { url: keys.url, resume: keys.resume }),
            self.magentic.filter(|keys| keys.ingest).map(|_| AgentSource::Magentic),
            self.script.map(|keys| keys.source(at)),
            self.replay.map(|keys| keys.source(at)),
            self.fan_out.map(|keys| AgentSource::FanOut { agents: keys.agents }),
        ];
        let mut sources: Vec<AgentSource> = sources.into_iter().flatten().collect();
        if sources.len() != 1 {
            let names: Vec<&str> = <Self as super::Keys>::keys().iter().map(|key| key.name).collect();
            let found = if sources.is_empty() { "none".to_owned() } else { sources.len().to_string() };
            at.fail(
                "",
                format!("expected exactly one source of {}, found {found}: keep one", names.join(", ")),
            );
        }
        sources.pop()
    }
}

impl A2aKeys {
    /// Returns the source of an A2A agent. Records an error unless exactly one of `url` and `card` is set.
    fn source(self, agent: &At<'_>) -> Option<AgentSource> {
        let address = match (self.url, self.card) {
            (Some(url), None) => A2aAddress::Url(url),
            (None, Some(card)) => A2aAddress::Card(card),
            (Some(_), Some(_)) => {
                agent.fail("a2a.card", "expected `url` or `card`, found both: remove one");
                return None;
            }
            (None, None) => {
                agent.fail("a2a", "needs `url` (the agent's address) or `card` (that of its card)");
                return None;
            }
        };
        let Self { binding, version, expose, stream, hosts, .. } = self;
        Some(AgentSource::A2a { address, binding, version, expose, stream, hosts })
    }
}

impl ScriptKeys {
    /// Returns the source of a scripted agent. Reads the script to record its errors, with their positions in the script; the
    /// gateway reads it again when it builds the agent.
    fn source(self, agent: &At<'_>) -> AgentSource {
        if !agent.has_failed("script") {
            match std::fs::read_to_string(&self.file).map(|text| Script::read(&self.file, &text)) {
                Ok(Ok(_)) => {}
                Ok(Err(errors)) => agent.fail_all(errors),
                Err(error) => {
                    agent.fail(
                        "script.file",
                        format!("{} cannot be read: {error}; make it readable", self.file.display()),
                    );
                }
            }
        }
        AgentSource::Script { file: self.file }
    }
}

impl ReplayKeys {
    /// Returns the source of a replay. Reads the recording to record its errors; the gateway reads it again when it builds the
    /// agent.
    fn source(self, agent: &At<'_>) -> AgentSource {
        if !agent.has_failed("replay.file")
            && let Err(error) = Recording::load(&self.file)
        {
            agent.fail("replay.file", format!("{error:#}; give a file that `aqueduct record` wrote"));
        }
        AgentSource::Replay { file: self.file, speed: self.speed }
    }
}
