//! The nesting depth of a JSON text, determined without parsing it.
//!
//! A parser that skips a value does not recurse, so a text of a million brackets passes it and overflows the stack of the
//! next parser of that value. The check is one pass over the bytes that recognises strings; it does not check validity.

/// Returns `true` if `json` nests more than `limit` arrays and objects.
pub fn is_deeper_than(json: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed() {
        assert!(!is_deeper_than(&b"[".repeat(64), 64));
        assert!(is_deeper_than(&b"[".repeat(65), 64));
        assert!(!is_deeper_than(&b"[]".repeat(1000), 1));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert!(!is_deeper_than(br#"{"a":"[[[[\"[[["}"#, 1));
        assert!(is_deeper_than(br#"{"a\\":[1]}"#, 1));
    }
}
