//! Strings of JSON, for adapters that read or write JSON text by hand: the characters that are escaped, and reading without
//! a copy.
//!
//! It is in this crate because adapters share no other crate. Parsing and serializing JSON is `serde_json`'s work.

mod escape;
mod text;

pub use escape::escape_into;
pub use text::borrowed_text;

/// Returns the number of leading bytes that need no escape inside a JSON string: all bytes before the first quote,
/// backslash or control character. Examines eight bytes at a time.
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

/// Returns a word with the high bit of each special byte set. Only the lowest set bit is exact: a borrow can set bits above
/// it, which callers ignore.
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
