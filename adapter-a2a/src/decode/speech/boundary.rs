//! Decides whether two status texts with ids of their own are fragments of one text.
//!
//! Tokens of a model keep the white space between words; notices of a program do not. That, and the case of the first
//! letter, decides. Otherwise the result is [`Join::Unclear`]: the caller waits for one more text.

/// Whether a text continues the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// Both are fragments of one text.
    Yes,
    /// Each is a text of its own.
    No,
    /// One more text is needed.
    Unclear,
}

/// Returns `true` for a text that reports progress: it ends with an ellipsis and begins with a digit or a letter that
/// is not lower case ("Searching…"), or begins with a pictograph ("🔍 Looking"). A text with a space at an edge is a
/// token, and one of fewer than three letters may be one.
pub(super) fn is_notice(text: &str) -> bool {
    if has_edge_space(text) {
        return false;
    }
    let body = text.trim();
    // Texts may be long: no more than the first letters are looked at.
    let letters = body.chars().filter(|c| c.is_alphanumeric()).take(3).count();
    let dotted = body.ends_with('…') || body.ends_with("...");
    if letters < 3 {
        return false;
    }
    let first = body.chars().next().unwrap_or_default();
    let is_picture = u32::from(first) >= 0x2190 && !first.is_alphanumeric() && !is_caseless(first);
    is_picture || (dotted && !first.is_lowercase() && first.is_alphanumeric())
}

/// Returns `true` for a text that is certainly a fragment: it begins or ends with a space.
pub(super) fn has_edge_space(text: &str) -> bool {
    text.starts_with([' ', '\n', '\t']) || text.ends_with([' ', '\t'])
}

/// Returns `true` for a text without white space inside.
pub(super) fn is_token(text: &str) -> bool {
    !text.trim().contains(char::is_whitespace)
}

/// Decides about two texts without further information, by the characters where they meet.
///
/// A space there, a script without spaces, or punctuation alone joins them. Two words of which the second begins in
/// lower case are unclear: tokens ("Hel", "lo") or notices. Other texts are separate.
pub(super) fn join(before: &str, after: &str) -> Join {
    let (Some(last), Some(first)) = (before.chars().next_back(), after.chars().next()) else {
        return Join::Yes;
    };
    if is_notice(before) || is_notice(after) {
        return Join::No;
    }
    if matches!(last, ' ' | '\t') || first.is_whitespace() || before.trim().is_empty() {
        return Join::Yes;
    }
    let both_tokens = is_token(before) && is_token(after);
    if (is_caseless(last) || is_caseless(first)) && !is_sentence_end(last) && both_tokens {
        return Join::Yes;
    }
    if is_punctuation(after) && !is_sentence_end(last) {
        return Join::Yes;
    }
    if both_tokens && !first.is_uppercase() && !is_sentence_end(last) && last != '\n' {
        return Join::Unclear;
    }
    Join::No
}

/// Returns `true` if a text continues one that is known to arrive in fragments. It does not if it is a notice, a
/// sentence that begins without a space after the end of another one ("Let me look." "It is"), or several words that
/// begin with a capital without a space before them ("The fox" "Searching the web").
pub(super) fn goes_on(before: &str, after: &str) -> bool {
    let (Some(last), Some(first)) = (before.chars().next_back(), after.chars().next()) else { return true };
    if is_notice(after) {
        return false;
    }
    if last.is_whitespace() || first.is_whitespace() {
        return true;
    }
    let is_closed = is_sentence_end(last) && last_word_letters(before) > 1;
    if is_closed && (first.is_uppercase() || is_caseless(first)) {
        // CJK sentences follow each other without a space.
        return is_caseless(first);
    }
    is_token(after) || has_edge_space(after) || !first.is_uppercase()
}

/// Truncates a text to its last bytes, at a character boundary.
pub(super) fn keep_end(text: &mut String, bytes: usize) {
    let from = text.len().saturating_sub(bytes);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.drain(..from);
}

/// Returns `true` for characters that end a sentence, of CJK scripts as well.
fn is_sentence_end(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | ':' | '。' | '！' | '？')
}

/// Returns the length of the last word, at most 2: "e.g." does not end a sentence.
fn last_word_letters(text: &str) -> usize {
    let body = text.trim_end_matches(|c: char| !c.is_alphanumeric());
    body.chars().rev().take_while(|c| c.is_alphanumeric()).take(2).count()
}

/// Returns `true` for letters of scripts without spaces between words.
fn is_caseless(c: char) -> bool {
    c.is_alphabetic()
        && matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x3040..=0x30FF | 0x3400..=0x9FFF)
}

/// Returns `true` for at most three punctuation marks.
fn is_punctuation(text: &str) -> bool {
    let body = text.trim();
    !body.is_empty() && body.chars().count() <= 3 && body.chars().all(|c| c.is_ascii_punctuation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_join_and_notices_do_not() {
        for (before, after, expected) in [
            ("The ", "quick ", Join::Yes),
            ("The", " quick", Join::Yes),
            ("今日", "は", Join::Yes),
            ("Paris", ".", Join::Yes),
            ("Hel", "lo", Join::Unclear),
            ("Searching…", "Reading…", Join::No),
            ("Searching", "Reading", Join::No),
            ("Searching the web", "reading the file", Join::No),
            ("Searching the web.", "It is 21 degrees.", Join::No),
            ("🔍 Looking", " around", Join::No),
        ] {
            assert_eq!(join(before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_text_in_pieces_ends_where_the_space_is_missing() {
        for (before, after, expected) in [
            ("Let me look.", "It ", false),
            ("Let me look. ", "It ", true),
            ("Let me look.", " It", true),
            ("Let me look.\n\n", "It", true),
            ("3.", "14", true),
            ("in the U.", "S.", true),
            ("Mc", "Donald", true),
            ("The fox", "Searching…", false),
            ("The fox", "Searching the web", false),
        ] {
            assert_eq!(goes_on(before, after), expected, "{before:?} {after:?}");
        }
    }
}
