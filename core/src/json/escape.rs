//! JSON string escaping: runs of plain bytes are copied at once.

use super::plain_prefix;

/// Appends `text` as the inside of a JSON string, escaped as `serde_json` does.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
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
