//! [`Chunk`]: the most frequent frame, parsed without building the wire model.
//!
//! Nine of ten frames of an answer append one text part to a known artifact. Parsing such a frame into the general
//! model costs three times as much as the rest of the path (moves of structures that are almost empty), so this scanner
//! handles that one shape, in every version and order of members, and gives up on anything else: an unknown member,
//! metadata, a second part, escapes in an id, a member beside the object it belongs to, malformed JSON. Frames on which
//! it gives up are parsed by the general path, so giving up is never wrong; frames that it accepts must give the same
//! result as the general path (property tests here and in `decode/chunk.rs`).
//!
//! The frames of a stream differ only in their text, so most need not even be scanned: see [`shape`](super::shape).

use std::borrow::Cow;
use std::ops::Range;

use aqueduct_core::json::plain_prefix;

use super::template::HoleKind;

/// One text part appended to an artifact, borrowed from its frame.
///
/// ```text
/// {"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"Hi"}]},"append":true}}
/// ► Chunk { task_id: "t", artifact_id: "a", text: "Hi", append: true, last: false }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chunk<'a> {
    /// The task that the chunk names. Empty if it names none, and if the frame was recognised by its
    /// [`shape`](super::shape), which is learned only from frames of the known task.
    pub(crate) task_id: &'a str,
    /// The artifact, never empty.
    pub(crate) artifact_id: &'a str,
    /// The text, with its escapes undone. Owned only if it has escapes. Can be empty.
    pub(crate) text: Cow<'a, str>,
    /// Absent is `false`. A caller that needs an appending chunk checks it.
    pub(crate) append: bool,
    pub(crate) last: bool,
}

/// The places in the frame of the parts that differ from frame to frame or are needed later.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Places {
    /// The artifact id between its quotes. It has no escapes.
    pub(super) artifact_id: Range<usize>,
    /// The text as it is encoded, between its quotes.
    pub(super) text: Range<usize>,
    /// The id of the envelope, where there is one.
    pub(super) id: Option<(Range<usize>, HoleKind)>,
}

impl<'a> Chunk<'a> {
    /// Scans a frame. Returns `None` if it does not have this shape.
    pub(super) fn scan(data: &'a str) -> Option<(Self, Places)> {
        let mut scan = Scan { data, at: 0 };
        let mut found = Found::default();
        scan.object(|scan, key| match key {
            "jsonrpc" => scan.text().map(drop),
            "id" => scan.id().map(|id| found.places.id = Some(id)),
            "result" => {
                found.results += 1;
                scan.object(|scan, key| scan.item(key, &mut found))
            }
            _ => {
                found.is_bare = true;
                scan.item(key, &mut found)
            }
        })?;
        scan.skip_space();
        let is_whole = scan.at == data.len() && found.is_one();
        (is_whole && !found.chunk.artifact_id.is_empty()).then_some((found.chunk, found.places))
    }
}

/// What was found, and how often each level of the frame occurred.
#[derive(Default)]
struct Found<'a> {
    chunk: Chunk<'a>,
    places: Places,
    /// The number of `result` members.
    results: usize,
    /// The number of 1.0 wrappers.
    wrappers: usize,
    /// The number of 0.3 `kind` members.
    kinds: usize,
    artifacts: usize,
    parts: usize,
    /// Set if a member of the item stands beside the envelope's own members.
    is_bare: bool,
    /// Set if a member of the update stands without a wrapper.
    is_flat: bool,
}

impl Found<'_> {
    /// Returns `true` if no member is repeated or occurs at two levels: only the general path knows which one counts.
    fn is_one(&self) -> bool {
        self.results + usize::from(self.is_bare) == 1
            && self.wrappers + usize::from(self.is_flat) == 1
            && self.wrappers + self.kinds == 1
            && self.artifacts == 1
            && self.parts == 1
    }
}

