//! `[agents.NAME]` and its tables: the keys of one agent.
//!
//! The addresses and certificates that several keys make together are built in `build`.

use std::path::PathBuf;
use std::time::Duration;

use aqueduct::remote::Secret;
use aqueduct_adapter_agui::config::{Errors, Interrupts, Subagents};
use aqueduct_core::IntermediateView;

use super::super::build::{ClientTlsKeys, SourceKeys};
use super::super::keys::keys;
use super::super::kind::{Count, Delay, File, Flag, HeaderName, SecretName, Size, Text, Whole, Word};
use super::super::shape::{Inline, List, Maybe, Section};
use super::choice::{A2aBinding, CardAccess, DialectChoice, OnDisconnect, Questions};
use super::{AgentSource, ClientTls};

keys! {
    /// `[agents.NAME]`.
    pub struct Agent {
        /// The description of the agent in `GET /agents`.
        description: String as Text,
        /// The source of the agent's stream.
        source: AgentSource as Inline<SourceKeys>,
        /// The AG-UI dialect of the output; `auto` uses the version that the client declares.
        dialect: DialectChoice as Word<DialectChoice> = "auto",
        /// How sub-agents are shown. Without it: `attributed` in 1.0, `tool` in 0.0.59.
        subagents: Option<Subagents> as Maybe<Word<Subagents>>,
        /// How intermediate text is shown.
        intermediate: IntermediateView as Word<IntermediateView> = "reasoning",
        /// How interrupts are shown. Without it: `interrupt` in 1.0, `text` in 0.0.59.
        interrupts: Option<Interrupts> as Maybe<Word<Interrupts>>,
        /// How a failure is shown: `text` writes it as a message too, for frontends that show nothing of `RUN_ERROR` and a
        /// failed tool as done. Without it: `error` in 1.0, `text` in 0.0.59.
        errors: Option<Errors> as Maybe<Word<Errors>>,
        /// Whether a text of a sub-agent begins with its name (`**historian:** …`) where `subagents` is `inline` or `tool`. Without it:
        /// no in 1.0, yes in 0.0.59.
        labels: Option<bool> as Maybe<Flag>,
        /// The A2A bindings in the agent's card, best first.
        bindings: Vec<A2aBinding> as List<Word<A2aBinding>> = "[\"jsonrpc\", \"rest\", \"grpc\"]",
        /// Public keys (PEM), one of which must have signed the card of an `a2a` agent.
        card_keys: Vec<PathBuf> as List<File> = "[]",
        /// Which callers may read the A2A card: those that may run the agent, or all.
        card: CardAccess as Word<CardAccess> = "agent",
        /// Timeouts.
        timeouts: Timeouts as Section<Timeouts>,
        /// Limits of size and number.
        limits: Limits as Section<Limits>,
        /// Retries of a failed connect, with growing pauses, and at most one retry per ten calls.
        retries: u32 as Whole = "2",
        /// The circuit breaker of the agent.
        circuit: Circuit as Section<Circuit>,
        /// Names of headers of the caller that are forwarded to the agent.
        forward_headers: Vec<String> as List<HeaderName> = "[]",
        /// The bearer token that is sent to the agent.
        credentials: Option<Secret> as Maybe<SecretName>,
        /// Bearer tokens that give access to this agent, as `server.tokens`: prefer `[principals.NAME]`.
        tokens: Vec<Secret> as List<SecretName> = "[]",
        /// Principals (`NAME`, `TENANT:NAME`) whose calls of this agent may be related to runs of other principals: supervisors with a token of their own.
        supervisors: Vec<String> as List<Text> = "[]",
        /// Who answers interrupts of the agent (`input-required`) when a supervisor calls it through the gateway: the supervisor, or the user of the run.
        questions: Questions as Word<Questions> = "supervisor",
        /// Whether a run without watchers continues.
        on_disconnect: OnDisconnect as Word<OnDisconnect> = "continue",
        /// How long a run without watchers waits for one before it is cancelled.
        grace: Duration as Delay = "60s",
        /// Trusted authorities and client certificate for calls to the agent.
        tls: Option<ClientTls> as Maybe<Section<ClientTlsKeys>>,
    }

    /// `[agents.NAME.timeouts]`.
    pub struct Timeouts {
        /// The timeout of connecting to the agent.
        connect: Duration as Delay = "5s",
        /// The timeout from a request to the head of its response.
        response: Duration as Delay = "5m",
        /// The timeout of an agent's stream without a byte.
        idle: Duration as Delay = "5m",
        /// The longest duration of a run.
        run: Duration as Delay = "1h",
        /// How long the user's reply to an interrupt of a sub-agent (`questions = "user"`) is awaited, while the calling agent waits.
        reply: Duration as Delay = "10m",
    }

    /// `[agents.NAME.limits]`.
    pub struct Limits {
        /// The largest event of the agent's stream. Frontends accept no more.
        frame: usize as Size = "10MiB",
        /// Sub-agents open at once in one run.
        lanes: usize as Count = "1024",
        /// Blocks open at once in one sub-agent.
        blocks: usize as Count = "256",
        /// Concurrent calls and streams of the agent. Further ones wait for `timeouts.connect`, then fail as `upstream_busy`.
        concurrency: Option<usize> as Maybe<Count>,
        /// Calls to the agent per second, with bursts of as many. Further ones wait as long, and fail likewise.
        rate: Option<usize> as Maybe<Count>,
    }

    /// `[agents.NAME.circuit]`.
    pub struct Circuit {
        /// Consecutive calls that do not reach the agent before none is sent for `pause`; 0 for never. Calls meanwhile fail as `upstream_circuit_open`.
        failures: u32 as Whole = "5",
        /// How long no call is sent; then one call probes.
        pause: Duration as Delay = "10s",
    }
}
