//! Builds a script from its keys. Contradictions are recorded at their step; syntax, unknown keys and single values are
//! checked by the reader of documents (`crate::config`).
//!
//! ```text
//! TOML ──► ScriptKeys (one field per key) ──► Build: one action per step, options that fit it ──► Script
//! ```
//!
//! Environment variables do not apply to scripts: a script must play the same everywhere.

use std::path::Path;

use aqueduct_core::Channel;
use serde_json::Value;

use super::keys::{ActionKeys, CardVersions, FileKeys, Match, OptionKeys, RuleKeys, ScriptKeys, StepKeys};
use super::model::{Action, Artifact, End, Rule, Script, Step, Words};
use crate::config::{self, At, Build, ConfigError, Environment, Keys as _};

/// Parses the text of the file at `path`.
///
/// Steps outside of rules become a last rule without `match`. A script without any step has one empty rule: it responds
/// to every message with an empty success.
///
/// # Errors
///
/// Returns all errors of the script, each with line, column and key.
pub(super) fn read(path: &Path, text: &str) -> Result<Script, Vec<ConfigError>> {
    let keys: ScriptKeys = config::read(path, text, &Environment::new(), check)?;
    let mut rules = keys.rule;
    if !keys.step.is_empty() || rules.is_empty() {
        rules.push(Rule { matches: Match::default(), steps: keys.step });
    }
    Ok(Script {
        description: keys.description,
        is_card_v1: keys.card == CardVersions::OnlyV1,
        input_modes: keys.input_modes,
        examples: keys.examples,
        rules,
    })
}

/// Records what concerns more than one step: rules that can never match, because an earlier rule matches every message.
fn check(keys: &ScriptKeys, at: &At<'_>) {
    check_steps(&keys.step, at);
    let Some(first) = keys.rule.iter().position(|rule| rule.matches.is_default()) else { return };
    let what = format!("is never played: rule[{}] has no `match` and fits every message", first + 1);
    for index in first + 1..keys.rule.len() {
        at.fail(&format!("rule[{}]", index + 1), what.as_str());
    }
    // Steps outside of rules are the last rule.
    if !keys.step.is_empty() {
        at.fail("step[1]", what.as_str());
    }
}

/// Records bare messages after the first step: an A2A server has responded with a task by then.
fn check_steps(steps: &[Step], at: &At<'_>) {
    for (index, _) in
        steps.iter().enumerate().skip(1).filter(|(_, step)| matches!(step.action, Action::Message(_)))
    {
        let what = "expected as the first step: a bare message has no task before it";
        at.fail(&format!("step[{}].message", index + 1), what);
    }
}

impl Build for RuleKeys {
    type Output = Rule;

    /// Returns the rule. Its steps were built before.
    fn build(self, at: &At<'_>) -> Option<Rule> {
        check_steps(&self.step, at);
        Some(Rule { matches: self.matches, steps: self.step })
    }
}

impl Build for StepKeys {
    type Output = Step;

    /// Returns the step if it has exactly one action. All actions are collected first, so that the message can name
    /// those that were found.
    fn build(self, at: &At<'_>) -> Option<Step> {
        let Self { action, mut options } = self;
        let mut actions = action.actions(&mut options, at);
        if actions.len() != 1 {
            let names: Vec<&str> = ActionKeys::keys().iter().map(|key| key.name).collect();
            let found: Vec<&str> = actions.iter().map(|(name, _)| *name).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(" and ") };
            at.fail("", format!("expected exactly one of {}, found {found}", names.join(", ")));
        }
        let (name, action) = actions.pop()?;
        check_options(name, at);
        // A step is a complete chunk of its artifact, appended to it, unless the script sets the flags.
        let last = options.last.unwrap_or(true);
        let append = options.append.unwrap_or(true);
        Some(Step {
            agent: options.agent,
            is_intermediate: options.channel == Channel::Intermediate,
            pace: options.pace,
            together: options.together,
            artifact: options.artifact.map(|name| Artifact { name, append, last }),
            action,
        })
    }
}

