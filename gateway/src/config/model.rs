//! The configuration as the gateway uses it, with every key. Reader, environment and `docs/configuration.md` are
//! derived from the tables below. A field has the name of its key, unless several keys make one field (`build`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use aqueduct::remote::Secret;
use aqueduct_adapter_a2a::config::StreamShape;
use aqueduct_adapter_agui::config::{Errors, Interrupts, Subagents};
use aqueduct_core::IntermediateView;

use super::build::{ClientTlsKeys, RunLogKeys, ServerTlsKeys, SourceKeys};
use super::keys::keys;
use super::kind::{
    Address, BaseUrl, Count, Delay, File, Flag, HeaderName, Host, LongCount, Origin, SecretName, Share,
    ShareOfOne, Size, Text, Url, Whole, Word, choices, words,
};
use super::quotas::{PrincipalQuotas, Quotas};
use super::shape::{Inline, List, Maybe, Named, Needed, Section};
use crate::source::replay::Speed;
use crate::source::script::Script;

keys! {
    /// The whole configuration.
    pub struct Config {
        /// What the gateway listens on, and for whom.
        server: Server as Section<Server>,
        /// What it logs.
        log: Log as Section<Log>,
        /// How long runs are kept, and where.
        runs: Runs as Section<Runs>,
        /// How calls of sub-agents are shown inside the run that makes them.
        tee: TeeSettings as Section<TeeSettings>,
        /// Traces, exported over OTLP.
        telemetry: Telemetry as Section<Telemetry>,
        /// How much callers may use at once.
        quotas: Quotas as Section<Quotas>,
        /// The page for developers.
        inspector: Inspector as Section<Inspector>,
        /// Who may call, by the names under which runs are stored.
        principals: BTreeMap<String, PrincipalConfig> as Named<PrincipalConfig>,
        /// Issuers of OIDC whose tokens are taken, by names that become part of their principals.
        issuers: BTreeMap<String, Issuer> as Named<Issuer>,
        /// The agents, by their names.
        agents: BTreeMap<String, Agent> as Named<Agent>,
    }

    /// `[server]`.
    pub struct Server {
        /// Where to listen.
        listen: Vec<SocketAddr> as List<Address, 1> = "[\"127.0.0.1:8080\"]",
        /// The address under which clients reach the gateway, for A2A cards; without it, the `Host` they ask for.
        public_url: Option<String> as Maybe<BaseUrl>,
        /// The private key that signs A2A cards (Ed25519 or P-256, PKCS#8 in PEM).
        card_key: Option<PathBuf> as Maybe<File>,
        /// The name of that key in signatures.
        card_key_id: String as Text = "aqueduct",
        /// Where A2A clients may want to be called back: nowhere, at public addresses, or anywhere the gateway reaches.
        push: PushAccess as Word<PushAccess> = "off",
        /// Where to listen for gRPC alone, with health, reflection and publishing; running and watching work on `listen` too.
        grpc: Vec<SocketAddr> as List<Address, 1>,
        /// Where to listen for `/healthz`, `/readyz` and `/metrics` alone, without TLS and under any `Host`. With it, metrics are on no other port. Keep it inside.
        admin: Vec<SocketAddr> as List<Address, 1>,
        /// Listens beyond loopback although some agent asks for no token. For networks that keep strangers out by themselves.
        allow_unauthenticated: bool as Flag = "false",
        /// Names under which the gateway may be asked, beside those of loopback: `example.org` or `example.org:8443`.
        hosts: Vec<String> as List<Host> = "[]",
        /// Lets every `Host` pass: for a gateway behind a proxy that checks it.
        any_host: bool as Flag = "false",
        /// Origins of web pages that may ask, beside those of loopback.
        origins: Vec<String> as List<Origin> = "[]",
        /// Tells browsers that pages of allowed origins may read the answers.
        cors: bool as Flag = "false",
        /// Bearer tokens that are good for every agent. Each is a principal whose name is derived from the token: prefer `[principals.NAME]`.
        tokens: Vec<Secret> as List<SecretName> = "[]",
        /// How long the gateway still listens after SIGTERM while `/readyz` says 503, so that load balancers send nothing new.
        pre_stop: Duration as Delay = "3s",
        /// How long runs that cannot go on elsewhere may take to end after that.
        drain: Duration as Delay = "20s",
        /// Reads the configuration again when its file changes, or a certificate that it names; SIGHUP always does.
        watch: bool as Flag = "false",
        /// Connections at once. Those above wait to be accepted.
        connections: usize as Count = "10000",
        /// The longest request body: a whole history with its attachments.
        body: usize as Size = "1MiB",
        /// Text that waits for a reader that is behind is merged up to this size: much for a network, little for an eye. 1 merges nothing.
        merge: usize as Size = "4KiB",
        /// Certificate and key, with which the gateway speaks TLS.
        tls: Option<ServerTls> as Maybe<Section<ServerTlsKeys>>,
    }

    /// `[log]`.
    pub struct Log {
        /// The least that is logged.
        level: LogLevel as Word<LogLevel> = "info",
        /// How lines look.
        format: LogFormat as Word<LogFormat> = "text",
        /// Logs every request that was answered too, with its status and how long it took.
        access: bool as Flag = "false",
    }

    /// `[runs]`.
    pub struct Runs {
        /// Runs at once. Those above are refused as busy.
        limit: usize as Count = "10000",
        /// Where runs are kept.
        log: RunLogEngine as Inline<RunLogKeys>,
        /// How long a run may go without a sign of life of the gateway that drives it, before another takes it over.
        lease: Duration as Delay = "10s",
        /// How long a gateway that shares the log may be silent before others take its runs over.
        silence: Duration as Delay = "2s",
        /// What becomes of an agent's work when the log has lost its run.
        on_log_loss: OnLogLoss as Word<OnLogLoss> = "cancel",
        /// How long an ended run can be watched again.
        keep: Duration as Delay = "1h",
        /// Events of one run. A run with more is a loop, and fails.
        events: u64 as LongCount = "1000000",
        /// Memory of one run's events. A run with more fails.
        bytes: usize as Size = "64MiB",
        /// Memory of all runs, for the log in memory. Past it ended runs are forgotten, oldest end first; with none left, runs fail.
        memory: usize as Size = "1GiB",
    }

    /// `[tee]`.
    pub struct TeeSettings {
        /// What relates the call of a sub-agent to a run of the same principal, in this order; `[]` relates nothing. Without it: `token`, `trace` and `context` where there is one principal, `token` alone where there are more.
        relate_by: Option<Vec<RelateBy>> as Maybe<List<Word<RelateBy>>>,
    }

    /// `[telemetry]`.
    pub struct Telemetry {
        /// Where a collector takes OTLP: `http://collector:4317` for gRPC, `http://collector:4318` for HTTP. Without it nothing is exported.
        otlp: Option<String> as Maybe<Url>,
        /// How OTLP is sent.
        protocol: OtlpProtocol as Word<OtlpProtocol> = "grpc",
        /// The bearer token for the collector.
        token: Option<Secret> as Maybe<SecretName>,
        /// The share of runs that are traced, where the caller's trace context does not decide.
        sample: Share as ShareOfOne = "1",
        /// Records messages, arguments and results of tools in spans. They may hold what users wrote.
        content: bool as Flag = "false",
        /// Exports spans of runs.
        traces: bool as Flag = "true",
        /// How often the metrics of `/metrics` are exported too, such as `30s`; at least `1s`. Without it they are at `/metrics` alone.
        metrics: Option<Duration> as Maybe<Delay>,
        /// `service.name` of spans and metrics.
        service: String as Text = "aqueduct",
    }

    /// `[inspector]`.
    pub struct Inspector {
        /// Serves the inspector, a page for developers, at `/inspector`.
        enabled: bool as Flag = "false",
        /// The longest trace that the inspector converts or judges: 50,000 events are some 10 MiB.
        trace: usize as Size = "32MiB",
        /// Where traces are shown, with `{trace}` for the id of one: the list of runs links there.
        traces: Option<String> as Maybe<Text>,
    }

    /// `[principals.NAME]`.
    pub struct PrincipalConfig {
        /// The tenant that the principal belongs to. Name and tenant are stored with its runs: changing either hides them.
        tenant: String as Text,
        /// The bearer token that proves it, of at least 16 characters.
        token: Option<Secret> as Maybe<SecretName>,
        /// More tokens that prove it: while one is replaced by another, both are here.
        tokens: Vec<Secret> as List<SecretName> = "[]",
        /// The agents that it may run; without it, all.
        agents: Option<Vec<String>> as Maybe<List<Text>>,
        /// Client certificates that prove it, by one of their names: `CN=…`, `dns:…`, `email:…` or `uri:…`. Needs `server.tls.client_ca`.
        certificates: Vec<String> as List<Text> = "[]",
        /// `admin` sees and cancels the runs of all principals.
        role: Role as Word<Role> = "user",
        /// How much it may use at once, where that differs from `[quotas]`.
        quotas: PrincipalQuotas as Section<PrincipalQuotas>,
        /// Owners that version 0.1 stored for it: `gateway/0` was the first of `server.tokens`, `NAME/0` the first token of an agent.
        was: Vec<String> as List<Text> = "[]",
    }

    /// `[issuers.NAME]`.
    pub struct Issuer {
        /// The claim `iss` of its tokens, and where its discovery document is, below `/.well-known/openid-configuration`.
        issuer: String as Needed<Url>,
        /// Values of the claim `aud` that are taken.
        audiences: Vec<String> as Needed<List<Text, 1>>,
        /// A file with its keys (JWKS), instead of discovery.
        keys_file: Option<PathBuf> as Maybe<File>,
        /// The address of its keys (JWKS), instead of discovery.
        keys_url: Option<String> as Maybe<Url>,
        /// How old keys may become before they are fetched again. A token with an unknown key has them fetched at once.
        refresh: Duration as Delay = "15m",
        /// Algorithms of signatures that are taken.
        algorithms: Vec<JwtAlgorithm> as List<Word<JwtAlgorithm>, 1> = "[\"RS256\", \"ES256\", \"EdDSA\"]",
        /// By how much clocks may differ.
        leeway: Duration as Delay = "30s",
        /// The claim that names the subject. Paths have dots: `resource.id`.
        subject_claim: String as Text = "sub",
        /// The tenant of all its principals.
        tenant: String as Text,
        /// The claim that names the tenant, instead of `tenant`.
        tenant_claim: Option<String> as Maybe<Text>,
        /// The claim that lists the agents that the principal may run; without it, all.
        agents_claim: Option<String> as Maybe<Text>,
        /// The claim that lists roles, such as `realm_access.roles`.
        roles_claim: Option<String> as Maybe<Text>,
        /// The role that makes an admin.
        admin_role: Option<String> as Maybe<Text>,
        /// Whom fetches of keys trust, and as whom they come.
        tls: Option<ClientTls> as Maybe<Section<ClientTlsKeys>>,
    }

    /// `[agents.NAME]`.
    pub struct Agent {
        /// What the agent is for, as `GET /agents` tells it.
        description: String as Text,
        /// Where its stream comes from.
        source: AgentSource as Inline<SourceKeys>,
        /// The AG-UI dialect of the output; `auto` goes by what the client declares.
        dialect: DialectChoice as Word<DialectChoice> = "auto",
        /// How sub-agents are shown. Without it: `attributed` in 1.0, `tool` in 0.0.59.
        subagents: Option<Subagents> as Maybe<Word<Subagents>>,
        /// How the work on the way to the answer is shown.
        intermediate: IntermediateView as Word<IntermediateView> = "reasoning",
        /// How questions to a human are shown. Without it: `interrupt` in 1.0, `text` in 0.0.59.
        interrupts: Option<Interrupts> as Maybe<Word<Interrupts>>,
        /// How a failure is shown: `text` writes it as a message too, for frontends that show nothing of `RUN_ERROR` and a
        /// failed tool as done. Without it: `error` in 1.0, `text` in 0.0.59.
        errors: Option<Errors> as Maybe<Word<Errors>>,
        /// Whether a text of a sub-agent begins with its name (`**historian:** …`) where `subagents` is `inline` or `tool`. Without it:
        /// no in 1.0, yes in 0.0.59.
        labels: Option<bool> as Maybe<Flag>,
        /// The A2A bindings that its card names, best first.
        bindings: Vec<A2aBinding> as List<Word<A2aBinding>> = "[\"jsonrpc\", \"rest\", \"grpc\"]",
        /// Public keys (PEM), one of which must have signed the card of an `a2a` agent.
        card_keys: Vec<PathBuf> as List<File> = "[]",
        /// Who may see its A2A card: callers that may use the agent, or all.
        card: CardAccess as Word<CardAccess> = "agent",
        /// Limits in time.
        timeouts: Timeouts as Section<Timeouts>,
        /// Limits in size.
        limits: Limits as Section<Limits>,
        /// How often a connection that cannot be made is tried again, with growing pauses, and one retry for ten calls at most.
        retries: u32 as Whole = "2",
        /// When the agent is given up for a while.
        circuit: Circuit as Section<Circuit>,
        /// Headers of the caller that the agent gets too, by name.
        forward_headers: Vec<String> as List<HeaderName> = "[]",
        /// The bearer token that the agent gets.
        credentials: Option<Secret> as Maybe<SecretName>,
        /// Bearer tokens that are good for this agent, as `server.tokens`: prefer `[principals.NAME]`.
        tokens: Vec<Secret> as List<SecretName> = "[]",
        /// Principals (`NAME`, `TENANT:NAME`) whose calls of this agent may belong to runs of others: those of supervisors that call with a token of their own.
        supervisors: Vec<String> as List<Text> = "[]",
        /// Who answers what the agent asks (`input-required`) when a supervisor calls it through the gateway: the supervisor, or the user of the run.
        questions: Questions as Word<Questions> = "supervisor",
        /// What becomes of a run without watchers.
        on_disconnect: OnDisconnect as Word<OnDisconnect> = "continue",
        /// How long a run that goes on without watchers waits for one, before it is cancelled.
        grace: Duration as Delay = "60s",
        /// Whom its calls trust, and as whom they come.
        tls: Option<ClientTls> as Maybe<Section<ClientTlsKeys>>,
    }

    /// `[agents.NAME.timeouts]`.
    pub struct Timeouts {
        /// For the connection to the agent.
        connect: Duration as Delay = "5s",
        /// From a request to the head of its answer.
        response: Duration as Delay = "5m",
        /// Without a byte of the agent's stream.
        idle: Duration as Delay = "5m",
        /// For a whole run.
        run: Duration as Delay = "1h",
        /// For the user's reply to what a sub-agent asks (`questions = "user"`), while the agent that called it waits.
        reply: Duration as Delay = "10m",
    }

    /// `[agents.NAME.limits]`.
    pub struct Limits {
        /// One event of the agent's stream. Frontends take no more.
        frame: usize as Size = "10MiB",
        /// Sub-agents open at once in one run.
        lanes: usize as Count = "1024",
        /// Blocks open at once in one sub-agent.
        blocks: usize as Count = "256",
        /// Calls and streams of the agent at once. Those above wait for `timeouts.connect`, then fail as `upstream_busy`.
        concurrency: Option<usize> as Maybe<Count>,
        /// Calls to the agent per second, with bursts of as many. Those above wait as long, and fail likewise.
        rate: Option<usize> as Maybe<Count>,
    }

    /// `[agents.NAME.circuit]`.
    pub struct Circuit {
        /// Calls in a row that find no agent, before none is sent for `pause`; 0 for never. They fail as `upstream_circuit_open`.
        failures: u32 as Whole = "5",
        /// How long no call is sent; then one tries.
        pause: Duration as Delay = "10s",
    }
}

