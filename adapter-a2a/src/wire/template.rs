//! [`Template`]: a frame with holes, to read the next frame by what it shares with an earlier one.
//!
//! ```text
//! {"id":1,"result":{…"messageId":"m1",…"text":"The ",…}}      a frame, and where its holes are
//!                                ──         ────
//! {"id":1,"result":{…"messageId":"m2",…"text":"quick ",…}}    the same bytes around other contents
//! ```
//!
//! A hole is the inside of one JSON string, or a whole number. A frame that equals the template outside of the
//! holes, and has such a content in each hole, is the same JSON with other values in these places: every reader
//! reads it as the earlier frame with these values.
//!
//! Nothing of a frame is kept alive: a template is a copy of its bytes without the contents of the holes.

use std::borrow::Cow;
use std::ops::Range;

use aqueduct_core::json::plain_prefix;

/// The content of a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoleKind {
    /// The inside of a JSON string, between its quotes.
    Text,
    /// The digits of a whole number.
    Digits,
}

/// A place in a frame whose content differs from frame to frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    /// Where the content stands in the frame.
    pub(crate) place: Range<usize>,
    pub(crate) kind: HoleKind,
    /// The index of the content in the result of [`Template::read`].
    pub(crate) role: usize,
}

/// The frame of a [`Template`] without its holes, and where they are.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    frame: String,
    /// By their places in `frame`, where they have no length.
    holes: Vec<Hole>,
}

impl Template {
    /// Returns the template of a frame with these holes. `room` is an empty string whose allocation is reused.
    /// Returns `None` if the holes do not stand in the frame one after the other, or more than `limit` bytes stand
    /// outside of them.
    pub(crate) fn new(data: &str, mut holes: Vec<Hole>, limit: usize, mut room: String) -> Option<Self> {
        holes.sort_by_key(|hole| hole.place.start);
        let inside: usize = holes.iter().map(|hole| hole.place.len()).sum();
        let outside = data.len().checked_sub(inside).filter(|outside| *outside <= limit)?;
        room.reserve_exact(outside);
        let mut at = 0;
        for hole in &mut holes {
            room.push_str(data.get(at..hole.place.start)?);
            at = hole.place.end;
            hole.place = room.len()..room.len();
        }
        room.push_str(data.get(at..)?);
        Some(Self { frame: room, holes })
    }

    /// Returns the allocation of the template, empty.
    pub(crate) fn into_room(self) -> String {
        let mut room = self.frame;
        room.clear();
        room
    }

    /// Returns the places of the contents in `data` by their roles, empty for a role without a hole. Returns `None`
    /// if `data` is not of this template.
    pub(crate) fn read<const ROLES: usize>(&self, data: &str) -> Option<[Content; ROLES]> {
        let mut contents = [Content::default(); ROLES];
        let (mut known, mut at) = (0, 0);
        for hole in &self.holes {
            let fixed = self.frame.as_bytes().get(known..hole.place.start)?;
            let rest = data.as_bytes().get(at..)?.strip_prefix(fixed)?;
            let start = at + fixed.len();
            let (len, has_escapes) = match hole.kind {
                HoleKind::Text => string_len(rest)?,
                HoleKind::Digits => (digits_len(rest)?, false),
            };
            (known, at) = (hole.place.start, start + len);
            *contents.get_mut(hole.role)? = Content { start, end: at, has_escapes };
        }
        let end = self.frame.as_bytes().get(known..)?;
        (data.as_bytes().get(at..)? == end).then_some(contents)
    }

    /// Returns where something stands in a frame of this template that stood at `place` in the frame without its holes.
    pub(crate) fn shifted<const ROLES: usize>(
        &self,
        place: &Range<usize>,
        contents: &[Content; ROLES],
    ) -> Range<usize> {
        let before = self.holes.iter().filter(|hole| hole.place.start <= place.start);
        let contents = before.filter_map(|hole| contents.get(hole.role));
        let shift: usize = contents.map(|content| content.end - content.start).sum();
        place.start + shift..place.end + shift
    }
}

