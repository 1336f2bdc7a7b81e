//! Parsing of the gateway's files, and of proofs.

use std::path::Path;

use aqueduct_gateway::config as configuration;
use aqueduct_gateway::source::script::Script;

/// Parses a configuration file.
pub(super) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(errors) = configuration::load(Path::new("aqueduct.toml"), text, []) {
        assert!(!errors.is_empty(), "a refusal says what is wrong");
        assert!(errors.iter().all(|error| !error.to_string().is_empty()));
    }
}

/// Parses a script.
pub(super) fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(errors) = Script::read(Path::new("script.toml"), text) {
        assert!(!errors.is_empty(), "a refusal says what is wrong");
    }
}

/// Parses a key set, and a token that no issuer signed.
pub(super) fn jwt(data: &[u8]) {
    aqueduct_gateway::check_proof(data);
}
