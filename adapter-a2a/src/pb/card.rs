//! Converts cards from JSON into messages of both packages.
//!
//! Two calls return a card over gRPC: `GetExtendedAgentCard` of 1.0 and `GetAgentCard` of 0.3. The input is the
//! JSON of [`CardConfig::to_json`](crate::server::CardConfig::to_json), which has the members of both versions
//! side by side; each function reads those of its version.
//!
//! Invariants: no conversion fails, and nothing is invented. An absent member, or one of another type, becomes
//! the default of its field: an empty string, an empty list, `None`.
//!
//! Only security schemes that a card of this crate can contain are converted (bearer and other HTTP schemes, API
//! keys, `OpenID` Connect, mutual TLS); OAuth flows are not supported. Not converted: signatures, which cover the
//! JSON form of a card, and security requirements of single skills.

use std::collections::BTreeMap;

use serde_json::Value;

use super::value::object_from_json;
use super::{v1, v03};

/// Returns a string member, or an empty string.
fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a string member for a field that distinguishes "absent" from "empty".
fn optional(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// Returns a boolean member. `None` is written as absent in 1.0 and as `false` in 0.3, whose fields are not
/// optional.
fn flag(value: &Value, key: &str) -> Option<bool> {
    value.get(key).and_then(Value::as_bool)
}

/// Converts each item of a list member. An absent member is an empty list.
fn list<T>(value: &Value, key: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().map(read).collect()
}

/// Returns a list of strings. An item that is not a string becomes an empty one, so that positions are kept.
fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key, |item| item.as_str().unwrap_or_default().to_owned())
}

/// Converts each member of an object by its name. prost sorts maps by key.
fn map<T>(value: Option<&Value>, read: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    let object = value.and_then(Value::as_object).into_iter().flatten();
    object.map(|(key, value)| (key.clone(), read(value))).collect()
}

/// Returns the parameters of an extension: any JSON object.
fn params(value: &Value) -> Option<prost_types::Struct> {
    value.get("params").and_then(Value::as_object).cloned().map(object_from_json)
}

/// The messages of a card that have the same fields in both packages. `$pb` is the module of the package; fields that
/// are not named keep their defaults.
macro_rules! same {
    ($pb:ident provider of $card:ident) => {
        $card.get("provider").map(|provider| $pb::AgentProvider {
            url: text(provider, "url"),
            organization: text(provider, "organization"),
        })
    };
    ($pb:ident extensions of $capabilities:ident) => {
        list($capabilities, "extensions", |extension| $pb::AgentExtension {
            uri: text(extension, "uri"),
            description: text(extension, "description"),
            required: flag(extension, "required").unwrap_or_default(),
            params: params(extension),
        })
    };
    ($pb:ident skills of $card:ident) => {
        list($card, "skills", |skill| $pb::AgentSkill {
            id: text(skill, "id"),
            name: text(skill, "name"),
            description: text(skill, "description"),
            tags: texts(skill, "tags"),
            examples: texts(skill, "examples"),
            input_modes: texts(skill, "inputModes"),
            output_modes: texts(skill, "outputModes"),
            ..$pb::AgentSkill::default()
        })
    };
}

/// Returns the message of 1.0.
pub(super) fn v1_card(card: &Value) -> v1::AgentCard {
    v1::AgentCard {
        name: text(card, "name"),
        description: text(card, "description"),
        supported_interfaces: list(card, "supportedInterfaces", |interface| v1::AgentInterface {
            url: text(interface, "url"),
            protocol_binding: text(interface, "protocolBinding"),
            tenant: text(interface, "tenant"),
            protocol_version: text(interface, "protocolVersion"),
        }),
        provider: same!(v1 provider of card),
        version: text(card, "version"),
        documentation_url: optional(card, "documentationUrl"),
        capabilities: card.get("capabilities").map(|own| v1::AgentCapabilities {
            streaming: flag(own, "streaming"),
            push_notifications: flag(own, "pushNotifications"),
            extensions: same!(v1 extensions of own),
            extended_agent_card: flag(own, "extendedAgentCard"),
        }),
        security_schemes: map(card.get("securitySchemes"), v1_scheme),
        security_requirements: list(card, "securityRequirements", |requirement| v1::SecurityRequirement {
            schemes: map(requirement.get("schemes"), |scopes| v1::StringList { list: texts(scopes, "list") }),
        }),
        default_input_modes: texts(card, "defaultInputModes"),
        default_output_modes: texts(card, "defaultOutputModes"),
        skills: same!(v1 skills of card),
        signatures: Vec::new(),
        icon_url: optional(card, "iconUrl"),
    }
}

