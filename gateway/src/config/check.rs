//! Checks that involve more than one key, shared by `config check`, `serve` and every reload: referenced agents exist,
//! certificates match their keys, listeners beyond loopback require tokens, every key has an effect.
//!
//! A key without effect is an error and not a warning: an operator who sets it expects an effect, and a limit or an
//! access rule that silently does nothing is worse than a gateway that does not start.
//!
//! Files are read (certificates and keys), sockets are not opened. A check is skipped if the keys it compares
//! have failed before, so that one mistake leads to one error.
//!
//! Not here: conditions that only a running server can detect (a port in use, an agent that does not respond).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::document::{At, did_you_mean};
use super::error::ConfigError;
use super::model::{
    Agent, AgentSource, ClientTls, Config, OnDisconnect, RunLogEngine, Runs, Secret, Telemetry,
};
use crate::identity::check_keys;
use crate::remote;
use crate::tls::{self, Authorities, TlsError};

/// Checks a configuration as a whole. Every error is recorded in the document of `at`, at the place of its key; nothing
/// stops at the first one.
pub(super) fn check(config: &Config, at: &At<'_>) {
    check_server(config, at);
    check_run_log(&config.runs, at);
    check_telemetry(config, at);
    for (name, agent) in &config.agents {
        check_agent(config, name, agent, at);
    }
    check_principals(config, at);
    check_issuers(config, at);
    check_exposure(config, at);
    // Not reported beside other errors: an agent whose table is invalid is absent here.
    if config.agents.is_empty() && !at.has_failed("") {
        at.fail(
            "agents",
            "there is none: add `[agents.NAME]` with a source, such as `agui.url = \"http://…\"`",
        );
    }
}

/// Returns warnings about keys that work but should be replaced. They do not prevent a start or a reload.
pub(super) fn warnings(config: &Config, at: &At<'_>) -> Vec<ConfigError> {
    let of_server = (!config.server.tokens.is_empty()).then(|| "server.tokens".to_owned());
    let with_tokens = config.agents.iter().filter(|(_, agent)| !agent.tokens.is_empty());
    let of_agents = with_tokens.map(|(name, _)| format!("agents.{name}.tokens"));
    let what = "still works, but its principals have names that are derived from the tokens, so that a new token hides \
                the runs of the old one: use `[principals.NAME]` with `token` instead";
    of_server.into_iter().chain(of_agents).map(|key| at.remark(&key, what)).collect()
}

/// Checks `[server]`: addresses that are used twice, contradicting rules of admission, the key of cards, certificates.
fn check_server(config: &Config, at: &At<'_>) {
    let server = &config.server;
    let mut taken: Vec<&SocketAddr> = Vec::new();
    let keys =
        [("server.listen", &server.listen), ("server.grpc", &server.grpc), ("server.admin", &server.admin)];
    for (key, addresses) in keys {
        for address in addresses {
            // Port 0 is chosen by the system for each listener, so it may occur several times.
            if address.port() != 0 && taken.contains(&address) {
                at.fail(key, format!("{address} is configured twice: listen on another port, or remove one"));
            }
            taken.push(address);
        }
    }
    if server.any_host && !server.hosts.is_empty() {
        at.fail("server.hosts", "has no effect with `server.any_host = true`: remove one of the two");
    }
    // Loopback origins are admitted without `server.origins`, but only at loopback hosts.
    if server.cors && server.origins.is_empty() && reaches_out(&server.listen) {
        let what =
            "has no effect beyond loopback without `server.origins`: name the origins of the pages there";
        at.fail("server.cors", what);
    }
    if let Err(error) = remote::card_signer(server) {
        at.fail(
            "server.card_key",
            format!("{error:#}: give a private key of Ed25519 or P-256 in PEM (PKCS#8)"),
        );
    }
    if let Some(files) = &server.tls
        // Building the TLS configuration finds what reading the files does not: a key of another certificate.
        && let Err(error) = tls::of_server(files).and_then(|tls| tls.into_config(&[]))
    {
        let key = [("key", Some(&files.key)), ("client_ca", files.client_ca.as_ref())];
        fail_tls(at, "server.tls", &key, &error);
    }
}

