//! The hot path emits what the general path emits: over frames of the shape it handles, and over mutated frames
//! (members repeated, moved, unknown, of another type, reordered, with white space; bytes inserted and removed).

use std::fmt;

use aqueduct_core::ByteString;
use proptest::prelude::*;

use super::*;
use crate::config::{DecodeConfig, Marks};
use crate::wire::StreamItem;

/// JSON in which a member may be repeated.
#[derive(Debug, Clone)]
enum Json {
    Plain(&'static str),
    Object(Vec<(&'static str, Json)>),
    Array(Vec<Json>),
}
use Json::{Array, Object, Plain};

/// A random number that selects a variant.
type Dice = u16;

const KEYS: [&str; 22] = [
    "metadata",
    "x",
    "append",
    "lastChunk",
    "kind",
    "text",
    "artifactId",
    "name",
    "extensions",
    "taskId",
    "contextId",
    "id",
    "jsonrpc",
    "error",
    "result",
    "artifactUpdate",
    "parts",
    "description",
    "last_chunk",
    "artifact_id",
    "artifact",
    "statusUpdate",
];
const VALUES: [&str; 18] = [
    "null",
    "true",
    "false",
    "1",
    "-0",
    "01",
    "1.5e3",
    r#""s""#,
    r#""""#,
    r#""a1""#,
    "{}",
    "[]",
    r#""artifact-update""#,
    r#""text""#,
    r#"{"adk_thought":true}"#,
    r#""\u0061""#,
    r#"[{"text":"more"}]"#,
    r#"{"artifactId":"a1","parts":[{"text":"other"}]}"#,
];
/// Texts between the quotes.
const WORDS: [&str; 18] = [
    "",
    " ",
    "Hi",
    "a sentence of forty bytes, more or less",
    r"line\n",
    r#"say \"so\""#,
    r"\u00e9\ud83d\ude00",
    r"\ud800",
    r"\x",
    r#"a"b"#,
    "a\tb",
    "é🦀",
    r"ends in a backslash\",
    r#"","text":"two"#,
    r"\\",
    "Hi there. ",
    "Hi there. Hi there.",
    "\u{2028}",
];

fn pick<T: Copy>(from: &[T], dice: Dice) -> T {
    from[usize::from(dice) % from.len()]
}

fn quoted(words: &str) -> &'static str {
    Box::leak(format!("\"{words}\"").into_boxed_str())
}

/// Returns a chunk: in a wrapper or flat, in an envelope or bare.
fn chunk(id: Dice, words: &str, append: bool, form: Dice) -> Json {
    let (is_flat, is_rpc, is_named, is_last) =
        (form & 1 > 0, form & 2 > 0, form & 4 > 0, form & 0x18 == 0x18);
    let text = ("text", Plain(quoted(words)));
    let part = if is_flat { vec![("kind", Plain(r#""text""#)), text] } else { vec![text] };
    let mut artifact = vec![("artifactId", Plain(pick(&[r#""a1""#, r#""a2""#], id)))];
    artifact.push(("parts", Array(vec![Object(part)])));
    if is_named {
        artifact.push(("name", Plain(r#""n\"""#)));
    }
    let mut update = vec![
        ("taskId", Plain(r#""t""#)),
        ("append", Plain(if append { "true" } else { "false" })),
        ("artifact", Object(artifact)),
        ("contextId", Plain(r#""c""#)),
    ];
    if is_last {
        update.push(("lastChunk", Plain("true")));
    }
    let item = if is_flat {
        update.push(("kind", Plain(r#""artifact-update""#)));
        update
    } else {
        vec![("artifactUpdate", Object(update))]
    };
    if is_rpc {
        return Object(vec![("jsonrpc", Plain(r#""2.0""#)), ("id", Plain("7")), ("result", Object(item))]);
    }
    Object(item)
}

impl Json {
    fn print(&self, space: &str, out: &mut String) {
        match self {
            Plain(text) => out.push_str(text),
            Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    out.extend([space, "\"", key, "\"", space, ":", space]);
                    value.print(space, out);
                }
                out.extend([space, "}"]);
            }
            Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    out.push_str(space);
                    item.print(space, out);
                }
                out.extend([space, "]"]);
            }
        }
    }

    /// Returns one of the contained objects.
    fn object(&mut self, dice: Dice) -> Option<&mut Vec<(&'static str, Json)>> {
        fn collect(json: &Json, path: &mut Vec<Vec<usize>>, at: &[usize]) {
            match json {
                Plain(_) => {}
                Object(members) => {
                    path.push(at.to_vec());
                    for (n, (_, value)) in members.iter().enumerate() {
                        collect(value, path, &[at, &[n]].concat());
                    }
                }
                Array(items) => {
                    for (n, item) in items.iter().enumerate() {
                        collect(item, path, &[at, &[n]].concat());
                    }
                }
            }
        }
        let mut paths = Vec::new();
        collect(self, &mut paths, &[]);
        let path = paths.get(usize::from(dice) % paths.len().max(1))?.clone();
        let mut at = self;
        for step in path {
            at = match at {
                Object(members) => &mut members.get_mut(step)?.1,
                Array(items) => items.get_mut(step)?,
                Plain(_) => return None,
            };
        }
        match at {
            Object(members) => Some(members),
            _ => None,
        }
    }

    /// Mutates the value once.
    fn bend(&mut self, [what, place, member, other]: [Dice; 4]) {
        let Some(members) = self.object(place) else { return };
        let at = usize::from(member) % members.len().max(1);
        match what % 6 {
            0 if !members.is_empty() => {
                let twice = members[at].clone();
                members.push(twice);
            }
            1 if !members.is_empty() => {
                let moved = members.remove(at);
                self.object(other).into_iter().for_each(|to| to.push(moved.clone()));
            }
            2 => members.insert(at, (pick(&KEYS, member), Plain(pick(&VALUES, other)))),
            3 if !members.is_empty() => members[at].1 = Plain(pick(&VALUES, other)),
            4 if !members.is_empty() => members[at].0 = pick(&KEYS, other),
            _ => members.rotate_left(at),
        }
    }
}

#[derive(Clone)]
struct Bent {
    frame: Json,
    bends: Vec<[Dice; 4]>,
    space: Dice,
    /// A character that is inserted (or removed), and its position.
    byte: Option<(Option<char>, Dice)>,
}

impl Bent {
    fn text(&self) -> ByteString {
        let mut frame = self.frame.clone();
        self.bends.iter().for_each(|bend| frame.bend(*bend));
        let mut text = String::new();
        frame.print(pick(&["", "", "", " ", "\t\n "], self.space), &mut text);
        if let Some((put, at)) = self.byte {
            let at = text.char_indices().nth(usize::from(at) % text.chars().count()).map_or(0, |(at, _)| at);
            match put {
                Some(put) => text.insert(at, put),
                None => drop(text.remove(at)),
            }
        }
        text.into()
    }
}

impl fmt::Debug for Bent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

fn arb_frames() -> impl Strategy<Value = Vec<Bent>> {
    // Few forms per stream, so that shapes recur.
    any::<[Dice; 2]>().prop_flat_map(|forms| {
        let words = (0..WORDS.len()).prop_map(|at| WORDS[at]);
        let bends = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(any::<[Dice; 4]>(), 1..3)];
        let byte = prop_oneof![9 => Just(None), 1 => any::<(Option<char>, Dice)>().prop_map(Some)];
        let rest = (prop::bool::weighted(0.9), any::<(bool, Dice)>());
        let frame =
            (words, bends, byte, rest).prop_map(move |(words, bends, byte, (append, (which, space)))| {
                let form = forms[usize::from(which)];
                Bent {
                    frame: chunk(form >> 8, words, append, form),
                    bends,
                    space: (forms[0] >> 4) ^ (space / 0xe000),
                    byte,
                }
            });
        prop::collection::vec(frame, 1..8)
    })
}

fn config(dice: Dice) -> DecodeConfig {
    DecodeConfig {
        drop_restated_chunks: dice & 1 > 0,
        marks: if dice & 2 > 0 { Marks::Read } else { DecodeConfig::root().marks },
        ..DecodeConfig::root()
    }
}

const TASK: &str = r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
const NAMELESS: &str = r#"{"statusUpdate":{"status":{"state":"TASK_STATE_WORKING"}}}"#;
const DONE: &str =
    r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}"#;

/// Returns everything that a stream leaves behind.
fn told(
    config: DecodeConfig,
    frames: &[ByteString],
    read: impl Fn(&mut Decoder, &ByteString, &mut Vec<SourceEvent>),
) -> (Vec<SourceEvent>, String) {
    let (mut decoder, mut out) = (Decoder::new(config), Vec::new());
    for frame in frames {
        read(&mut decoder, frame, &mut out);
    }
    let memory = format!("{:?} {:?} {:?}", decoder.memory.artifacts, decoder.open, decoder.counts);
    decoder.handle_end(&mut out);
    (out, format!("{memory} {:?} {:?}", decoder.answer_shown, decoder.task_ref()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_hot_path_gives_what_the_general_way_gives(frames in arb_frames(), dice in any::<Dice>()) {
        let first = [ByteString::from(if dice & 0xc == 0 { NAMELESS } else { TASK })];
        let begun = [1, 0].map(|id| { let mut text = String::new(); chunk(id, "Hi there. ", false, 0).print("", &mut text); text.into() });
        let frames: Vec<ByteString> =
            first.into_iter().chain(begun).chain(frames.iter().map(Bent::text)).chain([DONE.into()]).collect();
        let fast = told(config(dice), &frames, |decoder, frame, out| decoder.handle_frame(Frame::data(frame), out));
        let general = told(config(dice), &frames, |decoder, frame, out| decoder.handle_any(Frame::data(frame), out));
        prop_assert_eq!(fast, general, "{:#?}", frames);
    }
}

/// The test above would also pass if the hot path handled nothing.
#[test]
fn chunks_of_a_stream_take_the_hot_path() {
    let (mut decoder, mut out) = (Decoder::new(DecodeConfig::root()), Vec::new());
    let print = |json: &Json| {
        let mut text = String::new();
        json.print("", &mut text);
        ByteString::from(text)
    };
    for frame in [TASK.into(), print(&chunk(0, "Hi", false, 0)), print(&chunk(1, "Ho", false, 0))] {
        assert!(!decoder.handle_chunk(Frame::data(&frame), &mut out));
        decoder.handle_any(Frame::data(&frame), &mut out);
    }
    for form in 0..8 {
        for (id, words) in [(0, "one"), (1, "two"), (0, r"three\n"), (1, "é")] {
            let frame = print(&chunk(id, words, true, form));
            assert!(decoder.handle_chunk(Frame::data(&frame), &mut out), "{frame}");
            let read = Frame::data(&frame).parse(crate::wire::Dialect::V1);
            let Ok(crate::wire::FrameContent::Item(StreamItem::Artifact(update))) = read else {
                panic!("{frame}")
            };
            let Some(SourceEvent::Update(last)) = out.last() else { panic!("{frame}") };
            assert_eq!(last.block, ContentBlock::text(update.artifact.text()));
        }
    }
}
