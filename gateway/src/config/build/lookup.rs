//! One setting by its path: as it was set, or its default; files and secrets are read from where it says.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::error::{ConfigError, Place};
use super::super::keys;
use super::super::model::Secret;
use super::super::value::{self, Value, Written};
use super::Builder;

impl Builder<'_> {
    fn setting(&mut self, path: &str) -> Option<Value> {
        let key = keys::find(path)?;
        self.read.insert(key.path);
        if let Some(setting) = self.settings.values.get(path) {
            return Some(setting.value.clone());
        }
        if key.default.is_empty() {
            return None;
        }
        let plain = key.default.trim_start_matches('[').trim_end_matches(']').replace('"', "");
        let written = value::from_environment(key.kind, &plain);
        let written = match (&written, key.kind) {
            (Written::List(_) | Written::Flag(_) | Written::Number(_), _) => written,
            _ => Written::Text(plain),
        };
        value::read(key.kind, &written).ok()
    }

    pub(super) fn word(&mut self, path: &str) -> Option<String> {
        match self.setting(path)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn flag(&mut self, path: &str) -> bool {
        matches!(self.setting(path), Some(Value::Flag(true)))
    }

    pub(super) fn number(&mut self, path: &str) -> u64 {
        match self.setting(path) {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    pub(super) fn size(&mut self, path: &str) -> usize {
        usize::try_from(self.number(path)).unwrap_or(usize::MAX)
    }

    pub(super) fn duration(&mut self, path: &str) -> Duration {
        match self.setting(path) {
            Some(Value::Duration(duration)) => duration,
            _ => Duration::ZERO,
        }
    }

    pub(super) fn texts(&mut self, path: &str) -> Vec<String> {
        match self.setting(path) {
            Some(Value::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    pub(super) fn addresses(&mut self, path: &str) -> Vec<SocketAddr> {
        match self.setting(path) {
            Some(Value::Addresses(addresses)) => addresses,
            _ => Vec::new(),
        }
    }

    pub(super) fn header_names(&mut self, path: &str) -> Vec<String> {
        let names = self.texts(path);
        let is_name = |name: &String| {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !name.is_empty() && name.bytes().all(token)
        };
        if let Some(bad) = names.iter().find(|name| !is_name(name)) {
            self.fail(path, &format!("`{bad}` is no name of a header"));
        }
        names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
    }

    /// A file that is there, found from the folder of the configuration.
    pub(super) fn file(&mut self, path: &str) -> Option<PathBuf> {
        let name = self.word(path)?;
        let file = self.beside(&name);
        if !file.is_file() {
            self.fail(path, &format!("expected the path of a file, and there is none at {}", file.display()));
        }
        Some(file)
    }

    pub(super) fn beside(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    /// A certificate and its key: both or none.
    pub(super) fn identity(&mut self, certificate: &str, key: &str) -> Option<(PathBuf, PathBuf)> {
        match (self.file(certificate), self.file(key)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => {
                self.fail(certificate, &format!("needs `{key}` beside it"));
                None
            }
            (None, Some(_)) => {
                self.fail(key, &format!("needs `{certificate}` beside it"));
                None
            }
        }
    }

    pub(super) fn secret(&mut self, path: &str) -> Option<Secret> {
        let name = self.word(path)?;
        self.resolve(path, &name)
    }

    pub(super) fn secrets(&mut self, path: &str) -> Vec<Secret> {
        self.texts(path).iter().filter_map(|name| self.resolve(path, name)).collect()
    }

    fn resolve(&mut self, path: &str, name: &str) -> Option<Secret> {
        let found = if let Some(variable) = name.strip_prefix("env:") {
            self.environment
                .get(variable)
                .cloned()
                .ok_or_else(|| format!("the environment has no {variable}"))
        } else {
            let file = self.beside(name.strip_prefix("file:").unwrap_or(name));
            std::fs::read_to_string(&file)
                .map_err(|error| format!("{} cannot be read: {error}", file.display()))
        };
        match found.map(|secret| secret.trim().to_owned()) {
            Ok(secret) if secret.is_empty() => {
                self.fail(path, &format!("the secret `{name}` is empty"));
                None
            }
            Ok(secret) => Some(Secret::new(secret)),
            Err(what) => {
                self.fail(path, &what);
                None
            }
        }
    }

    pub(super) fn fail(&mut self, path: &str, what: &str) {
        let place = self.settings.values.get(path).map_or_else(|| self.start(), |s| s.place.clone());
        self.errors.push(ConfigError { place, key: path.to_owned(), what: what.to_owned() });
    }

    pub(super) fn fail_agent(&mut self, name: &str, what: String) {
        let place = self.settings.agents.get(name).cloned().unwrap_or_else(|| self.start());
        self.errors.push(ConfigError { place, key: format!("agents.{name}"), what });
    }

    fn start(&self) -> Place {
        Place::File { path: self.file.to_owned(), line: 1, column: 1 }
    }
}