/// A position in a JSON text. Every method gives up with `None`, and leaves the position undefined then.
struct Scan<'a> {
    data: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// Returns the next byte without consuming it.
    fn peek(&self) -> Option<u8> {
        self.data.as_bytes().get(self.at).copied()
    }

    /// Consumes whitespace between tokens.
    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Consumes whitespace and `byte`.
    fn expect(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            self.skip_space();
            if self.peek()? != byte {
                return None;
            }
        }
        self.at += 1;
        Some(())
    }

    /// Consumes `byte` if it is next. Returns `false` otherwise.
    fn takes(&mut self, byte: u8) -> bool {
        self.expect(byte).is_some()
    }

    /// Consumes a string. Returns the text between its quotes, and whether it contains escapes.
    fn string(&mut self) -> Option<(&'a str, bool)> {
        self.expect(b'"')?;
        let start = self.at;
        let mut has_escapes = false;
        loop {
            self.at += plain_prefix(self.data.as_bytes().get(self.at..)?);
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    self.at += 2;
                }
                // Control characters must be escaped.
                _ => return None,
            }
        }
        let text = self.data.get(start..self.at)?;
        self.at += 1;
        Some((text, has_escapes))
    }

    /// Consumes a string without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.string().and_then(|(text, has_escapes)| (!has_escapes).then_some(text))
    }

    /// Consumes any string. Returns its value, and its range between the quotes.
    fn words(&mut self) -> Option<(Cow<'a, str>, Range<usize>)> {
        let (text, has_escapes) = self.string()?;
        let place = self.behind(text);
        if has_escapes {
            let quoted = self.data.get(place.start - 1..self.at)?;
            return serde_json::from_str(quoted).ok().map(|text| (Cow::Owned(text), place));
        }
        Some((Cow::Borrowed(text), place))
    }

    /// Returns the range of the string that was just consumed.
    fn behind(&self, text: &str) -> Range<usize> {
        let end = self.at - 1;
        end - text.len()..end
    }

    /// Consumes `true` or `false`. The byte after it is checked by the caller, which expects a comma or a brace.
    fn flag(&mut self) -> Option<bool> {
        self.skip_space();
        let rest = self.data.as_bytes().get(self.at..)?;
        let value = rest.starts_with(b"true");
        let len = if value { 4 } else { 5 };
        (value || rest.starts_with(b"false")).then(|| self.at += len)?;
        Some(value)
    }

    /// Consumes the id of a request: a string or a whole number without leading zeros. Returns its range and its
    /// kind.
    fn id(&mut self) -> Option<(Range<usize>, HoleKind)> {
        self.skip_space();
        if self.peek()? == b'"' {
            return self.words().map(|(_, place)| (place, HoleKind::Text));
        }
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = self.data.get(start..self.at)?;
        let is_number = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
        is_number.then_some((start..self.at, HoleKind::Digits))
    }

    /// Consumes an object. `member` consumes the value of each member. The empty object is refused: no object of
    /// this frame is empty.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        loop {
            let key = self.text()?;
            self.expect(b':')?;
            member(self, key)?;
            if !self.takes(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Consumes a member of the item, or the wrapper around it.
    fn item(&mut self, key: &'a str, found: &mut Found<'a>) -> Option<()> {
        if key == "artifactUpdate" {
            found.wrappers += 1;
            return self.object(|scan, key| scan.update(key, found));
        }
        found.is_flat = true;
        if key == "kind" {
            found.kinds += 1;
            return (self.text()? == "artifact-update").then_some(());
        }
        self.update(key, found)
    }

    /// Consumes a member of the update.
    fn update(&mut self, key: &'a str, found: &mut Found<'a>) -> Option<()> {
        match key {
            "taskId" => self.text().map(|id| found.chunk.task_id = id),
            // The decoder knows the context from the first event on.
            "contextId" => self.text().map(drop),
            "append" => self.flag().map(|flag| found.chunk.append = flag),
            "lastChunk" => self.flag().map(|flag| found.chunk.last = flag),
            "artifact" => {
                found.artifacts += 1;
                self.object(|scan, key| scan.artifact(key, found))
            }
            _ => None,
        }
    }

    /// Consumes a member of the artifact. A description, metadata or extensions are left to the general path.
    fn artifact(&mut self, key: &'a str, found: &mut Found<'a>) -> Option<()> {
        match key {
            "artifactId" => {
                found.chunk.artifact_id = self.text()?;
                found.places.artifact_id = self.behind(found.chunk.artifact_id);
                Some(())
            }
            // The name was emitted with the first chunk.
            "name" => self.words().map(drop),
            "parts" => {
                self.expect(b'[')?;
                found.parts += 1;
                self.object(|scan, key| scan.part(key, found))?;
                self.expect(b']')
            }
            _ => None,
        }
    }

    /// Consumes a member of the part. A media type or a file name is left to the general path.
    fn part(&mut self, key: &'a str, found: &mut Found<'a>) -> Option<()> {
        match key {
            "kind" => (self.text()? == "text").then_some(()),
            "text" => self.words().map(|(text, place)| {
                found.chunk.text = text;
                found.places.text = place;
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::{Dialect, FrameContent, StreamItem};

    const V1: &str = r#"{"result": {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "Hi"}]}, "append": true}}, "id": 7, "jsonrpc": "2.0"}"#;

    fn scanned(frame: &str) -> Option<Chunk<'_>> {
        Chunk::scan(frame).map(|(chunk, _)| chunk)
    }

    #[test]
    fn the_shape_is_read_in_every_dialect() {
        let chunk = Chunk { task_id: "t", artifact_id: "a", text: "Hi".into(), append: true, last: false };
        assert_eq!(scanned(V1), Some(chunk.clone()));
        let part = json!({"kind": "text", "text": "Hi"});
        let artifact = json!({"artifactId": "a", "name": "n", "parts": [part]});
        let v03 = json!({"append": true, "artifact": artifact, "contextId": "c", "kind": "artifact-update", "lastChunk": true, "taskId": "t"});
        let rpc = json!({"id": "x", "jsonrpc": "2.0", "result": v03});
        let last = Chunk { last: true, ..chunk };
        assert_eq!(scanned(&rpc.to_string()), Some(last.clone()));
        assert_eq!(scanned(&v03.to_string()), Some(last));
    }

    #[test]
    fn escapes_in_the_words_are_undone() {
        let frame = V1.replace("Hi", r#"\"\u00e9\n\\"#);
        assert_eq!(scanned(&frame).unwrap().text, "\"é\n\\");
    }

    #[test]
    fn anything_else_is_left_to_the_general_way() {
        let others = [
            V1.replace(r#""append""#, r#""metadata": {}, "append""#),
            V1.replace(r#"{"text": "Hi"}"#, r#"{"text": "Hi"}, {"text": "Ho"}"#),
            V1.replace(r#"{"text": "Hi"}"#, r#"{"text": "Hi", "metadata": {"thought": true}}"#),
            V1.replace(r#"{"text": "Hi"}"#, ""),
            V1.replace(r#""artifactId": "a""#, r#""artifactId": """#),
            V1.replace("artifactUpdate", "statusUpdate"),
            V1.replace("true", "truthy"),
            V1.replace('7', "07"),
            V1.replace("Hi", "\n"),
            V1.replace("Hi", r"\x"),
            format!("{V1}x"),
            // Beside the wrapper, or beside the result, the general path ignores them.
            V1.replace(r#", "append": true}"#, r#"}, "append": true"#),
            V1.replace(r#", "append": true}"#, "}").replace(r#""id": 7"#, r#""id": 7, "append": true"#),
        ];
        for other in others {
            assert_eq!(scanned(&other), None, "{other}");
        }
        for end in 0..V1.len() {
            let cut = V1.get(..end).unwrap();
            assert_eq!(scanned(cut), None, "{cut}");
        }
    }

    /// Returns frames that nearly have the shape.
    fn arb_frame() -> impl Strategy<Value = String> {
        let text = prop_oneof![Just("Hi".to_owned()), any::<String>()];
        let part = (text, any::<bool>(), any::<bool>()).prop_map(|(text, kind, odd)| {
            let mut part = json!({ "text": text });
            if kind {
                part["kind"] = "text".into();
            }
            if odd {
                part["filename"] = "f".into();
            }
            part
        });
        let parts = prop_oneof![8 => part.clone().prop_map(|part| vec![part]), 1 => prop::collection::vec(part, 0..3)];
        (parts, any::<[bool; 5]>(), any::<u8>()).prop_map(|(parts, flags, id)| {
            let [append, last, wrapped, named, rpc] = flags;
            let mut artifact = json!({"artifactId": "a", "parts": parts});
            if named {
                artifact["name"] = "n\"".into();
            }
            let mut update = json!({"taskId": "t", "contextId": "c", "artifact": artifact, "append": append});
            if last {
                update["lastChunk"] = true.into();
            }
            let item = if wrapped {
                json!({ "artifactUpdate": update })
            } else {
                update["kind"] = "artifact-update".into();
                update
            };
            let whole: Value = if rpc { json!({"jsonrpc": "2.0", "id": id, "result": item}) } else { item };
            whole.to_string()
        })
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_the_general_way_reads(frame in arb_frame(), cut in any::<prop::sample::Index>(), byte in any::<Option<char>>()) {
            let mut frame = frame;
            if let Some(byte) = byte {
                let at = frame.char_indices().nth(cut.index(frame.chars().count())).unwrap().0;
                frame.insert(at, byte);
            }
            let Some(chunk) = scanned(&frame) else { return Ok(()) };
            let content = FrameContent::parse(&frame, Dialect::V1);
            let Ok(FrameContent::Item(StreamItem::Artifact(update))) = content else {
                return Err(TestCaseError::fail(format!("{content:?}")));
            };
            prop_assert_eq!(update.artifact.text(), chunk.text);
            prop_assert_eq!(update.artifact.artifact_id.as_str(), chunk.artifact_id);
            prop_assert_eq!((update.append, update.last_chunk), (chunk.append, chunk.last));
            prop_assert!(update.metadata.is_none() && update.artifact.metadata.is_none() && update.extra.is_empty());
        }
    }
}
