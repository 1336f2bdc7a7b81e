//! The layers of the workspace, and the allowed dependencies between them.
//!
//! ```text
//! gateway ──► aqueduct ──► runs ──► runlog ──► core
//!                 │  ├──► adapter-* ─────────► core
//!                 │  └──► transport-* ───────► core     (transport-ws, transport-grpc ──► transport-http)
//! tests, benches, fuzz, examples ──► anything        xtask ──► nothing of ours
//! ```
//!
//! The folder determines the layer, so a new folder must be added here first.

/// The layer of a crate in the picture above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The canonical model and the machines.
    Core,
    /// One agent protocol.
    Adapter,
    /// One transport, mounted on the server of [`Layer::Http`].
    Transport,
    /// The one server, and HTTP itself.
    Http,
    /// The run log.
    Runlog,
    /// The run engine.
    Runs,
    /// The crate where adapters, transports and the engine meet.
    Umbrella,
    /// The binary: configuration, identity, tee, command line.
    Gateway,
    /// Tests, benches and fuzz targets.
    Tests,
    /// Programs that demonstrate the use of the crates.
    Examples,
    /// This tool.
    Xtask,
}

impl Layer {
    /// Returns the layer of the crate in `folder` (a path from the root of the workspace).
    pub(crate) fn of(folder: &str) -> Option<Self> {
        let top = folder.split('/').next()?;
        match top {
            "core" => Some(Self::Core),
            "runlog" => Some(Self::Runlog),
            "runs" => Some(Self::Runs),
            "aqueduct" => Some(Self::Umbrella),
            "gateway" => Some(Self::Gateway),
            "tests" | "benches" | "fuzz" => Some(Self::Tests),
            "examples" => Some(Self::Examples),
            "xtask" => Some(Self::Xtask),
            "transport-http" => Some(Self::Http),
            _ if top.starts_with("adapter-") => Some(Self::Adapter),
            _ if top.starts_with("transport-") => Some(Self::Transport),
            _ => None,
        }
    }

    /// Returns `true` if a crate of this layer may depend on another crate of ours in layer `other`.
    pub(crate) fn may_use(self, other: Self) -> bool {
        match self {
            Self::Core | Self::Xtask => false,
            Self::Adapter | Self::Runlog | Self::Http => other == Self::Core,
            Self::Transport => matches!(other, Self::Core | Self::Http),
            Self::Runs => matches!(other, Self::Core | Self::Runlog),
            Self::Umbrella => !matches!(other, Self::Umbrella | Self::Gateway) && other.is_library(),
            Self::Gateway => other.is_library(),
            Self::Tests | Self::Examples => true,
        }
    }

    /// Returns `true` if other crates depend on it.
    pub(crate) fn is_library(self) -> bool {
        !matches!(self, Self::Gateway | Self::Tests | Self::Examples | Self::Xtask)
    }

    /// Returns `true` if its code must work without a runtime, a socket or a clock.
    pub(crate) fn is_sans_io(self) -> bool {
        matches!(self, Self::Core | Self::Adapter)
    }

    /// Returns `true` if it may use untyped errors: programs may, libraries return typed ones.
    pub(crate) fn may_use_anyhow(self) -> bool {
        matches!(self, Self::Gateway | Self::Tests | Self::Examples | Self::Xtask)
    }

    /// Returns the rule as text, for messages.
    pub(crate) fn rule(self) -> &'static str {
        match self {
            Self::Core => "core depends on no other crate of the workspace",
            Self::Adapter => "an adapter depends on core alone, never on a transport or another adapter",
            Self::Http => "transport-http depends on core, and knows no agent protocol",
            Self::Transport => {
                "a transport depends on core and on transport-http, and knows no agent protocol"
            }
            Self::Runlog => "runlog depends on core alone",
            Self::Runs => "runs depends on core and runlog: it knows no protocol and no socket",
            Self::Umbrella => "aqueduct depends on the libraries below it",
            Self::Xtask => "xtask depends on no crate of the workspace",
            Self::Gateway => "the gateway depends on libraries",
            Self::Tests | Self::Examples => "anything goes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_may_use_everything_and_nobody_below_may_use_them() {
        let examples = Layer::of("examples/agui-endpoint").unwrap();
        assert_eq!(examples, Layer::Examples);
        for other in [Layer::Core, Layer::Adapter, Layer::Transport, Layer::Runlog, Layer::Examples] {
            assert!(examples.may_use(other), "{other:?}");
        }
        for lower in [Layer::Core, Layer::Adapter, Layer::Transport, Layer::Runlog, Layer::Xtask] {
            assert!(!lower.may_use(examples), "{lower:?}");
        }
    }

    #[test]
    fn the_engine_knows_no_protocol_and_transports_know_only_the_server() {
        let layer = |folder| Layer::of(folder).unwrap();
        for (folder, other, may) in [
            ("runs", "runlog", true),
            ("runs", "adapter-agui", false),
            ("runs", "transport-http", false),
            ("transport-ws", "transport-http", true),
            ("transport-grpc", "transport-ws", false),
            ("transport-http", "transport-grpc", false),
            ("aqueduct", "runs", true),
            ("aqueduct", "gateway", false),
            ("gateway", "aqueduct", true),
            ("runlog", "runs", false),
        ] {
            assert_eq!(layer(folder).may_use(layer(other)), may, "{folder} -> {other}");
        }
    }

    #[test]
    fn a_folder_without_a_layer_has_none() {
        assert_eq!(Layer::of("example/agui-endpoint"), None);
    }
}
