//! Times of A2A servers.
//!
//! Read: RFC 3339 with or without a fraction and (0.3 allows any ISO form) without a zone, which means UTC. Any
//! other text is treated as absent: times are shown and compared, never computed with.
//!
//! ```text
//! 2026-11-16T01:49:08.831042Z        ►  1794793748831
//! 2026-11-16T02:49:08.831+01:00      ►  1794793748831
//! 2026-11-16T01:49:08                ►  the same second, in UTC
//! 2026-11-16                         ►  no time
//! ```
//!
//! Written: UTC with milliseconds, the precision of [`Timestamp`].

use aqueduct_core::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Returns the milliseconds since the Unix epoch. Returns `None` if the text is not a time. Digits beyond
/// milliseconds are cut off.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return None;
    }
    let time = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339))
        .ok()?;
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok().map(Timestamp)
}

/// Returns a time as text: UTC, with milliseconds. Returns an empty text, which means "not set", for times beyond
/// the year 9999, which no clock returns.
#[cfg(feature = "server")]
pub(crate) fn format(at: Timestamp) -> String {
    let Ok(time) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000_000) else {
        return String::new();
    };
    let (date, (hour, minute, second, milli)) = (time.date(), time.time().as_hms_milli());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Returns a time in the form of HTTP headers (RFC 9110, 5.6.7).
#[cfg(feature = "server")]
pub(crate) fn format_http(at: Timestamp) -> Option<String> {
    let time = OffsetDateTime::from_unix_timestamp(at.0.div_euclid(1_000)).ok()?;
    let short = |name: String| -> String { name.chars().take(3).collect() };
    let (weekday, month) = (short(time.weekday().to_string()), short(time.month().to_string()));
    let (day, year, (hour, minute, second)) = (time.day(), time.year(), time.to_hms());
    Some(format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT"))
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

    #[cfg(feature = "server")]
    #[test]
    fn writes_what_it_reads() {
        assert_eq!(format(Timestamp(1_794_793_748_831)), "2026-11-16T01:49:08.831Z");
        assert_eq!(parse(&format(Timestamp(951_782_400_007))), Some(Timestamp(951_782_400_007)));
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
