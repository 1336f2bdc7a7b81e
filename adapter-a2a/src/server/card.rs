//! The agent's card: 1.0, with the members of 0.3 beside it, so that clients of both read the same document.
//!
//! | 1.0 | 0.3 |
//! |---|---|
//! | `supportedInterfaces` (every binding in 1.0, then in 0.3) | `url`, `preferredTransport`, `additionalInterfaces`, `protocolVersion` |
//! | `capabilities.extendedAgentCard` | `supportsAuthenticatedExtendedCard` |
//! | `securityRequirements` | `security` |
//! | `securitySchemes.*.httpAuthSecurityScheme` | `securitySchemes.*.type`, `.scheme` |

use aqueduct_core::Timestamp;
use aqueduct_core::fingerprint::hash_bytes;
use serde_json::{Map, Value, json};

use super::http::{HttpAnswer, HttpBody, HttpCall};
use crate::frontend;
use crate::mark::EXTENSION;
use crate::signature;
use crate::version::{Binding, JSON, Version};
use crate::wire::time::format_http;

/// The content of a card.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a card is a list of what is and what is not")]
pub struct CardConfig {
    /// The name of the agent.
    pub name: String,
    /// The purpose of the agent.
    pub description: String,
    /// The version of the agent.
    pub version: String,
    /// The provider: name and address.
    pub provider: Option<(String, String)>,
    /// The address of the documentation.
    pub documentation_url: Option<String>,
    /// Accepted media types.
    pub input_modes: Vec<String>,
    /// Produced media types.
    pub output_modes: Vec<String>,
    /// The skills. A card must have at least one; without any, the agent as a whole is listed.
    pub skills: Vec<Skill>,
    /// The interfaces, best first. Addresses are absolute and have a scheme, also for gRPC: some clients refuse a card
    /// with an address without one.
    pub interfaces: Vec<(Binding, String)>,
    /// The bindings in the card, best first; empty for all.
    pub bindings: Vec<Binding>,
    /// The tenant that gRPC clients must send, if one address serves several agents. 0.3 has no tenant, so its clients
    /// are not offered gRPC then.
    pub grpc_tenant: String,
    /// Set if the agent sends push notifications.
    pub push: bool,
    /// Set if an extended card exists for authenticated callers.
    pub extended: bool,
    /// Set if clients must send a bearer token.
    pub bearer: bool,
    /// The extensions, and whether clients must support them.
    pub extensions: Vec<(String, bool)>,
    /// Set if all callers may read the card; unset keeps caches from sharing it.
    pub public: bool,
    /// Set to omit the members and interfaces of 0.3: strict readers of 1.0 accept nothing else. Clients of 0.3 then
    /// find no card, but are served all the same.
    pub only_v1: bool,
    /// The signature: the protected header and the bytes ([`signature`](crate::signature)).
    pub signature: Option<(String, Vec<u8>)>,
    /// The time of the last change, for caches.
    pub modified: Option<Timestamp>,
}

/// A skill of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skill {
    /// The id, unique in the card.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The description for people and models.
    pub description: String,
    /// Search terms.
    pub tags: Vec<String>,
    /// Example prompts.
    pub examples: Vec<String>,
    /// Accepted media types; those of the card if empty.
    pub input_modes: Vec<String>,
    /// Produced media types; those of the card if empty.
    pub output_modes: Vec<String>,
}

/// How long caches may use a card without revalidation, in seconds. Cards change with the configuration.
const MAX_AGE: u32 = 60;

impl CardConfig {
    /// Returns the card as JSON.
    pub fn to_json(&self) -> Value {
        let mut card = Map::new();
        let mut put = |key: &str, value: Value| {
            card.insert(key.to_owned(), value);
        };
        put("name", self.name.as_str().into());
        put("description", self.description.as_str().into());
        put("version", self.version.as_str().into());
        put("supportedInterfaces", self.interfaces_json());
        put("capabilities", self.capabilities());
        put("defaultInputModes", json!(or_text(&self.input_modes)));
        put("defaultOutputModes", json!(or_text(&self.output_modes)));
        put("skills", self.skills_json());
        if let Some((organization, url)) = &self.provider {
            put("provider", json!({"organization": organization, "url": url}));
        }
        if let Some(url) = &self.documentation_url {
            put("documentationUrl", url.as_str().into());
        }
        if self.bearer {
            // One object that both versions read: 1.0 by the member's name, 0.3 by its type.
            let mut scheme = json!({"httpAuthSecurityScheme": {"scheme": "Bearer"}});
            if let (false, Some(object)) = (self.only_v1, scheme.as_object_mut()) {
                object.insert("type".to_owned(), "http".into());
                object.insert("scheme".to_owned(), "bearer".into());
            }
            put("securitySchemes", json!({ "bearer": scheme }));
            put("securityRequirements", json!([{"schemes": {"bearer": {"list": []}}}]));
        }
        if !self.only_v1 {
            self.put_v03(&mut card);
        }
        if let Some((protected, signed)) = &self.signature {
            signature::sign(&mut card, protected, signed);
        }
        Value::Object(card)
    }

