//! [`Finding`]: location, rule, description and remedy.

use std::fmt;

/// The consequence of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Printed only.
    Warning,
    /// Fails `tidy`.
    Error,
}

/// A violated rule at one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The consequence of the finding.
    pub(crate) severity: Severity,
    /// The path from the root of the workspace.
    pub(crate) path: String,
    /// The line, from 1; `None` for the whole file.
    pub(crate) line: Option<usize>,
    /// The name of the rule.
    pub(crate) rule: &'static str,
    /// A description of the violation.
    pub(crate) what: String,
    /// The remedy.
    pub(crate) help: String,
}

impl Finding {
    /// Returns a finding that fails the build.
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

    /// Returns a finding that is only printed.
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
    /// Writes `path:line: error[rule]: what; help`, which editors and CI logs recognise.
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

/// Returns the number (from 1) of the first line in `text` that starts with `prefix` after white space.
pub(crate) fn line_of(text: &str, prefix: &str) -> Option<usize> {
    let at = text.lines().position(|line| line.trim_start().starts_with(prefix));
    at.map(|index| index + 1)
}
