//! JSON string escaping: what needs no escape is found eight bytes at a time and copied whole.

/// Appends `text` as the inside of a JSON string, escaped as `serde_json` does.
pub(super) fn escape_into(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut rest = bytes;
    loop {
        let plain = plain_prefix(rest);
        let (copy, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.extend_from_slice(copy);
        let Some((&byte, after)) = tail.split_first() else { return };
        escape_byte(byte, out);
        rest = after;
    }
}

/// How many bytes at the front need no escape.
fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + rest.iter().position(|byte| needs_escape(*byte)).unwrap_or(rest.len())
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The high bit of each byte that needs an escape. The lowest set bit is exact; bits above it may be false
/// alarms (a borrow that runs on), and are not looked at.
fn special_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
    control | zero_bytes(word ^ (LOW * u64::from(b'"'))) | zero_bytes(word ^ (LOW * u64::from(b'\\')))
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = vec![b'"'];
        escape_into(text, &mut out);
        out.push(b'"');
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_at_every_place_of_a_word() {
        for byte in 0..=127_u8 {
            for place in 0..20 {
                let mut text = "é234567890abcdefghi".to_owned();
                text.insert(text.char_indices().nth(place.min(18)).unwrap().0, char::from(byte));
                assert_eq!(escaped(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn as_serde_does(text in "\\PC{0,40}", dirty in "[\\x00-\\x7f\u{80}-\u{ff}\u{2028}🦀]{0,40}") {
            for text in [format!("{text}{dirty}"), format!("{dirty}{text}")] {
                prop_assert_eq!(escaped(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
