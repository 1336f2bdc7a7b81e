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
        /// The description of the agent.
        description: String as Text,
        /// The protocol versions of the A2A card; `1.0` omits the members of 0.3, for strict readers. `both` without it.
        card: CardVersions as Word<CardVersions>,
        /// Accepted media types, as in the A2A card; `text/*` stands for all texts. Parts of other types are refused. All without it.
        input_modes: Vec<String> as List<Text>,
        /// Example prompts for the A2A card.
        examples: Vec<String> as List<Text>,
        /// Rules; the first one that matches the message is played.
        rule: Vec<Rule> as Tables<RuleKeys>,
        /// Steps to play if no rule matches: a rule without `match`, after all others.
        step: Vec<Step> as Tables<StepKeys>,
    }

    /// `[[rule]]`.
    pub(super) struct RuleKeys -> Rule {
        /// The messages that the rule matches; without it, all.
        "match" matches: Match as Section<Match>,
        /// Steps to play, in this order.
        step: Vec<Step> as Tables<StepKeys>,
    }

    /// The messages that a rule matches: those that satisfy all keys that are set.
    pub(super) struct Match {
        /// Text that the user's message contains, ignoring case; `*` stands for any text.
        text: Option<String> as Maybe<Text>,
        /// The prefix of the id of the user's message.
        message_id_prefix: Option<String> as Maybe<Text>,
    }

    /// A step: its action, and the options of the action.
    pub(super) struct StepKeys -> Step {
        /// The action.
        action: ActionKeys as Inline<ActionKeys>,
        /// The options of the action.
        options: OptionKeys as Inline<OptionKeys>,
    }

    /// The action of a step: exactly one of these is set.
    pub(super) struct ActionKeys {
        /// Emits text: a string word by word, a list in exactly these chunks.
        text: Option<Words> as Maybe<Chunks>,
        /// Emits thinking, in the same way.
        thinking: Option<Words> as Maybe<Chunks>,
        /// Emits a complete intermediate text.
        status: Option<String> as Maybe<Text>,
        /// Calls a tool of that name, with `arguments`; answers with `result`, `error`.
        tool: Option<String> as Maybe<Text>,
        /// Reports in status texts that a tool of that name is called and has completed, or failed with `error`.
        notice: Option<String> as Maybe<Text>,
        /// A file, by its address or with its bytes.
        file: Option<Value> as Maybe<Section<FileKeys>>,
        /// A structured part.
        data: Option<Value> as Maybe<Json>,
        /// Content of a kind of its own.
        custom: Option<CustomKeys> as Maybe<Section<CustomKeys>>,
        /// The complete shared state.
        state: Option<Value> as Maybe<Json>,
        /// Emits `text` that many times without a pause; `{n}` counts from 1. Without `text`: `chunk {n} `.
        burst: Option<u64> as Maybe<LongCount>,
        /// Raises an interrupt: the run ends, and the follow-up continues with `{answer}`.
        ask: Option<String> as Maybe<Text>,
        /// As `ask`, for authorisation.
        auth: Option<String> as Maybe<Text>,
        /// Responds with a bare message, without a task; no step may come before it.
        message: Option<String> as Maybe<Text>,
        /// Ends the sub-agent.
        close: Option<Close> as Maybe<Word<Close>>,
        /// Pauses for that time; `wait` is the same.
        sleep: Option<Duration> as Maybe<Delay>,
        /// `sleep`.
        wait: Option<Duration> as Maybe<Delay>,
        /// Ends the run before its last step.
        end: Option<End> as Maybe<Word<End>>,
        /// Ends the run as failed.
        fail: Option<String> as Maybe<Text>,
        /// Ends the run as rejected.
        reject: Option<String> as Maybe<Text>,
        /// Raises an exception: the stream has no terminal event.
        raise: Option<String> as Maybe<Text>,
        /// Cuts the connection: no end at all.
        cut: Option<bool> as Maybe<Flag>,
    }

    /// The options of a step.
    pub(super) struct OptionKeys {
        /// The sub-agent of the step; `a/b` is a sub-agent of a sub-agent.
        agent: String as Text,
        /// The channel of the content; `answer` without it.
        channel: Channel as Word<Channel>,
        /// The delay between words, chunks, and a call and its result.
        pace: Duration as Delay,
        /// Consecutive steps with the same number run concurrently.
        together: Option<u64> as Maybe<LongCount>,
        /// The named output that `text`, `file`, `data` or `burst` go to. A text is one chunk of it. Several can be open at once.
        artifact: Option<String> as Maybe<Text>,
        /// With `artifact` and `text` or `burst`: appends to it (`true`, the default), or replaces it.
        append: Option<bool> as Maybe<Flag>,
        /// With `artifact` and `text` or `burst`: marks the last chunk of it. `true` without it.
        last: Option<bool> as Maybe<Flag>,
        /// With `tool`: its arguments, as JSON.
        arguments: Option<String> as Maybe<Text>,
        /// With `tool`: its result. Without it, the call stays open.
        result: Option<String> as Maybe<Text>,
        /// With `tool` or `notice`: the tool failed.
        error: Option<bool> as Maybe<Flag>,
        /// With `ask`: JSON Schema of the reply. Text without it.
        schema: Option<Value> as Maybe<Json>,
    }

    /// A file.
    pub(super) struct FileKeys -> Value {
        /// The address of the file.
        url: Option<String> as Maybe<Text>,
        /// The bytes of the file, in base64.
        data: Option<String> as Maybe<Text>,
        /// The media type of the file.
        "mediaType" media_type: Option<String> as Maybe<Text>,
        /// The name of the file.
        name: Option<String> as Maybe<Text>,
    }

    /// Content of a kind of its own.
    pub(super) struct CustomKeys {
        /// The name of the content.
        name: String as Needed<Text>,
        /// The value of the content.
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
