//! Signatures of agent cards (spec 8.4): the signed bytes, and the form of a signature in a card. Keys and algorithms
//! belong to the host.
//!
//! ```text
//! card ──► members of 1.0, without signatures, defaults and empty values ──► RFC 8785 ──► payload
//! {"alg", "kid", "typ": "JOSE"} ──► base64url ──► protected
//! sign(protected "." base64url(payload)) ──► {"protected", "signature"} in `signatures`
//! ```
//!
//! Signers canonicalise the protobuf form of the card, so members of 0.3 beside those of 1.0 are not signed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

/// The longest protected header that is parsed.
const HEADER_BYTES: usize = 8 * 1024;

/// How a value of the card is canonicalised. The statics below describe the messages of the proto file: protobuf
/// omits defaults of plain fields, and keeps those of `optional` fields.
enum Shape {
    /// Any JSON, unchanged.
    Any,
    /// A value whose default is omitted: `false`, `0`.
    Plain,
    /// A value that is always kept.
    Kept,
    /// An object with these members; others are omitted.
    Object(&'static [(&'static str, Shape)]),
    /// A list of such values.
    List(&'static Shape),
    /// A map of such values.
    ByName(&'static Shape),
}

use Shape::{Any, ByName, Kept, List, Object, Plain};

/// A flow of OAuth 2.
static FLOW: Shape = Object(&[
    ("authorizationUrl", Plain),
    ("tokenUrl", Plain),
    ("deviceAuthorizationUrl", Plain),
    ("refreshUrl", Plain),
    ("scopes", Any),
    ("pkceRequired", Plain),
]);

/// A security scheme: one of its members is present.
static SCHEME: Shape = Object(&[
    ("apiKeySecurityScheme", Object(&[("description", Plain), ("location", Plain), ("name", Plain)])),
    ("httpAuthSecurityScheme", Object(&[("description", Plain), ("scheme", Plain), ("bearerFormat", Plain)])),
    (
        "oauth2SecurityScheme",
        Object(&[("description", Plain), ("flows", ByName(&FLOW)), ("oauth2MetadataUrl", Plain)]),
    ),
    ("openIdConnectSecurityScheme", Object(&[("description", Plain), ("openIdConnectUrl", Plain)])),
    ("mtlsSecurityScheme", Object(&[("description", Plain)])),
]);

/// The schemes that a caller must satisfy together, with their scopes.
static REQUIREMENT: Shape = Object(&[("schemes", ByName(&Object(&[("list", Any)])))]);

/// An interface: address, binding, tenant and version.
static INTERFACE: Shape =
    Object(&[("url", Plain), ("protocolBinding", Plain), ("tenant", Plain), ("protocolVersion", Plain)]);

/// A skill, with requirements of its own.
static SKILL: Shape = Object(&[
    ("id", Plain),
    ("name", Plain),
    ("description", Plain),
    ("tags", Any),
    ("examples", Any),
    ("inputModes", Any),
    ("outputModes", Any),
    ("securityRequirements", List(&REQUIREMENT)),
]);

/// An extension and its parameters, which are any JSON.
static EXTENSION: Shape =
    Object(&[("uri", Plain), ("description", Plain), ("required", Plain), ("params", Any)]);

/// The card of 1.0, without its signatures.
static CARD: Shape = Object(&[
    ("name", Plain),
    ("description", Plain),
    ("supportedInterfaces", List(&INTERFACE)),
    ("provider", Object(&[("url", Plain), ("organization", Plain)])),
    ("version", Plain),
    ("documentationUrl", Kept),
    (
        "capabilities",
        Object(&[
            ("streaming", Kept),
            ("pushNotifications", Kept),
            ("extensions", List(&EXTENSION)),
            ("extendedAgentCard", Kept),
        ]),
    ),
    ("securitySchemes", ByName(&SCHEME)),
    ("securityRequirements", List(&REQUIREMENT)),
    ("defaultInputModes", Any),
    ("defaultOutputModes", Any),
    ("skills", List(&SKILL)),
    ("iconUrl", Kept),
]);

/// Returns the bytes of a card that are signed: equal for all cards that mean the same, whatever the order of
/// their members.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::signature::payload;
/// use serde_json::json;
///
/// let card = json!({"version": "1", "name": "a", "description": "", "signatures": []});
/// assert_eq!(payload(card.as_object().unwrap()), br#"{"name":"a","version":"1"}"#);
/// ```
pub fn payload(card: &Map<String, Value>) -> Vec<u8> {
    let kept = keep(&CARD, &Value::Object(card.clone())).unwrap_or_else(|| json!({}));
    let mut out = Vec::new();
    write(&kept, &mut out);
    out
}

/// Returns the signed part of a value, or `None` if nothing of it is signed.
fn keep(shape: &Shape, value: &Value) -> Option<Value> {
    match (shape, value) {
        (Plain, Value::Number(number)) if number.as_f64() == Some(0.0) => None,
        (Object(members), Value::Object(object)) => {
            let kept = members
                .iter()
                .filter_map(|(name, shape)| Some(((*name).to_owned(), keep(shape, object.get(*name)?)?)));
            Some(Value::Object(kept.collect())).filter(|kept| !is_empty(kept))
        }
        (Plain, Value::Bool(false)) | (Object(_), _) => None,
        (List(shape), Value::Array(items)) => {
            let kept: Vec<Value> = items.iter().filter_map(|item| keep(shape, item)).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (ByName(shape), Value::Object(object)) => {
            let kept = object.iter().filter_map(|(name, value)| Some((name.clone(), keep(shape, value)?)));
            Some(Value::Object(kept.collect())).filter(|kept| !is_empty(kept))
        }
        _ => without_empty(value),
    }
}

/// Removes empty strings, lists and objects, at any depth: they are not signed.
fn without_empty(value: &Value) -> Option<Value> {
    let kept = match value {
        Value::Null => return None,
        Value::Array(items) => Value::Array(items.iter().filter_map(without_empty).collect()),
        Value::Object(members) => {
            let kept = members.iter().filter_map(|(name, value)| Some((name.clone(), without_empty(value)?)));
            Value::Object(kept.collect())
        }
        other => other.clone(),
    };
    (!is_empty(&kept)).then_some(kept)
}

/// Returns `true` for an empty string, list or object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Appends a value in the form of RFC 8785: members sorted by the UTF-16 form of their names, numbers as ECMAScript
/// prints them.
fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_by_cached_key(|(name, _)| name.encode_utf16().collect::<Vec<u16>>());
            out.push(b'{');
            for (at, (name, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend(Value::from(name.as_str()).to_string().into_bytes());
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Number(number) => {
            let text = number.to_string();
            out.extend(text.strip_suffix(".0").unwrap_or(&text).bytes());
        }
        other => out.extend(other.to_string().into_bytes()),
    }
}

/// Returns the protected header of a signature, encoded: `base64url({"alg", "kid", "typ": "JOSE"})`.
pub fn protected(algorithm: &str, key_id: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!({"alg": algorithm, "kid": key_id, "typ": "JOSE"}).to_string())
}

/// Returns the bytes that a key signs.
pub fn signing_input(protected: &str, payload: &[u8]) -> Vec<u8> {
    format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload)).into_bytes()
}

