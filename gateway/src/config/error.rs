//! What is wrong with a configuration: where, which key, what was expected.

use std::fmt;
use std::path::PathBuf;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file; line and column are counted from 1.
    File {
        /// Which.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// In a variable of the environment.
    Environment(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Where.
    pub place: Place,
    /// Which key, dotted; empty if the file is no TOML.
    pub key: String,
    /// What is wrong, and what was expected.
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
