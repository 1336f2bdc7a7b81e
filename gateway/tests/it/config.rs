//! What is wrong with a configuration is found, with line and key.

mod mistakes;

use std::path::Path;

use aqueduct_gateway::config::{AgentSource, Config, ConfigError, Location, LogLevel, load};

use crate::program::{aqueduct, code, text};

const GOOD: &str = r#"
[server]
listen = ["127.0.0.1:9000", "[::1]:9000"]
hosts = ["agents.example.org"]
tokens = ["env:GATEWAY_TOKEN"]
drain = "5s"

[log]
level = "debug"
format = "json"

[agents.weather]
description = "Knows the weather."
a2a = { url = "https://weather.example.org" }
subagents = "inline"
timeouts = { idle = "2m" }
forward_headers = ["X-Request-Id"]

[agents.writer.agui]
url = "http://127.0.0.1:7000/agent"

[agents.workflow.magentic]
ingest = true

[agents.both]
fan_out = { agents = ["weather", "writer"] }
on_disconnect = "cancel"
"#;

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn check(toml: &str, pairs: &[(&str, &str)]) -> Result<Config, Vec<ConfigError>> {
    load(Path::new("aqueduct.toml"), toml, environment(pairs))
}

#[test]
fn a_good_configuration_is_read() {
    let config = check(GOOD, &[("GATEWAY_TOKEN", "s3cret\n")]).unwrap();
    assert_eq!(config.server.listen.len(), 2);
    assert_eq!(config.server.tokens[0].reveal(), "s3cret");
    assert_eq!(config.agents["weather"].timeouts.idle.as_secs(), 120);
    assert_eq!(config.agents["weather"].forward_headers, ["x-request-id"]);
    assert!(matches!(config.agents["workflow"].source, AgentSource::Magentic));
    assert!(matches!(&config.agents["both"].source, AgentSource::FanOut { agents } if agents.len() == 2));
    assert!(!format!("{config:?}").contains("s3cret"), "secrets are never printed");
}

#[test]
fn the_environment_overrides_the_file() {
    let config = check(
        "[agents.my-agent.agui]\nurl = \"http://a\"\n[log]\nlevel = \"info\"",
        &[
            ("AQUEDUCT_LOG__LEVEL", "trace"),
            ("AQUEDUCT_SERVER__LISTEN", "127.0.0.1:1, 127.0.0.1:2"),
            ("AQUEDUCT_SERVER__CORS", "true"),
            ("AQUEDUCT_RUNS__BYTES", "1MiB"),
            ("AQUEDUCT_AGENTS__MY_AGENT__AGUI__URL", "http://b"),
            ("AQUEDUCT_AGENTS__OTHER__AGUI__URL", "http://c"),
            ("AQUEDUCT_TOKEN", "not a setting"),
        ],
    )
    .unwrap();
    assert_eq!(config.log.level, LogLevel::Trace);
    assert_eq!(config.server.listen.len(), 2);
    assert!(config.server.cors);
    assert_eq!(config.runs.bytes, 1 << 20);
    let urls: Vec<String> = config.agents.values().map(|agent| format!("{:?}", agent.source)).collect();
    assert!(urls[0].contains("http://b") && urls[1].contains("http://c"), "{urls:?}");
}

const AGENT: &str = "[agents.a.agui]\nurl = \"http://a\"\n";

#[test]
fn mistakes_in_the_environment_name_the_variable() {
    for (name, value, key) in [
        ("AQUEDUCT_LOG__LEVEL", "loud", "log.level"),
        ("AQUEDUCT_LOG__LEVLE", "info", "log.levle"),
        ("AQUEDUCT_SERVER__CORS", "yes", "server.cors"),
        ("AQUEDUCT_RUNS__LIMIT", "many", "runs.limit"),
    ] {
        let errors = check(AGENT, &[(name, value)]).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].place, Location::Environment(name.to_owned()));
        assert_eq!(errors[0].key, key);
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let errors = check("[log]\nlevel = 1\nx = 2\n[runs]\nlimit = -1\n", &[]).unwrap_err();
    assert_eq!(errors.len(), 3);
    let list = format!("[server]\nlisten = [\"a\", \"127.0.0.1:1\",\n \"b\"]\n{AGENT}");
    let places: Vec<String> =
        check(&list, &[]).unwrap_err().iter().map(|error| error.place.to_string()).collect();
    assert_eq!(places, ["aqueduct.toml:2:11", "aqueduct.toml:3:2"], "each item of a list has its place");
}

#[test]
fn beyond_loopback_needs_tokens_or_a_word() {
    let listen = "[server]\nlisten = [\"0.0.0.0:80\"]\n";
    assert!(check(&format!("{listen}allow_unauthenticated = true\n{AGENT}"), &[]).is_ok());
    assert!(check(&format!("{listen}tokens = [\"env:T\"]\n{AGENT}"), &[("T", "x")]).is_ok());
    assert!(check(&format!("{listen}{AGENT}[agents.a]\ntokens = [\"env:T\"]\n"), &[("T", "x")]).is_ok());
    let two =
        format!("{listen}{AGENT}[agents.a]\ntokens = [\"env:T\"]\n[agents.b.agui]\nurl = \"http://b\"\n");
    assert!(check(&two, &[("T", "x")]).is_err(), "one open agent is enough");
}

/// Tokens without names still work, and `config check` reports the replacement, with the place.
#[test]
fn tokens_without_names_are_warned_about() {
    let file = crate::scratch::folder().join("tokens.toml");
    let toml = "[server]\ntokens = [\"file:token\"]\n[agents.a]\nagui.url = \"http://a\"\ntokens = [\"file:token\"]\n";
    std::fs::write(&file, toml).unwrap();
    std::fs::write(file.with_file_name("token"), "a-token-0123456789").unwrap();
    let output = aqueduct(&["config", "check", "--config", file.to_str().unwrap()], b"");
    assert_eq!(code(&output), 0, "{}", text(&output.stdout));
    let notes = text(&output.stderr);
    for (place, key) in [("tokens.toml:2:10", "server.tokens"), ("tokens.toml:5:10", "agents.a.tokens")] {
        let line = notes
            .lines()
            .find(|line| line.contains(&format!("`{key}`")))
            .unwrap_or_else(|| panic!("{notes}"));
        assert!(line.starts_with("warning: ") && line.contains(place), "{line}");
        assert!(line.contains("[principals.NAME]") && !line.contains("a-token"), "{line}");
    }
    std::fs::write(&file, AGENT).unwrap();
    let output = aqueduct(&["config", "check", "--config", file.to_str().unwrap()], b"");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn the_program_reports_and_exits() {
    let folder = crate::scratch::folder();
    let (good, bad) = (folder.join("good.toml"), folder.join("bad.toml"));
    std::fs::write(&good, AGENT).unwrap();
    std::fs::write(&bad, "[log]\nlevel = 1\n").unwrap();
    let run = |path: &Path| aqueduct(&["config", "check", "--config", path.to_str().unwrap()], b"");
    let output = run(&good);
    assert_eq!(code(&output), 0, "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("1 agents"));
    let output = run(&bad);
    assert_eq!(code(&output), 1);
    assert!(
        text(&output.stdout).contains("bad.toml:2:9: `log.level`: expected one of"),
        "{}",
        text(&output.stdout)
    );
}
