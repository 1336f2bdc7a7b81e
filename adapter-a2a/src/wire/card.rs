//! [`AgentCard`]: 1.0, 0.3 and union cards parsed into one type. Unused members stay in `extra`, so a card can be shown
//! or forwarded completely.

use super::object::object;
use super::text::{Raw, Text};

object! {
    /// The description of an agent.
    pub struct AgentCard {
        /// The name of the agent.
        name: Text<'a> = "name",
        /// The purpose of the agent.
        description: Text<'a> = "description",
        /// The version of the agent.
        version: Text<'a> = "version",
        /// 1.0: the interfaces, best first.
        supported_interfaces: Vec<AgentInterface<'a>> = "supportedInterfaces" | "supported_interfaces",
        /// Optional capabilities.
        capabilities: AgentCapabilities<'a> = "capabilities",
        /// Accepted media types.
        default_input_modes: Vec<Text<'a>> = "defaultInputModes",
        /// Produced media types.
        default_output_modes: Vec<Text<'a>> = "defaultOutputModes",
        /// Skills, unparsed.
        skills: Vec<Raw<'a>> = "skills",
        /// 0.3: the main address.
        url: Text<'a> = "url",
        /// 0.3: the binding of the main address (`JSONRPC` if absent).
        preferred_transport: Text<'a> = "preferredTransport",
        /// 0.3: the protocol version.
        protocol_version: Text<'a> = "protocolVersion",
        /// 0.3: further interfaces.
        additional_interfaces: Vec<AgentInterface<'a>> = "additionalInterfaces",
        /// 0.3: set if an extended card exists for authenticated callers.
        supports_extended_card: bool = "supportsAuthenticatedExtendedCard",
    }

    /// One interface of an agent.
    pub struct AgentInterface {
        /// The address.
        url: Text<'a> = "url",
        /// The binding: `JSONRPC`, `HTTP+JSON`, `GRPC` or a URI. (`transport` in 0.3.)
        binding: Text<'a> = "protocolBinding" | "protocol_binding" | "transport",
        /// The tenant to send in every request.
        tenant: Text<'a> = "tenant",
        /// The protocol version; absent in 0.3.
        version: Text<'a> = "protocolVersion" | "protocol_version",
    }

    /// Optional capabilities of an agent. Absent ones are `false`.
    pub struct AgentCapabilities {
        /// Set if the agent streams.
        streaming: bool = "streaming",
        /// Set if the agent sends push notifications.
        push_notifications: bool = "pushNotifications",
        /// Supported extensions.
        extensions: Vec<AgentExtension<'a>> = "extensions",
        /// Set if an extended card exists for authenticated callers.
        extended_agent_card: bool = "extendedAgentCard",
    }

    /// An extension of the protocol.
    pub struct AgentExtension {
        /// The URI of the extension.
        uri: Text<'a> = "uri",
        /// The purpose of the extension.
        description: Text<'a> = "description",
        /// Set if the agent refuses clients that do not support the extension.
        required: bool = "required",
        /// Parameters of the extension.
        params: Option<Raw<'a>> = "params",
    }
}