/// Records options that have no effect with the action.
///
/// Only the presence of a key is checked, not its value: `append = true` without an artifact is an error too.
fn check_options(action: &str, at: &At<'_>) {
    for (option, actions) in [
        ("arguments", &["tool"][..]),
        ("result", &["tool"]),
        ("error", &["tool", "notice"]),
        ("schema", &["ask", "auth"]),
        ("artifact", &["text", "file", "data", "burst"]),
        // A file and a data value are whole: neither replaces content, nor stays open.
        ("append", &["text", "burst"]),
        ("last", &["text", "burst"]),
    ] {
        if !actions.contains(&action) && at.member(option).is_some() {
            let needs: Vec<String> = actions.iter().map(|action| format!("`{action}`")).collect();
            at.fail(option, format!("needs {} beside it", needs.join(" or ")));
        }
    }
    for option in ["append", "last"] {
        if at.member("artifact").is_none() && at.member(option).is_some() {
            at.fail(option, "needs `artifact` beside it");
        }
    }
}

impl ActionKeys {
    /// Returns all actions of the step, by the names of their keys. Options that belong to an action become part of it.
    fn actions(self, options: &mut OptionKeys, at: &At<'_>) -> Vec<(&'static str, Action)> {
        let is_error = options.error.unwrap_or(false);
        let (arguments, result) = (options.arguments.take().unwrap_or_default(), options.result.take());
        let schema = options.schema.take();
        // `ask` and `auth` differ in their reason alone.
        let ask = |question, reason| Action::Ask { question, reason, schema: schema.clone() };
        // `burst` is the number of repetitions of `text`.
        let (text, burst) = match (self.text, self.burst) {
            (text, Some(count)) => (None, Some(Action::Burst { count, text: burst_text(text, at) })),
            // A text of an artifact is one chunk, as agents send artifacts; only a list is split.
            (Some(Words::Flow(text)), None) if options.artifact.is_some() => {
                (Some(Words::Chunks(vec![text])), None)
            }
            (text, None) => (text, None),
        };
        if self.cut == Some(false) {
            at.fail("cut", "expected `true`: leave the step out if nothing is to be cut");
        }
        // One entry per key of `ActionKeys`, under the name of the key.
        let all = [
            ("text", text.map(Action::Text)),
            ("thinking", self.thinking.map(Action::Thinking)),
            ("status", self.status.map(Action::Status)),
            ("tool", self.tool.map(|name| Action::Tool { name, arguments, result, is_error })),
            ("notice", self.notice.map(|tool| Action::Notice { tool, is_error })),
            ("file", self.file.map(Action::File)),
            ("data", self.data.map(Action::Data)),
            ("custom", self.custom.map(|custom| Action::Custom { name: custom.name, value: custom.value })),
            ("state", self.state.map(Action::State)),
            ("burst", burst),
            ("ask", self.ask.map(|question| ask(question, "input_required"))),
            ("auth", self.auth.map(|question| ask(question, "auth_required"))),
            ("message", self.message.map(Action::Message)),
            ("close", self.close.map(Action::Close)),
            ("sleep", self.sleep.map(Action::Sleep)),
            ("wait", self.wait.map(Action::Sleep)),
            ("end", self.end.map(Action::End)),
            ("fail", self.fail.map(|why| Action::End(End::Fail(why)))),
            ("reject", self.reject.map(|why| Action::End(End::Reject(why)))),
            ("raise", self.raise.map(|why| Action::End(End::Raise(why)))),
            ("cut", self.cut.map(|_| Action::End(End::Cut))),
        ];
        all.into_iter().filter_map(|(name, action)| Some((name, action?))).collect()
    }
}

/// Returns the text that a burst repeats; `{n}` in it is the number of the repetition.
fn burst_text(text: Option<Words>, at: &At<'_>) -> String {
    match text {
        Some(Words::Flow(text)) => text,
        Some(Words::Chunks(_)) => {
            at.fail("text", "expected text, found a list: `burst` says one text again and again");
            String::new()
        }
        None => "chunk {n} ".to_owned(),
    }
}

impl Build for FileKeys {
    type Output = Value;

    /// Returns the file as the JSON of a file part, with the members that are set.
    ///
    /// ```text
    /// file = { url = "https://example.org/a.png", mediaType = "image/png" }
    /// {"url":"https://example.org/a.png","mediaType":"image/png"}
    /// ```
    fn build(self, at: &At<'_>) -> Option<Value> {
        if self.url.is_some() == self.data.is_some() {
            at.fail("", "expected `url` or `data` (base64), one of the two");
        }
        let members =
            [("url", self.url), ("data", self.data), ("mediaType", self.media_type), ("name", self.name)];
        Some(
            members
                .into_iter()
                .filter_map(|(name, text)| Some((name.to_owned(), Value::from(text?))))
                .collect(),
        )
    }
}