/// Records a certificate error at the key of the file that caused it. An error that concerns no single file, such as a
/// key that does not match its certificate, is recorded at the certificate, or at `ca` if there is none.
fn fail_tls(at: &At<'_>, table: &str, files: &[(&str, Option<&PathBuf>)], error: &TlsError) {
    // Errors name a file by its path; the path identifies the key.
    let own = if at.has(&format!("{table}.certificate")) { "certificate" } else { "ca" };
    let (name, what) = if let TlsError::Pem { path, .. } = error {
        let is_it = |file: &PathBuf| file.display().to_string() == *path;
        let found = files.iter().find(|(_, file)| file.is_some_and(is_it));
        (found.map_or(own, |(name, _)| *name), error.to_string())
    } else {
        (own, format!("{error}; give PEM files whose certificate and key belong together"))
    };
    at.fail(&format!("{table}.{name}"), what);
}

/// Checks the engine of the run log. The server of Redis is not contacted, and the folder of the disk log is not
/// created.
fn check_run_log(runs: &Runs, at: &At<'_>) {
    match &runs.log {
        RunLogEngine::Memory => {}
        RunLogEngine::Disk(folder) => {
            if folder.exists() && !folder.is_dir() {
                at.fail(
                    "runs.folder",
                    format!("{} is not a folder: name one, or remove it", folder.display()),
                );
            }
        }
        RunLogEngine::Redis { url, ca, identity, expiry, .. } => {
            check_redis(url, ca.as_ref(), identity.as_ref(), at);
            // Lists are renewed after half of the expiry; records of proxied tasks are kept for a day plus `runs.keep`.
            let least = (runs.keep + Duration::from_hours(24)) * 2;
            if *expiry < least && !at.has_failed("runs.keep") {
                let hours = least.as_secs().div_ceil(60 * 60);
                let what =
                    format!("must be at least {hours}h, twice `runs.keep` and two days: set it higher");
                at.fail("runs.redis_expiry", what);
            }
        }
    }
}

/// Checks the addresses of Redis servers and their certificates. The addresses are a secret, because they may contain a
/// password: no message shows them.
fn check_redis(url: &Secret, ca: Option<&PathBuf>, identity: Option<&(PathBuf, PathBuf)>, at: &At<'_>) {
    let mut urls = url.reveal().split(',').map(str::trim).filter(|url| !url.is_empty()).peekable();
    let is_plain = |url: &str| url.strip_prefix("redis://").is_some_and(|host| !host.is_empty());
    let is_tls = |url: &str| url.strip_prefix("rediss://").is_some_and(|host| !host.is_empty());
    if urls.peek().is_none() || urls.clone().any(|url| !is_plain(url) && !is_tls(url)) {
        at.fail("runs.redis", "the secret is not an address: expected `redis://host` or `rediss://host`");
        return;
    }
    // The files have no effect for an address without TLS.
    let has_plain = urls.any(is_plain);
    let files = [("runs.redis_ca", ca.is_some()), ("runs.redis_certificate", identity.is_some())];
    for (key, _) in files.into_iter().filter(|(_, is_set)| *is_set && has_plain) {
        at.fail(key, "has no effect without TLS: use `rediss://` in `runs.redis`");
    }
    if let Some(Err(error)) = ca.filter(|_| !has_plain).map(Authorities::from_file) {
        at.fail("runs.redis_ca", error.to_string());
    }
    // The private key must match the certificate.
    let own =
        identity.filter(|_| !has_plain).map(|pair| ClientTls { ca: None, identity: Some(pair.clone()) });
    let usable = own.map(|files| tls::of_client(Some(&files)).and_then(|tls| tls.into_config(&[])));
    if let Some(Err(error)) = usable {
        let what = format!("{error}; give PEM files whose certificate and key belong together");
        at.fail("runs.redis_certificate", what);
    }
}
/// The shortest interval between two exports of metrics.
const METRICS_LEAST: Duration = Duration::from_secs(1);

/// Checks `[telemetry]`: without a collector no other key has an effect, and with one there must be something to
/// export.
fn check_telemetry(config: &Config, at: &At<'_>) {
    // With a collector: something must be exported, and not too often.
    if config.telemetry.otlp.is_some() {
        if cfg!(not(feature = "otel")) {
            let what =
                "this program was built without OTLP: build it with the feature `otel`, or remove this";
            at.fail("telemetry.otlp", what);
        }
        if config.telemetry.metrics.is_some_and(|every| every < METRICS_LEAST) {
            at.fail("telemetry.metrics", "must be at least `1s`: every export reads all values");
        }
        if !config.telemetry.traces && config.telemetry.metrics.is_none() {
            let what = "leaves nothing to export: set `telemetry.metrics`, or remove `telemetry.otlp`";
            at.fail("telemetry.traces", what);
        }
        return;
    }
    // Without a collector: compared with the defaults, so that a key set to its default is not an error.
    let (set, default) = (&config.telemetry, Telemetry::default());
    let without_effect = [
        ("protocol", set.protocol != default.protocol),
        ("token", set.token.is_some()),
        ("sample", set.sample != default.sample),
        ("content", set.content),
        ("traces", set.traces != default.traces),
        ("metrics", set.metrics.is_some()),
        ("service", set.service != default.service),
    ];
    for (key, _) in
        without_effect.into_iter().filter(|(_, is_set)| *is_set && !at.has_failed("telemetry.otlp"))
    {
        let what = "has no effect without `telemetry.otlp`: name a collector there, or remove this";
        at.fail(&format!("telemetry.{key}"), what);
    }
}

