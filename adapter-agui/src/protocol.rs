//! [`AguiProtocol`]: AG-UI as a [`Protocol`], once for all transports.
//!
//! ```text
//! bytes ──► RunAgentInput ── ids present? ──► RunInput
//!                └ declared version ──► Settings of the agent ──► WatcherEncoder
//! ```
//!
//! A function returns the settings of an agent, because a host may change them while it serves. The protocol has no state.

use std::sync::Arc;

use aqueduct_core::protocol::{Encoding, Protocol, ReadInput};
use aqueduct_core::service::{EventEncoder, RefusalKind, ServiceError};

use crate::config::Settings;
use crate::encode::WatcherEncoder;
use crate::input::{read_input, run_input};
use crate::version::{self, PROTOCOL_VERSION};

/// Returns the settings of an agent for a peer that declared this version.
type SettingsFor = dyn Fn(&str, Option<&str>) -> Settings + Send + Sync;

/// Reads inputs and creates encoders for AG-UI.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_agui::protocol::AguiProtocol;
/// use aqueduct_core::protocol::{Encoding, Protocol as _};
///
/// let input = br#"{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[]}"#;
/// let read = AguiProtocol::default().read_input("oracle", input, Encoding::Json).unwrap();
/// assert_eq!(read.input.run_id.as_str(), "r");
/// ```
#[derive(Clone)]
pub struct AguiProtocol {
    settings: Arc<SettingsFor>,
}

impl AguiProtocol {
    /// Returns the protocol with `settings`, a function of the agent and the declared version.
    pub fn new(settings: impl Fn(&str, Option<&str>) -> Settings + Send + Sync + 'static) -> Self {
        Self { settings: Arc::new(settings) }
    }

    /// Returns the settings of `agent` for a peer that declared this version.
    pub fn settings(&self, agent: &str, declared: Option<&str>) -> Settings {
        (self.settings)(agent, declared)
    }

    /// Returns the encoder for a peer that declared this version.
    pub fn watcher(
        &self,
        agent: &str,
        declared: Option<&str>,
        encoding: version::Encoding,
    ) -> WatcherEncoder {
        WatcherEncoder::for_settings(&self.settings(agent, declared), encoding)
    }

    /// Like [`Protocol::read_input`], for transports that choose the encoding by the declared version.
    ///
    /// # Errors
    ///
    /// Returns a refusal of kind [`Invalid`](RefusalKind::Invalid) if `bytes` are not an input.
    pub fn read(
        &self,
        agent: &str,
        bytes: &[u8],
        encoding: impl FnOnce(Option<&str>) -> version::Encoding,
    ) -> Result<ReadInput, ServiceError> {
        let invalid = |message: String| ServiceError::new(RefusalKind::Invalid, message);
        let input = read_input(bytes).map_err(|error| invalid(error.to_string()))?;
        for (member, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
            if id.is_empty() {
                return Err(invalid(format!("{member} is empty: choose an id of your own")));
            }
        }
        let declared = input.protocol_version.as_deref();
        let encoding = encoding(declared);
        let encoder = self.watcher(agent, declared_for(declared, encoding), encoding);
        Ok(ReadInput::new(run_input(input), Box::new(encoder)))
    }
}

/// Uses the default settings of the dialect for every agent.
impl Default for AguiProtocol {
    fn default() -> Self {
        Self::new(|_, declared| Settings::for_declared(declared))
    }
}

aqueduct_core::debug_fields!(AguiProtocol {});

impl Protocol for AguiProtocol {
    fn read_input(&self, agent: &str, bytes: &[u8], encoding: Encoding) -> Result<ReadInput, ServiceError> {
        self.read(agent, bytes, |_| wire_encoding(encoding))
    }

    fn encoder(&self, agent: &str, declared: Option<&str>, encoding: Encoding) -> Box<dyn EventEncoder> {
        let encoding = wire_encoding(encoding);
        Box::new(self.watcher(agent, declared_for(declared, encoding), encoding))
    }
}

/// Returns the version of a peer. 0.0.x peers cannot read the bytes of 1.0, so a peer that accepts them is one of 1.0.
fn declared_for(declared: Option<&str>, encoding: version::Encoding) -> Option<&str> {
    declared.or_else(|| (encoding == version::Encoding::Proto).then_some(PROTOCOL_VERSION))
}

fn wire_encoding(encoding: Encoding) -> version::Encoding {
    match encoding {
        Encoding::Binary => version::Encoding::Proto,
        _ => version::Encoding::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Dialect;

    #[test]
    fn an_input_without_ids_is_refused_with_the_member() {
        for (input, member) in [
            (r#"{"threadId":"","runId":"r","messages":[],"tools":[],"context":[]}"#, "threadId"),
            (r#"{"threadId":"t","runId":"","messages":[],"tools":[],"context":[]}"#, "runId"),
        ] {
            let refused =
                AguiProtocol::default().read_input("a", input.as_bytes(), Encoding::Json).unwrap_err();
            assert_eq!(refused.kind, RefusalKind::Invalid);
            assert!(refused.message.starts_with(member), "{refused}");
        }
    }

    #[test]
    fn the_agent_and_the_declared_version_choose_the_settings() {
        let protocol = AguiProtocol::new(|agent, declared| {
            assert_eq!((agent, declared), ("a", Some("1.0")));
            Settings::new(Dialect::V1_0)
        });
        let input = br#"{"threadId":"t","runId":"r","messages":[],"protocolVersion":"1.0"}"#;
        let read = protocol
            .read("a", input, |declared| version::negotiate(Some(version::MEDIA_TYPE_PROTO), declared));
        assert!(read.unwrap().encoder.is_binary());
        assert!(protocol.encoder("a", None, Encoding::Binary).is_binary(), "binary is 1.0");
    }
}
