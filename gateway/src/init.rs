//! `aqueduct init`: writes a commented configuration, from flags or from answers at the terminal.
//!
//! ```text
//! flags ──► prompts for what is missing (terminal only) ──► text ──► config::load accepts it? ──► file
//! ```
//!
//! Invariants: a file that exists is replaced only with `--force`; a text that `config::load` refuses is never
//! written. The command does not contact the agent (that is `doctor`) and does not edit a configuration that
//! exists.

use std::io::{BufRead, Write};
use std::path::Path;

use crate::cli::InitArgs;
use crate::{config, exit};

/// The values of the new configuration that differ from file to file; the rest of the text is constant.
struct Answers {
    name: String,
    /// The key of the source in `[agents.NAME]`: `a2a` or `agui`.
    protocol: &'static str,
    url: String,
    /// The address of `[server] listen`. It is checked by `config::load`, not here.
    listen: String,
}

/// Runs `aqueduct init`. Prompts for missing values if `input` is given, that is at a terminal.
///
/// Prompts and errors go to `notes`, the commands to run next go to `out`, so that `out` can be piped.
///
/// Returns `exit::OK` once the file is written, `exit::USAGE` in every other case: the file exists, the agent
/// is not named, a value is not valid, or the file cannot be written.
pub fn command(
    args: &InitArgs,
    input: Option<&mut dyn BufRead>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let file = &args.config;
    if file.exists() && !args.force {
        let why = format!("{} exists: choose another with --config, or --force", file.display());
        return exit::USAGE.report(notes, "init", &why);
    }
    let answers = match answers(args, input, notes) {
        Ok(answers) => answers,
        Err(trouble) => return exit::USAGE.report(notes, "init", &trouble),
    };
    // Names and addresses come from a person. Loading the text reports a bad value with its line and key now,
    // and not at the first `serve`.
    let text = written(&answers);
    if let Err(errors) = config::load(file, &text, std::env::vars()) {
        for error in errors {
            writeln!(notes, "{error}").ok();
        }
        return exit::USAGE;
    }
    if let Err(error) = std::fs::write(file, text) {
        let why = format!("{} cannot be written: {error}", file.display());
        return exit::USAGE.report(notes, "init", &why);
    }
    report(file, out);
    exit::OK
}

/// Writes the two commands that use the new file. Output that cannot be written is ignored: the file exists by
/// then.
fn report(file: &Path, out: &mut dyn Write) {
    writeln!(out, "wrote {}; next:\n", file.display()).ok();
    writeln!(out, "    aqueduct config check --config {}", file.display()).ok();
    writeln!(out, "    aqueduct serve --config {}", file.display()).ok();
}

/// Collects the values: a flag first, then a prompt, then the default.
///
/// Returns an error only if neither flag nor prompt names the agent. Without a terminal, name and address fall
/// back to `agent` and `127.0.0.1:8080`. Any reply to the protocol prompt other than `agui` means `a2a`.
fn answers(
    args: &InitArgs,
    mut input: Option<&mut dyn BufRead>,
    notes: &mut dyn Write,
) -> Result<Answers, String> {
    // Returns `None` without a terminal. An empty line, and the end of the input, select the default.
    let mut ask = |question: &str, default: &str| -> Option<String> {
        let input = input.as_deref_mut()?;
        write!(notes, "{question} [{default}]: ").ok();
        notes.flush().ok();
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let line = line.trim();
        Some(if line.is_empty() { default } else { line }.to_owned())
    };
    let (protocol, url) = match (&args.a2a, &args.agui) {
        (Some(url), _) => ("a2a", url.clone()),
        (None, Some(url)) => ("agui", url.clone()),
        (None, None) => {
            let missing = "say where the agent is: --a2a URL or --agui URL";
            let protocol = ask("What does the agent speak, a2a or agui?", "a2a").ok_or(missing)?;
            let url = ask("Where is it?", "http://127.0.0.1:9000").ok_or(missing)?;
            (if protocol == "agui" { "agui" } else { "a2a" }, url)
        }
    };
    let name =
        args.name.clone().or_else(|| ask("Its name here", "agent")).unwrap_or_else(|| "agent".to_owned());
    let listen = args.listen.map(|address| address.to_string());
    let listen = listen.or_else(|| ask("Where to listen", "127.0.0.1:8080"));
    Ok(Answers { name, protocol, url, listen: listen.unwrap_or_else(|| "127.0.0.1:8080".to_owned()) })
}

/// Returns the text of the file. Optional keys are present as comments, because `init` is where most people
/// first see them.
///
/// The URL and the address are written as JSON strings, which are valid TOML basic strings with all quotes
/// escaped.
fn written(answers: &Answers) -> String {
    let Answers { name, protocol, url, listen } = answers;
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let (listen, url) = (text(listen), text(url));
    format!(
        r#"# Aqueduct: every key is explained in docs/configuration.md; `aqueduct config print` shows all of them.

[server]
listen = [{listen}]
# Beyond loopback, callers need a token: set the variable GATEWAY_TOKEN and use this.
# tokens = ["env:GATEWAY_TOKEN"]
# The names under which clients reach the gateway, and the origins of web pages that may use it.
# hosts = ["agents.example.org"]
# origins = ["https://app.example.org"]
# cors = true
# Probes and metrics on a port of their own.
# admin = ["127.0.0.1:9090"]

[log]
format = "text" # or "json"

[runs]
log = "memory" # or "disk" with `folder`, or "redis" with `redis` for several replicas

# [telemetry]
# otlp = "http://127.0.0.1:4317" # traces, to an OpenTelemetry collector
# metrics = "30s" # what /metrics answers with, to the same collector

[inspector]
enabled = false # a page for developers, at /inspector

[agents.{name}]
{protocol} = {{ url = {url} }}
# credentials = "env:AGENT_TOKEN" # the bearer token that the agent gets
"#
    )
}
