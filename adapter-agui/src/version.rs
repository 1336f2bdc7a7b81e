//! Protocol versions, and the encoding for a peer.
//!
//! A 1.0 client declares `protocolVersion` in its input; a 0.0.x client declares nothing. A peer without declared version
//! gets the conservative dialect.

use crate::config::Dialect;

/// The version that this crate implements and declares.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The media type of the protobuf encoding. A response must have exactly this one: with a parameter, clients treat it as SSE.
pub const MEDIA_TYPE_PROTO: &str = "application/vnd.ag-ui.event+proto";

/// The media type of the SSE encoding.
pub const MEDIA_TYPE_SSE: &str = "text/event-stream";

/// The encoding of events on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// JSON, in SSE frames over HTTP and in text messages over WebSocket. Every client reads it.
    #[default]
    Json,
    /// Protobuf frames. Only for peers that declare a version.
    Proto,
}

impl Encoding {
    /// Returns the `Content-Type` of the response.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => MEDIA_TYPE_SSE,
            Self::Proto => MEDIA_TYPE_PROTO,
        }
    }
}

/// Returns the dialect for a peer that declared this version. The grammar is `<major>.<minor>`; newer versions get the newest
/// dialect of this crate, and an invalid version counts as none.
pub fn dialect_for(declared: Option<&str>) -> Dialect {
    let major = declared.and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        minor.parse::<u32>().ok()?;
        major.parse::<u32>().ok()
    });
    if major.is_some_and(|major| major >= 1) { Dialect::V1_0 } else { Dialect::V0_0_59 }
}

/// Returns the encoding for a peer, by its `Accept` header and its declared version.
///
/// Protobuf only if the header names it (`*/*` is what `curl` sends, for a human), with at least the quality of SSE, and if a
/// version is declared: 0.0.x peers cannot read the bytes of 1.0.
pub fn negotiate(accept: Option<&str>, declared_version: Option<&str>) -> Encoding {
    let Some(accept) = accept.filter(|_| dialect_for(declared_version) == Dialect::V1_0) else {
        return Encoding::Json;
    };
    let proto = quality(accept, MEDIA_TYPE_PROTO, false);
    let sse = quality(accept, MEDIA_TYPE_SSE, true);
    if proto > 0.0 && proto >= sse { Encoding::Proto } else { Encoding::Json }
}

/// Returns the quality of a media type, 0 to 1; the most specific range counts.
fn quality(accept: &str, media_type: &str, wildcards: bool) -> f32 {
    let kind = media_type.split('/').next().unwrap_or("");
    let specificity = |range: &str| match range.split_once('/') {
        _ if range.eq_ignore_ascii_case(media_type) => Some(2),
        Some((of, "*")) if wildcards && of.eq_ignore_ascii_case(kind) => Some(1),
        Some(("*", "*")) if wildcards => Some(0),
        _ => None,
    };
    accept
        .split(',')
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let specificity = specificity(parts.next()?)?;
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            let quality = weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0_f32));
            Some((specificity, quality))
        })
        .max_by_key(|(specificity, _)| *specificity)
        .map_or(0.0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_declared_or_it_is_not() {
        for (declared, dialect) in [
            (None, Dialect::V0_0_59),
            (Some("1.0"), Dialect::V1_0),
            (Some("1.1"), Dialect::V1_0),
            (Some("2.0"), Dialect::V1_0),
            (Some("0.9"), Dialect::V0_0_59),
            (Some("1"), Dialect::V0_0_59),
            (Some("one.two"), Dialect::V0_0_59),
            (Some(""), Dialect::V0_0_59),
        ] {
            assert_eq!(dialect_for(declared), dialect, "{declared:?}");
        }
    }

    #[test]
    fn protobuf_only_by_name_and_with_a_version() {
        let proto = MEDIA_TYPE_PROTO;
        for (accept, declared, encoding) in [
            (None, Some("1.0"), Encoding::Json),
            (Some(proto), None, Encoding::Json),
            (Some(proto), Some("1.0"), Encoding::Proto),
            (Some("APPLICATION/vnd.ag-ui.event+PROTO"), Some("1.0"), Encoding::Proto),
            (Some("*/*"), Some("1.0"), Encoding::Json),
            (Some("application/*"), Some("1.0"), Encoding::Json),
            (Some("text/event-stream"), Some("1.0"), Encoding::Json),
            (Some("text/event-stream, application/vnd.ag-ui.event+proto"), Some("1.0"), Encoding::Proto),
            (Some("text/event-stream, application/vnd.ag-ui.event+proto;q=0.5"), Some("1.0"), Encoding::Json),
            (Some("*/*;q=0.1, application/vnd.ag-ui.event+proto; q=0.5"), Some("1.0"), Encoding::Proto),
            (Some("application/vnd.ag-ui.event+proto;q=0"), Some("1.0"), Encoding::Json),
            (Some("application/vnd.ag-ui.event+proto;q=x"), Some("1.0"), Encoding::Json),
        ] {
            assert_eq!(negotiate(accept, declared), encoding, "{accept:?} {declared:?}");
        }
    }
}
