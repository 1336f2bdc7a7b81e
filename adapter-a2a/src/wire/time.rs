//! RFC 3339 times, as far as A2A servers write them: `2026-11-16T01:49:08.831042Z`, `…+00:00`, with or without a
//! fraction, and (0.3 allows any ISO form) without a zone, which reads as UTC. Anything else reads as "not said":
//! a time is only shown, never reckoned with.

use aqueduct_core::Timestamp;

/// The milliseconds since the Unix epoch.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut fields = date.splitn(3, '-').map(number);
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    let (time, offset_minutes) = split_zone(time)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut fields = clock.splitn(3, ':').map(number);
    let (hour, minute) = (fields.next()??, fields.next()??);
    let second = fields.next().unwrap_or(Some(0))?;
    let in_range = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    Some(Timestamp((minutes * 60 + second) * 1000 + milliseconds(fraction)?))
}

fn number(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 4 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn split_zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (time, zone) = time.split_at_checked(at)?;
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = zone.split_once(':')?;
    let offset = number(hours)? * 60 + number(minutes)?;
    Some((time, if sign == "-" { -offset } else { offset }))
}

fn milliseconds(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain([b'0'; 3]).take(3);
    Some(digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar; the year is taken to begin in March, so that the
/// leap day is its last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
