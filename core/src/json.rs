//! JSON text, for crates that read or write it by hand: the characters of strings that are escaped, reading without a copy, and
//! the check of its nesting.
//!
//! It is in this crate because adapters and transports share no other crate. Parsing and serializing JSON is `serde_json`'s work.

mod depth;
mod escape;
mod text;

pub use depth::is_deeper_than;
pub use escape::escape_into;
pub use text::borrowed_text;

/// The bytes that are examined at once, behind as many that are examined by words: most ids, times and tokens end within
/// these.
const BLOCK: usize = 64;

/// Returns the number of leading bytes that need no escape inside a JSON string: all bytes before the first quote,
/// backslash or control character. Examines eight bytes at a time, and 64 of a long text, which the compiler turns into
/// vector instructions: less than half of the instructions per byte.
#[inline]
pub fn plain_prefix(bytes: &[u8]) -> usize {
    let Some((head, rest)) = bytes.split_first_chunk::<BLOCK>() else { return plain_words(bytes) };
    let at = plain_words(head);
    if at < BLOCK { at } else { BLOCK + plain_blocks(rest) }
}

/// As [`plain_prefix`], for a long text.
fn plain_blocks(bytes: &[u8]) -> usize {
    let is_plain = |block: &&[u8; BLOCK]| !block.iter().fold(false, |any, byte| any | is_special(*byte));
    let at = BLOCK * bytes.as_chunks().0.iter().take_while(is_plain).count();
    at + plain_words(bytes.get(at..).unwrap_or_default())
}

/// As [`plain_prefix`], for a short text.
#[inline]
fn plain_words(bytes: &[u8]) -> usize {
    let mut at = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    match bytes.last_chunk() {
        // The last bytes as one word. Those of them that were examined are plain, so the lowest set bit is of another.
        Some(last) if !rest.is_empty() => match special_bytes(u64::from_le_bytes(*last)) {
            0 => bytes.len(),
            special => bytes.len() - 8 + special.trailing_zeros() as usize / 8,
        },
        _ => at + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len()),
    }
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches, so that vector instructions examine a block"
)]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
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
            for place in 0..150 {
                let mut bytes = [b'a'; 150];
                bytes[..2].copy_from_slice(b"\xC3\xA9");
                bytes[place] = byte;
                let expected = bytes.iter().position(|byte| is_special(*byte)).unwrap_or(bytes.len());
                assert_eq!(plain_prefix(&bytes), expected, "{byte} at {place}");
                assert_eq!(plain_prefix(&bytes[place..]), expected.max(place) - place);
            }
        }
    }
}