    /// Adds the members of 0.3. The first interface is the main one.
    fn put_v03(&self, card: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| {
            card.insert(key.to_owned(), value);
        };
        if self.bearer {
            put("security", json!([{"bearer": []}]));
        }
        if self.extended {
            put("supportsAuthenticatedExtendedCard", true.into());
        }
        if let Some(((binding, url), others)) = self.interfaces.split_first() {
            put("url", url.as_str().into());
            put("preferredTransport", binding.as_str().into());
            put("protocolVersion", "0.3.0".into());
            let others: Vec<Value> = others
                .iter()
                .filter(|(binding, _)| self.is_shown(*binding, Version::V03))
                .map(|(binding, url)| json!({"transport": binding.as_str(), "url": url}))
                .collect();
            put("additionalInterfaces", Value::Array(others));
        }
    }

    /// Returns `supportedInterfaces`: every binding in 1.0, then every binding in 0.3, because clients choose the
    /// first that they support.
    fn interfaces_json(&self) -> Value {
        let of = |version: Version| {
            let shown = self.interfaces.iter().filter(move |(binding, _)| self.is_shown(*binding, version));
            shown.map(move |(binding, url)| {
                let mut interface = json!({
                    "url": url, "protocolBinding": binding.as_str(), "protocolVersion": version.as_str()
                });
                if let (Binding::Grpc, false, Some(object)) =
                    (binding, self.grpc_tenant.is_empty(), interface.as_object_mut())
                {
                    object.insert("tenant".to_owned(), self.grpc_tenant.as_str().into());
                }
                interface
            })
        };
        Value::Array(of(Version::V1).chain(of(Version::V03)).collect())
    }

    /// Returns `true` if an interface is offered to clients of that version.
    fn is_shown(&self, binding: Binding, version: Version) -> bool {
        let is_named = binding != Binding::Grpc || self.grpc_tenant.is_empty();
        version == Version::V1 || (is_named && !self.only_v1)
    }

    /// Returns the capabilities. The two extensions of this server are always declared; clients need not support
    /// them.
    fn capabilities(&self) -> Value {
        let mut capabilities = json!({"streaming": true, "pushNotifications": self.push});
        if let Some(object) = capabilities.as_object_mut() {
            if self.extended {
                object.insert("extendedAgentCard".to_owned(), true.into());
            }
            let own = json!({
                "uri": EXTENSION,
                "description": "Tool calls, sub-agents, thoughts, steps, state and usage of the stream",
                "required": false
            });
            let frontend = json!({
                "uri": frontend::EXTENSION,
                "description": "State, context and tools of a frontend, and state that comes back",
                "required": false
            });
            let others =
                self.extensions.iter().map(|(uri, required)| json!({"uri": uri, "required": required}));
            object.insert("extensions".to_owned(), others.chain([own, frontend]).collect());
        }
        capabilities
    }

    /// Returns the skills. Media types are always written, those of the card if a skill has none of its own.
    fn skills_json(&self) -> Value {
        let skill = |skill: &Skill| {
            let modes =
                |own: &[String], all: &[String]| json!(or_text(if own.is_empty() { all } else { own }));
            let mut value = json!({
                "id": skill.id,
                "name": skill.name,
                "description": skill.description,
                "tags": skill.tags,
                "inputModes": modes(&skill.input_modes, &self.input_modes),
                "outputModes": modes(&skill.output_modes, &self.output_modes),
            });
            if let (false, Some(object)) = (skill.examples.is_empty(), value.as_object_mut()) {
                object.insert("examples".to_owned(), json!(skill.examples));
            }
            value
        };
        if self.skills.is_empty() {
            let whole = Skill {
                id: self.name.clone(),
                name: self.name.clone(),
                description: self.description.clone(),
                tags: vec!["agent".to_owned()],
                ..Skill::default()
            };
            return json!([skill(&whole)]);
        }
        Value::Array(self.skills.iter().map(skill).collect())
    }

    /// Returns the card as a response, or "not modified".
    pub(super) fn answer(&self, call: &HttpCall<'_>) -> HttpAnswer {
        if !matches!(call.method, "GET" | "HEAD") {
            let body = json!({"error": {"code": 405, "message": "a card is read with GET"}});
            let mut answer = HttpAnswer::json(405, JSON, &body);
            answer.headers.push(("allow", "GET".to_owned()));
            return answer;
        }
        let body = self.to_json();
        let signed = body.as_object().map(signature::payload).unwrap_or_default();
        let body = body.to_string().into_bytes();
        // Signatures of the same card differ if their algorithm is randomised.
        let same = if self.signature.is_some() { &signed } else { &body };
        let tag = format!("\"{:016x}\"", hash_bytes(0, same));
        let modified = self.modified.and_then(format_http);
        let is_tag = |known: &str| known == "*" || known.trim_start_matches("W/") == tag;
        let is_known = match call.caller.header("if-none-match") {
            Some(known) => known.split(',').map(str::trim).any(is_tag),
            // A conditional request by time repeats the time of the last answer.
            None => modified.is_some() && call.caller.header("if-modified-since") == modified.as_deref(),
        };
        let shared = if self.public { "public" } else { "private" };
        let mut headers = vec![
            ("content-type", JSON.to_owned()),
            ("etag", tag),
            ("cache-control", format!("{shared}, max-age={MAX_AGE}")),
        ];
        headers.extend(modified.map(|modified| ("last-modified", modified)));
        let body = if is_known { Vec::new() } else { body };
        HttpAnswer { status: if is_known { 304 } else { 200 }, headers, body: HttpBody::Whole(body) }
    }
}

/// Returns media types, or plain text if there are none: the lists are required.
fn or_text(modes: &[String]) -> Vec<&str> {
    if modes.is_empty() { vec!["text/plain"] } else { modes.iter().map(String::as_str).collect() }
}
