//! The configuration as the gateway uses it. Every field has the name of its key; `docs/configuration.md` explains it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::source::replay::Speed;
use crate::source::script::Script;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Config {
    pub server: Server,
    pub log: Log,
    pub runs: Runs,
    pub tee: TeeSettings,
    pub inspector: Inspector,
    pub agents: BTreeMap<String, Agent>,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Server {
    pub listen: Vec<SocketAddr>,
    pub public_url: Option<String>,
    pub push: PushAccess,
    pub grpc: Vec<SocketAddr>,
    pub allow_unauthenticated: bool,
    pub hosts: Vec<String>,
    pub any_host: bool,
    pub origins: Vec<String>,
    pub cors: bool,
    pub tokens: Vec<Secret>,
    pub drain: Duration,
    pub connections: usize,
    pub body: usize,
    pub merge: usize,
    pub tls: Option<ServerTls>,
}

/// `[server.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct ServerTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_ca: Option<PathBuf>,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Log {
    pub level: String,
    pub json: bool,
}

/// `[runs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Runs {
    pub limit: usize,
    pub log: RunLogEngine,
    pub lease: Duration,
    pub keep: Duration,
    pub events: u64,
    pub bytes: usize,
    pub memory: usize,
}

/// `[tee]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct TeeSettings {
    pub relate_by: Vec<RelateBy>,
}

/// What relates the call of a sub-agent to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelateBy {
    /// The token that the run's agent was given.
    Token,
    /// The trace id of W3C `traceparent`.
    Trace,
    /// The A2A context id.
    Context,
}

/// `[inspector]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Inspector {
    pub enabled: bool,
    pub trace: usize,
}

/// Where runs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunLogEngine {
    /// In this process.
    Memory,
    /// In a folder.
    Disk(PathBuf),
    /// On a server that several gateways share.
    Redis {
        /// Its address, which may hold a password.
        url: Secret,
        /// What keys begin with.
        prefix: String,
        /// Authorities to trust instead of the public ones, for a server with TLS.
        ca: Option<PathBuf>,
    },
}

/// `[agents.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Agent {
    pub description: String,
    pub source: AgentSource,
    pub dialect: DialectChoice,
    pub subagents: Option<String>,
    pub intermediate: String,
    pub interrupts: Option<String>,
    pub card: CardAccess,
    pub timeouts: Timeouts,
    pub limits: Limits,
    pub forward_headers: Vec<String>,
    pub credentials: Option<Secret>,
    pub tokens: Vec<Secret>,
    pub on_disconnect: OnDisconnect,
    pub grace: Duration,
    pub tls: Option<ClientTls>,
}

/// How an agent's stream can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub enum AgentSource {
    A2a {
        address: A2aAddress,
        binding: Option<A2aBinding>,
        version: A2aVersion,
        expose: A2aExposure,
    },
    Agui {
        url: String,
    },
    Magentic,
    Script {
        file: PathBuf,
    },
    /// A script that is part of the program. No key names it.
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

/// Where an A2A agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum A2aAddress {
    /// By its address.
    Url(String),
    /// By the address of its card.
    Card(String),
}

/// How to talk to an A2A agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum A2aBinding {
    JsonRpc,
    Rest,
    Grpc,
}

/// What is at `/a2a/{name}` for an A2A agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum A2aExposure {
    /// The agent itself: calls pass through to it.
    Proxy,
    /// The gateway's own server, over the runs of the agent.
    Serve,
}

/// In which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum A2aVersion {
    V1_0,
    V0_3,
}

/// The AG-UI dialect of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub enum DialectChoice {
    Auto,
    V1_0,
    V0_0_59,
}

/// Where A2A clients may want to be called back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushAccess {
    /// Nowhere.
    Off,
    /// At addresses of the public internet.
    Public,
    /// Anywhere that the gateway can reach.
    Any,
}

/// Who may see an agent's A2A card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardAccess {
    /// Whoever may use the agent.
    Agent,
    /// Everybody.
    Public,
}

/// `[agents.NAME.timeouts]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Timeouts {
    pub connect: Duration,
    pub response: Duration,
    pub idle: Duration,
    pub run: Duration,
}

/// `[agents.NAME.limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct Limits {
    pub frame: usize,
    pub lanes: usize,
    pub blocks: usize,
}

/// `[agents.NAME.tls]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the keys are documented in `keys.rs`")]
pub struct ClientTls {
    pub ca: Option<PathBuf>,
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What becomes of a run that nobody watches any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It goes on, and is cancelled if nobody comes back in time.
    Continue,
    /// It is cancelled at once.
    Cancel,
}

/// A secret. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What an agent has without a word in the file; its source is one that nobody can ask.
impl Default for Agent {
    fn default() -> Self {
        super::default_agent()
    }
}
