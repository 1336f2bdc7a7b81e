//! An error in a configuration: place, key, and the expected value.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use crate::exit;

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// In a file; line and column are counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// In a variable of the environment.
    Environment(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// One error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The place of the value.
    pub place: Location,
    /// The dotted key; empty if the file is not valid TOML.
    pub key: String,
    /// The error and the expected value.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for ConfigError {}

/// Writes all errors of a document, one per line, and returns the exit code for it.
pub(crate) fn write_errors(errors: &[ConfigError], to: &mut dyn Write) -> exit::Code {
    for error in errors {
        writeln!(to, "{error}").ok();
    }
    exit::FAILED
}

/// Returns all errors of a document as one, one per line.
pub(crate) fn joined(errors: &[ConfigError]) -> anyhow::Error {
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    anyhow::anyhow!(words.join("\n"))
}
