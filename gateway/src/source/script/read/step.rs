//! A step of a script: what it does, and what else it says about how.

use serde_json::Value;

use super::table::Table;
use crate::source::script::keys::STEP_KEYS;
use crate::source::script::model::{Action, Artifact, Close, End, Step, Words};

impl Table<'_, '_, '_> {
    pub(super) fn step(&mut self, index: usize) -> Option<Step> {
        let names: Vec<&str> = STEP_KEYS.iter().filter(|key| key.is_action).map(|key| key.name).collect();
        // `burst` says how often `text` is said.
        let is_burst = self.has("burst");
        let found: Vec<&str> =
            names.iter().copied().filter(|name| self.has(name) && !(is_burst && *name == "text")).collect();
        let [name] = *found.as_slice() else {
            let have = if found.is_empty() { "none".to_owned() } else { found.join(" and ") };
            let what = format!("expected exactly one of {}, found {have}", names.join(", "));
            let (span, path) = (self.written.span(), self.path.clone());
            self.reader.fail(span, path, what);
            return None;
        };
        let artifact = self.artifact(name);
        self.check_companions(name);
        if name == "message" && index > 0 {
            let (span, path) = (self.written.span(), self.key("message"));
            self.reader.fail(span, path, "expected as the first step: a bare message has no task before it");
        }
        Some(Step {
            agent: self.text("agent").unwrap_or_default(),
            is_intermediate: self.word("channel").as_deref() == Some("intermediate"),
            pace: self.duration("pace").unwrap_or_default(),
            together: self.count("together"),
            action: self.action(name, artifact.is_some())?,
            artifact,
        })
    }

    fn artifact(&mut self, action: &str) -> Option<Artifact> {
        let Some(name) = self.text("artifact") else {
            for only in ["append", "last"] {
                self.refuse(only, "needs `artifact` beside it");
            }
            return None;
        };
        if !matches!(action, "text" | "file" | "data" | "burst") {
            self.refuse("artifact", "expected beside `text`, `file`, `data` or `burst`");
        }
        let (append, last) = (self.flag("append").unwrap_or(true), self.flag("last").unwrap_or(true));
        Some(Artifact { name, append, last })
    }

    /// Options that mean nothing to the action are mistakes.
    fn check_companions(&mut self, action: &str) {
        for (option, actions) in [
            ("arguments", &["tool"][..]),
            ("result", &["tool"]),
            ("error", &["tool", "notice"]),
            ("schema", &["ask", "auth"]),
        ] {
            if !actions.contains(&action) {
                let needs: Vec<String> = actions.iter().map(|action| format!("`{action}`")).collect();
                self.refuse(option, &format!("needs {} beside it", needs.join(" or ")));
            }
        }
    }

    fn refuse(&mut self, name: &str, what: &str) {
        if let Some(value) = self.get(name) {
            self.reader.fail(value.span(), self.key(name), what);
        }
    }

    fn action(&mut self, name: &str, has_artifact: bool) -> Option<Action> {
        let is_error = self.flag("error").unwrap_or(false);
        let text = |table: &mut Self| table.text(name);
        Some(match name {
            "text" => match self.words(name)? {
                Words::Flow(text) if has_artifact => Action::Text(Words::Chunks(vec![text])),
                words => Action::Text(words),
            },
            "thinking" => Action::Thinking(self.words(name)?),
            "status" => Action::Status(text(self)?),
            "tool" => Action::Tool {
                name: text(self)?,
                arguments: self.text("arguments").unwrap_or_default(),
                result: self.text("result"),
                is_error,
            },
            "notice" => Action::Notice { tool: text(self)?, is_error },
            "file" => Action::File(self.file()?),
            "data" => Action::Data(self.value(name)?),
            "custom" => self.custom()?,
            "state" => Action::State(self.value(name)?),
            "burst" => Action::Burst {
                count: self.count(name)?,
                text: self.text("text").unwrap_or_else(|| "chunk {n} ".to_owned()),
            },
            "ask" | "auth" => Action::Ask {
                question: text(self)?,
                reason: if name == "ask" { "input_required" } else { "auth_required" },
                schema: self.value("schema"),
            },
            "message" => Action::Message(text(self)?),
            "close" => Action::Close(match self.word(name)?.as_str() {
                "failed" => Close::Failed,
                "cancelled" => Close::Cancelled,
                _ => Close::Success,
            }),
            "sleep" | "wait" => Action::Sleep(self.duration(name)?),
            _ => Action::End(self.end(name)?),
        })
    }

    fn end(&mut self, name: &str) -> Option<End> {
        Some(match name {
            "fail" => End::Fail(self.text(name)?),
            "reject" => End::Reject(self.text(name)?),
            "raise" => End::Raise(self.text(name)?),
            "cut" => {
                if !self.flag(name)? {
                    self.refuse(name, "expected `true`: leave the step out if nothing is to be cut");
                }
                End::Cut
            }
            _ => match self.word(name)?.as_str() {
                "cancelled" => End::Cancelled,
                _ => End::Success,
            },
        })
    }

    fn file(&mut self) -> Option<Value> {
        let value = self.value("file")?;
        let known = ["url", "data", "mediaType", "name"];
        let is_good = value.as_object().is_some_and(|file| {
            file.iter().all(|(key, value)| known.contains(&key.as_str()) && value.is_string())
                && (file.contains_key("url") != file.contains_key("data"))
        });
        if !is_good {
            self.refuse(
                "file",
                "expected a table of texts: `url` or `data` (base64), and `mediaType`, `name`",
            );
        }
        is_good.then_some(value)
    }

    fn custom(&mut self) -> Option<Action> {
        let value = self.value("custom")?;
        let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
        let members = value.as_object().map_or(0, serde_json::Map::len);
        match (name, value.get("value").cloned()) {
            (Some(name), Some(value)) if members == 2 => Some(Action::Custom { name, value }),
            _ => {
                self.refuse("custom", "expected a table: `name` (text) and `value`");
                None
            }
        }
    }
}
