//! What a check reports: where, which rule, what is wrong and what to do.

use std::fmt;

/// Whether a finding fails the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Told, and no more.
    Warning,
    /// Fails `tidy`.
    Error,
}

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether it fails the build.
    pub(crate) severity: Severity,
    /// Path from the root of the workspace.
    pub(crate) path: String,
    /// Line, from 1; none when the finding is about the whole file.
    pub(crate) line: Option<usize>,
    /// Name of the rule.
    pub(crate) rule: &'static str,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) help: String,
}

impl Finding {
    /// A finding that fails the build.
    pub(crate) fn error(
        rule: &'static str,
        path: &str,
        line: Option<usize>,
        what: String,
        help: &str,
    ) -> Self {
        let severity = Severity::Error;
        Self { severity, path: path.to_owned(), line, rule, what, help: help.to_owned() }
    }

    /// A finding that is only told.
    pub(crate) fn warning(
        rule: &'static str,
        path: &str,
        line: Option<usize>,
        what: String,
        help: &str,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, path, line, what, help) }
    }
}

impl fmt::Display for Finding {
    /// `path:line: error[rule]: what; help`, which editors and CI logs can follow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, ": {severity}[{}]: {}\n    help: {}", self.rule, self.what, self.help)
    }
}

/// The line (from 1) of the first line in `text` that starts with `prefix`, leading blanks aside.
pub(crate) fn line_of(text: &str, prefix: &str) -> Option<usize> {
    let at = text.lines().position(|line| line.trim_start().starts_with(prefix));
    at.map(|index| index + 1)
}
