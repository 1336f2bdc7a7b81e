//! The configuration: `aqueduct.toml`, and the variables of the environment over it.
//!
//! ```text
//! file ────────► document ──► model (`keys!`: each key read as its kind) ──► build ──► check ──► Config
//! environment ──────┘
//! ```
//!
//! | module | what |
//! |---|---|
//! | `document` | the reader of TOML: values with their places, the environment overlaid, all errors |
//! | `kind`, `shape` | kinds of values: single ones, and those composed of others |
//! | `keys` | `keys!`: a table of keys with kinds, defaults and documentation, and the struct it is read into |
//! | `model`, `quotas` | the keys of the configuration, and the types they are read into |
//! | `build` | fields that consist of several keys |
//! | `check` | checks that involve more than one key |
//! | `print`, `schema` | the configuration with all defaults; its JSON Schema |
//!
//! Invariants: a key is defined once, in a `keys!` table, from which reader, schema and documentation are derived; all
//! errors are reported at once, each with file, line, column and key; a secret never appears in the file, in a message
//! or in a log. This module opens no socket. Scripts are read by the same `document`, `kind` and `keys`.

mod build;
mod check;
mod document;
mod error;
mod keys;
mod kind;
mod model;
mod print;
mod quotas;
mod schema;
mod shape;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

pub(crate) use document::{At, Environment, default_of, read};
pub use error::{ConfigError, Location};
pub(crate) use error::{joined, write_errors};
pub(crate) use keys::{Build, Key, Keys, keys, rows};
pub use kind::Share;
pub(crate) use kind::{Choice, Delay, Flag, Json, Kind, LongCount, Text, Word, Wrong, choices, words};
pub use model::{
    A2aAddress, A2aBinding, A2aExposure, A2aVersion, Agent, AgentSource, CardAccess, Circuit, ClientTls,
    Config, DialectChoice, Inspector, Issuer, JwtAlgorithm, Limits, Log, LogFormat, LogLevel, OnDisconnect,
    OnLogLoss, OtlpProtocol, PrincipalConfig, PushAccess, Questions, RelateBy, Role, RunLogEngine, Runs,
    Secret, Server, ServerTls, TeeSettings, Telemetry, Timeouts,
};
pub use quotas::{PeerQuotas, PrincipalQuotas, Quotas};
pub(crate) use shape::{Inline, List, Maybe, Needed, Section, Tables};

use crate::cli::ConfigArgs;
use crate::exit;

/// Runs `aqueduct config check`. Errors are the result of the command and are written to `out`; warnings and files that
/// cannot be read are written to `notes`.
pub fn command(
    args: &ConfigArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let path = &args.config;
    let Some(text) = read_file(path, notes) else { return exit::USAGE };
    match load_with_warnings(path, &text, environment) {
        Ok((config, warnings)) => {
            for warning in &warnings {
                writeln!(notes, "warning: {warning}").ok();
            }
            let (agents, listen) = (config.agents.len(), &config.server.listen);
            let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
            let file = path.display();
            writeln!(out, "{file}: nothing is wrong ({agents} agents, listens on {})", listen.join(", "))
                .ok();
            exit::OK
        }
        Err(errors) => write_errors(&errors, out),
    }
}

/// Runs `aqueduct config print`. An invalid configuration is not printed: its errors are written to `notes`.
pub fn print(
    args: &ConfigArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let path = &args.config;
    let Some(text) = read_file(path, notes) else { return exit::USAGE };
    match effective(path, &text, environment) {
        Ok(text) => {
            write!(out, "{text}").ok();
            exit::OK
        }
        Err(errors) => write_errors(&errors, notes),
    }
}

/// Reads the file of a command. Reports an error and returns `None` if it cannot be read.
fn read_file(path: &Path, notes: &mut dyn Write) -> Option<String> {
    let read = std::fs::read_to_string(path);
    read.inspect_err(|error| {
        writeln!(notes, "aqueduct config: {} cannot be read: {error}", path.display()).ok();
    })
    .ok()
}

/// Returns the configuration as the gateway uses it, as TOML: the file, the environment over it, and the defaults.
/// Secrets are shown by their names.
///
/// # Errors
///
/// Returns all errors of the configuration, as [`load`] does.
pub fn effective(
    path: &Path,
    text: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<String, Vec<ConfigError>> {
    let mut printed = String::new();
    read::<Config>(path, text, &environment.into_iter().collect(), |config, at| {
        check::check(config, at);
        printed = print::effective(at, &Config::keys());
    })?;
    Ok(printed)
}

/// Returns the JSON Schema of the configuration, for editors.
pub fn schema() -> serde_json::Value {
    schema::schema(&Config::keys())
}

/// Returns a configuration with these agents and defaults for all other keys.
pub fn with_agents(agents: BTreeMap<String, Agent>) -> Config {
    Config { agents, ..Config::default() }
}

/// Reads a configuration: the text of the file at `path`, overlaid with the environment.
///
/// `path` is used for places in messages, and files that the configuration names are relative to its folder; the file
/// itself is not opened. Secrets are resolved here, from `environment` and from files.
///
/// # Errors
///
/// Returns all errors, each with its place and key: values of another kind, unknown keys, missing secrets and files,
/// and everything that the checks of the whole configuration find.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use aqueduct_gateway::config;
///
/// let text = "[agents.echo]\nmagentic.ingest = true\n";
/// let config = config::load(Path::new("aqueduct.toml"), text, [])?;
/// assert!(config.agents.contains_key("echo"));
///
/// let errors = config::load(Path::new("aqueduct.toml"), "[agents.echo]\ncolour = 1\n", []).unwrap_err();
/// assert!(errors.iter().any(|error| error.key == "agents.echo.colour"));
/// # Ok::<(), Vec<config::ConfigError>>(())
/// ```
pub fn load(
    path: &Path,
    text: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, Vec<ConfigError>> {
    load_with_warnings(path, text, environment).map(|(config, _)| config)
}

/// Reads a configuration as [`load`] does, and returns warnings beside it.
pub(crate) fn load_with_warnings(
    path: &Path,
    text: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(Config, Vec<ConfigError>), Vec<ConfigError>> {
    let mut warnings = Vec::new();
    let config = read(path, text, &environment.into_iter().collect(), |config: &Config, at| {
        check::check(config, at);
        warnings = check::warnings(config, at);
    })?;
    Ok((config, warnings))
}

/// Returns all keys as tables for `docs/configuration.md`, one per section.
pub fn reference() -> String {
    let mut text = String::new();
    for section in Config::keys() {
        let (name, path, members) = match section.members.first() {
            Some(named) if named.name == "*" => {
                (format!("{}.NAME", section.name), format!("{}.*", section.name), &named.members)
            }
            _ => (section.name.to_owned(), section.name.to_owned(), &section.members),
        };
        // Writing to a `String` cannot fail.
        write!(text, "\n### `[{name}]`\n\n| key | what | default | meaning |\n|---|---|---|---|\n").ok();
        rows(&mut text, &path, members, true);
    }
    text
}
