//! The configuration as the gateway uses it, with every key. Reader, environment and `docs/configuration.md` are
//! derived from the tables below. A field has the name of its key, unless several keys make one field (`build`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use aqueduct::remote::Secret;
use aqueduct_adapter_a2a::config::StreamShape;

use super::build::{ClientTlsKeys, RunLogKeys, ServerTlsKeys};
use super::keys::keys;
use super::kind::{
    Address, BaseUrl, Count, Delay, File, Flag, Host, LongCount, Origin, SecretName, Share, ShareOfOne, Size,
    Text, Url, Word,
};
use super::quotas::{PrincipalQuotas, Quotas};
use super::shape::{Inline, List, Maybe, Named, Needed, Section};
use crate::source::replay::Speed;
use crate::source::script::Script;

mod agent;
mod choice;

pub use agent::{Agent, Circuit, Limits, Timeouts};
pub use choice::{
    A2aBinding, A2aExposure, A2aVersion, CardAccess, DialectChoice, JwtAlgorithm, LogFormat, LogLevel,
    OnDisconnect, OnLogLoss, OtlpProtocol, PushAccess, Questions, RelateBy, Role,
};

keys! {
    /// The whole configuration.
    pub struct Config {
        /// Listeners, access and limits of the gateway.
        server: Server as Section<Server>,
        /// Log lines.
        log: Log as Section<Log>,
        /// The run log: engine, retention and limits.
        runs: Runs as Section<Runs>,
        /// How calls of sub-agents are related to the run of their supervisor.
        tee: TeeSettings as Section<TeeSettings>,
        /// Traces, exported over OTLP.
        telemetry: Telemetry as Section<Telemetry>,
        /// Limits per principal and per peer address.
        quotas: Quotas as Section<Quotas>,
        /// The inspector, a page for developers.
        inspector: Inspector as Section<Inspector>,
        /// Principals that may call, by the names under which their runs are stored.
        principals: BTreeMap<String, PrincipalConfig> as Named<PrincipalConfig>,
        /// OIDC issuers whose tokens are accepted, by names that become part of their principals.
        issuers: BTreeMap<String, Issuer> as Named<Issuer>,
        /// The agents, by their names.
        agents: BTreeMap<String, Agent> as Named<Agent>,
    }

    /// `[server]`.
    pub struct Server {
        /// The addresses to listen on.
        listen: Vec<SocketAddr> as List<Address, 1> = "[\"127.0.0.1:8080\"]",
        /// The address under which clients reach the gateway, for A2A cards; without it, the `Host` of the request.
        public_url: Option<String> as Maybe<BaseUrl>,
        /// The private key that signs A2A cards (Ed25519 or P-256, PKCS#8 in PEM).
        card_key: Option<PathBuf> as Maybe<File>,
        /// The name of that key in signatures.
        card_key_id: String as Text = "aqueduct",
        /// The addresses to which A2A clients may have push notifications sent: none, public ones, or any that the gateway reaches.
        push: PushAccess as Word<PushAccess> = "off",
        /// Addresses for gRPC alone, with health, reflection and publishing; running and watching work on `listen` too.
        grpc: Vec<SocketAddr> as List<Address, 1>,
        /// Addresses for `/healthz`, `/readyz` and `/metrics` alone, without TLS and for any `Host`. With it, metrics are on no other port. Do not expose it to clients.
        admin: Vec<SocketAddr> as List<Address, 1>,
        /// Allows listening beyond loopback although an agent requires no token. For networks that restrict access themselves.
        allow_unauthenticated: bool as Flag = "false",
        /// Accepted `Host` names beside those of loopback: `example.org` or `example.org:8443`.
        hosts: Vec<String> as List<Host> = "[]",
        /// Accepts every `Host`: for a gateway behind a proxy that checks it.
        any_host: bool as Flag = "false",
        /// Origins of web pages whose requests are accepted, beside those of loopback.
        origins: Vec<String> as List<Origin> = "[]",
        /// Sends CORS headers, so that pages of allowed origins may read the responses.
        cors: bool as Flag = "false",
        /// Bearer tokens that give access to every agent. Each is a principal whose name is derived from the token: prefer `[principals.NAME]`.
        tokens: Vec<Secret> as List<SecretName> = "[]",
        /// How long the gateway still listens after SIGTERM while `/readyz` responds with 503, so that load balancers send no new requests.
        pre_stop: Duration as Delay = "3s",
        /// How long runs that no other replica can take over may take to end after that.
        drain: Duration as Delay = "20s",
        /// Reads the configuration again when its file changes, or a certificate that it names; SIGHUP always does.
        watch: bool as Flag = "false",
        /// The largest number of connections. Further ones wait to be accepted.
        connections: usize as Count = "10000",
        /// The largest request body: a complete history with its attachments.
        body: usize as Size = "1MiB",
        /// Text that waits for a slow reader is merged up to this size. 1 merges nothing.
        merge: usize as Size = "4KiB",
        /// Certificate and key for TLS.
        tls: Option<ServerTls> as Maybe<Section<ServerTlsKeys>>,
    }

    /// `[log]`.
    pub struct Log {
        /// The lowest level that is logged.
        level: LogLevel as Word<LogLevel> = "info",
        /// The format of log lines.
        format: LogFormat as Word<LogFormat> = "text",
        /// Also logs every completed request, with its status and duration.
        access: bool as Flag = "false",
    }

    /// `[runs]`.
    pub struct Runs {
        /// The largest number of open runs. Further ones are refused as busy.
        limit: usize as Count = "10000",
        /// Where runs are kept.
        log: RunLogEngine as Inline<RunLogKeys>,
        /// How long a lease is valid after its last renewal; then another replica takes the run over.
        lease: Duration as Delay = "10s",
        /// How long a replica that shares the log may send no heartbeat before others take its runs over.
        silence: Duration as Delay = "2s",
        /// Whether the agent's work is cancelled when the log has lost its run.
        on_log_loss: OnLogLoss as Word<OnLogLoss> = "cancel",
        /// How long an ended run can be watched again.
        keep: Duration as Delay = "1h",
        /// The largest number of events in one run. A run with more is a loop, and fails.
        events: u64 as LongCount = "1000000",
        /// The largest size of one run's events. A run with more fails.
        bytes: usize as Size = "64MiB",
        /// The largest size of all runs, for the log in memory. Beyond it ended runs are deleted, oldest end first; with none left, runs fail.
        memory: usize as Size = "1GiB",
    }

    /// `[tee]`.
    pub struct TeeSettings {
        /// The keys by which a call of a sub-agent is related to a run of the same principal, in this order; `[]` relates none. Without it: `token`, `trace` and `context` with one principal, `token` alone with more.
        relate_by: Option<Vec<RelateBy>> as Maybe<List<Word<RelateBy>>>,
    }

    /// `[telemetry]`.
    pub struct Telemetry {
        /// The address of an OTLP collector: `http://collector:4317` for gRPC, `http://collector:4318` for HTTP. Without it nothing is exported.
        otlp: Option<String> as Maybe<Url>,
        /// The transport of OTLP.
        protocol: OtlpProtocol as Word<OtlpProtocol> = "grpc",
        /// The bearer token for the collector.
        token: Option<Secret> as Maybe<SecretName>,
        /// The share of runs that are traced, where the caller's trace context does not decide.
        sample: Share as ShareOfOne = "1",
        /// Records messages, and arguments and results of tools, in spans. They may contain texts of users.
        content: bool as Flag = "false",
        /// Exports spans of runs.
        traces: bool as Flag = "true",
        /// The interval at which the metrics of `/metrics` are also exported, such as `30s`; at least `1s`. Without it they are only at `/metrics`.
        metrics: Option<Duration> as Maybe<Delay>,
        /// `service.name` of spans and metrics.
        service: String as Text = "aqueduct",
    }

    /// `[inspector]`.
    pub struct Inspector {
        /// Serves the inspector, a page for developers, at `/inspector`.
        enabled: bool as Flag = "false",
        /// The largest recording that the inspector converts or verifies: 50,000 events are some 10 MiB.
        trace: usize as Size = "32MiB",
        /// The address of a trace viewer, with `{trace}` for the trace id: the list of runs links there.
        traces: Option<String> as Maybe<Text>,
    }

    /// `[principals.NAME]`.
    pub struct PrincipalConfig {
        /// The tenant that the principal belongs to. Name and tenant are stored with its runs: changing either hides them.
        tenant: String as Text,
        /// The bearer token of the principal, of at least 16 characters.
        token: Option<Secret> as Maybe<SecretName>,
        /// Further tokens of the principal: during a rotation, the old and the new one.
        tokens: Vec<Secret> as List<SecretName> = "[]",
        /// The agents that the principal may run; without it, all.
        agents: Option<Vec<String>> as Maybe<List<Text>>,
        /// Client certificates of the principal, by one of their names: `CN=…`, `dns:…`, `email:…` or `uri:…`. Requires `server.tls.client_ca`.
        certificates: Vec<String> as List<Text> = "[]",
        /// `admin` may list, watch and cancel the runs of all principals.
        role: Role as Word<Role> = "user",
        /// Quotas of the principal that differ from `[quotas]`.
        quotas: PrincipalQuotas as Section<PrincipalQuotas>,
        /// Owners that version 0.1 stored for the principal: `gateway/0` was the first of `server.tokens`, `NAME/0` the first token of an agent.
        was: Vec<String> as List<Text> = "[]",
    }

    /// `[issuers.NAME]`.
    pub struct Issuer {
        /// The claim `iss` of the tokens, and the base address of the discovery document (`/.well-known/openid-configuration`).
        issuer: String as Needed<Url>,
        /// Accepted values of the claim `aud`.
        audiences: Vec<String> as Needed<List<Text, 1>>,
        /// A file with the keys (JWKS), instead of discovery.
        keys_file: Option<PathBuf> as Maybe<File>,
        /// The address of the keys (JWKS), instead of discovery.
        keys_url: Option<String> as Maybe<Url>,
        /// How old keys may become before they are fetched again. A token with an unknown key causes a fetch at once.
        refresh: Duration as Delay = "15m",
        /// Accepted signature algorithms.
        algorithms: Vec<JwtAlgorithm> as List<Word<JwtAlgorithm>, 1> = "[\"RS256\", \"ES256\", \"EdDSA\"]",
        /// The tolerated difference between clocks.
        leeway: Duration as Delay = "30s",
        /// The claim that names the subject. Paths have dots: `resource.id`.
        subject_claim: String as Text = "sub",
        /// The tenant of all principals of the issuer.
        tenant: String as Text,
        /// The claim that names the tenant, instead of `tenant`.
        tenant_claim: Option<String> as Maybe<Text>,
        /// The claim that lists the agents that the principal may run; without it, all.
        agents_claim: Option<String> as Maybe<Text>,
        /// The claim that lists roles, such as `realm_access.roles`.
        roles_claim: Option<String> as Maybe<Text>,
        /// The role whose principals are admins.
        admin_role: Option<String> as Maybe<Text>,
        /// Trusted authorities and client certificate for fetching keys.
        tls: Option<ClientTls> as Maybe<Section<ClientTlsKeys>>,
    }
}