/// Where the content of a hole stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Content {
    start: usize,
    end: usize,
    has_escapes: bool,
}

impl Content {
    /// Returns the content, with its escapes undone. Returns `None` if they are invalid.
    pub(crate) fn text(self, data: &str) -> Option<Cow<'_, str>> {
        if !self.has_escapes {
            return data.get(self.start..self.end).map(Cow::Borrowed);
        }
        // With its quotes.
        let quoted = data.get(self.start.checked_sub(1)?..self.end + 1)?;
        serde_json::from_str(quoted).ok().map(Cow::Owned)
    }
}

/// Returns the length of the inside of a string up to its closing quote, and whether it has escapes.
fn string_len(bytes: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut has_escapes) = (0, false);
    loop {
        at += plain_prefix(bytes.get(at..)?);
        match bytes.get(at)? {
            b'"' => return Some((at, has_escapes)),
            b'\\' => (at, has_escapes) = (at + 2, true),
            // Control characters must be escaped.
            _ => return None,
        }
    }
}

/// Returns the length of a whole number as JSON writes it.
fn digits_len(bytes: &[u8]) -> Option<usize> {
    let len = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = len == 1 || (len > 1 && !bytes.starts_with(b"0"));
    is_number.then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        let data = r#"{"id":7,"text":"Hi","to":"you"}"#;
        let hole = |content: &str, kind, role| {
            let start = data.find(content).unwrap();
            Hole { place: start..start + content.len(), kind, role }
        };
        let holes = vec![hole("Hi", HoleKind::Text, 0), hole("7", HoleKind::Digits, 1)];
        Template::new(data, holes, 100, String::new()).unwrap()
    }

    fn read(data: &str) -> Option<[String; 2]> {
        let [text, id] = template().read(data)?.map(|content| content.text(data));
        Some([text?.into_owned(), id?.into_owned()])
    }

    #[test]
    fn contents_are_found_by_their_roles() {
        let found = |text: &str, id: &str| Some([text.to_owned(), id.to_owned()]);
        assert_eq!(read(r#"{"id":120,"text":"a \"b\" é","to":"you"}"#), found("a \"b\" é", "120"));
        assert_eq!(read(r#"{"id":0,"text":"","to":"you"}"#), found("", "0"));
    }

    #[test]
    fn what_stands_behind_a_hole_moves_with_its_content() {
        let template = template();
        let place = template.frame.find("you").unwrap();
        let data = r#"{"id":12,"text":"Hello","to":"you"}"#;
        let contents = template.read::<2>(data).unwrap();
        assert_eq!(data.get(template.shifted(&(place..place + 3), &contents)), Some("you"));
    }

    #[test]
    fn other_frames_are_refused() {
        for data in [
            "",
            r#"{"id":7,"text":"Hi","to":"me"}"#,
            r#"{"id":7,"text":"Hi","to":"you"} "#,
            r#"{"id":"7","text":"Hi","to":"you"}"#,
            r#"{"id":,"text":"Hi","to":"you"}"#,
            r#"{"id":07,"text":"Hi","to":"you"}"#,
            r#"{"id":7,"text":"Hi","x":"y","to":"you"}"#,
            "{\"id\":7,\"text\":\"H\ni\",\"to\":\"you\"}",
            r#"{"id":7,"text":"Hi\","to":"you"}"#,
            r#"{"id":7,"text":"\x","to":"you"}"#,
        ] {
            assert_eq!(read(data), None, "{data}");
        }
    }

    #[test]
    fn a_frame_above_the_limit_has_no_template() {
        assert!(Template::new("0123456789", Vec::new(), 9, String::new()).is_none());
        assert!(Template::new("0123456789", Vec::new(), 10, String::new()).is_some());
    }
}
