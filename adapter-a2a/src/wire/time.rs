//! Times as A2A servers write them: RFC 3339 with or without a fraction and (0.3 allows any ISO form) without a zone,
//! which reads as UTC. Anything else reads as "not said": a time is only shown, never reckoned with.

use aqueduct_core::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The milliseconds since the Unix epoch.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return None;
    }
    let time = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339))
        .ok()?;
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_servers_write() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(Timestamp(0)));
        assert_eq!(parse("2026-11-16T01:49:08.831042Z"), Some(Timestamp(1_794_793_748_831)));
        assert_eq!(parse("2026-11-16T02:49:08.831+01:00"), Some(Timestamp(1_794_793_748_831)));
        assert_eq!(parse("2000-02-29T00:00:00"), Some(Timestamp(951_782_400_000)));
    }

    #[test]
    fn anything_else_is_not_a_time() {
        for text in
            ["", "yesterday", "2026-11-16", "2026-13-01T00:00:00Z", "2026-11-16T25:00:00Z", "T", "é-é-éTé"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
