//! Defaults and messages of the configuration.

use std::path::Path;

use super::{Config, Key, Keys as _, LogLevel, load};

/// Returns every default as the environment variable that would set it.
fn variables(path: &str, keys: &[Key], all: &mut Vec<(String, String)>) {
    for key in keys {
        let path = format!("{path}__{}", key.name.replace('*', "a").to_ascii_uppercase());
        variables(&path, &key.members, all);
        if !key.default.is_empty() {
            all.push((format!("AQUEDUCT{path}").replacen("__", "_", 1), key.default.to_owned()));
        }
    }
}

#[test]
fn every_default_can_be_read() {
    let mut defaults = Vec::new();
    variables("", &Config::keys(), &mut defaults);
    // Keys of other sources and engines contradict these.
    let is_other = |name: &str| {
        ["A2A", "REPLAY", "MAGENTIC", "PREFIX", "REDIS"].iter().any(|source| name.contains(source))
    };
    defaults.retain(|(name, _)| !is_other(name));
    assert!(defaults.len() > 30, "{defaults:?}");
    let agent = "[agents.a.agui]\nurl = \"http://a\"\n[principals.a]\ntoken = \"env:TOKEN\"\n\
         [issuers.a]\nissuer = \"http://a\"\naudiences = [\"a\"]\n";
    let token = ("TOKEN".to_owned(), "0123456789abcdef".to_owned());
    defaults.push(token.clone());
    let config = load(Path::new("x.toml"), agent, defaults).unwrap();
    assert_eq!(config, load(Path::new("x.toml"), agent, [token]).unwrap());

    let config = Config::default();
    assert_eq!(config.server.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(config.server.drain.as_secs(), 20);
    assert_eq!(config.runs.bytes, 64 << 20);
    assert_eq!(config.log.level, LogLevel::Info);
}

#[test]
fn a_message_never_repeats_a_secret() {
    for text in ["runs.redis = \"hunter2\"", "server.tokens = [\"hunter2\"]", "server.tokens = \"hunter2\""] {
        let errors = load(Path::new("x.toml"), text, []).unwrap_err();
        assert!(errors.iter().all(|error| !error.to_string().contains("hunter2")), "{errors:?}");
    }
}
