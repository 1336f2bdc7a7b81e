//! Every key of a script: the one list that the reader and `docs/script.md` share.

use std::fmt::Write as _;

use crate::config::Kind;

/// What a key of a script holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// What a key of the configuration can hold too.
    Plain(Kind),
    /// A text, or a list of texts: the chunks.
    Words,
    /// Any TOML value, as JSON.
    Value,
    /// A table with exactly these keys, the first of which must be there, one of those in brackets.
    Table(&'static str),
    /// `[[name]]`, again and again.
    Tables(&'static str),
}

impl Holds {
    pub(super) fn expected(self) -> String {
        match self {
            Self::Plain(kind) => kind.expected(),
            Self::Words => "text, or a list of texts".to_owned(),
            Self::Value => "any value".to_owned(),
            Self::Table(members) => format!("a table: {members}"),
            Self::Tables(name) => format!("tables: `[[{name}]]`"),
        }
    }
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) holds: Holds,
    /// True if a step does this; a step has exactly one such key.
    pub(super) is_action: bool,
    about: &'static str,
}

const fn action(name: &'static str, holds: Holds, about: &'static str) -> Key {
    Key { name, holds, is_action: true, about }
}

const fn option(name: &'static str, holds: Holds, about: &'static str) -> Key {
    Key { name, holds, is_action: false, about }
}

const TEXT: Holds = Holds::Plain(Kind::Text);
const FLAG: Holds = Holds::Plain(Kind::Flag);
const DURATION: Holds = Holds::Plain(Kind::Duration);
const COUNT: Holds = Holds::Plain(Kind::Count);

/// Keys of the file.
pub(super) const FILE_KEYS: &[Key] = &[
    option("description", TEXT, "What the agent is for."),
    option(
        "card",
        Holds::Plain(Kind::Word(&["both", "1.0"])),
        "What its A2A card is written for; `1.0` leaves out what is 0.3's, for strict readers. `both` without it.",
    ),
    option(
        "input_modes",
        Holds::Plain(Kind::Texts),
        "Media types it reads, as its A2A card says them; `text/*` stands for all texts. Parts of other types are refused. All without it.",
    ),
    option(
        "rule",
        Holds::Tables("rule"),
        "What to play for which messages; the first rule that fits is played.",
    ),
    option(
        "step",
        Holds::Tables("step"),
        "What to play if no rule fits: a rule without `match`, after all others.",
    ),
];

/// Keys of a rule.
pub(super) const RULE_KEYS: &[Key] = &[
    option(
        "match",
        Holds::Table("`text`, `message_id_prefix`"),
        "Which messages the rule is for; without it, all.",
    ),
    option("step", Holds::Tables("rule.step"), "What to play, in this order."),
];

/// Keys of a match.
pub(super) const MATCH_KEYS: &[Key] = &[
    option("text", TEXT, "Found in the user's message, in any case; `*` stands for any text."),
    option("message_id_prefix", TEXT, "What the id of the user's message begins with."),
];

/// Keys of a step.
pub(super) const STEP_KEYS: &[Key] = &[
    action("text", Holds::Words, "Says it: a text word by word, a list in exactly these chunks."),
    action("thinking", Holds::Words, "Thinks it, in the same way."),
    action("status", TEXT, "A whole text on the way to the answer."),
    action("tool", TEXT, "Calls a tool of that name, with `arguments`; answers with `result`, `error`."),
    action(
        "notice",
        TEXT,
        "Tells in status texts that a tool of that name is called and has completed, or failed with `error`.",
    ),
    action(
        "file",
        Holds::Table("`url` or `data` (base64); `mediaType`, `name`"),
        "A file, by its address or with its bytes.",
    ),
    action("data", Holds::Value, "A structured part."),
    action("custom", Holds::Table("`name`, `value`"), "Content of a kind of its own."),
    action("state", Holds::Value, "The shared state, whole."),
    action(
        "burst",
        COUNT,
        "Says `text` that many times without a pause; `{n}` counts from 1. Without `text`: `chunk {n} `.",
    ),
    action("ask", TEXT, "Asks, and waits: the run ends, and the follow-up plays on with `{answer}`."),
    action("auth", TEXT, "The same, for authorisation."),
    action("message", TEXT, "Answers with a bare message, without a task; nothing may come before it."),
    action("close", Holds::Plain(Kind::Word(&["success", "failed", "cancelled"])), "Ends the sub-agent."),
    action("sleep", DURATION, "Does nothing for so long; `wait` is the same."),
    action("wait", DURATION, "`sleep`."),
    action("end", Holds::Plain(Kind::Word(&["success", "cancelled"])), "Ends the run before its last step."),
    action("fail", TEXT, "Says that it failed."),
    action("reject", TEXT, "Refuses."),
    action("raise", TEXT, "Breaks off with an exception: no clean end."),
    action("cut", FLAG, "Breaks the connection: no end at all."),
    option("agent", TEXT, "The sub-agent that does it; `a/b` is a sub-agent of a sub-agent."),
    option(
        "channel",
        Holds::Plain(Kind::Word(&["answer", "intermediate"])),
        "What the content is for; `answer` without it.",
    ),
    option("pace", DURATION, "Between words, chunks, and a call and its result."),
    option("together", COUNT, "Steps with the same number, one after the other, run side by side."),
    option(
        "artifact",
        TEXT,
        "The named output that `text`, `file`, `data` or `burst` go to. A text is one chunk of it. Several can be open at once.",
    ),
    option("append", FLAG, "With `artifact`: after what it has (`true`, the default), or instead of it."),
    option("last", FLAG, "With `artifact`: nothing more follows for it. `true` without it."),
    option("arguments", TEXT, "With `tool`: its arguments, as JSON."),
    option("result", TEXT, "With `tool`: what it answers. Without it, the call stays open."),
    option("error", FLAG, "With `tool` or `notice`: it failed."),
    option("schema", Holds::Value, "With `ask`: JSON Schema of the answer. Text without it."),
];

/// All keys as tables for `docs/script.md`.
pub fn reference() -> String {
    let mut text = String::new();
    let (actions, options): (Vec<Key>, Vec<Key>) = STEP_KEYS.iter().partition(|key| key.is_action);
    for (title, keys) in [
        ("The file", FILE_KEYS),
        ("`[[rule]]`", RULE_KEYS),
        ("`[rule.match]`", MATCH_KEYS),
        ("What a step does: exactly one of these", &actions),
        ("How it does it", &options),
    ] {
        // Writing to a `String` cannot fail.
        write!(text, "\n### {title}\n\n| key | what | meaning |\n|---|---|---|\n").ok();
        for key in keys {
            writeln!(text, "| `{}` | {} | {} |", key.name, key.holds.expected(), key.about).ok();
        }
    }
    text
}
