//! Every key of a script: the tables that the reader and `docs/script.md` share.

use std::fmt::Write as _;
use std::time::Duration;

use aqueduct_core::Channel;
use serde_json::Value;

use super::model::{Close, End, Rule, Step, Words};
use crate::config::{
    At, Delay, Flag, Inline, Json, Keys as _, Kind, List, LongCount, Maybe, Needed, Section, Tables, Text,
    Word, Wrong, choices, keys, rows, words,
};

keys! {
    /// Keys of the file.
    pub(super) struct ScriptKeys {
        /// What the agent is for.
        description: String as Text,
        /// What its A2A card is written for; `1.0` leaves out what is 0.3's, for strict readers. `both` without it.
        card: CardVersions as Word<CardVersions>,
        /// Media types it reads, as its A2A card says them; `text/*` stands for all texts. Parts of other types are refused. All without it.
        input_modes: Vec<String> as List<Text>,
        /// What one could say to it, as its A2A card tells.
        examples: Vec<String> as List<Text>,
        /// What to play for which messages; the first rule that fits is played.
        rule: Vec<Rule> as Tables<RuleKeys>,
        /// What to play if no rule fits: a rule without `match`, after all others.
        step: Vec<Step> as Tables<StepKeys>,
    }

    /// `[[rule]]`.
    pub(super) struct RuleKeys -> Rule {
        /// Which messages the rule is for; without it, all.
        "match" matches: Match as Section<Match>,
        /// What to play, in this order.
        step: Vec<Step> as Tables<StepKeys>,
    }

    /// Which messages a rule is for: those for which all that is set holds.
    pub(super) struct Match {
        /// Found in the user's message, in any case; `*` stands for any text.
        text: Option<String> as Maybe<Text>,
        /// What the id of the user's message begins with.
        message_id_prefix: Option<String> as Maybe<Text>,
    }

    /// A step: what it does, and how.
    pub(super) struct StepKeys -> Step {
        /// What it does.
        action: ActionKeys as Inline<ActionKeys>,
        /// How it does it.
        options: OptionKeys as Inline<OptionKeys>,
    }

    /// What a step does: exactly one of these is there.
    pub(super) struct ActionKeys {
        /// Says it: a text word by word, a list in exactly these chunks.
        text: Option<Words> as Maybe<Chunks>,
        /// Thinks it, in the same way.
        thinking: Option<Words> as Maybe<Chunks>,
        /// A whole text on the way to the answer.
        status: Option<String> as Maybe<Text>,
        /// Calls a tool of that name, with `arguments`; answers with `result`, `error`.
        tool: Option<String> as Maybe<Text>,
        /// Tells in status texts that a tool of that name is called and has completed, or failed with `error`.
        notice: Option<String> as Maybe<Text>,
        /// A file, by its address or with its bytes.
        file: Option<Value> as Maybe<Section<FileKeys>>,
        /// A structured part.
        data: Option<Value> as Maybe<Json>,
        /// Content of a kind of its own.
        custom: Option<CustomKeys> as Maybe<Section<CustomKeys>>,
        /// The shared state, whole.
        state: Option<Value> as Maybe<Json>,
        /// Says `text` that many times without a pause; `{n}` counts from 1. Without `text`: `chunk {n} `.
        burst: Option<u64> as Maybe<LongCount>,
        /// Asks, and waits: the run ends, and the follow-up plays on with `{answer}`.
        ask: Option<String> as Maybe<Text>,
        /// The same, for authorisation.
        auth: Option<String> as Maybe<Text>,
        /// Answers with a bare message, without a task; nothing may come before it.
        message: Option<String> as Maybe<Text>,
        /// Ends the sub-agent.
        close: Option<Close> as Maybe<Word<Close>>,
        /// Does nothing for so long; `wait` is the same.
        sleep: Option<Duration> as Maybe<Delay>,
        /// `sleep`.
        wait: Option<Duration> as Maybe<Delay>,
        /// Ends the run before its last step.
        end: Option<End> as Maybe<Word<End>>,
        /// Says that it failed.
        fail: Option<String> as Maybe<Text>,
        /// Refuses.
        reject: Option<String> as Maybe<Text>,
        /// Breaks off with an exception: no clean end.
        raise: Option<String> as Maybe<Text>,
        /// Breaks the connection: no end at all.
        cut: Option<bool> as Maybe<Flag>,
    }

    /// How a step does it.
    pub(super) struct OptionKeys {
        /// The sub-agent that does it; `a/b` is a sub-agent of a sub-agent.
        agent: String as Text,
        /// What the content is for; `answer` without it.
        channel: Channel as Word<Channel>,
        /// Between words, chunks, and a call and its result.
        pace: Duration as Delay,
        /// Steps with the same number, one after the other, run side by side.
        together: Option<u64> as Maybe<LongCount>,
        /// The named output that `text`, `file`, `data` or `burst` go to. A text is one chunk of it. Several can be open at once.
        artifact: Option<String> as Maybe<Text>,
        /// With `artifact`: after what it has (`true`, the default), or instead of it.
        append: Option<bool> as Maybe<Flag>,
        /// With `artifact`: nothing more follows for it. `true` without it.
        last: Option<bool> as Maybe<Flag>,
        /// With `tool`: its arguments, as JSON.
        arguments: Option<String> as Maybe<Text>,
        /// With `tool`: what it answers. Without it, the call stays open.
        result: Option<String> as Maybe<Text>,
        /// With `tool` or `notice`: it failed.
        error: Option<bool> as Maybe<Flag>,
        /// With `ask`: JSON Schema of the answer. Text without it.
        schema: Option<Value> as Maybe<Json>,
    }

    /// A file.
    pub(super) struct FileKeys -> Value {
        /// Its address.
        url: Option<String> as Maybe<Text>,
        /// Its bytes, in base64.
        data: Option<String> as Maybe<Text>,
        /// Its media type.
        "mediaType" media_type: Option<String> as Maybe<Text>,
        /// Its name.
        name: Option<String> as Maybe<Text>,
    }

    /// Content of a kind of its own.
    pub(super) struct CustomKeys {
        /// The kind.
        name: String as Needed<Text>,
        /// The content.
        value: Value as Needed<Json>,
    }
}