/// Checks one agent: keys that its source does not use, and the files that it names.
fn check_agent(config: &Config, name: &str, agent: &Agent, at: &At<'_>) {
    let key = |key: &str| format!("agents.{name}.{key}");
    if let AgentSource::FanOut { agents } = &agent.source {
        check_fan_out(config, &key("fan_out.agents"), agents, at);
    }
    // Scripts, recordings, fan-outs and publishers are not called over the network.
    if !matches!(agent.source, AgentSource::A2a { .. } | AgentSource::Agui { .. }) {
        let set = [
            ("credentials", agent.credentials.is_some()),
            ("forward_headers", !agent.forward_headers.is_empty()),
            ("limits.concurrency", agent.limits.concurrency.is_some()),
            ("limits.rate", agent.limits.rate.is_some()),
            ("retries", at.has(&key("retries"))),
            ("circuit", at.has(&key("circuit"))),
        ];
        for (option, _) in set.into_iter().chain([("tls", agent.tls.is_some())]).filter(|(_, is_set)| *is_set)
        {
            at.fail(&key(option), "has no effect: only agents with `a2a` or `agui` are called; remove it");
        }
    }
    if agent.on_disconnect == OnDisconnect::Cancel && at.has(&key("grace")) {
        at.fail(&key("grace"), "has no effect with `on_disconnect = \"cancel\"`: remove one of the two");
    }
    if let Err(error) = remote::card_keys(agent) {
        at.fail(&key("card_keys"), format!("{error:#}: give public keys of Ed25519 or P-256 in PEM"));
    }
    // The same functions as at the start of the gateway, so that a checked file cannot fail there for another reason.
    if let Err(error) = tls::of_client(agent.tls.as_ref()).and_then(|tls| tls.into_config(&[])) {
        let files = agent.tls.as_ref();
        let own = files.and_then(|files| files.identity.as_ref()).map(|(_, key)| key);
        fail_tls(at, &key("tls"), &[("ca", files.and_then(|files| files.ca.as_ref())), ("key", own)], &error);
    }
}

/// Checks that every agent of a fan-out exists, accepts requests and does not fan out itself: a cycle of agents would
/// never end.
///
/// An agent whose own table is invalid is not reported as missing.
fn check_fan_out(config: &Config, key: &str, agents: &[String], at: &At<'_>) {
    for other in agents {
        match config.agents.get(other).map(|agent| &agent.source) {
            // Its table is invalid, which is already recorded.
            None if at.has(&format!("agents.{other}")) => {}
            None => {
                let known: Vec<&str> = config.agents.keys().map(String::as_str).collect();
                let guess = did_you_mean(other, &known);
                at.fail(
                    key,
                    format!("there is no agent `{other}`: add `[agents.{other}]`, or remove it{guess}"),
                );
            }
            Some(AgentSource::FanOut { .. }) => {
                at.fail(key, format!("`{other}` fans out itself; name its agents here"));
            }
            Some(AgentSource::Magentic) => {
                at.fail(key, format!("`{other}` publishes its runs itself and cannot be called: remove it"));
            }
            Some(_) => {}
        }
    }
}

/// Checks that an issuer has exactly one readable source of keys.
///
/// Keys at an address are not fetched: an issuer that is down must not prevent a start.
fn check_issuers(config: &Config, at: &At<'_>) {
    for (name, issuer) in &config.issuers {
        let key = |key: &str| format!("issuers.{name}.{key}");
        if issuer.keys_file.is_some() && issuer.keys_url.is_some() {
            at.fail(&key("keys_url"), "expected `keys_file` or `keys_url`, found both: remove one");
        }
        if let Some(file) = &issuer.keys_file
            && let Err(error) = std::fs::read(file).map_err(Into::into).and_then(|text| check_keys(&text))
        {
            at.fail(&key("keys_file"), format!("{error:#}; give a JSON Web Key Set (RFC 7517)"));
        }
        if issuer.tenant_claim.is_some() && !issuer.tenant.is_empty() {
            at.fail(&key("tenant"), "has no effect with `tenant_claim`: remove one of the two");
        }
        // One without the other would never make an admin, or leave open which role does.
        if issuer.admin_role.is_some() != issuer.roles_claim.is_some() {
            at.fail(&key("admin_role"), "`admin_role` and `roles_claim` need each other: set both or none");
        }
        if let Err(error) = tls::of_client(issuer.tls.as_ref()).and_then(|tls| tls.into_config(&[])) {
            fail_tls(at, &key("tls"), &[], &error);
        }
    }
}

