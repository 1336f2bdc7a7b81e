//! The values of keys that accept one of a fixed list of words.
//!
//! `words!` names the values of enums that other crates define, `choices!` defines an enum of the gateway with its words.

use aqueduct_adapter_a2a::config::StreamShape;
pub use aqueduct_adapter_a2a::version::{Binding as A2aBinding, Version as A2aVersion};
use aqueduct_adapter_agui::config::{Errors, Interrupts, Subagents};
use aqueduct_core::IntermediateView;
pub use aqueduct_runs::{OnDisconnect, OnLogLoss};
pub use jsonwebtoken::Algorithm as JwtAlgorithm;

use super::super::kind::{choices, words};

words! {
    Subagents { "attributed" => Attributed, "inline" => Inline, "tool" => Tool, "hidden" => Hidden }
    Errors { "error" => Error, "text" => Text }
    StreamShape {
        "auto" => Auto, "notices" => Notices, "fragments" => Fragments, "cumulative" => Cumulative,
        "deltas" => Deltas, "answer" => Answer,
    }
    IntermediateView { "reasoning" => Reasoning, "text" => Text, "hidden" => Hidden }
    Interrupts { "interrupt" => Interrupt, "text" => Text }
    A2aBinding { "jsonrpc" => JsonRpc, "rest" => HttpJson, "grpc" => Grpc }
    A2aVersion { "1.0" => V1, "0.3" => V03 }
    // No symmetric algorithms, and no `none`: an issuer signs with a key that the gateway does not have.
    JwtAlgorithm {
        "RS256" => RS256, "RS384" => RS384, "RS512" => RS512, "PS256" => PS256, "ES256" => ES256,
        "ES384" => ES384, "EdDSA" => EdDSA,
    }
    OnLogLoss { "cancel" => Cancel, "keep" => Keep }
    OnDisconnect { "continue" => Continue, "cancel" => Cancel }
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
}
