//! The reader of TOML documents, shared by the configuration and the scripts.
//!
//! ```text
//! file ─────────► document with spans ─┐
//!                                      ├─► Keys::read ─► Kind::read per key ─► typed value
//! environment ──► values over it ──────┘        └─────────────┴─► all errors, with place and key
//! ```
//!
//! Invariants: an error never stops reading, so one pass reports all errors; a table reports no second error for a key
//! that has already failed. Not here: which keys exist (`keys!` in the models).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Location};
use super::keys::{Build, Key, Keys};
use super::kind::{Kind, Wrong};
use super::shape::Section;

/// The span of a default value, which lies outside of every text.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// Variables of the environment.
pub(crate) type Environment = BTreeMap<String, String>;

/// A document that is being read, and the errors recorded so far.
pub(crate) struct Document<'t> {
    path: &'t Path,
    text: &'t str,
    environment: &'t Environment,
    /// The environment variables whose values replace values of the document. The span of the first begins after the
    /// text.
    variables: Vec<&'t str>,
    errors: RefCell<Vec<ConfigError>>,
}

/// Reads the document at `path`: its text, overlaid with the environment variables that name one of its keys. `check`
/// then validates the whole document.
///
/// `check` runs even if single keys are invalid; those have their defaults then. It does not run if the document as a
/// whole could not be built.
///
/// # Errors
///
/// Returns all errors, in the order of their places. A text that is not TOML has one error, without a key.
pub(crate) fn read<T: Build<Output = T>>(
    path: &Path,
    text: &str,
    environment: &Environment,
    check: impl FnOnce(&T, &At<'_>),
) -> Result<T, Vec<ConfigError>> {
    let errors = RefCell::default();
    let mut document = Document { path, text, environment, variables: Vec::new(), errors };
    let mut root = DeTable::parse(text).map_err(|error| {
        let place = document.place(&error.span().unwrap_or_default());
        vec![ConfigError { place, key: String::new(), what: format!("not TOML: {}", error.message()) }]
    })?;
    // Variables become values of the document before it is read, so that kinds and checks do not distinguish them.
    document.overlay(root.get_mut(), &T::keys());
    let root = Spanned::new(root.span(), DeValue::Table(root.into_inner()));
    let at = At { document: &document, key: String::new(), value: &root };
    let value = at.read::<Section<T>>();
    if let Some(value) = &value {
        check(value, &at);
    }
    let mut errors = document.errors.into_inner();
    errors.sort_by(|a, b| a.place.cmp(&b.place));
    value.filter(|_| errors.is_empty()).ok_or(errors)
}

/// Returns the value of an empty table: all keys have their defaults.
///
/// Defaults are texts in the tables of keys and are parsed like the texts of variables, so that documentation and value
/// cannot differ.
pub(crate) fn default_of<T: Keys>() -> T {
    let (environment, errors) = (Environment::new(), RefCell::default());
    let document =
        Document { path: Path::new(""), text: "", environment: &environment, variables: Vec::new(), errors };
    let empty = Spanned::new(NOWHERE, DeValue::Table(DeTable::new()));
    T::read(&At { document: &document, key: String::new(), value: &empty })
}

impl<'t> Document<'t> {
    /// Overlays the document with the environment: `AQUEDUCT_LOG__LEVEL` is `log.level`. Variables that name no table
    /// of the document are ignored: they belong to other programs.
    fn overlay(&mut self, root: &mut DeTable<'t>, keys: &[Key]) {
        for (name, text) in self.environment {
            let Some(rest) = name.strip_prefix("AQUEDUCT_") else { continue };
            let mut path: Vec<String> = rest.split("__").map(str::to_ascii_lowercase).collect();
            if path.len() < 2 || !keys.iter().any(|key| Some(key.name) == path.first().map(String::as_str)) {
                continue;
            }
            spell(root, &mut path);
            let start = self.text.len() + 1 + self.variables.len();
            self.variables.push(name);
            put(root, &path, &(start..start), text);
        }
    }

    /// Returns the place of a span. A span after the end of the text stands for a variable: the n-th variable has the
    /// position `text.len() + 1 + n`.
    fn place(&self, span: &Range<usize>) -> Location {
        let index = span.start.checked_sub(self.text.len() + 1);
        if let Some(name) = index.and_then(|index| self.variables.get(index)) {
            return Location::Environment((*name).to_owned());
        }
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Location::File { path: self.path.to_owned(), line, column }
    }

    /// Records an error, unless one of the key's members has an error already: a table is often invalid because a
    /// member is.
    fn fail(&self, span: &Range<usize>, key: String, what: String) {
        let is_below = |error: &ConfigError| {
            error.key.strip_prefix(&key).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let mut errors = self.errors.borrow_mut();
        if !errors.iter().any(is_below) {
            errors.push(ConfigError { place: self.place(span), key, what });
        }
    }
}

/// Replaces the name of an agent by its spelling in the file: names of variables have neither lower case nor dashes.
fn spell(root: &DeTable<'_>, path: &mut [String]) {
    let [section, name, ..] = path else { return };
    if let Some(DeValue::Table(table)) = root.get(section.as_str()).map(Spanned::get_ref) {
        let is_same = |known: &&str| known.to_ascii_lowercase().replace('-', "_") == *name;
        if let Some(known) = table.keys().map(|key| key.get_ref().as_ref()).find(is_same) {
            *name = known.to_owned();
        }
    }
}

/// Sets the value at a path, and creates the tables on the way.
fn put<'t>(table: &mut DeTable<'t>, path: &[String], span: &Range<usize>, text: &'t str) {
    let [name, rest @ ..] = path else { return };
    let key = Spanned::new(span.clone(), Cow::Owned(name.clone()));
    if rest.is_empty() {
        table.insert(key, Spanned::new(span.clone(), DeValue::String(Cow::Borrowed(text))));
        return;
    }
    if !table.contains_key(name.as_str()) {
        table.insert(key, Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
    }
    // A value that should be a table is reported with its place in the file.
    if let Some(DeValue::Table(inner)) = table.get_mut(name.as_str()).map(Spanned::get_mut) {
        put(inner, rest, span, text);
    }
}

/// A value of a document, with its key: what a [`Kind`] reads, and where it reports errors. Cheap to create.
pub(crate) struct At<'t> {
    document: &'t Document<'t>,
    /// The dotted path of the key; empty for the document itself.
    key: String,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> At<'t> {
    /// Returns the value itself. For a variable or a default it is always a string: see [`At::loose_text`].
    pub(crate) fn value(&self) -> &'t DeValue<'t> {
        self.value.get_ref()
    }

    /// Returns the text if the value is a string.
    pub(crate) fn text(&self) -> Option<&'t str> {
        match self.value() {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a variable or default, which also represents values of other types.
    pub(crate) fn loose_text(&self) -> Option<&'t str> {
        self.text().filter(|_| self.value.span().start > self.document.text.len())
    }

    /// Returns an element of this value. Errors of the element are reported under the key of this value.
    pub(crate) fn item<'s>(&'s self, value: &'s Spanned<DeValue<'s>>) -> At<'s> {
        At { document: self.document, key: self.key.clone(), value }
    }

    /// Returns a string value with the span of this value.
    pub(crate) fn with_text(&self, text: &str) -> Spanned<DeValue<'static>> {
        Spanned::new(self.value.span(), DeValue::String(Cow::Owned(text.to_owned())))
    }

    /// Returns the value as error messages show it.
    pub(crate) fn shown(&self) -> String {
        match self.value() {
            DeValue::String(text) => format!("`{text}`"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            _ => self.described().to_owned(),
        }
    }

    /// Returns the type of the value in words.
    pub(crate) fn described(&self) -> &'static str {
        match self.value() {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// Returns the dotted key of a member.
    pub(crate) fn path(&self, name: &str) -> String {
        match (self.key.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (_, true) => self.key.clone(),
            _ => format!("{}.{name}", self.key),
        }
    }

    /// Returns the member `name` if the value is a table that contains it.
    pub(crate) fn member(&self, name: &str) -> Option<At<'t>> {
        let value = self.table().ok()?.get(name)?;
        Some(At { document: self.document, key: self.path(name), value })
    }

    /// Returns the elements if the value is a list; any other value counts as a list of one element.
    pub(crate) fn elements(&self) -> Vec<At<'t>> {
        let values: Vec<_> = match self.value() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![self.value],
        };
        let numbered = values.into_iter().enumerate();
        let at = |(index, value)| At {
            document: self.document,
            key: format!("{}[{}]", self.key, index + 1),
            value,
        };
        numbered.map(at).collect()
    }

    /// Returns the table, or the error for a value of another type.
    fn table(&self) -> Result<&'t DeTable<'t>, Wrong> {
        match self.value() {
            DeValue::Table(table) => Ok(table),
            _ => Err(Wrong::Type),
        }
    }

    /// Returns all members of a table with their names.
    pub(crate) fn members(&self) -> Result<Vec<(&'t str, At<'t>)>, Wrong> {
        let names = self.table()?.keys().map(|name| name.get_ref().as_ref());
        Ok(names.filter_map(|name| Some((name, self.member(name)?))).collect())
    }

    /// Reads a member of a table. Records an error and returns the default if the value is invalid.
    pub(crate) fn get<K: Kind<Value: Default>>(&self, name: &str, default: &str) -> K::Value {
        if K::IS_INLINE {
            return K::read(self).unwrap_or_default();
        }
        if let Some(member) = self.member(name) {
            return member.read::<K>().unwrap_or_default();
        }
        if default.is_empty() {
            return K::absent(self, name);
        }
        let written = Spanned::new(NOWHERE, DeValue::String(Cow::Borrowed(default)));
        K::read(&At { document: self.document, key: self.path(name), value: &written }).unwrap_or_default()
    }

    /// Reads the value. Records an error and returns `None` if the value is invalid.
    pub(crate) fn read<K: Kind>(&self) -> Option<K::Value> {
        K::read(self).map_err(|wrong| self.record(wrong, &K::expected())).ok()
    }

    /// Records why the value is invalid.
    pub(crate) fn record(&self, wrong: Wrong, expected: &str) {
        match wrong {
            Wrong::Recorded => {}
            Wrong::Value(what) => self.fail("", what),
            Wrong::Kind => self.fail("", format!("expected {expected}, found {}", self.shown())),
            Wrong::Type => self.fail("", format!("expected {expected}, found {}", self.described())),
        }
    }

    /// Returns the value at a path of members, `a.b[1].c`, and `true`; if a member is absent, the innermost value that
    /// exists and `false`.
    fn find(&self, path: &str) -> (&'t Spanned<DeValue<'t>>, bool) {
        let mut value = self.value;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let (name, index) = part.split_once('[').unwrap_or((part, ""));
            let DeValue::Table(table) = value.get_ref() else { return (value, false) };
            let Some(inner) = table.get(name) else { return (value, false) };
            let index =
                index.trim_end_matches(']').parse().ok().and_then(|index: usize| index.checked_sub(1));
            value = match inner.get_ref() {
                DeValue::Array(items) => index.and_then(|index| items.get(index)).unwrap_or(inner),
                _ => inner,
            };
        }
        (value, true)
    }

    /// Returns `true` if a member exists at that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.find(path).1
    }

    /// Records an error about the value, or about the value at a path of its members.
    pub(crate) fn fail(&self, path: &str, what: impl Into<String>) {
        self.document.fail(&self.find(path).0.span(), self.path(path), what.into());
    }

    /// Returns a warning about the value at a path of members, with its place.
    pub(crate) fn remark(&self, path: &str, what: impl Into<String>) -> ConfigError {
        let place = self.document.place(&self.find(path).0.span());
        ConfigError { place, key: self.path(path), what: what.into() }
    }

    /// Records errors of another document to which this one refers.
    pub(crate) fn fail_all(&self, errors: Vec<ConfigError>) {
        self.document.errors.borrow_mut().extend(errors);
    }

    /// Returns `true` if an error about the value or one of its members is recorded.
    pub(crate) fn has_failed(&self, member: &str) -> bool {
        let key = self.path(member);
        let is_in = |rest: &str| key.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']);
        let errors = self.document.errors.borrow();
        errors.iter().any(|error| error.key.strip_prefix(&key).is_some_and(is_in))
    }

    /// Records an error for each member of a table that is not one of its keys.
    pub(crate) fn check_keys(&self, keys: &[Key]) -> Result<(), Wrong> {
        let table = self.table()?;
        let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        for name in table.keys().filter(|name| !known.contains(&name.get_ref().as_ref())) {
            let guess = did_you_mean(name.get_ref(), &known);
            let what = format!("no such key; expected one of {}{guess}", known.join(", "));
            self.document.fail(&name.span(), self.path(name.get_ref()), what);
        }
        Ok(())
    }

    /// Resolves a path relative to the folder of the document's file.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.document.path.parent().unwrap_or_else(|| Path::new("")).join(path)
    }

    /// Returns a variable of the environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&'t str> {
        self.document.environment.get(name).map(String::as_str)
    }
}

/// Returns `; did you mean …?` if a known word is similar to this one, else an empty text.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let word = word.to_ascii_lowercase();
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(&word, known), known));
    let best = distances.filter(|(distance, known)| *distance <= (known.len() / 3).max(1)).min();
    best.map_or_else(String::new, |(_, known)| format!("; did you mean `{known}`?"))
}
