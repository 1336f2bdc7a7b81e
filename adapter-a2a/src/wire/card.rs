//! [`AgentCard`]: 1.0, 0.3 and union cards read into one type. Members that no rule needs stay in `extra`, so a
//! card can be shown or passed on whole.

use super::object::object;
use super::text::{Raw, Text};

object! {
    /// What an agent says of itself.
    pub struct AgentCard {
        /// Its name.
        name: Text<'a> = "name",
        /// What it is for.
        description: Text<'a> = "description",
        /// Its own version.
        version: Text<'a> = "version",
        /// 1.0: where and how it can be reached, best first.
        supported_interfaces: Vec<AgentInterface<'a>> = "supportedInterfaces" | "supported_interfaces",
        /// What it can do beside answering.
        capabilities: AgentCapabilities<'a> = "capabilities",
        /// Media types it reads.
        default_input_modes: Vec<Text<'a>> = "defaultInputModes",
        /// Media types it writes.
        default_output_modes: Vec<Text<'a>> = "defaultOutputModes",
        /// What it is good at.
        skills: Vec<Raw<'a>> = "skills",
        /// 0.3: where it can be reached.
        url: Text<'a> = "url",
        /// 0.3: how it can be reached there (`JSONRPC` if absent).
        preferred_transport: Text<'a> = "preferredTransport",
        /// 0.3: the protocol version.
        protocol_version: Text<'a> = "protocolVersion",
        /// 0.3: where else and how else.
        additional_interfaces: Vec<AgentInterface<'a>> = "additionalInterfaces",
        /// 0.3: true if there is more to see for those who are known.
        supports_extended_card: bool = "supportsAuthenticatedExtendedCard",
    }
}

object! {
    /// One address of an agent.
    pub struct AgentInterface {
        /// Where.
        url: Text<'a> = "url",
        /// How: `JSONRPC`, `HTTP+JSON`, `GRPC` or a URI. (`transport` in 0.3.)
        binding: Text<'a> = "protocolBinding" | "protocol_binding" | "transport",
        /// To be sent back in every request.
        tenant: Text<'a> = "tenant",
        /// In which version of the protocol; absent in 0.3.
        version: Text<'a> = "protocolVersion" | "protocol_version",
    }
}

object! {
    /// What an agent can do beside answering. Absent means no.
    pub struct AgentCapabilities {
        /// It streams.
        streaming: bool = "streaming",
        /// It calls back.
        push_notifications: bool = "pushNotifications",
        /// Extensions it knows.
        extensions: Vec<AgentExtension<'a>> = "extensions",
        /// There is more to see for those who are known.
        extended_agent_card: bool = "extendedAgentCard",
    }
}

object! {
    /// An extension of the protocol.
    pub struct AgentExtension {
        /// Its name.
        uri: Text<'a> = "uri",
        /// What it is for.
        description: Text<'a> = "description",
        /// True if the agent refuses clients that do not know it.
        required: bool = "required",
        /// Its settings.
        params: Option<Raw<'a>> = "params",
    }
}