/// `[server.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities whose client certificates are accepted; without them, no client certificate is required.
    pub client_ca: Option<PathBuf>,
}

/// `[agents.NAME.tls]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// Authorities to trust instead of the public ones.
    pub ca: Option<PathBuf>,
    /// The certificate chain to show to the agent, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The engine of the run log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RunLogEngine {
    /// In the memory of this process.
    #[default]
    Memory,
    /// In a folder on disk.
    Disk(PathBuf),
    /// On a Redis server that several replicas share.
    Redis {
        /// The address, which may contain a password.
        url: Secret,
        /// The name of the service that the sentinels at that address watch.
        sentinel: Option<String>,
        /// The prefix of all keys.
        prefix: String,
        /// Authorities to trust instead of the public ones, for a server with TLS.
        ca: Option<PathBuf>,
        /// The certificate chain to present to the server, and its private key.
        identity: Option<(PathBuf, PathBuf)>,
        /// The lifetime of keys that no replica renews.
        expiry: Duration,
    },
}

/// The source of an agent's runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the keys are documented in `build`")]
pub enum AgentSource {
    A2a {
        address: A2aAddress,
        binding: Option<A2aBinding>,
        version: A2aVersion,
        expose: A2aExposure,
        /// The shape in which status texts and messages stream.
        stream: StreamShape,
        /// Hosts that the card may name beside the configured one.
        hosts: Vec<String>,
    },
    Agui {
        url: String,
        /// Set if streams that were cut are resumed, where the agent supports it.
        resume: bool,
    },
    #[default]
    Magentic,
    Script {
        file: PathBuf,
    },
    /// A script that is part of the program; no key configures it.
    Embedded {
        script: Arc<Script>,
    },
    /// A recorded stream.
    Replay {
        file: PathBuf,
        speed: Speed,
    },
    FanOut {
        agents: Vec<String>,
    },
}

/// The address of an A2A agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum A2aAddress {
    /// The address of the agent.
    Url(String),
    /// The address of the agent's card.
    Card(String),
}