choices! {
    /// `card`.
    pub(super) enum CardVersions {
        #[default]
        Both = "both",
        OnlyV1 = "1.0",
    }
}

words! {
    Channel { "answer" => Answer, "intermediate" => Intermediate }
    Close { "success" => Success, "failed" => Failed, "cancelled" => Cancelled }
    End { "success" => Success, "cancelled" => Cancelled }
}

/// A string, or a list of strings: the chunks.
pub(super) struct Chunks;

impl Kind for Chunks {
    type Value = Words;

    fn expected() -> String {
        "text, or a list of texts".to_owned()
    }

    fn read(at: &At<'_>) -> Result<Words, Wrong> {
        match at.text() {
            Some(text) => Ok(Words::Flow(text.to_owned())),
            None => List::<Text>::read(at).map(Words::Chunks),
        }
    }
}

/// Returns all keys as tables for `docs/script.md`.
pub fn reference() -> String {
    let mut text = String::new();
    for (title, keys) in [
        ("The file", ScriptKeys::keys()),
        ("`[[rule]]`", RuleKeys::keys()),
        ("`[rule.match]`", Match::keys()),
        ("What a step does: exactly one of these", ActionKeys::keys()),
        ("How it does it", OptionKeys::keys()),
    ] {
        // Writing to a `String` cannot fail.
        write!(text, "\n### {title}\n\n| key | what | meaning |\n|---|---|---|\n").ok();
        rows(&mut text, "", &keys, false);
    }
    text
}
