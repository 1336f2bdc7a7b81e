//! The layers of the workspace and who may depend on whom.
//!
//! ```text
//! gateway ──► aqueduct ──► adapter-*  ──► core ◄── transport-*, runlog ◄── runs ◄── aqueduct
//!                                      transport-* ──► transport-tls
//! tests, benches, fuzz, examples ──► anything        xtask ──► nothing of ours
//! ```
//!
//! The folder decides the layer, so a new folder needs a decision here before it can join.

/// The place of a crate in the picture above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Canonical model and machines.
    Core,
    /// One agent protocol.
    Adapter,
    /// One way to move bytes.
    Transport,
    /// Certificates and keys, for all transports.
    Tls,
    /// The run log.
    Runlog,
    /// Where adapters meet transports, for library users.
    Umbrella,
    /// The run engine.
    Runs,
    /// The binary that wires all together.
    Gateway,
    /// Tests, benches and fuzz targets.
    Tests,
    /// Programs that show how the crates are put together.
    Examples,
    /// This tool.
    Xtask,
}

impl Layer {
    /// The layer of the crate in `folder` (a path from the root of the workspace).
    pub(crate) fn of(folder: &str) -> Option<Self> {
        let top = folder.split('/').next()?;
        match top {
            "core" => Some(Self::Core),
            "runlog" => Some(Self::Runlog),
            "aqueduct" => Some(Self::Umbrella),
            "runs" => Some(Self::Runs),
            "gateway" => Some(Self::Gateway),
            "tests" | "benches" | "fuzz" => Some(Self::Tests),
            "examples" => Some(Self::Examples),
            "xtask" => Some(Self::Xtask),
            "transport-tls" => Some(Self::Tls),
            _ if top.starts_with("adapter-") => Some(Self::Adapter),
            _ if top.starts_with("transport-") => Some(Self::Transport),
            _ => None,
        }
    }

    /// Whether a crate of this layer may depend on another crate of ours in layer `other`.
    pub(crate) fn may_use(self, other: Self) -> bool {
        match self {
            Self::Core | Self::Tls | Self::Xtask => false,
            Self::Adapter | Self::Runlog => other == Self::Core,
            Self::Runs => matches!(other, Self::Core | Self::Runlog),
            Self::Transport => matches!(other, Self::Core | Self::Tls),
            Self::Umbrella => {
                matches!(other, Self::Core | Self::Adapter | Self::Transport | Self::Runlog | Self::Runs)
            }
            Self::Gateway | Self::Tests | Self::Examples => true,
        }
    }

    /// Whether its code must work without a runtime, a socket or a clock.
    pub(crate) fn is_sans_io(self) -> bool {
        matches!(self, Self::Core | Self::Adapter)
    }

    /// Whether it may use untyped errors: programs may, libraries owe their callers a typed error.
    pub(crate) fn may_use_anyhow(self) -> bool {
        matches!(self, Self::Gateway | Self::Tests | Self::Examples | Self::Xtask)
    }

    /// The rule in words, for messages.
    pub(crate) fn rule(self) -> &'static str {
        match self {
            Self::Core => "core depends on no other crate of the workspace",
            Self::Adapter => "an adapter depends on core alone, never on a transport or another adapter",
            Self::Transport => {
                "a transport depends on core and on transport-tls, and knows no agent protocol"
            }
            Self::Tls => "transport-tls depends on no other crate of the workspace",
            Self::Runlog => "runlog depends on core alone",
            Self::Umbrella => "aqueduct depends on libraries of the workspace alone",
            Self::Runs => "runs depends on core and runlog, and knows no protocol and no transport",
            Self::Xtask => "xtask depends on no crate of the workspace",
            Self::Gateway | Self::Tests | Self::Examples => "anything goes",
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
    fn a_folder_without_a_layer_has_none() {
        assert_eq!(Layer::of("example/agui-endpoint"), None);
    }
}
