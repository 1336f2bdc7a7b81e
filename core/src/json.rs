//! What every adapter that reads or writes JSON text by hand needs to know of its strings.
//!
//! Here and not in an adapter, because adapters share nothing but this crate. Reading and writing JSON as such is
//! `serde_json`'s work.

/// How many bytes at the front of `bytes` stand for themselves inside a JSON string: up to a quote, a backslash or
/// a control character, found eight bytes at a time.
#[inline]
pub fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The high bit of each special byte. The lowest set bit is exact; bits above it may be false alarms (a borrow that
/// runs on), and are not looked at.
fn special_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
    control | zero_bytes(word ^ (LOW * u64::from(b'"'))) | zero_bytes(word ^ (LOW * u64::from(b'\\')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut bytes = *b"\xC3\xA9234567890abcdefghi";
                bytes[place] = byte;
                let expected = bytes.iter().position(|byte| is_special(*byte)).unwrap_or(bytes.len());
                assert_eq!(plain_prefix(&bytes), expected, "{byte} at {place}");
                assert_eq!(plain_prefix(&bytes[place..]), expected.max(place) - place);
            }
        }
    }
}