/// Converts a security scheme of 1.0. The member's name determines the kind:
///
/// ```text
/// {"httpAuthSecurityScheme": {"scheme": "Bearer"}}  ►  Scheme::HttpAuthSecurityScheme { scheme: "Bearer" }
/// ```
///
/// A scheme of an unknown kind becomes a message without content, under the same name, so that the security
/// requirements that refer to it stay valid.
fn v1_scheme(scheme: &Value) -> v1::SecurityScheme {
    use v1::security_scheme::Scheme;
    let own = |member: &str| scheme.get(member);
    let found = if let Some(own) = own("httpAuthSecurityScheme") {
        Some(Scheme::HttpAuthSecurityScheme(v1::HttpAuthSecurityScheme {
            description: text(own, "description"),
            scheme: text(own, "scheme"),
            bearer_format: text(own, "bearerFormat"),
        }))
    } else if let Some(own) = own("apiKeySecurityScheme") {
        Some(Scheme::ApiKeySecurityScheme(v1::ApiKeySecurityScheme {
            description: text(own, "description"),
            location: text(own, "location"),
            name: text(own, "name"),
        }))
    } else if let Some(own) = own("openIdConnectSecurityScheme") {
        Some(Scheme::OpenIdConnectSecurityScheme(v1::OpenIdConnectSecurityScheme {
            description: text(own, "description"),
            open_id_connect_url: text(own, "openIdConnectUrl"),
        }))
    } else {
        own("mtlsSecurityScheme").map(|own| {
            let description = text(own, "description");
            Scheme::MtlsSecurityScheme(v1::MutualTlsSecurityScheme { description })
        })
    };
    v1::SecurityScheme { scheme: found }
}

/// Returns the message of 0.3. Of several interfaces, the main one is in `url` and `preferred_transport`.
pub(super) fn v03_card(card: &Value) -> v03::AgentCard {
    v03::AgentCard {
        protocol_version: text(card, "protocolVersion"),
        name: text(card, "name"),
        description: text(card, "description"),
        url: text(card, "url"),
        preferred_transport: text(card, "preferredTransport"),
        additional_interfaces: list(card, "additionalInterfaces", |interface| v03::AgentInterface {
            url: text(interface, "url"),
            transport: text(interface, "transport"),
        }),
        provider: same!(v03 provider of card),
        version: text(card, "version"),
        documentation_url: text(card, "documentationUrl"),
        capabilities: card.get("capabilities").map(|own| v03::AgentCapabilities {
            streaming: flag(own, "streaming").unwrap_or_default(),
            push_notifications: flag(own, "pushNotifications").unwrap_or_default(),
            extensions: same!(v03 extensions of own),
        }),
        security_schemes: map(card.get("securitySchemes"), v03_scheme),
        security: list(card, "security", |requirement| v03::Security {
            schemes: map(Some(requirement), |scopes| v03::StringList {
                list: scopes
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            }),
        }),
        default_input_modes: texts(card, "defaultInputModes"),
        default_output_modes: texts(card, "defaultOutputModes"),
        skills: same!(v03 skills of card),
        supports_authenticated_extended_card: flag(card, "supportsAuthenticatedExtendedCard")
            .unwrap_or_default(),
        signatures: Vec::new(),
        icon_url: text(card, "iconUrl"),
    }
}

/// Converts a security scheme of 0.3. The member `type` determines the kind:
///
/// ```text
/// {"type": "http", "scheme": "bearer"}  ►  Scheme::HttpAuthSecurityScheme { scheme: "bearer" }
/// ```
///
/// An unknown type becomes a message without content, as in [`v1_scheme`].
fn v03_scheme(scheme: &Value) -> v03::SecurityScheme {
    use v03::security_scheme::Scheme;
    let description = text(scheme, "description");
    let found = match text(scheme, "type").as_str() {
        "http" => Some(Scheme::HttpAuthSecurityScheme(v03::HttpAuthSecurityScheme {
            description,
            scheme: text(scheme, "scheme"),
            bearer_format: text(scheme, "bearerFormat"),
        })),
        "apiKey" => Some(Scheme::ApiKeySecurityScheme(v03::ApiKeySecurityScheme {
            description,
            location: text(scheme, "in"),
            name: text(scheme, "name"),
        })),
        "openIdConnect" => Some(Scheme::OpenIdConnectSecurityScheme(v03::OpenIdConnectSecurityScheme {
            description,
            open_id_connect_url: text(scheme, "openIdConnectUrl"),
        })),
        "mutualTLS" => Some(Scheme::MtlsSecurityScheme(v03::MutualTlsSecurityScheme { description })),
        _ => None,
    };
    v03::SecurityScheme { scheme: found }
}