/// The shortest token in characters: 16 characters of base64 are 96 bits, which cannot be guessed.
const TOKEN_CHARS: usize = 16;

/// Checks that each proof of a principal is long enough and belongs to one principal, and that the agents of a
/// principal exist.
fn check_principals(config: &Config, at: &At<'_>) {
    // A token of two principals would prove either of them.
    let mut taken: Vec<(&str, &Secret)> = Vec::new();
    for (name, principal) in &config.principals {
        let key = |key: &str| format!("principals.{name}.{key}");
        let own = principal.token.iter().map(|token| ("token", token));
        let own: Vec<_> = own.chain(principal.tokens.iter().map(|token| ("tokens", token))).collect();
        let has_proof = !own.is_empty() || !principal.certificates.is_empty();
        if !has_proof && !at.has_failed(&format!("principals.{name}")) {
            at.fail(&format!("principals.{name}"), "has no proof: set `token`, such as `\"env:NAME\"`");
        }
        // Without authorities TLS asks for no client certificate.
        let has_authorities = config.server.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !principal.certificates.is_empty() && !has_authorities {
            at.fail(&key("certificates"), "has no effect without `server.tls.client_ca`: set it");
        }
        for name in &principal.certificates {
            if !["CN=", "dns:", "email:", "uri:"].iter().any(|kind| name.starts_with(kind)) {
                at.fail(
                    &key("certificates"),
                    format!("expected `CN=…`, `dns:…`, `email:…` or `uri:…`, found `{name}`"),
                );
            }
        }
        for (member, token) in own {
            if token.reveal().chars().count() < TOKEN_CHARS {
                let what = format!("the token has fewer than {TOKEN_CHARS} characters: use a longer one");
                at.fail(&key(member), what);
            }
            match taken.iter().find(|(_, other)| *other == token) {
                Some((other, _)) if *other == name => {
                    at.fail(&key(member), "the token is configured twice: remove one");
                }
                Some((other, _)) => {
                    at.fail(
                        &key(member),
                        format!("the token is that of `principals.{other}` too: use another"),
                    );
                }
                None => taken.push((name, token)),
            }
        }
        // A name without an agent would grant access to an agent that is added later.
        for agent in principal.agents.iter().flatten().filter(|agent| !at.has(&format!("agents.{agent}"))) {
            let known: Vec<&str> = config.agents.keys().map(String::as_str).collect();
            let guess = did_you_mean(agent, &known);
            at.fail(&key("agents"), format!("there is no agent `{agent}`: correct the name{guess}"));
        }
    }
}

/// Returns `true` if one of the addresses can be reached from other machines.
fn reaches_out(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| !address.ip().is_loopback())
}

/// Checks that a gateway that listens beyond loopback requires a token for every agent, unless `allow_unauthenticated`
/// is set.
///
/// `server.admin` is not checked: its port serves probes and metrics alone. Tokens that failed to load count as
/// present, so that a missing variable is reported once, as itself.
fn check_exposure(config: &Config, at: &At<'_>) {
    let server = &config.server;
    let exposed =
        [("server.listen", reaches_out(&server.listen)), ("server.grpc", reaches_out(&server.grpc))];
    let is_open = |name: &str| !at.has_failed(&format!("agents.{name}.tokens"));
    // One open agent suffices for the error.
    let open = config.agents.iter().find(|(name, agent)| agent.tokens.is_empty() && is_open(name));
    if let Some((name, _)) = open
        && let Some((key, _)) = exposed.into_iter().find(|(_, exposed)| *exposed)
        && server.tokens.is_empty()
        && config.principals.is_empty()
        && config.issuers.is_empty()
        && !at.has_failed("principals")
        && !server.allow_unauthenticated
        && !at.has_failed("server.tokens")
    {
        let what = format!(
            "listens beyond loopback, and agent `{name}` asks for no token: add `[principals.NAME]` with a `token`, \
             or `server.allow_unauthenticated = true` if strangers are kept out otherwise"
        );
        at.fail(key, what);
    }
}
