//! Content of a run as attributes of spans, where `telemetry.content` is set: cut at a limit.

/// The longest text of content in an attribute, in bytes, before JSON escapes: a bound for the memory of a span. A
/// longer text is cut at this length and marked with `…`.
const CONTENT_BYTES: usize = 16 * 1024;

/// Appends a delta, up to the first character after the limit, by which [`shortened`] detects that it has to cut.
pub(super) fn push(content: &mut String, delta: &str) {
    for character in delta.chars() {
        if content.len() > CONTENT_BYTES {
            return;
        }
        content.push(character);
    }
}

/// Cuts content at the limit, at the boundary of a character, and marks the cut.
pub(super) fn shortened(mut content: String) -> String {
    if content.len() > CONTENT_BYTES {
        let mut end = CONTENT_BYTES;
        while !content.is_char_boundary(end) {
            end -= 1;
        }
        content.truncate(end);
        content.push('…');
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_in_deltas_is_cut_like_content_at_once() {
        for text in ["x".repeat(CONTENT_BYTES), "x".repeat(CONTENT_BYTES + 1), "€".repeat(CONTENT_BYTES)] {
            for chunk in [1, 7, text.chars().count()] {
                let characters: Vec<char> = text.chars().collect();
                let mut content = String::new();
                for delta in characters.chunks(chunk) {
                    push(&mut content, &delta.iter().collect::<String>());
                }
                assert!(content.len() <= CONTENT_BYTES + 4, "{}", content.len());
                assert_eq!(shortened(content), shortened(text.clone()));
            }
        }
    }
}
