//! Versions and bindings of the protocol, and their headers.
//!
//! | | 1.0 | 0.3 |
//! |---|---|---|
//! | version header | `A2A-Version: 1.0` on every request | none (absent means 0.3) |
//! | extensions header | `A2A-Extensions` | `X-A2A-Extensions`; both are sent |
//! | JSON-RPC body | `application/json` | `application/json` |
//! | REST body | `application/a2a+json` | `application/json` |

use std::fmt;

use crate::wire::Dialect;

/// The name of the version header.
pub const VERSION_HEADER: &str = "a2a-version";
/// The name of the extensions header since 1.0.
pub const EXTENSIONS_HEADER: &str = "a2a-extensions";
/// The name of the extensions header of 0.3.
pub const EXTENSIONS_HEADER_V03: &str = "x-a2a-extensions";
/// The media type of JSON-RPC, and of REST in 0.3.
pub const JSON: &str = "application/json";
/// The media type of REST since 1.0.1.
pub const A2A_JSON: &str = "application/a2a+json";
/// The media type of streams.
pub const EVENT_STREAM: &str = "text/event-stream";

/// A supported version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Version {
    /// 0.3.x.
    V03,
    /// 1.x.
    #[default]
    V1,
}

impl Version {
    /// Parses a version header or a card's version. Absent and empty mean 0.3 (spec 3.6.2); any `1.x` is 1.0, because
    /// minor versions only add. Returns `None` for versions that are not supported.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        let text = text.unwrap_or_default().trim();
        let mut fields = text.split('.');
        match (fields.next(), fields.next()) {
            (Some("1"), _) => Some(Self::V1),
            (Some(""), None) | (Some("0"), Some("3")) => Some(Self::V03),
            _ => None,
        }
    }

    /// Returns the other version, which a peer may support instead.
    pub const fn other(self) -> Self {
        match self {
            Self::V03 => Self::V1,
            Self::V1 => Self::V03,
        }
    }

    /// Returns `1.0` or `0.3`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V1 => "1.0",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A protocol binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Binding {
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// REST.
    HttpJson,
    /// gRPC.
    Grpc,
}

impl Binding {
    /// Parses the name in a card. Case is ignored; `REST` and `HTTP_JSON` occur in real cards.
    pub fn parse(name: &str) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("JSONRPC") || is("JSON-RPC") {
            Some(Self::JsonRpc)
        } else if is("HTTP+JSON") || is("HTTP_JSON") || is("REST") {
            Some(Self::HttpJson)
        } else if is("GRPC") {
            Some(Self::Grpc)
        } else {
            None
        }
    }

    /// Returns the name in cards.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
        }
    }

    /// Returns the JSON dialect of a peer of that version over this binding.
    pub const fn dialect(self, version: Version) -> Dialect {
        match (version, self) {
            (Version::V1, _) => Dialect::V1,
            (Version::V03, Self::JsonRpc) => Dialect::V03JsonRpc,
            (Version::V03, _) => Dialect::V03Rest,
        }
    }

    /// Returns the media type of request bodies.
    pub const fn media_type(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::HttpJson, Version::V1) => A2A_JSON,
            _ => JSON,
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the protocol headers of a request, with names in lower case. The extensions are sent under both names
/// in 0.3, as the compatibility clients of the SDKs do.
pub fn headers(version: Version, extensions: &[String]) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if version == Version::V1 {
        headers.push((VERSION_HEADER, version.to_string()));
    }
    if !extensions.is_empty() {
        let list = extensions.join(",");
        if version == Version::V03 {
            headers.push((EXTENSIONS_HEADER_V03, list.clone()));
        }
        headers.push((EXTENSIONS_HEADER, list));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_the_specification_says() {
        for (text, version) in [
            (None, Some(Version::V03)),
            (Some(""), Some(Version::V03)),
            (Some("0.3"), Some(Version::V03)),
            (Some("0.3.0"), Some(Version::V03)),
            (Some("1.0"), Some(Version::V1)),
            (Some("1.0.0"), Some(Version::V1)),
            (Some("1.7"), Some(Version::V1)),
            (Some("1"), Some(Version::V1)),
            (Some("2.0"), None),
            (Some("0.2.5"), None),
            (Some("banana"), None),
        ] {
            assert_eq!(Version::parse(text), version, "{text:?}");
        }
    }

    #[test]
    fn a_03_peer_gets_no_version_and_both_extension_headers() {
        let extensions = ["https://a".to_owned(), "https://b".to_owned()];
        let names: Vec<_> = headers(Version::V03, &extensions).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [EXTENSIONS_HEADER_V03, EXTENSIONS_HEADER]);
        assert_eq!(
            headers(Version::V1, &extensions),
            [(VERSION_HEADER, "1.0".to_owned()), (EXTENSIONS_HEADER, "https://a,https://b".to_owned())]
        );
    }
}