words! {
    Subagents { "attributed" => Attributed, "inline" => Inline, "tool" => Tool, "hidden" => Hidden }
    Errors { "error" => Error, "text" => Text }
    StreamShape {
        "auto" => Auto, "notices" => Notices, "fragments" => Fragments, "cumulative" => Cumulative,
        "deltas" => Deltas, "answer" => Answer,
    }
    IntermediateView { "reasoning" => Reasoning, "text" => Text, "hidden" => Hidden }
    Interrupts { "interrupt" => Interrupt, "text" => Text }
}

choices! {
    /// Which addresses A2A clients may register for push notifications.
    pub enum PushAccess {
        /// None: push notifications are refused.
        #[default]
        Off = "off",
        /// Addresses of the public internet.
        Public = "public",
        /// Any address that the gateway can reach.
        Any = "any",
    }

    /// Who answers an interrupt of a sub-agent that a supervisor calls.
    pub enum Questions {
        /// The supervisor that called it; the user's run contains a notice.
        #[default]
        Supervisor = "supervisor",
        /// The user: the interrupt of the sub-agent becomes an interrupt of the run, and the supervisor's call
        /// continues with the reply.
        User = "user",
    }

    /// `log.level`.
    #[expect(missing_docs, reason = "the names are those of every logger")]
    pub enum LogLevel {
        Error = "error",
        Warn = "warn",
        #[default]
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }

    /// `log.format`.
    pub enum LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }

    /// The transport of OTLP.
    #[expect(missing_docs, reason = "the names are those of the protocol")]
    pub enum OtlpProtocol {
        #[default]
        Grpc = "grpc",
        Http = "http",
    }

    /// How the call of a sub-agent is related to a run.
    pub enum RelateBy {
        /// By the token that the agent of the run received.
        #[default]
        Token = "token",
        /// By the trace id of W3C `traceparent`.
        Trace = "trace",
        /// By the A2A context id.
        Context = "context",
    }

    /// What a principal may access beside its own runs.
    pub enum Role {
        /// No other runs.
        #[default]
        User = "user",
        /// Lists, watches and cancels the runs of all principals.
        Admin = "admin",
    }

    /// A signature algorithm of JWTs.
    #[expect(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
    pub enum JwtAlgorithm {
        #[default]
        Rs256 = "RS256",
        Rs384 = "RS384",
        Rs512 = "RS512",
        Ps256 = "PS256",
        Es256 = "ES256",
        Es384 = "ES384",
        EdDsa = "EdDSA",
    }

    /// The protocol binding of an A2A agent.
    #[expect(missing_docs, reason = "the names are those of the protocol")]
    pub enum A2aBinding {
        #[default]
        JsonRpc = "jsonrpc",
        Rest = "rest",
        Grpc = "grpc",
    }

    /// The version of A2A.
    #[expect(missing_docs, reason = "the names are those of the protocol")]
    pub enum A2aVersion {
        #[default]
        V1_0 = "1.0",
        V0_3 = "0.3",
    }

    /// What the gateway serves at `/a2a/{name}` for an A2A agent.
    pub enum A2aExposure {
        /// A proxy: calls are forwarded to the agent.
        #[default]
        Proxy = "proxy",
        /// A server of the gateway, over the runs of the agent.
        Serve = "serve",
    }

    /// The AG-UI dialect of the output.
    #[expect(missing_docs, reason = "the names are those of the protocol")]
    pub enum DialectChoice {
        #[default]
        Auto = "auto",
        V1_0 = "1.0",
        V0_0_59 = "0.0.59",
    }

    /// Which callers may read the A2A card of an agent.
    pub enum CardAccess {
        /// Callers that may run the agent.
        #[default]
        Agent = "agent",
        /// All callers.
        Public = "public",
    }

    /// What the engine does with the agent's work after the log has lost the run.
    pub enum OnLogLoss {
        /// Cancels the work at the agent.
        #[default]
        Cancel = "cancel",
        /// Lets the agent finish.
        Keep = "keep",
    }

    /// What the engine does with a run whose last watcher has left.
    pub enum OnDisconnect {
        /// The run goes on, and is cancelled if no watcher returns within `grace`.
        #[default]
        Continue = "continue",
        /// It is cancelled at once.
        Cancel = "cancel",
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
