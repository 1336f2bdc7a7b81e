//! The configuration: `aqueduct.toml`, and what the environment says instead.
//!
//! ```text
//! file ──► TOML with places ─┐
//!                            ├──► Settings (flat, checked key by key) ──► Builder (checked as a whole) ──► Config
//! environment ───────────────┘
//! ```
//!
//! Invariants: `keys.rs` is the one list of keys, and everything else goes by it, the documentation included; what is
//! wrong is told with file, line, column and key, all at once; a secret never stands in the file, in a message or in a
//! log. Nothing here listens or connects.

mod build;
mod error;
mod keys;
mod model;
mod read;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

pub use error::{ConfigError, Place};
pub(crate) use keys::Kind;
pub use keys::reference;
pub use model::{
    A2aAddress, A2aBinding, A2aVersion, Agent, AgentSource, CardAccess, ClientTls, Config, DialectChoice,
    Inspector, Limits, Log, OnDisconnect, PushAccess, RunLogEngine, Runs, Secret, Server, ServerTls,
    Timeouts,
};

pub(crate) use read::{TomlFile, found, read_value};
pub(crate) use value::Value as Setting;

use crate::cli::ConfigArgs;
use crate::exit;
use build::Builder;
use read::Settings;

/// Runs `aqueduct config check`.
pub fn command(
    args: &ConfigArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let path = &args.config;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            writeln!(notes, "aqueduct config: {} cannot be read: {error}", path.display()).ok();
            return exit::USAGE;
        }
    };
    match load(path, &text, environment) {
        Ok(config) => {
            let (agents, listen) = (config.agents.len(), &config.server.listen);
            let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
            let file = path.display();
            writeln!(out, "{file}: nothing is wrong ({agents} agents, listens on {})", listen.join(", "))
                .ok();
            exit::OK
        }
        Err(errors) => {
            for error in &errors {
                writeln!(out, "{error}").ok();
            }
            exit::FAILED
        }
    }
}

/// An agent with all defaults.
fn default_agent() -> Agent {
    let (settings, environment) = (Settings::default(), BTreeMap::new());
    Builder::new(&settings, Path::new(""), &environment).plain_agent()
}

/// A configuration with all defaults and these agents.
pub fn with_agents(agents: BTreeMap<String, Agent>) -> Config {
    let (settings, environment) = (Settings::default(), BTreeMap::new());
    let (mut config, _, _) = Builder::new(&settings, Path::new(""), &environment).build();
    config.agents = agents;
    config
}

/// Reads a configuration: the text of the file at `path`, with the environment over it.
pub fn load(
    path: &Path,
    text: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, Vec<ConfigError>> {
    let environment: BTreeMap<String, String> = environment.into_iter().collect();
    let mut settings = Settings::default();
    settings.read_file(path, text);
    settings.read_environment(environment.iter().map(|(name, text)| (name.clone(), text.clone())));
    let (config, mut errors, _) = Builder::new(&settings, path, &environment).build();
    // What could not be read as its kind looks absent to the builder, whose complaint about that would be wrong.
    if !settings.errors.is_empty() {
        let told: Vec<&str> = settings.errors.iter().map(|error| error.key.as_str()).collect();
        errors.retain(|error| !told.iter().any(|key| key.is_empty() || key.starts_with(error.key.as_str())));
    }
    let mut all = settings.errors;
    all.append(&mut errors);
    if all.is_empty() { Ok(config) } else { Err(all) }
}