/// Replaces the signatures of a card by this one. The caller made `signature` over [`signing_input`] with its
/// key.
pub fn sign(card: &mut Map<String, Value>, protected: &str, signature: &[u8]) {
    let signature = json!({"protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature)});
    card.insert("signatures".to_owned(), json!([signature]));
}

/// One signature of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardSignature {
    /// The algorithm that the header names.
    pub algorithm: String,
    /// The key that the header names.
    pub key_id: Option<String>,
    /// The bytes that were signed.
    pub input: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
}

/// Returns the well-formed signatures of a card, without verifying them: the caller checks `signature` over
/// `input` with the key that `key_id` names. Malformed ones, and ones with critical parameters, are left out.
pub fn signatures(card: &Map<String, Value>) -> Vec<CardSignature> {
    let payload = payload(card);
    let list = card.get("signatures").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|signature| read(signature, &payload)).collect()
}

/// Parses one signature. The header is bounded, because the card comes from a peer and the header is decoded.
fn read(signature: &Value, payload: &[u8]) -> Option<CardSignature> {
    let text = |key: &str| signature.get(key).and_then(Value::as_str);
    let protected = text("protected").filter(|text| text.len() <= HEADER_BYTES)?;
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(protected).ok()?).ok()?;
    // A header with unknown critical parameters must not be accepted (RFC 7515, 4.1.11).
    if header.get("crit").is_some() {
        return None;
    }
    Some(CardSignature {
        algorithm: header.get("alg")?.as_str()?.to_owned(),
        key_id: header.get("kid").and_then(Value::as_str).map(str::to_owned),
        input: signing_input(protected, payload),
        signature: URL_SAFE_NO_PAD.decode(text("signature")?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    #[test]
    fn what_is_signed_has_one_form() {
        let card = object(json!({
            "version": "1", "name": "Ünï\n", "description": "", "url": "http://old", "protocolVersion": "0.3.0",
            "capabilities": {"streaming": false, "extensions": [{"uri": "u", "required": false, "params": {"n": 1.0, "b": []}}]},
            "skills": [], "signatures": [{"protected": "x"}],
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        }));
        let expected = "{\"capabilities\":{\"extensions\":[{\"params\":{\"n\":1},\"uri\":\"u\"}],\"streaming\":false},\"name\":\"Ünï\\n\",\"version\":\"1\"}";
        assert_eq!(String::from_utf8(payload(&card)).unwrap(), expected);
    }

    #[test]
    fn a_signature_is_read_back() {
        let mut card = object(json!({"name": "a"}));
        let protected = protected("EdDSA", "key-1");
        let input = signing_input(&protected, &payload(&card));
        sign(&mut card, &protected, b"signed");
        let found = signatures(&card);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].algorithm.as_str(), found[0].key_id.as_deref()), ("EdDSA", Some("key-1")));
        assert_eq!((&found[0].input, found[0].signature.as_slice()), (&input, b"signed".as_slice()));
        let crit = URL_SAFE_NO_PAD.encode(json!({"alg": "EdDSA", "crit": ["x"]}).to_string());
        card.insert(
            "signatures".to_owned(),
            json!([{"protected": crit, "signature": ""}, {"protected": "?"}, 7]),
        );
        assert!(signatures(&card).is_empty());
    }
}
